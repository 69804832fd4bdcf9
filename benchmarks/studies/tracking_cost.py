"""What tracking in MLflow costs a study: the writer's seconds, and the same study with a store that keeps nothing."""

import json
import statistics
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.support.harness import Report, Table, Usage, against, points, ratios, run, spread, take_turns

TARGET = 0.01


@dataclass(frozen=True)
class Done:
    """One study.

    Attributes:
        usage: What it took.
        measured: What `benchmarks.support.driver` measured.
        trial_wall_s: Seconds of each trial; empty where nothing was kept.
    """

    usage: Usage
    measured: dict[str, Any]
    trial_wall_s: list[float]


def measure(quick: bool) -> Report:
    """Run it."""
    seeds, budget, repeats = (1, 4000, 1) if quick else (6, 60_000, 3)
    with tempfile.TemporaryDirectory(prefix="benchmark-") as folder:
        scratch = Path(folder)
        found = take_turns(
            {
                "tracking on": lambda: _study(scratch, seeds, budget, []),
                "tracking off": lambda: _study(scratch, seeds, budget, ["--without", "tracking"]),
            },
            repeats,
        )
    on, off = found["tracking on"], found["tracking off"]
    once = [d.measured["connect_s"] for d in on]
    busy = [(d.measured["writer_busy_s"] - d.measured["connect_s"]) / seeds for d in on]
    cpu = [(d.measured["writer_cpu_s"] - d.measured["connect_cpu_s"]) / seeds for d in on]
    wall = [statistics.fmean(d.trial_wall_s) for d in on]
    shares = [b / w for b, w in zip(busy, wall, strict=True)]
    with_start = [d.measured["writer_busy_s"] / sum(d.trial_wall_s) for d in on]
    share = statistics.median(shares)
    return Report(
        name="tracking_cost",
        title="What tracking costs",
        compared=(
            f"A study of {seeds} PPO trials on CartPole-v1, {budget:,} env steps each, the suite's own settings, "
            "embedded SQLite store. *Share*: seconds that the driver's writer thread spends in MLflow for a trial, "
            "over the trial's own seconds. The thread runs beside the trials; the share is what it would cost "
            "if it held them up all that time. *Off*: the same study with a store that keeps nothing "
            "(`benchmarks/support/driver.py --without tracking`)."
        ),
        verdict=f"Target of 1% of a trial's time {against(100 * share, 100 * TARGET, '%')}.",
        tables=(
            Table(
                "The writer's seconds",
                ("", "median (min-max)"),
                (
                    ("writer busy, s per trial", spread(busy, ".3f")),
                    ("of them CPU, s per trial", spread(cpu, ".3f")),
                    ("a trial, s", spread(wall, ".1f")),
                    ("share of a trial's time, %", spread([100 * s for s in shares], ".2f")),
                    ("once per study: MLflow's import and the store's tables, s", spread(once, ".2f")),
                    ("share with that start included, %", spread([100 * s for s in with_start], ".2f")),
                    ("writes per study", spread([d.measured["operations"] for d in on], ".0f")),
                ),
                f"{repeats} studies.",
            ),
            Table(
                "The whole study, on against off",
                ("", "wall-clock s", "of off", "CPU s", "CPU, of off"),
                tuple(
                    (
                        name,
                        spread([d.usage.wall_s for d in done]),
                        ratios([d.usage.wall_s for d in done], [d.usage.wall_s for d in off]),
                        spread([d.usage.cpu_s for d in done]),
                        ratios([d.usage.cpu_s for d in done], [d.usage.cpu_s for d in off]),
                    )
                    for name, done in found.items()
                ),
                f"Median (minimum-maximum) of {repeats} turns; a ratio's range is that of the turns. "
                "Off also spares MLflow's import and the making of the store's tables.",
            ),
        ),
    )


def _study(scratch: Path, seeds: int, budget: int, arguments: list[str]) -> Done:
    output_dir, measured = Path(tempfile.mkdtemp(dir=scratch)), scratch / "measured.json"
    overrides = [
        "study.space={algorithm.training.lr:[3e-3]}",
        f"seeds=[{','.join(map(str, range(seeds)))}]",
        f"budget_env_steps={budget}",
        "report_every_env_steps=4000",
        f"output_dir={output_dir}",
    ]
    usage = run(
        [sys.executable, "-m", "benchmarks.support.driver", "--measure", str(measured), *arguments, "--", *overrides],
        scratch / "suite.log",
    )
    walls = [p.value for p in points(output_dir / "mlflow.db", "final/wall_s")]
    return Done(usage, json.loads(measured.read_text()), walls)
