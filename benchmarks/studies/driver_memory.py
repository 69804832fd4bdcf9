"""Peak memory of the driver with hundreds of trials."""

import json
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from benchmarks.support.harness import BenchmarkError, Report, Table, Usage, against, points, run, say

TARGET_MIB = 1024.0
REPORTS = 15
SEEDS = 10


@dataclass(frozen=True)
class Done:
    """One study of stub trials."""

    trials: int
    how: str
    peak_rss_mib: float
    usage: Usage


def measure(quick: bool) -> Report:
    """Run it."""
    sizes = (10, 20) if quick else (100, 500)
    with tempfile.TemporaryDirectory(prefix="benchmark-") as folder:
        found = [_study(Path(folder), trials, "a grid") for trials in sizes]
        found.append(_study(Path(folder), sizes[-1], "a search"))
    small, large = found[0], max(found, key=lambda done: done.peak_rss_mib)
    growth_kib = 1024 * (large.peak_rss_mib - small.peak_rss_mib) / (large.trials - small.trials)
    return Report(
        name="driver_memory",
        title="The driver's memory",
        compared=(
            f"Peak resident memory of the driver process (`getrusage`) with studies of {' and '.join(map(str, sizes))} "
            f"trials, {REPORTS} reports a trial with every metric of the contract, SQLite store, TensorBoard files; "
            "of a grid, and of a search (Optuna over a range, each suggestion another configuration). The trials "
            "report without training (`benchmarks/support/stub.py`); the driver does all that it does otherwise."
        ),
        verdict=f"Target of 1 GiB with {large.trials} trials {against(large.peak_rss_mib, TARGET_MIB, ' MiB', '.0f')}.",
        tables=(
            Table(
                "Peak resident memory of the driver",
                ("trials", "MiB", "study s", "driver and workers, CPU s"),
                tuple(
                    (f"{d.trials} of {d.how}", f"{d.peak_rss_mib:.0f}", f"{d.usage.wall_s:.0f}", f"{d.usage.cpu_s:.0f}")
                    for d in found
                ),
                f"One study each. Growth from the smallest to the largest: {growth_kib:.0f} KiB per trial.",
            ),
        ),
    )


def _study(scratch: Path, trials: int, how: str) -> Done:
    output_dir, measured = Path(tempfile.mkdtemp(dir=scratch)), scratch / "measured.json"
    lrs = ",".join(f"{1e-3 * (1 + i):.3f}" for i in range(trials // SEEDS))
    overrides = [
        f"study.space={{algorithm.training.lr:[{lrs}]}}",
        f"seeds=[{','.join(map(str, range(SEEDS)))}]",
        f"budget_env_steps={4000 * REPORTS}",
        "report_every_env_steps=4000",
        f"output_dir={output_dir}",
    ]
    if how == "a search":
        confirming = 20  # the three best and the base, with five seeds
        overrides[0] = "study.space={algorithm.training.lr:{distribution:loguniform,low:1e-5,high:1e-1}}"
        overrides += ["search=optuna", f"search.num_samples={max(1, trials - confirming)}"]
        trials = max(1, trials - confirming) + confirming
    say(f"{trials} trials of {how}")
    usage = run(
        [sys.executable, "-m", "benchmarks.support.driver", "--stub", "--measure", str(measured), "--", *overrides],
        scratch / "suite.log",
    )
    reports = points(output_dir / "mlflow.db", "eval/return_mean")
    if len({p.run for p in reports}) != trials or len(reports) != trials * REPORTS:
        raise BenchmarkError(
            f"{trials} trials with {REPORTS} reports were asked for; in the store: {len(reports)} reports"
        )
    return Done(trials, how, json.loads(measured.read_text())["peak_rss_mib"], usage)
