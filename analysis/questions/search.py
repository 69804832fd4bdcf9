"""What a search found, what it cost, and what is left of it on seeds that it never saw: pure functions of a study's frames.

A search picks what did best, and part of what did best is luck: its scores flatter what it picked (the winner's curse). Conclusions rest on
the held-out seeds alone. Scores are means over seeds here, not interquartile means, for a search gives most configurations one or two.
"""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from analysis.questions.convergence import by_seed, conclusive, replicates
from analysis.questions.labels import FORMS, WORDS, code, with_interval
from analysis.questions.lineage import is_population, lineage, settings
from analysis.stats.seeds import moderated_intervals

FINISHED, STOPPED = "finished", "stopped"
"""How a trial of a search ended: with its whole budget, or before that by a scheduler; else as its status says."""


def winners_curse(runs: pd.DataFrame, base: str = "") -> pd.DataFrame:
    """What configurations scored in the search, and then on held-out seeds.

    Args:
        runs: Of one environment, as `analysis.load` gives them.
        base: The base configuration: confirmed in any case, not because it led.

    Returns:
        A row for each configuration that was to be confirmed, the best of the search first: `config`, `is_base`; `searched`, the mean score
        over `num_search_seeds`, those that finished in the search, NaN if none did; `confirmed`, the mean score over `num_seeds` held-out
        seeds with its interval; `difference`, confirmed minus searched. Its interval says how far the search was off: it is that of the
        confirmed mean, for the search score is a number that was seen and picked, no estimate. Of a population, those searched are the
        members of the last generation, with the settings that they ended with: their weights may have gone through others.
    """
    exploratory = runs["exploratory"].astype(bool)
    found, confirming = runs[exploratory], runs[~exploratory & exploratory.any()]
    if is_population(runs):
        last = lineage(runs).query("is_last")
        found = found.loc[last.index].assign(config=last["settings"])
    of_search = found[(found["status"] == "finished") & np.isfinite(found["score"].astype(float))].groupby("config", observed=True)["score"]
    configs = list(dict.fromkeys(confirming["config"]))
    matrix = by_seed(conclusive(runs), "score").reindex(index=configs, columns=confirming["seed"].unique())
    estimates = moderated_intervals(matrix.to_numpy(), "mean", _bounds(runs))
    table = pd.DataFrame(
        {
            "config": pd.Categorical(configs, categories=runs["config"].cat.categories, ordered=True),
            "is_base": [config == base for config in configs],
            "searched": of_search.mean().reindex(configs).to_numpy(dtype=float),
            "num_search_seeds": of_search.size().reindex(configs).fillna(0).to_numpy(dtype=int),
            "confirmed": estimates.estimate,
            "confirmed_low": estimates.low,
            "confirmed_high": estimates.high,
            "num_seeds": estimates.num_seeds,
        }
    )
    for end in ("", "_low", "_high"):
        table[f"difference{end}"] = table[f"confirmed{end}"] - table["searched"]
    return table


def spent(runs: pd.DataFrame, curves: pd.DataFrame) -> pd.DataFrame:
    """What a search cost.

    Args:
        runs: As `analysis.load` gives them.
        curves: Likewise.

    Returns:
        Two rows, indexed `search` and `confirm`: `num_configurations`, `num_seeds` (different ones); `num_trials`, of which `num_finished`
        used their whole budget, `num_stopped` were stopped before that by a scheduler, and `num_failed` failed; `env_steps` of all of them,
        from where they started up to what they last reported. A generation of a member of a population is a trial.
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
        curves: Likewise.

    Returns:
        A row for each trial of the search that ended, in the order of their ends: `config`, `seed`; `env_steps` that the search had spent
        by then; `outcome`: finished, stopped, or its status; `score`, of a trial that was stopped its last evaluation, NaN if it has
        neither; `best`, the highest mean over its finished seeds that any configuration has at that time; of a population, the highest
        score that any member has had.
    """
    trials = _trials(runs, curves)
    ended = trials[trials["exploratory"] & trials["ended"].notna()].sort_values("ended", kind="stable", ignore_index=True)
    finished = ended["outcome"] == FINISHED
    seen: dict[str, list[float]] = {}
    best = []
    whose = ended["run_id"] if is_population(runs) else ended["config"]  # members with the same settings do not have the same weights
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


def sentences(runs: pd.DataFrame, curves: pd.DataFrame, base: str = "", objectives: Sequence[str] = ()) -> list[str]:
    """What a search tried, what that cost, and how much of what it found is confirmed: Markdown; nothing where nothing was searched.

    Args:
        runs: Of one environment, as `analysis.load` gives them.
        curves: Likewise.
        base: The base configuration.
        objectives: What the search aimed at; empty if unknown.
    """
    if not runs["exploratory"].any():
        return []
    cost, table = spent(runs, curves), winners_curse(runs, base)
    searched, confirming = cost.loc["search"], cost.loc["confirm"]
    aim = "" if tuple(objectives) in ((), ("score",)) else " and ".join(WORDS[objective] for objective in objectives)
    told = [f"{_tried(runs, searched)}: {searched['env_steps']:,} env steps.{f' It aimed at {aim}.' if aim else ''}{_ends(searched)}"]
    known = table[table["num_seeds"] > 0]
    if known.empty:
        begun = f" None of the {_number(confirming['num_trials'], 'trial')} that confirm has a score." if len(table) else ""
        return [*told, f"Nothing is confirmed yet.{begun} The scores of a search flatter what it picks: they are no conclusion."]
    told.append(
        f"{_number(len(known), 'configuration')} {'was' if len(known) == 1 else 'were'} run again at full budget, on "
        f"{how_many(known['num_seeds'], 'held-out seed')}: {_number(confirming['num_trials'], 'trial')}, {confirming['env_steps']:,} env "
        f"steps.{_ends(confirming)} Conclusions rest on these alone."
    )
    told.append(_curse(runs, known, aim))
    told += [
        f"The base configuration, {code(row['config'])}, has a mean score of {with_interval(row, 'confirmed', FORMS['score'])} over "
        f"{_number(row['num_seeds'], 'held-out seed')}."
        for row in known[known["is_base"]].to_dict("records")
    ]
    return told


def _tried(runs: pd.DataFrame, searched: pd.Series) -> str:
    configurations, trials = _number(searched["num_configurations"], "configuration"), _number(searched["num_trials"], "trial")
    if is_population(runs):
        return (
            f"A population of {_number(searched['num_seeds'], 'member')} tried {configurations} in {trials}, a generation of a member each"
        )
    seeds = runs[runs["exploratory"].astype(bool)].groupby("config", observed=True)["seed"].nunique()
    return f"The search tried {configurations} in {trials}, {how_many(seeds, 'seed')} each"


def seeds_named(runs: pd.DataFrame, planned: Sequence[int]) -> str:
    """The seeds of a study in words: `0, 1, 2`; of a search those that were run, by what they are for.

    Args:
        runs: As `analysis.load` gives them.
        planned: Seeds of a study that does not search.
    """
    exploratory = runs["exploratory"].astype(bool)
    if not exploratory.any():
        return ", ".join(map(str, planned))
    searched, held_out = (", ".join(map(str, sorted(runs.loc[rows, "seed"].unique()))) for rows in (exploratory, ~exploratory))
    return f"{searched} in the search; {held_out or 'none yet'} held out, to confirm"


def how_many(counts: pd.Series, what: str) -> str:
    """Numbers in a sentence: `5 seeds`, `1 to 3 seeds`.

    Args:
        counts: One or more.
        what: Is counted, in the singular.
    """
    least, most = int(counts.min()), int(counts.max())
    return _number(most, what) if least == most else f"{least} to {_number(most, what)}"


def _curse(runs: pd.DataFrame, known: pd.DataFrame, aim: str) -> str:
    """How much the search flattered those that were picked because they led.

    The interval is over held-out seeds, each with its mean over the configurations: trials of the same seed need not be independent.
    """
    picked = known[~known["is_base"] & known["searched"].notna()]
    if picked.empty:
        return "None of those that were picked has a score of the search to compare with."
    scores = by_seed(conclusive(runs), "score").loc[list(picked["config"])].dropna(axis=1)
    if scores.empty:  # every seed failed in one of them
        return "Those that were picked have no held-out seed in common to compare with the search."
    searched = picked["searched"].mean()
    found = moderated_intervals(scores.mean().to_numpy()[None] - searched)
    row = {f"off{end}": values[0] for end, values in (("", found.estimate), ("_low", found.low), ("_high", found.high))}
    if row["off_high"] < 0:
        curse = (
            "which may be the winner's curse, or what earlier settings gave the weights" if is_population(runs) else "the winner's curse"
        )
        verdict = f", {curse}"
    elif row["off_low"] > 0:
        verdict = ", so the search did not flatter them"
    else:
        verdict = ", which may be chance" if np.isfinite(row["off_low"]) else ", without an interval"
    form, counts, several = FORMS["score"], picked["num_search_seeds"], len(picked) > 1
    each = " each" if several else ""
    after = f"{searched + row['off']:{form}} on {_number(scores.shape[1], 'held-out seed')}"
    if is_population(runs):
        which = f"the {len(picked)} configurations that were picked" if several else "the configuration that was picked"
        told = (
            f"The members that ended with {which} scored {searched:{form}} (mean of {how_many(counts, 'member')}{each}), with weights that "
            f"may have gone through other settings before. Trained from scratch with these settings alone, {'they' if several else 'it'} "
            f"scored {after}"
        )
    else:
        who = f"{len(picked)} configurations that were picked because they" if several else "configuration that was picked because it"
        led = f"led by {aim}" if aim else "led"
        told = f"The {who} {led} scored {searched:{form}} in the search (mean of {how_many(counts, 'seed')}{each}) and {after}"
    return f"{told}: a difference of {with_interval(row, 'off', '+' + form)}{verdict}."


def _trials(runs: pd.DataFrame, curves: pd.DataFrame) -> pd.DataFrame:
    """The trials with the env steps that each was trained, and how it ended: a scheduler leaves a finished run without a score."""
    trials = replicates(runs).astype({"exploratory": bool})
    scored = (trials["status"] == "finished") & np.isfinite(trials["score"].astype(float))
    reported = trials["run_id"].map(curves.groupby("run_id", observed=True)["env_steps"].max()).astype(float)
    end = reported.fillna(trials["budget_env_steps"].where(scored, trials["start_env_steps"]))
    stopped = (trials["status"] == "finished") & ~scored & trials["exploratory"] & (end < trials["budget_env_steps"])
    return trials.assign(env_steps=end - trials["start_env_steps"], outcome=trials["status"].mask(stopped, STOPPED))


def _bounds(runs: pd.DataFrame) -> tuple[float, float]:
    """The lowest and the highest possible score."""
    low, high = (float(runs[f"score_range_{end}"].iloc[0]) for end in ("low", "high"))
    return (-np.inf if np.isnan(low) else low, np.inf if np.isnan(high) else high)


def _ends(cost: pd.Series) -> str:
    """How trials ended that did not use their whole budget."""
    open_ = cost["num_trials"] - cost["num_finished"] - cost["num_stopped"] - cost["num_failed"]
    counts = {"stopped early": cost["num_stopped"], "failed": cost["num_failed"], "without an end": open_}
    words = [f"{number} {word}" for word, number in counts.items() if number]
    return f" Of the trials, {', '.join(words)}." if words else ""


def _number(count: int, what: str) -> str:
    return f"{int(count)} {what}{'' if count == 1 else 's'}"
