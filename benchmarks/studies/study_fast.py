"""A whole study, from the command to the exit: fast, with RLlib's own parts, as a stock Tune script, and with SB3 in a process pool."""

import json
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from benchmarks.support.harness import (
    BenchmarkError,
    Report,
    Table,
    Usage,
    points,
    ratio,
    ratios,
    run,
    spread,
    suite_command,
    take_turns,
)

LRS, BATCHES, SEEDS, BUDGET = (3e-4, 1e-3, 3e-3), (512, 2000, 4000), (0, 1, 2), 30_000
FAST, SLOW, STOCK, SB3 = "the suite", "the suite, fast=false", "stock RLlib and Tune", "SB3 in a process pool"
DEFAULT, DEFAULT_SLOW = "python experiments/run.py", "python experiments/run.py fast=false"
TARGETS = {SLOW: 2.5, STOCK: 3.0, SB3: 1.0}
"""How many times as long the others have to take."""


def measure(quick: bool) -> Report:
    """Run it."""
    seeds, repeats = (SEEDS[:1], 1) if quick else (SEEDS, 3)
    with tempfile.TemporaryDirectory(prefix="benchmark-") as folder:
        scratch = Path(folder)
        sides: dict[str, Callable[[], Usage]] = {
            FAST: lambda: _suite(scratch, _trials(seeds), len(LRS) * len(BATCHES) * len(seeds)),
            SB3: lambda: _sb3(scratch, seeds),
            SLOW: lambda: _suite(scratch, [*_trials(seeds), "fast=false"], len(LRS) * len(BATCHES) * len(seeds)),
            STOCK: lambda: _stock(scratch, seeds),
        }
        found = {name: [usage.wall_s for usage in taken] for name, taken in take_turns(sides, repeats, once=(SLOW, STOCK)).items()}
        rows = [_row(name, seconds, found[FAST], TARGETS.get(name)) for name, seconds in found.items()]
        missed = [f"{name}: {reached:.2f} of {t:.1f}" for name, t in TARGETS.items() if (reached := ratio(found[name], found[FAST])) < t]
        if not quick:
            defaults = {DEFAULT: [], DEFAULT_SLOW: ["fast=false"]}
            whole = {name: [_suite(scratch, overrides, 45).wall_s] for name, overrides in defaults.items()}
            rows += [
                _row(name, seconds, whole[DEFAULT], TARGETS[SLOW] if name == DEFAULT_SLOW else None) for name, seconds in whole.items()
            ]
            if (reached := ratio(whole[DEFAULT_SLOW], whole[DEFAULT])) < TARGETS[SLOW]:
                missed.append(f"the default study, fast=false: {reached:.2f} of {TARGETS[SLOW]:.1f}")
    return Report(
        name="study_fast",
        title="A study, fast",
        compared=(
            f"Wall-clock of whole commands, start-up included: PPO on CartPole-v1, {len(LRS)} learning rates x {len(BATCHES)} batches x "
            f"{len(seeds)} seeds of {BUDGET:,} env steps, 16 environments, nets of [64, 64], minibatch 256, 6 epochs. The suite tracks and "
            "writes checkpoints; only its evaluations are down to one episode at the end. *Stock*: `peers/stock_script.py` with the "
            "layout of the suite's trials, without evaluation, and without Tune's MLflow callback, which would make it slower. *SB3*: "
            "`peers/sb3_pool.py` in a pool of 2 processes, which records nothing. The last two rows are the default study as it is: "
            "45 trials of 60,000 env steps with their evaluations and the report."
        ),
        verdict="All targets met." if not missed else f"Missed: {'; '.join(missed)}.",
        tables=(
            Table(
                "Wall-clock",
                ("", "turns", "seconds", "times the suite's", "target"),
                tuple(rows),
                f"Median (minimum-maximum); {repeats} turns, the slow ones one.",
            ),
        ),
        packages=("stable-baselines3",),
    )


def _row(name: str, seconds: list[float], fast: list[float], target: float | None) -> tuple[str, ...]:
    return name, str(len(seconds)), spread(seconds), ratios(seconds, fast), "" if target is None else f"{target:.1f}"


def _numbers(values: Sequence[float]) -> str:
    return ",".join(map(str, values))


def _trials(seeds: Sequence[int]) -> list[str]:
    axes = f"algorithm.training.lr:[{_numbers(LRS)}],algorithm.training.train_batch_size_per_learner:[{_numbers(BATCHES)}]"
    return [
        f"study.space={{{axes}}}",
        f"seeds=[{_numbers(seeds)}]",
        f"budget_env_steps={BUDGET}",
        "report_every_env_steps=6000",
        f"evaluation.every_env_steps={BUDGET}",
        "evaluation.episodes=1",
        "evaluation.final_episodes=1",
        "report=false",
    ]


def _suite(scratch: Path, overrides: Sequence[str], trials: int) -> Usage:
    output_dir = Path(tempfile.mkdtemp(dir=scratch))
    usage = run(suite_command(overrides, output_dir), scratch / "suite.log")
    last = {point.run: point.value for point in points(output_dir / "mlflow.db", "final/score")}
    if len(last) != trials:
        raise BenchmarkError(f"{trials} trials were asked for; finished: {len(last)}")
    return usage


def _stock(scratch: Path, seeds: Sequence[int]) -> Usage:
    output = Path(tempfile.mkdtemp(dir=scratch))
    usage = run(_command("stock_script", output, seeds, "--evaluation-interval", "0", "--no-mlflow"), scratch / "stock.log")
    _check([trial["env_steps"] for trial in json.loads((output / "summary.json").read_text())], seeds)
    return usage


def _sb3(scratch: Path, seeds: Sequence[int]) -> Usage:
    output = Path(tempfile.mkdtemp(dir=scratch)) / "env_steps.json"
    usage = run(_command("sb3_pool", output, seeds), scratch / "sb3.log")
    _check(json.loads(output.read_text()), seeds)
    return usage


def _command(module: str, output: Path, seeds: Sequence[int], *more: str) -> list[str]:
    axes = ["--lr", *map(str, LRS), "--batch", *map(str, BATCHES), "--seed", *map(str, seeds)]
    return [sys.executable, "-m", f"benchmarks.peers.{module}", "--output", str(output), "--budget", str(BUDGET), *axes, *more]


def _check(env_steps: Sequence[float], seeds: Sequence[int]) -> None:
    if len(env_steps) != len(LRS) * len(BATCHES) * len(seeds) or min(env_steps) < BUDGET - max(BATCHES) / 2:
        raise BenchmarkError(f"trials of {BUDGET} env steps were asked for; done: {list(env_steps)}")
