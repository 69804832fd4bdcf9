"""Does the product of env steps and throughput say what a training takes? Configurations that a joint search never
trained, held out and measured alone, beside what it predicts of them.

    python -m benchmarks joint

Nothing may run beside it. Each task takes an hour or so, is kept in `benchmarks/search/data/joint.csv` and not measured
again.
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
from benchmarks.support.harness import Report, Table, run, say, suite_command
from benchmarks.support.kept import keep, kept
from experiments.contract import CONFIRM

DATA = Path(__file__).parent / "data" / "joint.csv"


RUNNERS_OF, ENVS_OF = (0, 1, 2), (4, 16)
SEEDS = 5
LEAST_CONFIRMED = ("confirmation.top=1", "confirmation.seeds=[1000,1001]")
SMALL = ("seeds=[0]", "search.max_seeds=1", "search.rounds=1", *LEAST_CONFIRMED)
"""Settings of a search that shows that it works."""


def space_of(runners: Sequence[int], **factors: Sequence[float]) -> str:
    """The command's word for what is searched.

    Args:
        runners: Env runners, each with `ENVS_OF` environments.
        **factors: Named axis to its multiples.
    """
    multiples = [f"{name}:{{distribution:multiples,factors:{list(some)}}}" for name, some in factors.items()]
    layouts = [f"hardware.num_env_runners:{list(runners)}", f"hardware.num_envs_per_env_runner:{list(ENVS_OF)}"]
    return f"study.space={{{','.join([*multiples, *layouts])}}}".replace(" ", "")


@dataclass(frozen=True)
class Task:
    """An algorithm on an environment.

    Attributes:
        settings: The command's words.
        held_out: Configurations to draw; a layout that is drawn twice counts once.
        learning_rates: Factors on the algorithm's own.
        batches: Factors on the algorithm's own.
    """

    settings: tuple[str, ...]
    held_out: int
    learning_rates: tuple[float, ...] = (0.3, 1, 3)
    batches: tuple[float, ...] = (0.25, 1, 2)

    @property
    def space(self) -> str:
        """The command's word for what is searched."""
        return space_of(RUNNERS_OF, learning_rate=self.learning_rates, batch_size=self.batches)

    @property
    def num_configurations(self) -> int:
        """Of the full grid."""
        return len(self.learning_rates) * len(self.batches) * len(RUNNERS_OF) * len(ENVS_OF)


TASKS = {
    "PPO on CartPole": Task(("env=cartpole",), 20),
    "PPO on Acrobot": Task(("env=acrobot",), 12),
    "PPO on CartPole whose steps wait 1 ms": Task(
        (
            "env=gym",
            "env.id=benchmarks.support.waiting:WaitingCartPole-v0",
            "env.target=475",
            "budget_env_steps=60000",
            "hardware.num_cpus=24",
            "hardware.max_concurrent_trials=8",  # what learns waits: eight trials take one core
            "evaluation.episodes=3",  # of 0.5 s each
            "evaluation.final_episodes=10",
            "search.max_seeds=5",
        ),
        2,  # each takes five minutes
    ),
    "PPO on LunarLander": Task(
        (
            "env=lunarlander",
            "budget_env_steps=500000",  # the tuned settings are at the target after half of theirs
            "evaluation.episodes=5",
            "evaluation.final_episodes=10",
            "seeds=[0,1,2]",
            "search.max_seeds=3",
            "confirmation.top=2",
        ),
        4,  # each takes eight minutes
        learning_rates=(1, 3),
        batches=(0.25, 1),
    ),
}
_AXES = ("lr", "train_batch_size_total", RUNNERS, ENVS)
_KEY = ("task", *_AXES)
COLUMNS = (
    *_KEY,
    "predicted_min",
    "predicted_low",
    "predicted_high",
    "measured_min",
    "measured_error",
    "chosen_min",
    "soonest_min",
    "search_min",
    "grid_min",
)
"""A row a configuration that was held out. Minutes to target: predicted with the ends of 90%; measured, the mean over
seeds and its standard error; what the search chose, and the soonest that was measured. Then what the search took, and
all configurations one at a time, as long each as those held out.
"""
NORMAL_90 = 1.645
"""Standard errors within which 90% lie."""


def validated(name: str, task: Task, folder: Path, quick: bool) -> pd.DataFrame:
    """Search, measure what is held out, and hold the two against each other.

    Returns:
        With `COLUMNS`.
    """
    words = ["study=joint", *task.settings, task.space, "report=false"]
    searching = [*words, *(SMALL if quick else ()), "study.name=searched"]
    say(f"{name}: search")
    search = run(suite_command(searching, folder), folder / "searched.log")
    number, seeds = (2, [2000, 2001]) if quick else (task.held_out, list(range(2000, 2000 + SEEDS)))
    drawn = [
        "search=random",
        f"search.num_samples={number}",
        "hardware.max_concurrent_trials=1",
        f"seeds={seeds}".replace(" ", ""),
        *LEAST_CONFIRMED,  # it is left out
    ]
    say(f"{name}: {number} configurations held out, drawn at random")
    plain = [word for word in words if not word.startswith("search.")]  # of which a random one knows nothing
    held_out = run(suite_command([*plain, *drawn, "study.name=held_out"], folder), folder / "held_out.log")
    store = f"sqlite:///{folder / 'mlflow.db'}"
    searched, others = (load_study(study, store) for study in ("searched", "held_out"))
    product = product_of(searched.evidence)
    assert product is not None
    chosen = decision_of(searched.evidence.concluding).chosen
    confirmed = conclusive(searched.evidence.concluding.runs)
    measured = conclusive(others.runs[others.runs["phase"] != CONFIRM])
    share = len(measured) / len(others.runs)  # of the time: not all of it confirms
    means = [part.groupby("config", observed=True)["minutes_to_target"].mean() for part in (confirmed, measured)]
    return pd.DataFrame(_beside(product, measured)).assign(
        task=name,
        chosen_min=means[0][chosen],
        soonest_min=pd.concat(means).min(),
        search_min=search.wall_s / 60,
        grid_min=task.num_configurations * share * held_out.wall_s / 60 / measured["config"].nunique(),
    )


def _beside(product: Product, measured: pd.DataFrame) -> list[dict[str, float]]:
    rows = []
    for _, trials in measured.groupby("config", observed=True):
        same = (product.table[list(_AXES)] == trials[list(_AXES)].iloc[0]).all(axis=1)
        if product.table.loc[same, "config"].ne("").any() or not same.any():  # confirmed: not held out
            continue
        row, minutes = product.table[same].iloc[0], trials["minutes_to_target"].to_numpy(float)
        rows.append(
            {axis: float(row[axis]) for axis in _AXES}
            | {
                "predicted_min": float(row["minutes"]),
                "predicted_low": float(row["minutes_low"]),
                "predicted_high": float(row["minutes_high"]),
                "measured_min": float(minutes.mean()),
                "measured_error": float(minutes.std(ddof=1) / len(minutes) ** 0.5),
            }
        )
    return rows


def _errors(rows: pd.DataFrame) -> pd.Series:
    return rows["predicted_min"] / rows["measured_min"] - 1


def _held(rows: pd.DataFrame) -> pd.Series:
    predicted = np.log(rows["predicted_high"] / rows["predicted_low"]) / 2 / NORMAL_90
    apart = np.log(rows["predicted_min"] / rows["measured_min"]).abs()
    return apart <= NORMAL_90 * np.hypot(rows["measured_error"] / rows["measured_min"], predicted)


def measure(quick: bool) -> Report:
    """One task after the other, of those that are not kept."""
    if quick:
        with tempfile.TemporaryDirectory(prefix="benchmark-") as folder:
            name, task = next(iter(TASKS.items()))
            return _report(validated(name, task, Path(folder), quick))
    for name, task in TASKS.items():
        if not (kept(DATA, COLUMNS)["task"] == name).any():
            with tempfile.TemporaryDirectory(prefix="benchmark-") as folder:
                keep(validated(name, task, Path(folder), quick), DATA, COLUMNS, _KEY)
    return _report(kept(DATA, COLUMNS))


def _report(rows: pd.DataFrame) -> Report:
    by_task = []
    for name, own in rows.groupby("task", sort=False):
        one = own.iloc[0]
        by_task.append(
            (
                str(name),
                str(len(own)),
                f"{100 * _errors(own).abs().median():.0f}%",
                f"{100 * _held(own).mean():.0f}%",
                f"{one['chosen_min']:.2f} min",
                f"{100 * (one['chosen_min'] / one['soonest_min'] - 1):.0f}%",
                f"{one['search_min']:.1f} min",
                f"{100 * one['search_min'] / one['grid_min']:.0f}%",
            )
        )
    one_by_one = [
        (
            str(row["task"]),
            f"{row['lr']:.2g}",
            f"{row['train_batch_size_total']:.0f}",
            f"{row[RUNNERS]:.0f} x {row[ENVS]:.0f}",
            f"{row['predicted_min']:.2f} [{row['predicted_low']:.2f}, {row['predicted_high']:.2f}]",
            f"{row['measured_min']:.2f} ± {row['measured_error']:.2f}",
            f"{100 * (row['predicted_min'] / row['measured_min'] - 1):+.0f}%",
        )
        for _, row in rows.iterrows()
    ]
    missing = [name for name in TASKS if name not in {*rows["task"]}]
    return Report(
        name="joint",
        title="What a joint search predicts of configurations that it never trained",
        compared=(
            f"`study=joint` with {', '.join(map(str, RUNNERS_OF))} env runners x {', '.join(map(str, ENVS_OF))} "
            "environments, and then some of its configurations that it did not train in this "
            f"layout, drawn at random, with {SEEDS} seeds of their own, one at a time. Nothing else ran."
        ),
        verdict=(
            f"Of {len(rows)} configurations held out predicted minutes to target differ from the measured ones by "
            f"{100 * _errors(rows).abs().median():.0f}% (median; the target is 15%); {100 * _held(rows).mean():.0f}% "
            "differ by no more than 90% of the errors of both (the target is 85 to 95%)."
        ),
        tables=(
            Table(
                "By task",
                ("", "held out", "median error", "within 90%", "chosen", "regret", "search", "of the grid's time"),
                tuple(by_task),
                "median error: of the predicted median of minutes to target to the mean over seeds, either way. within "
                "90%: differ by no more than 1.645 standard errors, of prediction and seeds. chosen: minutes to target "
                "of what the search recommends, mean of 5 fresh seeds. regret: by how much longer that takes "
                "than the soonest that was measured (the target is 10%). of the grid's time: all configurations with 5 "
                "seeds, one at a time, as long each as those held out (the target is a third).",
            ),
            Table(
                "One by one",
                ("", "learning rate", "batch", "runners x envs", "predicted min [90%]", "measured min", "error"),
                tuple(one_by_one),
                "Minutes to target. measured: mean over 5 seeds ± its standard error; of Acrobot and CartPole over 10 "
                "in up to three cases each, which were confirmed.",
            ),
        ),
        notes=f"Not measured yet: {', '.join(missing)}." if missing else "",
    )
