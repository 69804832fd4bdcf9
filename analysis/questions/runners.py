"""Whether the number of env runners changes what is learned: pure functions of a study's frames."""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from analysis.questions.convergence import conclusive, pairwise, summarise
from analysis.questions.labels import FORMS, WORDS, code, interval_of, shown, with_interval
from analysis.stats.comparisons import holm
from analysis.stats.interval import CONFIDENCE

RUNNERS, ENVS = "num_env_runners", "num_envs_per_env_runner"


def same_learning(runs: pd.DataFrame, axes: Sequence[str]) -> list[tuple[dict[str, object], str]]:
    """What more runners changed, in sentences; none where runners were not searched.

    Configurations that differ in their runners alone are compared on their common seeds, by the area under the learning curve and by the
    score. With as many environments in all, more runners should change the speed alone.

    Args:
        runs: Of one environment, trained to a budget.
        axes: The searched columns of `runs`.

    Returns:
        The other searched columns with the values that all compared configurations have, and a paragraph.
    """
    finished = conclusive(runs)
    if not {RUNNERS, ENVS} <= set(finished) or RUNNERS not in axes:
        return []
    others = [a for a in axes if a not in (RUNNERS, ENVS) and a in finished and finished[a].nunique() > 1]
    groups = finished.groupby(others, observed=True) if others else [((), finished)]
    found = []
    for values, part in groups:
        settings = dict(zip(others, values, strict=True))
        by_reading = {"all": part} if ENVS not in axes or _total(part).nunique() == 1 else dict(iter(part.groupby(ENVS, observed=True)))
        found += [
            (settings, _compared(runs[runs["config"].isin(of_reading["config"].unique())], of_reading))
            for of_reading in by_reading.values()
            if of_reading[RUNNERS].nunique() > 1
        ]
    return found


def _total(runs: pd.DataFrame) -> pd.Series:
    return runs[RUNNERS].clip(lower=1) * runs[ENVS]


def _compared(runs: pd.DataFrame, finished: pd.DataFrame) -> str:
    """The sentences of configurations that differ in their runners alone."""
    totals, counts = _total(finished), sorted(finished[RUNNERS].astype(int).unique())
    fixed = totals.nunique() == 1
    reading = (
        f"{int(totals.iloc[0])} environments in all, whatever the runners"
        if fixed
        else f"{int(finished[ENVS].iloc[0])} environments a runner"
    )
    runs = runs.assign(config=runs["config"].cat.remove_unused_categories())
    sentences = []
    for measure in ("auc", "score"):
        pairs = pairwise(runs, measure).dropna(subset="difference")
        if pairs.empty or not np.isfinite(pairs["p"]).any():
            continue
        pairs["p_adjusted"] = holm(pairs["p"].to_numpy(dtype=float))
        widest = pairs.loc[pairs["difference"].abs().idxmax()]
        told = pairs[pairs["p_adjusted"] < 1 - CONFIDENCE]
        largest = (
            f"the largest difference in {WORDS[measure]}, between {code(widest['config_a'])} and {code(widest['config_b'])}, is "
            f"{shown(interval_of(widest, 'difference'), FORMS[measure])} over {int(widest['num_seeds'])} seeds"
        )
        verdict = (
            f"no two are significantly different: {largest}"
            if told.empty
            else f"{len(told)} of {len(pairs)} pairs are significantly different (Holm, 5%): {largest}"
        )
        sentences.append(f"By {WORDS[measure]}, {verdict}.")
    if not sentences:
        return f"Whether {', '.join(map(str, counts))} env runners learn alike cannot be tested with a single seed each."
    speeds = summarise(runs).set_index("config")
    slow, fast = speeds.loc[speeds["env_steps_per_s"].idxmin()], speeds.loc[speeds["env_steps_per_s"].idxmax()]
    speed = f"Throughput ranges from {with_interval(slow, 'env_steps_per_s')} env steps/s ({code(slow.name)}) to "
    speed += f"{with_interval(fast, 'env_steps_per_s')} ({code(fast.name)})."
    head = f"{', '.join(map(str, counts))} env runners, {reading}."
    note = "Their fragments and their streams of random numbers differ all the same, so curves differ from seed to seed." if fixed else ""
    alone = bool(finished["exclusive"].all())  # else speeds say little
    return " ".join(part for part in (head, *sentences, speed if alone else "", note) if part)
