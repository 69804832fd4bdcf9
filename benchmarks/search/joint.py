"""Does the product of env steps and throughput say what a training takes? Configurations that a joint search never
trained, held out and measured alone, beside what it predicts of them.
"""

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from analysis.evidence import conclusive
from analysis.load import load_study
from analysis.questions.decision import decision_of
from analysis.questions.product import Product, product_of
from analysis.questions.runners import ENVS, RUNNERS
from benchmarks.support.harness import Report, Table, Usage, run, suite_command

TASKS = {
    "PPO on CartPole": ("env=cartpole",),
    "PPO on CartPole whose steps wait 2 ms": (
        "env=gym",
        "env.id=benchmarks.support.waiting:WaitingCartPole-v0",
        "env.target=475",
        "budget_env_steps=60000",
    ),
    "PPO on Acrobot": ("env=acrobot",),
}
RUNNERS_OF, ENVS_OF = (0, 1, 2), (4, 16)
SPACE = (
    "study.space={learning_rate:{distribution:multiples,factors:[0.3,1,3]},"
    "batch_size:{distribution:multiples,factors:[0.25,1,2]},"
    f"hardware.num_env_runners:{list(RUNNERS_OF)},hardware.num_envs_per_env_runner:{list(ENVS_OF)}}}"
).replace(" ", "")
NUM_CONFIGURATIONS = 3 * 3 * len(RUNNERS_OF) * len(ENVS_OF)
HELD_OUT, SEEDS = 20, 5
_AXES = ("lr", "train_batch_size_total", RUNNERS, ENVS)
_NORMAL_90 = 1.645


@dataclass(frozen=True)
class Validated:
    """A search beside what it had not seen.

    Attributes:
        errors: (num_held_out,) relative differences of the predicted median to the measured mean.
        held: (num_held_out,) whether they differ by no more than 90% of both their errors.
        regret: By what share the configuration that the search chose takes longer than the soonest that was measured.
        search: What the search took.
        grid_s: Seconds that every configuration with as many seeds would take, as long each as those held out.
    """

    errors: np.ndarray
    held: np.ndarray
    regret: float
    search: Usage
    grid_s: float


def validated(task: Sequence[str], folder: Path, quick: bool) -> Validated:
    """Search, measure what is held out, and hold the two against each other."""
    words = ["study=joint", *task, SPACE, "report=false"]
    small = [
        "seeds=[0]",
        "search.max_seeds=1",
        "search.rounds=1",
        "confirmation.top=1",
        "confirmation.seeds=[1000,1001]",
    ]
    searching = [*words, *(small if quick else []), "study.name=searched"]
    search = run(suite_command(searching, folder), folder / "searched.log")
    number, seeds = (2, [2000, 2001]) if quick else (HELD_OUT, list(range(2000, 2000 + SEEDS)))
    drawn = [
        "search=random",
        f"search.num_samples={number}",
        "hardware.max_concurrent_trials=1",
        f"seeds={seeds}".replace(" ", ""),
    ]
    held_out = run(suite_command([*words, *drawn, "study.name=held_out"], folder), folder / "held_out.log")
    store = f"sqlite:///{folder / 'mlflow.db'}"
    searched, others = (load_study(name, store) for name in ("searched", "held_out"))
    product = product_of(searched.evidence)
    assert product is not None
    chosen = decision_of(searched.evidence.concluding).chosen
    confirmed = conclusive(searched.evidence.concluding.runs)
    measured = conclusive(others.runs)
    means = pd.concat(
        [part.groupby("config", observed=True)["minutes_to_target"].mean() for part in (confirmed, measured)]
    )
    own = float(confirmed.loc[confirmed["config"] == chosen, "minutes_to_target"].mean())
    errors, held = _beside(product, measured)
    grid_s = NUM_CONFIGURATIONS * len(seeds) * held_out.wall_s / (number * len(seeds))
    return Validated(errors, held, own / float(means.min()) - 1, search, grid_s)


def _beside(product: Product, measured: pd.DataFrame) -> tuple[np.ndarray, np.ndarray]:
    errors, held = [], []
    for _, trials in measured.groupby("config", observed=True):
        same = (product.table[list(_AXES)] == trials[list(_AXES)].iloc[0]).all(axis=1)
        if product.table.loc[same, "config"].ne("").any() or not same.any():  # confirmed: not held out
            continue
        row, minutes = product.table[same].iloc[0], trials["minutes_to_target"].to_numpy(float)
        own = minutes.std(ddof=1) / minutes.mean() / len(minutes) ** 0.5
        predicted = np.log(row["minutes_high"] / row["minutes_low"]) / 2 / _NORMAL_90
        apart = float(np.log(row["minutes"] / minutes.mean()))
        errors.append(row["minutes"] / minutes.mean() - 1)
        held.append(abs(apart) <= _NORMAL_90 * float(np.hypot(own, predicted)))
    return np.array(errors), np.array(held)


def measure(quick: bool) -> Report:
    """One task after the other; nothing may run beside it."""
    rows, found = [], []
    for name, task in list(TASKS.items())[: 1 if quick else None]:
        with tempfile.TemporaryDirectory(prefix="benchmark-") as folder:
            one = validated(task, Path(folder), quick)
        found.append(one)
        rows.append(
            (
                name,
                str(len(one.errors)),
                f"{100 * np.median(np.abs(one.errors)):.0f}%",
                f"{100 * np.mean(one.held):.0f}%",
                f"{100 * one.regret:.0f}%",
                f"{one.search.wall_s / 60:.1f} min",
                f"{100 * one.search.wall_s / one.grid_s:.0f}%",
            )
        )
    errors = np.concatenate([one.errors for one in found])
    held = np.concatenate([one.held for one in found])
    return Report(
        name="joint",
        title="What a joint search predicts of configurations that it never trained",
        compared=(
            f"`study=joint` with {', '.join(map(str, RUNNERS_OF))} env runners x {', '.join(map(str, ENVS_OF))} "
            f"environments, and then {HELD_OUT} of its {NUM_CONFIGURATIONS} configurations, drawn at random, with "
            f"{SEEDS} seeds of their own, one at a time."
        ),
        verdict=(
            f"Of {len(errors)} configurations held out predicted minutes to target differ from the measured ones by "
            f"{100 * np.median(np.abs(errors)):.0f}% (median; the target is 15%); {100 * np.mean(held):.0f}% differ by "
            "no more than 90% of the errors of both (the target is 85 to 95%)."
        ),
        tables=(
            Table(
                "By task",
                ("", "held out", "median error", "within 90%", "regret", "search", "of the grid's time"),
                tuple(rows),
                "median error: of the predicted median of minutes to target to the mean over seeds, either way. within "
                "90%: differ by no more than 1.645 standard errors, of the prediction and of the seeds. regret: by how "
                "much longer what the search chose takes, confirmed, than the soonest that was measured. of the grid's "
                "time: all configurations with as many seeds, one at a time, as long each as those held out.",
            ),
        ),
    )
