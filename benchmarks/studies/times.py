"""How long will it take? What plans and the terminal say of studies, held against what the studies then took.

    python -m benchmarks times

Nothing may run beside it. Each study is kept in `benchmarks/studies/data/times.csv` and not measured again.
"""

import re
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from benchmarks.support.harness import ROOT, BenchmarkError, Report, Table, environment, say, suite_command
from benchmarks.support.kept import keep, kept

DATA = Path(__file__).parent / "data" / "times.csv"
LR = "algorithm.training.lr"
SHAPES: dict[str, tuple[str, ...]] = {
    "PPO CartPole, 1 trial": ("study=single", "seeds=[0]", "budget_env_steps=400000"),
    "PPO CartPole, 5 seeds": ("study=single", "seeds=[0,1,2,3,4]", "budget_env_steps=100000"),
    "PPO CartPole, learning rate x batch": ("budget_env_steps=40000", "seeds=[0,1]"),
    "PPO CartPole, 40 short trials": (
        "study=single", f"study.space={{{LR}:[1e-3,3e-3,1e-2,3e-2]}}", "seeds=[0,1,2,3,4,5,6,7,8,9]",
        "budget_env_steps=16000",
    ),
    "PPO CartPole, until the target": ("study=single", "seeds=[0,1,2,3,4,5]", "stop_at_target=true"),
    "PPO CartPole, 2 runners": (
        "study=single", "seeds=[0,1]", "budget_env_steps=200000", "algorithm.env_runners.num_env_runners=2",
        "hardware.num_cpus=3",
    ),
    "PPO CartPole, one trial at a time": (
        "study=single", "seeds=[0,1,2,3]", "budget_env_steps=100000", "hardware.max_concurrent_trials=1",
    ),
    "PPO CartPole, 64 environments": (
        "study=single", "seeds=[0,1]", "budget_env_steps=400000", "hardware.num_envs_per_env_runner=64",
    ),
    "PPO CartPole, RLlib's own parts": ("study=single", "seeds=[0,1]", "budget_env_steps=60000", "fast=false"),
    "PPO Acrobot, 4 seeds": ("study=single", "env=acrobot", "seeds=[0,1,2,3]", "budget_env_steps=100000"),
    "PPO MountainCar, 4 seeds": ("study=single", "env=mountaincar", "seeds=[0,1,2,3]", "budget_env_steps=100000"),
    "PPO Pendulum, 4 seeds": ("study=single", "env=pendulum", "seeds=[0,1,2,3]", "budget_env_steps=60000"),
    "PPO LunarLander, 2 seeds": ("study=single", "env=lunarlander", "seeds=[0,1]", "budget_env_steps=100000"),
    "PPO HalfCheetah, 2 seeds": ("study=single", "env=halfcheetah", "seeds=[0,1]", "budget_env_steps=60000"),
    "DQN CartPole, 2 seeds": ("study=single", "algorithm=dqn", "seeds=[0,1]", "budget_env_steps=15000"),
    "SAC Pendulum, 2 seeds": ("study=single", "algorithm=sac", "env=pendulum", "seeds=[0,1]", "budget_env_steps=4000"),
    "IMPALA CartPole, 1 runner": ("study=single", "algorithm=impala", "seeds=[0,1]", "budget_env_steps=300000"),
    "an environment that waits 1 ms": (
        "study=single", "env=synthetic", "env.env_config.step_cost_ms=1", "env.env_config.mode=wait", "seeds=[0,1]",
        "budget_env_steps=20000",
    ),
    "racing, learning rate": (
        "search=racing", f"study.space={{{LR}:[3e-4,1e-3,3e-3,1e-2]}}", "budget_env_steps=40000", "seeds=[0,1,2]",
    ),
    "throughput of 0, 1 and 2 runners": (
        "study=runner_scaling",
        "study.space={algorithm.env_runners.num_env_runners:[0,1,2]}",
        "seeds=[0,1]",
        "hardware.num_cpus=3",
    ),
}  # fmt: skip
TURNS = ("nothing has run", "after the same with other seeds")
COLUMNS = (
    "study",
    "turn",
    "said",
    "line",
    "share",
    "at_most",
    "low_s",
    "high_s",
    "low_unit_s",
    "high_unit_s",
    "took_s",
)
"""A row a prediction: of which study, whether its like had run, where it is said (plan or bar) and in which line, the
share of the work done by then, whether it is a bound, its ends and the units that they are printed in, and the seconds
that then passed.
"""
_UNITS = {"s": 1, "min": 60, "h": 3600}
_LAST_DIGIT = {"s": 1, "min": 60, "h": 360}
"""Seconds of the last digit that is printed."""
_TIME = re.compile(r"(at most )?about (?:([\d.,]+) (?:(s|min|h) )?to )?([\d.,]+) (s|min|h)\b")
_BAR = re.compile(r"(\d+)% of the .* so far, (.*) left")


def span_of(text: str) -> tuple[bool, float, float, int, int] | None:
    """Whether it is a bound, its ends, and the last digit of each, in seconds, of `about 2 to 5 min` and its like; None
    of anything else.
    """
    found = _TIME.search(text)
    if found is None:
        return None
    bound, low, unit_of_low, high, unit = found.groups()
    last = float(high.replace(",", "")) * _UNITS[unit]
    first = last if low is None else float(low.replace(",", "")) * _UNITS[unit_of_low or unit]
    digits = _LAST_DIGIT[unit_of_low or unit], _LAST_DIGIT[unit]
    return bool(bound), 0.0 if bound else first, last, *digits


def _lines(words: Sequence[str], folder: Path) -> Iterator[tuple[float, str]]:
    """What a study prints, with the seconds since its command began; then its end.

    Raises:
        BenchmarkError: It failed.
    """
    began, seen = time.perf_counter(), list[str]()
    command = suite_command([*words, "report=false"], folder)
    with subprocess.Popen(
        command, cwd=ROOT, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            seen.append(line)
            yield time.perf_counter() - began, line
    if process.returncode:
        raise BenchmarkError(f"{' '.join(command)} ended with {process.returncode}:\n{''.join(seen[-20:])}")
    yield time.perf_counter() - began, ""


def predicted(study: str, words: Sequence[str], folder: Path) -> pd.DataFrame:
    """What was said of a study, before it ran and while it did, with what it took: twice.

    Returns:
        With `COLUMNS`.
    """
    rows: list[dict[str, object]] = []
    for turn, name in enumerate(TURNS):
        seeds = next((word for word in words if word.startswith("seeds=[")), "")
        fresh = [re.sub(r"(\d+)", rf"{turn or ''}\1", seeds)] if seeds else []  # 3, and then 13
        own = [*(word for word in words if word != seeds), *fresh]
        (plan,) = [line for _, line in _lines([*own, "dry_run=true"], folder) if line.startswith("time ")]
        printed = list(_lines(own, folder))
        took = printed[-1][0]
        said = [("plan", 0.0, span_of(plan), took)]
        for at, line in printed:
            if bar := _BAR.search(line):
                said.append(("bar", int(bar[1]) / 100, span_of(bar[2]), took - at))
        for number, (where, share, found, seconds) in enumerate(said):
            if found is not None:
                rows.append(dict(zip(COLUMNS, (study, name, where, number, share, *found, seconds), strict=True)))
    return pd.DataFrame(rows)


def measure(quick: bool) -> Report:
    """One study after the other, of those that are not kept."""
    if quick:
        with tempfile.TemporaryDirectory(prefix="benchmark-") as folder:
            return _report(predicted("smoke", ("study=smoke",), Path(folder)))
    for study, words in SHAPES.items():
        if not (kept(DATA, COLUMNS)["study"] == study).any():
            say(study)
            with tempfile.TemporaryDirectory(prefix="benchmark-") as folder:
                keep(predicted(study, words, Path(folder)), DATA, COLUMNS, ("study", "turn", "line"))
    return _report(kept(DATA, COLUMNS))


def _report(rows: pd.DataFrame) -> Report:
    plans = {f"plan, {turn}": (rows["said"] == "plan") & (rows["turn"] == turn) for turn in TURNS}
    bars = {
        f"terminal, {low:.0%} to {high:.0%} of the work done": (rows["said"] == "bar")
        & rows["share"].between(low, high, inclusive="right")
        for low, high in ((0.0, 0.25), (0.25, 0.5), (0.5, 1.0))
    }
    table = tuple(
        (
            name,
            str(int(chosen.sum())),
            _share(within(rows[chosen])),
            _share(within(rows[chosen & ~rows["at_most"].astype(bool)])),
            _factor(rows[chosen & ~rows["at_most"].astype(bool)]),
        )
        for name, chosen in {**plans, **bars}.items()
    )
    first = rows[(rows["said"] == "plan") & (rows["turn"] == TURNS[0])]
    each = tuple(
        (
            str(row["study"]),
            f"{'at most ' if row['at_most'] else ''}{row['low_s']:.0f} to {row['high_s']:.0f}",
            f"{row['took_s']:.0f}",
        )
        for _, row in first.iterrows()
    )
    return Report(
        name="times",
        title="How long a study takes, and what is said of it",
        compared=(
            "Studies of different shapes, each twice in a store of its own: what `dry_run=true` says before, and what "
            "the terminal says on the way, against the seconds that the command then took. Nothing else ran."
        ),
        verdict=(
            f"{_share(within(first))} studies end within what their first plan says, and {_share(within(rows))} "
            "of all predictions hold (each is meant to hold 90% of the time)."
        ),
        tables=(
            Table(
                "Predictions",
                ("said", "predictions", "hold", "of those with two ends", "median error"),
                table,
                "hold: what was left ended by the upper end, and not before the lower one, if there is one; to the "
                "digits that are printed. median error: of the middle (geometric), either way, of those with two ends.",
            ),
            Table("Before anything had run", ("study", "plan, s", "took, s"), each),
        ),
    )


def within(rows: pd.DataFrame) -> pd.Series:
    """Whether each prediction holds, to the digits that were printed."""
    took = rows["took_s"]
    low, high = rows["low_s"] - rows["low_unit_s"] / 2, rows["high_s"] + rows["high_unit_s"] / 2
    return (took >= low) & (took <= high)


def _share(holds: pd.Series) -> str:
    return f"{int(holds.sum())} of {len(holds)}"


def _factor(rows: pd.DataFrame) -> str:
    if rows.empty:
        return "-"
    middle = np.sqrt(rows["low_s"].clip(lower=0.5) * rows["high_s"])
    return f"{100 * (np.exp(np.log(middle / rows['took_s']).abs().median()) - 1):.0f}%"
