"""Seconds that a report of the default study takes, and the intervals of a large one."""

import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from scipy import stats

from analysis.stats.aggregates import TRIM
from analysis.stats.interval import Array
from analysis.stats.moderated import moderated_intervals
from benchmarks.support.frozen import DEFAULT, overrides
from benchmarks.support.harness import Report, Table, against, ratio, run, say, spread, suite_command, take_turns
from experiments.contract.sqlite_address import sqlite_uri

REPORT_TARGET_S = 4.0
INTERVALS_TARGET_S = 10.0
CONFIGURATIONS, SEEDS, POINTS = 200, 10, 100
PEER_SAMPLES = 200
"""Of the samples, those that the peer computes; its seconds are scaled."""


def measure(quick: bool) -> Report:
    """Run it."""
    repeats = 1 if quick else 3
    with tempfile.TemporaryDirectory(prefix="benchmark-") as folder:
        scratch = Path(folder)
        say("the study")
        run(suite_command(["study=smoke"] if quick else overrides(DEFAULT), scratch / "outputs"), scratch / "suite.log")
        reports = take_turns({"report": lambda: _report(scratch)}, repeats)["report"]
        parts = [_parts(scratch) for _ in range(repeats)]
    values = np.random.default_rng(0).uniform(0, 500, (CONFIGURATIONS, POINTS, SEEDS))
    found = take_turns(
        {
            "moderated": lambda: _seconds(lambda: moderated_intervals(np.moveaxis(values, 1, -1))),
            "scipy": lambda: _scipy(values) * CONFIGURATIONS * POINTS / PEER_SAMPLES,
        },
        repeats,
    )
    size = f"{CONFIGURATIONS} configurations x {SEEDS} seeds x {POINTS} points"
    return Report(
        name="report",
        title="The time a report takes",
        compared=(
            f"`python analysis/report.py` on the {'smoke' if quick else 'default'} study in an embedded store, "
            f"in a fresh process, imports and MLflow's included; and intervals of interquartile means of {size}. "
            "The peer is `scipy.stats.bootstrap` with the percentile method and 2000 draws, "
            f"vectorised over {PEER_SAMPLES} of the samples, its seconds scaled."
        ),
        verdict=(
            f"Report: {against(statistics.median(reports), REPORT_TARGET_S, ' s', '.1f')}; intervals: "
            f"{against(statistics.median(found['moderated']), INTERVALS_TARGET_S, ' s', '.2f')}."
        ),
        tables=(
            Table(
                "A report",
                ("", "seconds"),
                (
                    ("all of it", spread(reports)),
                    *((f"- {part}", spread([of[part] for of in parts], ".2f")) for part in parts[0]),
                ),
                "Its parts are those of other turns, without the start and the end of Python.",
            ),
            Table(
                f"Intervals of {size}",
                ("", "seconds", "times as fast as scipy"),
                tuple(
                    (name, spread(found[key], ".2f"), f"{1 / ratio(found[key], found['scipy']):.1f}")
                    for key, name in (
                        ("moderated", "moderated t, what the report shows"),
                        ("scipy", "`scipy.stats.bootstrap`, scaled"),
                    )
                ),
                f"Median (minimum-maximum) of {repeats} turns.",
            ),
        ),
    )


def _report(scratch: Path) -> float:
    return run([sys.executable, "analysis/report.py", *_words(scratch)], scratch / "report.log").wall_s


def _parts(scratch: Path) -> dict[str, float]:
    log = scratch / "parts.log"
    run([sys.executable, "-m", "benchmarks.analysis.report_parts", *_words(scratch)], log)
    seconds: dict[str, float] = json.loads(log.read_text().splitlines()[-1])
    return seconds


def _words(scratch: Path) -> list[str]:
    return [f"tracking_uri={sqlite_uri(scratch / 'outputs' / 'mlflow.db')}", f"out={scratch / 'report.html'}"]


def _scipy(values: Array) -> float:
    part = values.reshape(-1, SEEDS)[:PEER_SAMPLES]
    rng = np.random.default_rng(0)

    def middle(sample: Array, axis: int) -> Array:
        return np.asarray(stats.trim_mean(sample, TRIM, axis=axis))

    return _seconds(lambda: stats.bootstrap((part,), middle, axis=-1, n_resamples=2000, method="percentile", rng=rng))


def _seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start
