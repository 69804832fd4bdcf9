"""Runs the benchmarks: `python -m benchmarks [--quick] [--out DIR] [name ...]`."""

import argparse
import importlib
import sys
from pathlib import Path

from benchmarks.support.harness import DOCS, end_what_was_started, finish, forget_loads

MODULES = {
    "first_report": "studies.first_report",
    "resume": "studies.resume",
    "tracking_cost": "studies.tracking_cost",
    "safety_cost": "studies.safety_cost",
    "policies_cost": "studies.policies_cost",
    "driver_memory": "studies.driver_memory",
    "scale": "studies.scale",
    "many_trials": "studies.many_trials",
    "study_vs_stock": "studies.study_vs_stock",
    "fast": "fast.speed",
    "gemm": "fast.gemm",
    "peers": "fast.peers",
    "fast_memory": "fast.memory",
    "fast_waiting": "fast.waiting",
    "preprocessing_cost": "fast.preprocessing",
    "reuse": "studies.reuse",
    "study_fast": "studies.study_fast",
    "throughput": "studies.throughput",
    "times": "studies.times",
    "search": "search.replay",
    "confirmation": "search.confirmation",
    "loading": "analysis.loading",
    "report": "analysis.report_time",
    "intervals": "calibration.intervals",
    "forecast": "search.forecast",
    "goodput": "search.goodput",
    "joint": "search.joint",
    "joint_elsewhere": "search.elsewhere",
    "warm_start": "search.warm_start",
    "calibration": "calibration.seeds",
    "compare": "calibration.comparing",
    "laws_calibration": "calibration.scaling_laws",
    "parity_sb3": "studies.parity_sb3",
    "learning": "learning.scores",
}
"""Name of a benchmark, and of its page, to its module."""
LONG = ("calibration", "joint", "joint_elsewhere", "learning", "many_trials", "peers", "scale", "times")
"""Those that take days, or more than half an hour, or an environment of their own: run where they are named alone."""


def main() -> None:
    """All benchmarks, or those that are named.

    Exit code 1: a ratio is worse than on the committed page, by more than both vary.
    """
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument(
        "names", nargs="*", metavar="name", help=f"of {', '.join(MODULES)}; by default all but {', '.join(LONG)}"
    )
    parser.add_argument(
        "--quick",
        action="store_true",
        help="tiny sizes: shows that it works, not how fast; writes no page unless --out says where",
    )
    parser.add_argument("--out", type=Path, help=f"folder for the pages, {DOCS} by default")
    arguments = parser.parse_args()
    if unknown := sorted(set(arguments.names) - set(MODULES)):
        parser.error(f"there is no benchmark {unknown[0]!r}; there are: {', '.join(MODULES)}")
    end_what_was_started()
    slower: list[str] = []
    for name in arguments.names or [name for name in MODULES if name not in LONG]:
        module = importlib.import_module(f"benchmarks.{MODULES[name]}")
        forget_loads()
        slower += finish(module.measure(arguments.quick), arguments.quick, arguments.out)
    if slower:
        sys.exit(1)


if __name__ == "__main__":
    main()
