"""A whole study, from the command to the exit: fast, with RLlib's own parts, as a stock Tune script, and with SB3 in a process pool.

What is run is frozen (`benchmarks.support.frozen`): a change of the suite's defaults leaves the comparison whole.
"""

import json
import math
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from benchmarks.support.frozen import DEFAULT, SHORT, axes, frozen, overrides
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

LRS, BATCHES = axes(SHORT)
SEEDS, BUDGET = frozen(SHORT)["seeds"], frozen(SHORT)["budget_env_steps"]
FAST, SLOW, STOCK, SB3 = "the suite", "the suite, fast=false", "stock RLlib and Tune", "SB3 in a process pool"
WHOLE, WHOLE_SLOW = "the default study", "the default study, fast=false"
TARGETS = {SLOW: 2.5, STOCK: 3.0, SB3: 1.0}
"""How many times as long the others have to take."""


def measure(quick: bool) -> Report:
    """Run it."""
    seeds, repeats = (SEEDS[:1], 1) if quick else (SEEDS, 3)
    with tempfile.TemporaryDirectory(prefix="benchmark-") as folder:
        scratch = Path(folder)
        sides: dict[str, Callable[[], Usage]] = {
            FAST: lambda: _suite(scratch, SHORT, seeds),
            SB3: lambda: _sb3(scratch, seeds),
            SLOW: lambda: _suite(scratch, SHORT, seeds, "fast=false"),
            STOCK: lambda: _stock(scratch, seeds),
        }
        found = {name: [usage.wall_s for usage in taken] for name, taken in take_turns(sides, repeats, once=(SLOW, STOCK)).items()}
        rows = [_row(name, seconds, found[FAST], TARGETS.get(name)) for name, seconds in found.items()]
        missed = [f"{name}: {reached:.2f} of {t:.1f}" for name, t in TARGETS.items() if (reached := ratio(found[name], found[FAST])) < t]
        if not quick:
            whole, slow = [_suite(scratch, DEFAULT, SEEDS).wall_s], [_suite(scratch, DEFAULT, SEEDS, "fast=false").wall_s]
            rows += [_row(WHOLE, whole, whole, None), _row(WHOLE_SLOW, slow, whole, TARGETS[SLOW])]
            if (reached := ratio(slow, whole)) < TARGETS[SLOW]:
                missed.append(f"{WHOLE_SLOW}: {reached:.2f} of {TARGETS[SLOW]:.1f}")
    return Report(
        name="study_fast",
        title="A study, fast",
        compared=(
            f"Wall-clock of whole commands, start-up included: PPO on CartPole-v1, {len(LRS)} learning rates x {len(BATCHES)} batches x "
            f"{len(seeds)} seeds of {BUDGET:,} env steps, 16 environments, nets of [64, 64], minibatch 256, 6 epochs. The suite tracks and "
            "writes checkpoints; only its evaluations are down to one episode at the end. *Stock*: `peers/stock_script.py` with the "
            "layout of the suite's trials, without evaluation, and without Tune's MLflow callback, which would make it slower. *SB3*: "
            "`peers/sb3_pool.py` in a pool of 2 processes, which records nothing. The last two rows are the default study as it was in "
            "November 2026: 45 trials of 60,000 env steps with their evaluations and the report."
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


def _suite(scratch: Path, name: str, seeds: Sequence[int], *more: str) -> Usage:
    output_dir = Path(tempfile.mkdtemp(dir=scratch))
    usage = run(suite_command([*overrides(name, seeds=list(seeds)), *more], output_dir), scratch / "suite.log")
    trials = math.prod(len(axis) for axis in axes(name)) * len(seeds)
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
    grid = ["--lr", *map(str, LRS), "--batch", *map(str, BATCHES), "--seed", *map(str, seeds)]
    return [sys.executable, "-m", f"benchmarks.peers.{module}", "--output", str(output), "--budget", str(BUDGET), *grid, *more]


def _check(env_steps: Sequence[float], seeds: Sequence[int]) -> None:
    if len(env_steps) != len(LRS) * len(BATCHES) * len(seeds) or min(env_steps) < BUDGET - max(BATCHES) / 2:
        raise BenchmarkError(f"trials of {BUDGET} env steps were asked for; done: {list(env_steps)}")
