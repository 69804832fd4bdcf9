"""A whole study, from the command to the exit: the suite against the script that a competent RLlib user writes."""

import json
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.support.harness import (
    BenchmarkError,
    Report,
    Table,
    Usage,
    against,
    points,
    ratio,
    ratios,
    run,
    spread,
    suite_command,
    take_turns,
)

TARGET = 0.7
STRETCH = 0.5
SUITE, STOCK, NO_MLFLOW, ACTORS = (
    "suite",
    "stock, same layout",
    "stock, same layout, no MLflow",
    "stock, runner actors, no MLflow",
)
BATCH = 2000
GRID = 4000


@dataclass(frozen=True)
class Size:
    """How much is run.

    Attributes:
        lrs: Learning rates.
        seeds: Replicates of each.
        budget: Env steps of a trial.
        repeats: Turns of each variant.
    """

    lrs: tuple[float, ...] = (1e-3, 3e-3)
    seeds: tuple[int, ...] = (0, 1, 2)
    budget: int = 32_000
    repeats: int = 3

    @property
    def trials(self) -> int:
        """Of a study."""
        return len(self.lrs) * len(self.seeds)


QUICK = Size(lrs=(1e-3,), seeds=(0,), budget=4000, repeats=1)
ABLATION = Size(lrs=(3e-3,), seeds=(0, 1, 2, 3), budget=12_000, repeats=2)
EVALUATION_OFF = ("evaluation.every_env_steps={budget}", "evaluation.episodes=1", "evaluation.final_episodes=1")


@dataclass(frozen=True)
class Done:
    """One study.

    Attributes:
        usage: What it took.
        env_steps: Sampled by all its trials.
    """

    usage: Usage
    env_steps: float


def measure(quick: bool) -> Report:
    """Run it."""
    size = QUICK if quick else Size()
    with tempfile.TemporaryDirectory(prefix="benchmark-") as folder:
        scratch = Path(folder)
        variants: dict[str, Callable[[], Done]] = {
            SUITE: lambda: _suite(scratch, size, []),
            NO_MLFLOW: lambda: _stock(scratch, size, ["--no-mlflow"]),
            ACTORS: lambda: _stock(scratch, size, ["--no-mlflow", "--layout", "actors"]),
            STOCK: lambda: _stock(scratch, size, []),
        }
        found = take_turns(variants, size.repeats, once=(STOCK, ACTORS))
        tables = [_main_table(found, size)]
        if not quick:
            tables.append(_ablation_table(take_turns(_ablation(scratch, ABLATION), ABLATION.repeats), ABLATION))
    strict, full = ratio(_wall(found[SUITE]), _wall(found[NO_MLFLOW])), _wall(found[SUITE])[0] / _wall(found[STOCK])[0]
    return Report(
        name="study_vs_stock",
        title="A study with the suite and with stock RLlib, Tune and MLflow",
        compared=_compared(size),
        verdict=(
            f"Target of {TARGET:.2f} of stock's wall-clock {against(full, TARGET)}, and {against(strict, TARGET)} "
            f"if stock logs nothing to MLflow; stretch of {STRETCH:.2f} {against(full, STRETCH)}, "
            f"and {against(strict, STRETCH)} without MLflow in stock."
        ),
        tables=tuple(tables),
    )


def _compared(size: Size) -> str:
    return (
        f"Whole processes, wall-clock from start to exit: {len(size.lrs)} learning rates x batch {BATCH} x "
        f"{len(size.seeds)} seeds = {size.trials} PPO trials of {size.budget:,} env steps on CartPole-v1, "
        "16 environments, nets of [64, 64], minibatch 256, 6 epochs. Stock is `benchmarks/peers/stock_script.py`: "
        "`PPOConfig`, `tune.Tuner` with `grid_search`, `MLflowLoggerCallback` to SQLite, a checkpoint at the end, and "
        "otherwise the libraries' defaults. All evaluate every 2 iterations, 20 episodes, greedy; the suite alone adds "
        "100 episodes at the end.\n\n"
        "*Same layout*: samples in the trial's own process with Gymnasium's vector entry point, as the suite does. *No "
        "MLflow*: without Tune's MLflow callback, which holds up Tune's loop with a transaction for each of about 290 "
        "values of an iteration; the suite keeps its own tracking on. *Runner actors*: RLlib's default layout, 2 "
        "runners where a trial's 3 CPUs exist, else 1, without MLflow."
    )


def _suite(scratch: Path, size: Size, overrides: Sequence[str], driver: Sequence[str] = ()) -> Done:
    output_dir = Path(tempfile.mkdtemp(dir=scratch))
    settings = [
        f"study.space={{algorithm.training.lr:[{','.join(map(str, size.lrs))}]}}",
        f"seeds=[{','.join(map(str, size.seeds))}]",
        f"algorithm.training.train_batch_size_per_learner={BATCH}",
        f"budget_env_steps={size.budget}",
        f"report_every_env_steps={GRID}",
        *overrides,
    ]
    command = suite_command(settings, output_dir)
    if driver:
        command = [sys.executable, "-m", "benchmarks.support.driver", *driver, "--", *command[2:]]
    usage = run(command, scratch / "suite.log")
    last: dict[str, float] = {}
    for point in points(output_dir / "mlflow.db", "progress/env_steps"):
        last[point.run] = max(point.value, last.get(point.run, 0.0))
    return Done(usage, _checked(list(last.values()), size))


def _stock(scratch: Path, size: Size, arguments: Sequence[str]) -> Done:
    output = Path(tempfile.mkdtemp(dir=scratch))
    command = [
        sys.executable,
        "-m",
        "benchmarks.peers.stock_script",
        "--output",
        str(output),
        "--budget",
        str(size.budget),
        "--batch",
        str(BATCH),
    ]
    command += ["--lr", *map(str, size.lrs), "--seed", *map(str, size.seeds), *arguments]
    usage = run(command, scratch / "stock.log")
    return Done(
        usage, _checked([trial["env_steps"] for trial in json.loads((output / "summary.json").read_text())], size)
    )


def _checked(env_steps: Sequence[float], size: Size) -> float:
    """Env steps of a study, once it is sure that every trial did its work."""
    if len(env_steps) != size.trials or min(env_steps) < size.budget - BATCH / 2:
        raise BenchmarkError(f"{size.trials} trials of {size.budget} env steps were asked for; done: {list(env_steps)}")
    return sum(env_steps)


def _ablation(scratch: Path, size: Size) -> dict[str, Callable[[], Done]]:
    variants: dict[str, tuple[list[str], list[str]]] = {
        "the suite as it is": ([], []),
        "a process of its own for each trial": ([], ["--without", "reuse_actors"]),
        "one trial at a time": (["hardware.max_concurrent_trials=1"], []),
        "no vector entry point": (["env.vectorize_mode=sync"], []),
        "2 threads per process": (["hardware.threads_per_process=2"], []),
        "TensorBoard off": (["tracking.tensorboard=false"], []),
        "system metrics off": (["tracking.system_metrics=false"], []),
        "evaluation off": ([override.format(budget=size.budget) for override in EVALUATION_OFF], []),
    }

    def variant(overrides: list[str], driver: list[str]) -> Callable[[], Done]:
        return lambda: _suite(scratch, size, overrides, driver)

    return {name: variant(*settings) for name, settings in variants.items()}


def _main_table(found: dict[str, list[Done]], size: Size) -> Table:
    suite = found[SUITE]
    rows = [
        (
            name,
            str(len(done)),
            spread(_wall(done)),
            "" if name == SUITE else ratios(_wall(suite), _wall(done)),
            spread(_cpu(done), ".0f"),
            "" if name == SUITE else ratios(_cpu(suite), _cpu(done)),
            f"{done[0].env_steps:,.0f}",
        )
        for name, done in found.items()
    ]
    return Table(
        "Whole study",
        ("", "turns", "wall-clock s", "suite / this", "CPU s", "suite / this, CPU", "env steps"),
        tuple(rows),
        f"Median (minimum-maximum), {size.repeats} turns taken in rotation; the two slowest had one. "
        "CPU seconds are of all processes, sampled every 0.5 s: they hold better where others use the machine.",
        {"suite / this": False, "suite / this, CPU": False},
    )


def _columns(reference: str) -> tuple[str, ...]:
    return ("", "wall-clock s", f"of {reference}", "CPU s", f"CPU, of {reference}", "env steps")


def _rows(found: dict[str, list[Done]], reference: str) -> list[tuple[str, ...]]:
    peer = found[reference]
    return [
        (
            name,
            spread(_wall(done)),
            ratios(_wall(done), _wall(peer)),
            spread(_cpu(done), ".0f"),
            ratios(_cpu(done), _cpu(peer)),
            f"{done[0].env_steps:,.0f}",
        )
        for name, done in found.items()
    ]


def _ablation_table(found: dict[str, list[Done]], size: Size) -> Table:
    reference = "the suite as it is"
    return Table(
        "What each measure brings: the suite with one thing changed",
        _columns(reference),
        tuple(_rows(found, reference)),
        f"A study of {size.trials} trials of {size.budget:,} env steps. Median (minimum-maximum) of {size.repeats} "
        "turns. Above 1: the measure that is taken out saves time; below 1: what is switched off costs time.",
    )


def _wall(done: Sequence[Done]) -> list[float]:
    return [d.usage.wall_s for d in done]


def _cpu(done: Sequence[Done]) -> list[float]:
    return [d.usage.cpu_s for d in done]
