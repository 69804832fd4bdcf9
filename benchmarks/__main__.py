"""Runs the benchmarks: `python -m benchmarks [--quick] [--out DIR] [name ...]`."""

import argparse
import importlib
from pathlib import Path

from benchmarks.harness import DOCS, end_what_was_started, finish, forget_loads

NAMES = (
    "first_report",
    "resume",
    "tracking_cost",
    "safety_cost",
    "driver_memory",
    "study_vs_stock",
    "fast",
    "fast_memory",
    "reuse",
    "study_fast",
    "throughput",
    "search",
    "loading",
    "report",
    "calibration",
    "laws_calibration",
    "parity_sb3",
)


def main() -> None:
    """All benchmarks, or those that are named."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="name", help=f"of {', '.join(NAMES)}; all of them by default")
    parser.add_argument(
        "--quick", action="store_true", help="tiny sizes: shows that it works, not how fast; writes no page unless --out says where"
    )
    parser.add_argument("--out", type=Path, help=f"folder for the pages, {DOCS} by default")
    arguments = parser.parse_args()
    if unknown := sorted(set(arguments.names) - set(NAMES)):
        parser.error(f"there is no benchmark {unknown[0]!r}; there are: {', '.join(NAMES)}")
    end_what_was_started()
    for name in arguments.names or NAMES:
        module = importlib.import_module(f"benchmarks.{name}")
        forget_loads()
        finish(module.measure(arguments.quick), arguments.quick, arguments.out)


if __name__ == "__main__":
    main()
