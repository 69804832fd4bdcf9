"""A study's answer in words: what to use, how sure that is, what speaks against it, and the command line to run it."""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from analysis.document.repeats import sameness
from analysis.questions.convergence import MEASURES, concluding, is_measured, replicates, summarise
from analysis.questions.decision import Decision, decide
from analysis.questions.labels import code, named, trials_named, with_interval
from analysis.stats.curves import plural
from analysis.stats.shares import share_interval
from conf import CONFIG_DIR, config_dirs

FEW_SEEDS = 5
"""Below it a report warns (Colas et al. 2018, arXiv 1806.08295; Henderson et al. 2017, arXiv 1709.06560)."""
FRESH_SEEDS = 5
"""Seeds of the command that tries the recommendation again."""
_REPLACED = ("seeds", "dry_run", "resume", "study.space", "study.name")
"""Settings of a study's command line that the recommended one sets itself."""
_SEARCHING = ("search", "scheduler", "confirmation", "max_env_steps", "max_minutes")
"""Settings, and groups of them, that say how a study chooses its trials: where there is one configuration, there is nothing to choose."""


@dataclass(frozen=True)
class Answer:
    """The answer for one environment, as Markdown sentences.

    Attributes:
        decision: What it rests on.
        headline: What to use.
        because: Why, with numbers.
        certainty: How sure: which are not significantly different, and what it takes to find a difference between the best two.
        repeats: Whether it came out the same when it was run again; empty if each seed was run once.
    """

    decision: Decision
    headline: str
    because: str
    certainty: str
    repeats: str = ""

    def markdown(self) -> str:
        """All of it in one paragraph."""
        return " ".join(part for part in (f"**{self.headline}**", self.because, self.certainty, self.repeats) if part)

    def text(self) -> str:
        """The same without marks."""
        return " ".join(part for part in (self.headline, self.because, self.certainty, self.repeats) if part).replace("`", "")


def answers(runs: pd.DataFrame, curves: pd.DataFrame | None = None) -> list[Answer]:
    """One answer for each environment of a study.

    Args:
        runs: As `analysis.load` gives them.
        curves: Likewise, to compare the repeats of a seed by; None compares their final weights and final evaluations alone.
    """
    everything, runs = runs, concluding(runs)
    if runs.empty and len(everything):
        return [_unconfirmed(str(env)) for env in everything["env"].unique()]
    summary = summarise(runs).set_index("config")
    several = runs["env"].nunique() > 1
    found = []
    for decision in decide(runs):
        same = sameness(runs[runs["env"] == decision.env], curves)
        found.append(replace(_answer(decision, summary, several), repeats=same[0] if same else ""))
    return found


def _unconfirmed(env: str) -> Answer:
    nothing = Decision(env, "score", False, 0, (), (), None, "", None, np.nan, np.nan, 0, np.inf)
    return Answer(nothing, "No answer yet: nothing that the search found was confirmed on held-out seeds.", "", "")


def closing_table(runs: pd.DataFrame, axes: Sequence[str]) -> pd.DataFrame:
    """The summary of all configurations, the chosen one first, then best first, environments in turn.

    Args:
        runs: As `analysis.load` gives them.
        axes: Columns of `runs` that say what a configuration is.

    Returns:
        As `convergence.summarise`, with `leader`: not significantly different from the best; and `chosen`.
    """
    runs = concluding(runs)
    table, decisions = summarise(runs, axes), decide(runs)
    ranks = {config: rank for rank, config in enumerate(config for d in decisions for config in d.order)}
    table["leader"] = table["config"].isin([c for d in decisions for c in d.leaders])
    table["chosen"] = table["config"].isin([d.chosen for d in decisions])
    rank = table["config"].astype(object).map(ranks).fillna(len(ranks)).astype(int)
    return table.iloc[np.argsort(rank, kind="stable")].reset_index(drop=True)


def best_metrics(table: pd.DataFrame) -> dict[str, float]:
    """The chosen configuration's numbers under the names by which MLflow's table of studies can be sorted.

    Args:
        table: A `closing_table` with one environment.
    """
    row = table[table["chosen"]].iloc[0]
    names = [f"{measure}{end}" for measure in MEASURES for end in ("", "_low", "_high")]
    values = {f"best/{name}": float(row[name]) for name in (*names, "num_seeds", "num_reached")}
    return {name: value for name, value in values.items() if np.isfinite(value)}


def _answer(decision: Decision, summary: pd.DataFrame, several: bool) -> Answer:
    where = f"On {decision.env}: " if several else ""
    if decision.chosen is None:
        return Answer(decision, f"{where}No answer: no trial finished.", "", "")
    row = summary.loc[decision.chosen]
    if len(decision.order) == 1:
        found = _sampled(row) if decision.measure == "env_steps_per_s" else _reached(row)
        return Answer(decision, f"{where}{code(decision.chosen)} is the only configuration.", found, "")
    return Answer(decision, f"{where}Use {code(decision.chosen)}.", _because(decision, summary), _certainty(decision, summary))


def _because(decision: Decision, summary: pd.DataFrame) -> str:
    row = summary.loc[decision.chosen]
    if decision.measure == "env_steps_per_s":
        return _sampled(row)
    words = [_reached(row)]
    if decision.saturated:
        words.append(
            f"{decision.num_solving} configurations reach the target, and their scores are not significantly different: env steps to "
            f"target decide. It takes {with_interval(row, 'env_steps_to_target')} env steps, {with_interval(row, 'seconds_to_target')} s "
            "of training."
        )
    return " ".join(words)


def _seeds(row: pd.Series) -> str:
    return plural(int(row["num_seeds"]), "seed")


def _sampled(row: pd.Series) -> str:
    return f"It samples {with_interval(row, 'env_steps_per_s')} env steps/s (geometric mean of {_seeds(row)})."


def _reached(row: pd.Series) -> str:
    seeds = _seeds(row)
    score = f"Its score is {with_interval(row, 'score')} (interquartile mean of {seeds})"
    if np.isnan(row["target"]):
        return f"{score}."
    return f"{score}; {int(row['num_reached'])} of {seeds} reach the target of {row['target']:g}."


def _certainty(decision: Decision, summary: pd.DataFrame) -> str:
    rivals = [c for c in decision.leaders if c != decision.chosen]
    if not rivals:
        others = "the others that reach the target" if decision.saturated else "all others"
        return f"It is significantly different from {others}. The runner-up is {code(decision.runner_up)}, {_by_how_much(decision)}."
    words = [f"It is not significantly different from {named(rivals)}; {_WHY_CHOSEN[decision.chosen_by]}."]
    if decision.runner_up is not None:
        words.append(f"The runner-up is {code(decision.runner_up)}, {_by_how_much(decision)}{_more(decision)}.")
    return " ".join(words)


_WHY_CHOSEN = {
    "rank": "no other is as good within a standard error",
    "reliability": "of those about as good, more of its seeds finish and hold the target to the end",
    "cost": "of those about as good it is the cheapest in training seconds",
    "auc": "of those about as good and as cheap it has the largest area under the learning curve",
    "processes": "of those about as fast it takes the fewest processes",
}
"""`Decision.chosen_by` in words."""


def _by_how_much(decision: Decision) -> str:
    amount, worse = abs(decision.difference), decision.difference >= 0
    if amount == 0:
        return "equal to it on average"
    if decision.measure == "env_steps_per_s":
        return f"{amount:,.0f} env steps/s {'slower' if worse else 'faster'} on average"
    if decision.measure == "score":
        return f"{amount:.3g} {'below' if worse else 'above'} it on average"
    return f"which takes {amount:,.0f} env steps {'more' if worse else 'fewer'} on average"


def _more(decision: Decision) -> str:
    if not np.isfinite(decision.more_seeds):
        return ""
    if decision.more_seeds > 1000:
        return "; more than 1000 more seeds each would be needed to find the difference significant"
    return (
        f"; if the difference is what it seems, {decision.more_seeds:.0f} more seeds each would find it significant with a power of 80%"
        if decision.more_seeds
        else ""
    )


def caveats(runs: pd.DataFrame, decisions: Sequence[Decision], axes: Sequence[str]) -> list[str]:
    """What speaks against taking the answer at its word: Markdown sentences.

    Args:
        runs: As `analysis.load` gives them. Of a search, the trials that confirm count; the others tell what was tried.
        decisions: Of its environments.
        axes: The searched columns of `runs`.
    """
    everything, runs = runs, concluding(runs)
    seeds = replicates(runs)
    finished = seeds[seeds["status"] == "finished"]
    found: list[str] = []
    if finished.empty:
        return found
    fewest = int(finished.groupby("config", observed=True)["seed"].nunique().min())
    if fewest == 1:
        found.append("A configuration has a single finished seed: it has no interval, and no difference from it can be significant.")
    elif fewest < FEW_SEEDS:
        found.append(
            f"{fewest} seeds are few. The intervals lean on the spread of all configurations together; one that fails now and then may "
            "not have shown it yet."
        )
    spread = finished.groupby("config", observed=True)["score"].agg(["nunique", "count"])
    if fewest > 1 and (spread["nunique"] == 1).all():
        low = 100 * float(share_interval(fewest, fewest)[0])
        found.append(
            f"All seeds of a configuration end at the same score, so its interval cannot be estimated. {fewest} of {fewest} still leave "
            f"room for others: at least {low:.0f}% of seeds end there (Wilson, 95%)."
        )
    num_configs = finished["config"].nunique()
    if num_configs > 1 and (finished["phase"] == "confirm").all():
        found.append(
            f"The search never saw these seeds. The recommended configuration is still the best of {num_configs} on them, which flatters "
            "it a little. Fresh seeds tell."
        )
    elif len(runs["config"].unique()) > 1:
        found.append("The recommended configuration was picked for its numbers on these seeds, so they flatter it. Fresh seeds tell.")
    censored = finished["target"].notna() & ~np.isfinite(finished["env_steps_to_target"].astype(float))
    if censored.any() and not censored.all():
        found.append(
            f"{int(censored.sum())} of {len(finished)} finished trials never hold the target. They count with their whole budget, "
            "so times to target of their configurations are lower bounds."
        )
    if not finished["exclusive"].all():
        found.append(
            "Trials shared the machine: seconds and env steps/s compare configurations of this study roughly, and nothing beyond it. "
            "`hardware.max_concurrent_trials=1` measures them alone."
        )
    found += _disturbed(runs)
    if is_measured(runs):
        disturbed = finished[finished["disturbed_share"] > 0]
        if len(disturbed):
            found.append(
                f"In {plural(len(disturbed), 'trial')} others used the machine while throughput was measured, again and again: "
                f"{trials_named(disturbed)}. Their speeds are too low. Measure them again on a quiet machine."
            )
    unclean = 0 if is_measured(runs) else finished.loc[~np.isfinite(finished["score"].astype(float)), "config"].nunique()
    if unclean:
        found.append(f"{unclean} configurations have finished trials without a finite score; these trials are left out.")
    for decision in decisions:
        found += _edges(everything, decision, axes)
    return found


def without_episodes(runs: pd.DataFrame, curves: pd.DataFrame) -> list[str]:
    """Which finished trials never ended an episode while they trained: a Markdown sentence, or none.

    Args:
        runs: As `analysis.load` gives them.
        curves: Likewise, with `train/episodes`.
    """
    if is_measured(runs):
        return []
    ended = curves.loc[(curves["metric"] == "train/episodes") & (curves["value"] > 0), "run_id"].unique()
    trials = runs[(runs["status"] == "finished") & ~runs["run_id"].isin(ended)]
    if trials.empty:
        return []
    return [
        f"In {plural(len(trials), 'trial')} no episode ended in training, so there is no `train/return_mean`: {trials_named(trials)}. "
        "Episodes may be longer than the budget leaves them, or than the time between two checkpoints where environments are reset; an "
        "evaluation cuts them at the budget."
    ]


def _disturbed(runs: pd.DataFrame) -> list[str]:
    """Which trials did not run in one go, and which would not come out the same again."""
    again = runs[runs["restarts"] > 0]
    were = f"{plural(len(again), 'trial')} {'was' if len(again) == 1 else 'were'}"
    found = [f"{were} taken up again after a fault or an interruption: {trials_named(again)}."] if len(again) else []
    is_reproducible = runs["reproducible"].fillna(True).astype(bool)
    for algorithm, trials in runs[~is_reproducible].groupby("algorithm", sort=False):
        which = f"{plural(len(trials), 'trial')} of {algorithm} ({trials_named(trials)}) {'does' if len(trials) == 1 else 'do'}"
        if not is_reproducible[runs["algorithm"] == algorithm].any():
            which = f"The trials of {algorithm} do"
        found.append(
            f"{which} not promise the same bits when run again: the algorithm is asynchronous, the environments are EnvPool's, or "
            "something raised once and not again."
        )
    return found


def _edges(runs: pd.DataFrame, decision: Decision, axes: Sequence[str]) -> list[str]:
    """Whether the chosen one is at the end of a searched axis: better ones may lie beyond."""
    found = []
    part = runs[runs["env"] == decision.env]
    for axis in axes:
        if decision.chosen is None or axis not in part or not pd.api.types.is_numeric_dtype(part[axis]):
            continue
        tried, at = part[axis].dropna(), part.loc[part["config"] == decision.chosen, axis].iloc[0]
        if tried.nunique() > 2 and at in (tried.min(), tried.max()):
            end = "smallest" if at == tried.min() else "largest"
            found.append(f"{axis} = {at:g} is the {end} that was tried: a better one may lie beyond.")
    return found


def recommended_command(command: str, point: Mapping[str, Any], study: str, seeds: Sequence[int], fresh: bool = True) -> str:
    """The command line that runs a configuration by itself.

    Args:
        command: The study's command line, whose other settings are kept.
        point: Configuration path to value, of what was searched.
        study: The study's name.
        seeds: All that it ran: those of a search, and those that confirmed what it found.
        fresh: Whether to run it on seeds that the study has not seen; else on the study's own.

    Returns:
        A command for a POSIX shell.
    """
    words = shlex.split(command)
    script = next((i for i, word in enumerate(words) if word.endswith("run.py")), None)
    given, own_folders = config_dirs(words[script + 1 :] if script is not None else [])
    paths = {w: w.lstrip("+~").partition("=")[0] for w in given if not w.startswith("-")}
    kept = [w for w, path in paths.items() if path not in {*_REPLACED, *point} and path.partition(".")[0] not in _SEARCHING]
    chosen = range(max(seeds) + 1, max(seeds) + 1 + FRESH_SEEDS) if fresh else seeds
    settings = [f"{path}={hydra_value(value)}" for path, value in point.items()]
    own = ["study.space={}", f"study.name={study}-confirm", f"seeds=[{','.join(map(str, chosen))}]"]
    named = [word for folder in own_folders for word in (CONFIG_DIR, folder)]
    return shlex.join(["python", "experiments/run.py", *named, *kept, *settings, *own])


def hydra_value(value: Any) -> str:
    """A value as Hydra reads it back."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list | tuple):
        return f"[{','.join(hydra_value(v) for v in value)}]"
    if isinstance(value, Mapping):
        return "{" + ",".join(f"{k}:{hydra_value(v)}" for k, v in value.items()) + "}"
    return str(value)
