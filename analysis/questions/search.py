"""The finds of a search, their cost, and what is left of them on seeds that it never saw:
pure functions of a study's frames.

A search picks what did best, and part of what did best is luck: its scores flatter what it picked (the winner's curse).
Conclusions rest on the held-out seeds alone. Scores are means over seeds here, not interquartile means, for a search
gives most configurations one or two.
"""

import numpy as np
import pandas as pd

from analysis.evidence import conclusive, replicates
from analysis.questions.convergence import bounds_of, by_seed
from analysis.questions.lineage import is_population, lineage, settings
from analysis.stats.interval import Interval
from analysis.stats.moderated import moderated_intervals

FINISHED, STOPPED = "finished", "stopped"
"""How a trial of a search ended: with a score, or before that by a scheduler; else as its status says."""


def winners_curse(runs: pd.DataFrame, base: str = "") -> pd.DataFrame:
    """The scores of configurations in the search, and then on held-out seeds.

    Args:
        runs: Of one environment, as `analysis.load` gives them.
        base: The base configuration: confirmed in any case, not because it led.

    Returns:
        A row for each configuration that was to be confirmed, the best of the search first: `config`, `is_base`;
        `searched`, the mean score over `num_search_seeds`, those that finished in the search, NaN if none did;
        `confirmed`, the mean score over `num_seeds` held-out seeds with its interval; `difference`, confirmed minus
        searched. Its interval says how far the search was off: it is that of the confirmed mean, for the search score
        is a number that was seen and picked, no estimate. Of a population, those searched are the members of the last
        generation, with the settings that they ended with: their weights may have gone through others.
    """
    exploratory = runs["exploratory"].astype(bool)
    found, confirming = runs[exploratory], runs[~exploratory & exploratory.any()]
    if is_population(runs):
        last = lineage(runs).query("is_last")
        found = found.loc[last.index].assign(config=last["settings"])
    of_search = found[(found["status"] == "finished") & np.isfinite(found["score"].astype(float))].groupby(
        "config", observed=True
    )["score"]
    configs = list(dict.fromkeys(confirming["config"]))
    matrix = by_seed(conclusive(runs), "score").reindex(index=configs, columns=confirming["seed"].unique())
    estimates = moderated_intervals(matrix.to_numpy(), bounds_of("score", runs))
    table = pd.DataFrame(
        {
            "config": pd.Categorical(configs, dtype=runs["config"].dtype),
            "is_base": [config == base for config in configs],
            "searched": of_search.mean().reindex(configs).to_numpy(dtype=float),
            "num_search_seeds": of_search.size().reindex(configs).fillna(0).to_numpy(dtype=int),
            **estimates.columns("confirmed"),
            "num_seeds": estimates.num_seeds,
        }
    )
    for end in ("", "_low", "_high"):
        table[f"difference{end}"] = table[f"confirmed{end}"] - table["searched"]
    return table


def search_error(runs: pd.DataFrame, picked: pd.DataFrame) -> tuple[Interval, int] | None:
    """How far the scores of the search were off for those that were picked because they led.

    The interval is over held-out seeds, each with its mean over the configurations:
    trials of the same seed need not be independent.

    Args:
        runs: Of one environment, as `analysis.load` gives them.
        picked: Rows of `winners_curse` that have both scores.

    Returns:
        Confirmed minus searched, means over them, and the number of held-out seeds that all of them have; None if there
        is no such seed.
    """
    scores = by_seed(conclusive(runs), "score").loc[list(picked["config"])].dropna(axis=1)
    if scores.empty:  # every seed failed in one of them
        return None
    found = moderated_intervals(scores.mean().to_numpy()[None] - picked["searched"].mean())
    return Interval(float(found.estimate[0]), float(found.low[0]), float(found.high[0])), scores.shape[1]


def spent(runs: pd.DataFrame, curves: pd.DataFrame) -> pd.DataFrame:
    """The cost of a search.

    Args:
        runs: As `analysis.load` gives them.
        curves: Of these trials, as `analysis.load` gives them.

    Returns:
        Two rows, indexed `search` and `confirm`: `num_configurations`, `num_seeds` (different ones); `num_trials`, of
        which `num_finished` used their whole budget or held the target, `num_stopped` were stopped before that by a
        scheduler, and `num_failed` failed; `env_steps` of all of them, from where they started up to what they last
        reported. A generation of a member of a population is a trial.
    """
    trials = _trials(runs, curves).assign(config=settings(runs))
    rows = {}
    for phase, part in (("search", trials[trials["exploratory"]]), ("confirm", trials[~trials["exploratory"]])):
        ended = part["outcome"].value_counts()
        rows[phase] = {
            "num_configurations": part["config"].nunique(),
            "num_seeds": part["seed"].nunique(),
            "num_trials": len(part),
            **{f"num_{outcome}": int(ended.get(outcome, 0)) for outcome in (FINISHED, STOPPED, "failed")},
            "env_steps": int(part["env_steps"].sum()),
        }
    return pd.DataFrame.from_dict(rows, orient="index")


def progress(runs: pd.DataFrame, curves: pd.DataFrame) -> pd.DataFrame:
    """How a search came to what it found.

    Args:
        runs: Of one environment, as `analysis.load` gives them.
        curves: Of these trials, as `analysis.load` gives them.

    Returns:
        A row for each trial of the search that ended, in the order of their ends: `config`, `seed`; `env_steps` that
        the search had spent by then; `outcome`: finished, stopped, or its status; `score`, of a trial that was stopped
        its last evaluation, NaN if it has neither; `best`, the highest mean over its finished seeds that any
        configuration has at that time; of a population, the highest score that any member has had.
    """
    trials = _trials(runs, curves)
    ended = trials[trials["exploratory"] & trials["ended"].notna()].sort_values(
        "ended", kind="stable", ignore_index=True
    )
    finished = ended["outcome"] == FINISHED
    seen: dict[str, list[float]] = {}
    best = []
    # members with the same settings do not have the same weights
    whose = ended["run_id"] if is_population(runs) else ended["config"]
    for name, score in zip(whose, ended["score"].where(finished), strict=True):
        if np.isfinite(score):
            seen.setdefault(name, []).append(score)
        best.append(max((sum(scores) / len(scores) for scores in seen.values()), default=np.nan))
    evaluations = curves[(curves["metric"] == "eval/return_mean") & np.isfinite(curves["value"])]
    last = ended["run_id"].map(evaluations.groupby("run_id", observed=True)["value"].last()).astype(float)
    return pd.DataFrame(
        {
            "config": ended["config"],
            "seed": ended["seed"],
            "env_steps": ended["env_steps"].cumsum().astype(float),
            "outcome": ended["outcome"],
            "score": ended["score"].where(finished, last.where(ended["outcome"] == STOPPED)),
            "best": np.asarray(best, dtype=float),
        }
    )


def _trials(runs: pd.DataFrame, curves: pd.DataFrame) -> pd.DataFrame:
    """The trials with the env steps that each was trained, and how it ended:
    a scheduler leaves a finished run without a score.
    """
    trials = replicates(runs[runs["phase"] != "throughput"]).astype({"exploratory": bool})
    scored = (trials["status"] == "finished") & np.isfinite(trials["score"].astype(float))
    reported = trials["run_id"].map(curves.groupby("run_id", observed=True)["env_steps"].max()).astype(float)
    end = reported.fillna(trials["end_env_steps"])
    stopped = (trials["status"] == "finished") & ~scored & trials["exploratory"] & (end < trials["budget_env_steps"])
    return trials.assign(env_steps=end - trials["start_env_steps"], outcome=trials["status"].mask(stopped, STOPPED))
