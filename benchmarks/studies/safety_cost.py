"""What determinism, checkpoints at the default interval and the watchdog cost a trial together:
on against off, in turns.
"""

import statistics
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from benchmarks.support.harness import Report, Table, Usage, against, points, ratio, ratios, run, spread, take_turns

TARGET = 1.03
OFF = ("--without", "safety")


@dataclass(frozen=True)
class Done:
    """One study.

    Attributes:
        usage: What it took.
        trial_wall_s: Seconds of each trial, all included.
        trial_train_s: Seconds of them in training.
    """

    usage: Usage
    trial_wall_s: list[float]
    trial_train_s: list[float]


def measure(quick: bool) -> Report:
    """Run it."""
    seeds, budget, repeats = (1, 4000, 1) if quick else (6, 60_000, 5)
    with tempfile.TemporaryDirectory(prefix="benchmark-") as folder:
        scratch = Path(folder)
        found = take_turns(
            {"on": lambda: _study(scratch, seeds, budget), "off": lambda: _study(scratch, seeds, budget, *OFF)}, repeats
        )
    wall, train, usage = (
        {name: [form(d) for d in done] for name, done in found.items()}
        for form in (
            lambda d: statistics.fmean(d.trial_wall_s),
            lambda d: statistics.fmean(d.trial_train_s),
            lambda d: d.usage.cpu_s,
        )
    )
    return Report(
        name="safety_cost",
        title="What safety costs",
        compared=(
            f"A study of {seeds} PPO trials on CartPole-v1, {budget:,} env steps each, the suite's own settings: "
            "a checkpoint every 16,000 env steps, with a reset of all environments and new streams. *Off* "
            "(`support/driver.py --without safety`): no checkpoints and no segments, no reports in the trial's folder, "
            "no signs of life and no watchdog, and without the deterministic kernels that a seed turns on in RLlib. "
            "The two learn different curves of the same length."
        ),
        verdict=f"Target of 1.03 of a trial's time {against(ratio(wall['on'], wall['off']), TARGET)}.",
        tables=(
            Table(
                "A trial, on against off",
                ("", "seconds, all included", "of off", "training seconds", "of off", "CPU s of the study", "of off"),
                tuple(
                    (
                        name,
                        *(
                            cell
                            for of in (wall, train, usage)
                            for cell in (spread(of[name], ".2f"), ratios(of[name], of["off"]))
                        ),
                    )
                    for name in found
                ),
                f"Median (minimum-maximum) of {repeats} turns, each the mean over {seeds} trials, "
                "two at once on 2 cores; a ratio's range is that of the turns.",
            ),
        ),
    )


def _study(scratch: Path, seeds: int, budget: int, *arguments: str) -> Done:
    output_dir = Path(tempfile.mkdtemp(dir=scratch))
    overrides = [
        "study.space={algorithm.training.lr:[3e-3]}",
        f"seeds=[{','.join(map(str, range(seeds)))}]",
        f"budget_env_steps={budget}",
        "report_every_env_steps=4000",
        "report=false",
        f"output_dir={output_dir}",
    ]
    usage = run(
        [sys.executable, "-m", "benchmarks.support.driver", *arguments, "--", *overrides], scratch / "suite.log"
    )
    wall, train = (
        [p.value for p in points(output_dir / "mlflow.db", f"final/{name}")] for name in ("wall_s", "train_s")
    )
    return Done(usage, wall, train)
