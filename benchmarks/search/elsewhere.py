"""Does a joint study say what a larger machine takes? One with 0 and 1 env runners predicts 2 and 4, which are then
measured.

    python -m benchmarks joint_elsewhere

The environment waits, so that a few cores have room for as many runners as a larger machine. Nothing may run beside it.
"""

import tempfile
from pathlib import Path

import pandas as pd

from analysis.evidence import conclusive
from analysis.load import load_study
from analysis.questions.elsewhere import Machine, elsewhere
from analysis.questions.product import factors_of
from analysis.questions.runners import ENVS, RUNNERS
from benchmarks.search.joint import LEAST_CONFIRMED, NORMAL_90, SMALL, TASKS, space_of
from benchmarks.support.harness import Report, Table, run, say, suite_command
from benchmarks.support.waiting import STEP_S

WAITING = TASKS["PPO on CartPole whose steps wait 1 ms"].settings
MEASURED_OF, ASKED_OF = (0, 1), (2, 4)
"""Runners of the study, and those that it predicts."""
SEEDS = 5
_PREDICTED = (RUNNERS, ENVS, "minutes_low", "minutes_high")


def found_in(folder: Path, quick: bool) -> pd.DataFrame:
    """Search, predict the layouts that were left out, at the learning settings that are the soonest there, and measure
    them.

    Returns:
        A row a layout: runners, environments, the ends of the predicted minutes to target, and `measured`, the mean
        over seeds, with its standard error, `error`.
    """
    searching = ["study=joint", *WAITING, "report=false", "study.name=searched"]
    space = space_of(MEASURED_OF, learning_rate=(1, 3), batch_size=(0.25, 1))
    say("search with few runners")
    run(suite_command([*searching, space, *(SMALL if quick else LEAST_CONFIRMED)], folder), folder / "searched.log")
    store = f"sqlite:///{folder / 'mlflow.db'}"
    study = load_study("searched", store)
    factors = factors_of(study.evidence)
    assert factors is not None
    table = elsewhere(factors, study.curves, study.facts, Machine(max(ASKED_OF)))
    asked = table[table[RUNNERS].isin(ASKED_OF)]
    first = asked.iloc[0]
    same = asked[(asked[list(factors.axes)] == first[list(factors.axes)]).all(axis=1)]
    chosen = [
        f"++algorithm.training.lr={first['lr']}",
        f"++algorithm.training.train_batch_size_per_learner={first['train_batch_size_total']:.0f}",
    ]
    plain = [word for word in WAITING if not word.startswith("search.")]
    seeds = [2000] if quick else list(range(2000, 2000 + SEEDS))
    say("the layouts that were left out")
    measuring = [
        *("study=joint", "search=grid", *plain, *chosen, "report=false", "study.name=measured"),
        space_of(ASKED_OF),
        f"seeds={seeds}".replace(" ", ""),
        "hardware.max_concurrent_trials=1",
    ]
    run(suite_command(measuring, folder), folder / "measured.log")
    runs = conclusive(load_study("measured", store).runs)
    rows = []
    for row in same.to_dict("records"):
        own = (runs[RUNNERS] == row[RUNNERS]) & (runs[ENVS] == row[ENVS])
        minutes = runs.loc[own, "minutes_to_target"].to_numpy(float)
        error = float(minutes.std(ddof=1) / len(minutes) ** 0.5) if len(minutes) > 1 else 0.0
        rows.append({**{name: row[name] for name in _PREDICTED}, "measured": float(minutes.mean()), "error": error})
    return pd.DataFrame(rows)


def measure(quick: bool) -> Report:
    """Run it."""
    with tempfile.TemporaryDirectory(prefix="benchmark-") as folder:
        rows = found_in(Path(folder), quick)
    inside = (rows["measured"] + NORMAL_90 * rows["error"] >= rows["minutes_low"]) & (
        rows["measured"] - NORMAL_90 * rows["error"] <= rows["minutes_high"]
    )
    chosen, soonest = rows.iloc[0], rows.loc[rows["measured"].idxmin()]
    regret = float(chosen["measured"] / soonest["measured"] - 1)
    return Report(
        name="joint_elsewhere",
        title="What a joint study predicts of a machine with room for more env runners",
        compared=(
            f"`study=joint` of CartPole whose steps wait {1000 * STEP_S:.0f} ms with {_either(MEASURED_OF)} runners, "
            f"2 learning rates and 2 batches; what it predicts with {_either(ASKED_OF)} runners, as "
            f"`rl-scaling plan study=joint num_cpus={max(ASKED_OF) + 1}` does; and these trained, {SEEDS} seeds, one "
            "at a time. Nothing else ran."
        ),
        verdict=(
            f"{int(inside.sum())} of {len(rows)} layouts with more runners than were measured take what was predicted, "
            f"and the one that was predicted to be the soonest takes {100 * regret:.0f}% longer than the soonest one."
        ),
        tables=(
            Table(
                "",
                ("runners x environments", "predicted, min", "measured, min", "within"),
                tuple(
                    (
                        f"{row[RUNNERS]:.0f} x {row[ENVS]:.0f}",
                        f"{row['minutes_low']:.2f} to {row['minutes_high']:.2f}",
                        f"{row['measured']:.2f} ± {row['error']:.2f}",
                        "yes" if held else "no",
                    )
                    for (_, row), held in zip(rows.iterrows(), inside, strict=True)
                ),
                "Minutes to target, the soonest by prediction first. predicted: 90% of the env steps, from further "
                "runners that bring nothing to the serial part alone. measured: mean over seeds ± its standard error. "
                "within: by no more than 1.645 standard errors.",
            ),
        ),
    )


def _either(counts: tuple[int, ...]) -> str:
    return " and ".join(map(str, counts))
