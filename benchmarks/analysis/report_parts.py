"""Where a report spends its time: `python analysis/report.py` with a clock on its parts, printed last, as JSON.

Started in a process of its own, so that imports count.
"""

import importlib
import json
import sys
import time
from collections.abc import Callable
from types import ModuleType
from typing import Any

IMPORTS, READING, DRAWING = "imports", "read from the store", "drawn: SVG of every figure"
REST = "computed, laid out, written, attached"


def main(words: list[str]) -> int:
    """The report's command line, timed; its exit code."""
    begun = time.perf_counter()
    report = importlib.import_module("analysis.report")
    seconds = {IMPORTS: time.perf_counter() - begun, READING: 0.0, DRAWING: 0.0}
    _clocked(report, "load_study", READING, seconds)
    _clocked(report, "svg", DRAWING, seconds)
    code: int = report.main(words)
    seconds[REST] = time.perf_counter() - begun - sum(seconds.values())
    print(json.dumps(seconds))
    return code


def _clocked(module: ModuleType, name: str, part: str, seconds: dict[str, float]) -> None:
    timed: Callable[..., Any] = getattr(module, name)

    def call(*values: Any, **named: Any) -> Any:
        begun = time.perf_counter()
        try:
            return timed(*values, **named)
        finally:
            seconds[part] += time.perf_counter() - begun

    setattr(module, name, call)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
