"""The findings of a sequential comparison: a pure function of a study's frames."""

from dataclasses import dataclass

import numpy as np
import pandas as pd

from analysis.evidence import replicates
from analysis.stats.interval import Array
from analysis.stats.sequential import Design, compare

DESIGN = {"comparison_seeds_per_look": "seeds_per_look", "comparison_looks": "looks", "comparison_alpha": "alpha"}
"""Columns of `runs` that say how often a comparison looks, to what `Design` calls it; NaN in other studies."""


@dataclass(frozen=True)
class Difference:
    """A pair that was shown to differ.

    Attributes:
        higher: The configuration with the higher mean score.
        lower: The other one.
        look: At which it was shown.
    """

    higher: str
    lower: str
    look: int


@dataclass(frozen=True)
class Comparison:
    """The findings of the looks so far.

    Attributes:
        configs: Best first, by their mean scores; without those that have none.
        differences: The pairs that were shown to differ, the best first.
        alike: The pairs that were not, likewise.
        leaders: The configurations than which none was shown to be higher, likewise.
        failed: Those of which a seed has no score: their other pairs are not compared.
        looks: That were made.
        is_over: Whether there will be no other look.
        num_trials: That were run, or are running.
        design: How often is looked.
    """

    configs: tuple[str, ...]
    differences: tuple[Difference, ...]
    alike: tuple[tuple[str, str], ...]
    leaders: tuple[str, ...]
    failed: tuple[str, ...]
    looks: int
    is_over: bool
    num_trials: int
    design: Design

    @property
    def fixed_trials(self) -> int:
        """Trials of the fixed design, every configuration with all its seeds."""
        return self.design.most_seeds * len({*self.configs, *self.failed})


def sequential_comparison(runs: pd.DataFrame) -> Comparison | None:
    """The findings on the configurations of an environment; None where a study is no sequential comparison.

    Args:
        runs: As `analysis.load` gives them, of one environment, those of a configuration in the order
            in which they were run.
    """
    if not set(DESIGN) <= set(runs) or runs.empty or runs[list(DESIGN)].iloc[0].isna().any():
        return None
    seeds_per_look, looks, alpha = (float(runs[name].iloc[0]) for name in DESIGN)
    design, trials = Design(int(seeds_per_look), int(looks), alpha), replicates(runs)
    names = [str(config) for config in trials["config"].cat.categories if (trials["config"] == config).any()]
    scores = _scores(trials, names, design)
    verdict = compare(scores, design)
    means = np.array([row[np.isfinite(row)].mean() if np.isfinite(row).any() else np.nan for row in scores])
    order = [int(i) for i in np.argsort(-means, kind="stable") if np.isfinite(means[i])]
    pairs = [(a, b) for place, a in enumerate(order) for b in order[place + 1 :]]
    shown = [(a, b) if verdict.higher[a, b] else (b, a) for a, b in pairs if verdict.look[a, b]]
    return Comparison(
        tuple(names[i] for i in order),
        tuple(Difference(names[a], names[b], int(verdict.look[a, b])) for a, b in shown),
        tuple((names[a], names[b]) for a, b in pairs if not verdict.look[a, b]),
        tuple(names[i] for i in order if verdict.leaders[i]),
        tuple(name for name, row in zip(names, scores, strict=True) if np.isneginf(row).any()),
        verdict.looks,
        not verdict.undecided.any(),
        len(trials),
        design,
    )


def _scores(trials: pd.DataFrame, names: list[str], design: Design) -> Array:
    """(num_configurations, most seeds): as `compare` takes them."""
    scores = np.full((len(names), design.most_seeds), np.nan)
    for row, name in enumerate(names):
        own = trials[trials["config"] == name].iloc[: design.most_seeds]
        values = own["score"].to_numpy(dtype=float)
        over = own["status"].isin(["finished", "failed"]).to_numpy()
        scored = (own["status"] == "finished").to_numpy() & np.isfinite(values)
        scores[row, : len(own)] = np.where(scored, values, np.where(over, -np.inf, np.nan))
    return scores
