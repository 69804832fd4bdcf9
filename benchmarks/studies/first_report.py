"""Seconds from the command to the first trial's first report, and where they go."""

import json
import statistics
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from benchmarks.support.harness import (
    BenchmarkError,
    Report,
    Table,
    against,
    points,
    run,
    spread,
    started,
    suite_command,
    take_turns,
)

TARGET_S = 8.0
WAIT_S = 300.0
REPORT = "progress/wall_s"


@dataclass(frozen=True)
class Phases:
    """Seconds of a study up to its first report, in order; they add to `total_s`."""

    imports_s: float
    checks_s: float
    ray_s: float
    worker_s: float
    build_s: float
    train_s: float
    total_s: float


def measure(quick: bool) -> Report:
    """Run it."""
    repeats = 1 if quick else 3
    with tempfile.TemporaryDirectory(prefix="benchmark-") as folder:
        scratch = Path(folder)
        plain = take_turns({"python experiments/run.py": lambda: _first_report(scratch)}, repeats)[
            "python experiments/run.py"
        ]
        phases = take_turns({"with marks": lambda: _phases(scratch)}, repeats)["with marks"]
    tables = (
        Table(
            "From the command to the first report",
            ("", "seconds"),
            (("default study, fresh output_dir", spread(plain)),),
            f"Median (minimum-maximum) of {repeats}.",
        ),
        Table(
            "Where they go",
            ("phase", "seconds"),
            (
                ("start of Python, Hydra, the driver's imports while Ray starts", _of(phases, "imports_s")),
                ("every configuration composed, built and checked", _of(phases, "checks_s")),
                ("`ray.init`, where Ray was not started by then", _of(phases, "ray_s")),
                ("Tune, start of the trial's process and its imports", _of(phases, "worker_s")),
                ("RLlib's algorithm built, first evaluation", _of(phases, "build_s")),
                ("training up to the first report (4,000 env steps)", _of(phases, "train_s")),
                ("all", _of(phases, "total_s")),
            ),
            f"Median (minimum-maximum) of {repeats} more runs, of one configuration with 2 seeds, "
            "with marks in the driver's functions (`benchmarks/support/driver.py`); the trial's own seconds "
            "are its `progress/wall_s` and `progress/train_s`.",
        ),
    )
    return Report(
        name="first_report",
        title="How long until the first report",
        compared=(
            "The default study, `python experiments/run.py`, from a fresh `output_dir`. "
            "The first report is the earliest timestamp among the metrics in the study's MLflow store: "
            "it is set in the driver at the moment when the report arrives there. The study is then stopped."
        ),
        verdict=f"Target of {TARGET_S:.0f} s on 2 cores {against(statistics.median(plain), TARGET_S, ' s', '.1f')}.",
        tables=tables,
    )


def _first_report(scratch: Path) -> float:
    output_dir = Path(tempfile.mkdtemp(dir=scratch))
    command = suite_command([], output_dir)
    with (scratch / "suite.log").open("a") as log, started(command, log) as (process, usage):
        start = usage().started_at
        while not (found := points(output_dir / "mlflow.db", REPORT)):
            if process.poll() is not None or time.time() - start > WAIT_S:
                raise BenchmarkError("no report came:\n" + (scratch / "suite.log").read_text()[-2000:])
            time.sleep(0.5)
    return min(p.at for p in found) - start


def _phases(scratch: Path) -> Phases:
    output_dir, measured = Path(tempfile.mkdtemp(dir=scratch)), scratch / "marks.json"
    overrides = [
        "study.space={algorithm.training.lr:[1e-3]}",
        "seeds=[0,1]",
        "budget_env_steps=4000",
        f"output_dir={output_dir}",
    ]
    usage = run(
        [sys.executable, "-m", "benchmarks.support.driver", "--measure", str(measured), "--", *overrides],
        scratch / "suite.log",
    )
    marks = json.loads(measured.read_text())["marks"]
    first = points(output_dir / "mlflow.db", REPORT)[0]
    train_s = next(p.value for p in points(output_dir / "mlflow.db", "progress/train_s") if p.run == first.run)
    setup_at = first.at - first.value
    return Phases(
        imports_s=marks["plan_study.start"] - usage.started_at,
        checks_s=marks["plan_study.end"] - marks["plan_study.start"],
        ray_s=marks["run_study.start"] - marks["plan_study.end"],
        worker_s=setup_at - marks["run_study.start"],
        build_s=first.value - train_s,
        train_s=train_s,
        total_s=first.at - usage.started_at,
    )


def _of(phases: list[Phases], name: str) -> str:
    return spread([getattr(p, name) for p in phases])
