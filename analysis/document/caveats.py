"""What speaks against taking a study's answer at its word."""

import numpy as np
import pandas as pd

from analysis.evidence import Evidence
from analysis.questions.decision import Decision, decisions_of
from analysis.questions.labels import trials_named
from analysis.questions.machines import are_portable, trials_by_kind
from analysis.stats.shares import share_interval
from experiments.contract import RETURN
from experiments.contract.words import plural

FEW_SEEDS = 5
"""Below it a report warns (Colas et al. 2018, arXiv 1806.08295; Henderson et al. 2017, arXiv 1709.06560)."""
_FEW_EVALUATIONS, _FEW_APART = 10, 2
"""Evaluations of a trial below which, and between two configurations up to which, a report warns."""
_LEAST = {"num_env_runners": 0.0, "num_learners": 0.0}
"""The smallest value of settings that are counted, where it is not 1: nothing lies beyond."""
_OTHERS_MOST = 25.0
"""Percent of a core that others may use beside a trial that runs alone: what a measurement of throughput allows
(conf/measurement/throughput.yaml)."""


def caveats(evidence: Evidence) -> list[str]:
    """Reasons not to take the answer at its word: Markdown sentences.

    Args:
        evidence: All trials. Of a search, those that confirm count; the others tell what was tried.
    """
    concluding = evidence.concluding
    runs, seeds = concluding.runs, concluding.replicates
    finished = seeds[seeds["status"] == "finished"]
    found: list[str] = []
    if finished.empty:
        return found
    counted = seeds[seeds["status"].isin(["finished", "failed"])]
    fewest = int(counted.groupby("config", observed=True)["seed"].nunique().min())
    if fewest == 1:
        found.append(
            "A configuration has a single finished seed: it has no interval, and no difference "
            "from it can be significant."
        )
    elif fewest < FEW_SEEDS and not concluding.is_measured:
        found.append(f"{fewest} seeds are few: a configuration that fails now and then may not have shown it yet.")
    spread = finished.groupby("config", observed=True)["score"].agg(["nunique", "count"])
    if fewest > 1 and (spread["nunique"] == 1).all():
        low = 100 * float(share_interval(fewest, fewest)[0])
        found.append(
            "All seeds of a configuration end at the same score, so its interval cannot be estimated. "
            f"{fewest} of {fewest} still leave room for others: at least {low:.0f}% of seeds end there (Wilson, 95%)."
        )
    num_configs = finished["config"].nunique()
    picked = [d for d in decisions_of(concluding) if d.chosen and len(d.order) > 1 and d.expected is None]
    if picked and (finished["phase"] == "confirm").all() and not evidence.claims:
        found.append(
            f"The recommended configuration is the best of {num_configs} on the seeds that confirm, which flatters it "
            "a little."
        )
    elif picked and not evidence.claims:
        found.append("The recommended configuration was picked for its numbers on these seeds, which flatters it.")
    censored = finished["target"].notna() & ~np.isfinite(finished["env_steps_to_target"].astype(float))
    if censored.any() and not censored.all():
        found.append(
            f"{int(censored.sum())} of {len(finished)} finished trials never hold the target, and count with their "
            "whole budget: times to target of their configurations, marked >= in the table, are lower bounds."
        )
    early = 0 if concluding.is_measured else int((finished["end_env_steps"] < finished["budget_env_steps"]).sum())
    if early:
        found.append(
            f"{early} of {len(finished)} finished trials ended at the target, before their budget: "
            "learning curves and the area under them keep their last return up to the budget."
        )
    if not (finished["exclusive"].astype(bool) | finished["reused_from"].ne("")).all():
        found.append(
            "Trials shared the machine: seconds and env steps/s compare configurations of this study roughly, "
            "and nothing beyond it. `hardware.max_concurrent_trials=1` measures them alone."
        )
    found += _reused(evidence.runs)
    found += _contended(evidence)
    if len(kinds := trials_by_kind(runs)) > 1:
        learned = (
            "; what a trial learns does not depend on the kind (`bits=portable`), as far as its environment does not"
            if are_portable(runs)
            else ", and the last bits of a result depend on the kind of CPU or GPU"
        )
        found.append(
            f"Trials ran on {len(kinds)} kinds of machine ({'; '.join(kinds)}): their seconds and env steps/s "
            f"are not compared{learned}."
        )
    found += _disturbed(runs)
    if concluding.is_measured:
        disturbed = finished[finished["disturbed_share"] > 0]
        if len(disturbed):
            found.append(
                f"In {plural(len(disturbed), 'trial')} others used the machine while throughput was measured, "
                f"again and again: {trials_named(disturbed)}. Their speeds are too low. "
                "Measure them again on a quiet machine."
            )
    unclean = (
        0 if concluding.is_measured else finished.loc[~np.isfinite(finished["score"].astype(float)), "config"].nunique()
    )
    if unclean:
        found.append(
            f"{plural(int(unclean), 'configuration')} {'has' if unclean == 1 else 'have'} finished trials without a "
            "finite score; they count as crashed."
        )
    crashed = concluding.counted[concluding.counted["crashed"]]
    if len(crashed):
        found.append(
            f"{plural(len(crashed), 'trial')} crashed: {trials_named(crashed)}. "
            "A crash counts with the lowest score of the environment's range, or of any trial where it has none."
        )
    for decided in decisions_of(concluding):
        found += _coarse(concluding.of_envs[decided.env], decided)
        found += _edges(evidence, decided)
    return found


def _coarse(evidence: Evidence, decision: Decision) -> list[str]:
    """Whether trials were evaluated too seldom for what the choice rests on: a Markdown sentence, or none."""
    if evidence.is_measured or evidence.curves is None:
        return []
    returns = evidence.curves[evidence.curves["metric"] == RETURN]
    of_runs = returns[returns["run_id"].isin(evidence.conclusive["run_id"])].groupby("run_id", observed=True)
    if not len(of_runs):
        return []
    apart, most = of_runs["env_steps"].min().median(), int(of_runs.size().max())
    by_few = decision.saturated and decision.runner_up is not None and abs(decision.difference) <= _FEW_APART * apart
    if most >= _FEW_EVALUATIONS and not by_few:
        return []
    why = f"A trial was evaluated {plural(most, 'time')}" if most < _FEW_EVALUATIONS else "Trials were evaluated seldom"
    rests = f", and the choice rests on a difference of {abs(decision.difference):,.0f}" if by_few else ""
    return [
        f"{why}: env steps to target are known to {apart:,.0f} env steps{rests}. "
        "`report_every_env_steps` makes that finer."
    ]


def _reused(runs: pd.DataFrame) -> list[str]:
    """Which trials were taken from other studies: Markdown sentences, or none."""
    taken = runs[runs["reused_from"] != ""]
    if taken.empty:
        return []
    unlike = taken.loc[~taken["reproducible"].fillna(True).astype(bool), "algorithm"].unique()
    again = "Run again, they would have learned the same to the bit"
    if len(unlike):
        again = f"Those of {' and '.join(unlike)} are samples of what another run would have brought"
    cost = ", and the cost of the search counts them as if they had run" if runs["exploratory"].any() else ""
    return [
        f"{len(taken)} of {plural(len(runs), 'trial')} {'was' if len(taken) == 1 else 'were'} taken from other studies "
        f"(`reuse=true`, their tag `reused_from` names the run): {trials_named(taken)}. {again}. Their seconds and env "
        f"steps/s are of another day{cost}."
    ]


def _contended(evidence: Evidence) -> list[str]:
    """Which trials that ran alone had others on their machine: a Markdown sentence, or none."""
    runs, curves = evidence.replicates, evidence.curves
    if evidence.is_measured or curves is None:
        return []
    alone = runs[(runs["status"] == "finished") & runs["exclusive"].astype(bool)]
    used = curves[(curves["metric"] == "system/other_cpu_percent") & curves["run_id"].isin(alone["run_id"])]
    means = used.groupby("run_id", observed=True)["value"].mean()
    disturbed = alone[alone["run_id"].map(means) > _OTHERS_MOST]
    if disturbed.empty:
        return []
    return [
        f"Others used the machine beside {plural(len(disturbed), 'trial')} that ran alone, up to {means.max():.0f}% of "
        f"a core on average ({trials_named(disturbed)}): their seconds are not those of a quiet machine."
    ]


def without_episodes(evidence: Evidence) -> list[str]:
    """Which finished trials never ended an episode while they trained: a Markdown sentence, or none.

    Args:
        evidence: With the curves of `train/episodes`.
    """
    runs, curves = evidence.runs, evidence.curves
    if evidence.is_measured or curves is None:
        return []
    ended = curves.loc[(curves["metric"] == "train/episodes") & (curves["value"] > 0), "run_id"].unique()
    trials = runs[(runs["status"] == "finished") & ~runs["run_id"].isin(ended)]
    if trials.empty:
        return []
    return [
        f"In {plural(len(trials), 'trial')} no episode ended in training, so there is no `train/return_mean`: "
        f"{trials_named(trials)}. Episodes may be longer than the budget leaves them, or than the time between two "
        "checkpoints where environments are reset; an evaluation cuts them at the budget."
    ]


def _disturbed(runs: pd.DataFrame) -> list[str]:
    """Which trials did not run in one go, and which would not come out the same again."""
    again = runs[runs["restarts"] > 0]
    were = f"{plural(len(again), 'trial')} {'was' if len(again) == 1 else 'were'}"
    found = [f"{were} taken up again after a fault or an interruption: {trials_named(again)}."] if len(again) else []
    paused = runs[runs["paused_s"] > 0]
    if len(paused):
        least, most = (f"{seconds:,.0f}" for seconds in (paused["paused_s"].min(), paused["paused_s"].max()))
        found.append(
            f"{plural(len(paused), 'trial')} stood still, with the machine or alone, for "
            f"{least if least == most else f'{least} to {most}'} s: {trials_named(paused)}. "
            "That is left out of all seconds and env steps/s."
        )
    is_reproducible = runs["reproducible"].fillna(True).astype(bool)
    for algorithm, trials in runs[~is_reproducible].groupby("algorithm", sort=False):
        which = (
            f"{plural(len(trials), 'trial')} of {algorithm} ({trials_named(trials)}) "
            f"{'does' if len(trials) == 1 else 'do'}"
        )
        if not is_reproducible[runs["algorithm"] == algorithm].any():
            which = f"The trials of {algorithm} do"
        found.append(
            f"{which} not promise the same bits when run again: the algorithm is asynchronous, "
            "the environments are EnvPool's, something raised once and not again, or a trial went on without the state "
            "that its code had kept in its process."
        )
    return found


def _edges(evidence: Evidence, decision: Decision) -> list[str]:
    """The searched axes at whose end the chosen one is: better ones may lie beyond."""
    found = []
    part = evidence.of_envs[decision.env].runs
    for axis in evidence.axes:
        if decision.chosen is None or axis not in part or not pd.api.types.is_numeric_dtype(part[axis]):
            continue
        tried, at = part[axis].dropna(), part.loc[part["config"] == decision.chosen, axis].iloc[0]
        if at == tried.min() <= _LEAST.get(axis, 1.0 if axis.startswith("num_") else 0.0):
            continue
        if tried.nunique() > 2 and at in (tried.min(), tried.max()):
            end = "smallest" if at == tried.min() else "largest"
            found.append(f"{axis} = {at:g} is the {end} that was tried: a better one may lie beyond.")
    return found
