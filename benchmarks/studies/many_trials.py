"""A study of 20,000 trials with one report each, from the plan to the conclusions."""

import tempfile
import time
from pathlib import Path

from benchmarks.studies.scale import NODES, TRIALS_PER_NODE, check_stored, drive, overrides
from benchmarks.support.harness import Report, Table, say

TRIALS = 20_000
GROWTH = 1.5
"""CPU time of an event in the last tenth, relative to the second, that counts as flat."""


def measure(quick: bool) -> Report:
    """Run it."""
    trials = 40 if quick else TRIALS
    with tempfile.TemporaryDirectory(prefix="benchmark-") as folder:
        say(f"{trials} trials")
        output_dir, start = Path(folder) / "outputs", time.monotonic()
        found = drive(Path(folder), overrides(trials, 1), output_dir)
        minutes = (time.monotonic() - start) / 60
        check_stored(output_dir, trials, 1)
    marks, tenths = found["marks"], [part["cpu_ms"] for part in found["tenths"]]
    growth = tenths[-1] / tenths[1]
    return Report(
        name="many_trials",
        title=f"{trials:,} trials, simulated",
        compared=(
            f"A study of {trials:,} trials that report once with every metric of the contract and train nothing, "
            f"as many side by side as {NODES} nodes hold with {TRIALS_PER_NODE} each, as in [scale.md](scale.md): "
            "planned, run, tracked in SQLite, and concluded. What MLflow holds in the end is counted. CPU time is "
            "that of the driver's main thread, without the trials'. MLflow takes what was reported slower than it "
            "comes: the driver goes on, and waits for it at the end."
        ),
        verdict=(
            f"All {trials:,} trials are in the store with their report; an event takes "
            f"{growth:.2f} times as long in the last tenth of the study as in the second"
            + (": flat." if growth <= GROWTH else f", not flat (at most {GROWTH:g}).")
        ),
        tables=(
            Table(
                "The driver",
                (
                    "trials",
                    "plan s",
                    "whole study, min",
                    "peak MiB",
                    "CPU ms an event",
                    "first tenth",
                    "second tenth",
                    "last tenth",
                    "MLflow values/s",
                ),
                (
                    (
                        f"{trials:,}",
                        f"{marks['plan_study.end'] - marks['plan_study.start']:.0f}",
                        f"{minutes:.0f}",
                        f"{found['peak_rss_mib']:,.0f}",
                        f"{found['cpu_ms']:.1f}",
                        *(f"{tenths[number]:.1f}" for number in (0, 1, -1)),
                        f"{found['values'] / found['writer_busy_s']:,.0f}",
                    ),
                ),
                "One study. `plan`: from the composed configuration to the checked plan. `peak`: its end, which loads "
                "all that was measured, included.",
            ),
        ),
    )
