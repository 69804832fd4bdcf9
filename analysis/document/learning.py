"""The sections on what was learned: repeats, curves, learning rate and batch, seeds, comparisons."""

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from analysis import AnalysisError
from analysis.document import repeats as again
from analysis.document import sequential, wording
from analysis.document.parts import MODERATED, WILSON, Drawn, Part, Section, figure_of, slug
from analysis.evidence import SMALLER_IS_BETTER
from analysis.plots import batch_tradeoff as batch_tradeoff_plot
from analysis.plots import (
    best_lr,
    group_gaps,
    improvement_matrix,
    learning_curves,
    sample_efficiency,
    score_heatmap,
    score_profile,
    seed_scatter,
    seeds_needed,
)
from analysis.questions import convergence, learning_rate_batch, reproducibility
from analysis.questions.batch_tradeoff import Tradeoff, lr_batch
from analysis.questions.labels import WORDS
from analysis.questions.sequential import sequential_comparison

MOST_IN_MATRIX = 20
"""Configurations of a matrix that can still be read."""

_TRADEOFF = (
    "{}Env steps against updates to target (McCandlish et al. 2018), a point a batch at the learning rate "
    "that the answer chooses for it; an update is a training batch."
)


def sequence(part: Part) -> Section:
    """All pairs of a sequential comparison; without a sentence in other studies."""
    found = sequential_comparison(part.trials)
    told = () if found is None else (*sequential.sentences(found, None), _LOOKED)
    return Section("sequential", "Sequential comparison", told)


_LOOKED = (
    "A comparison that stops once it has seen a difference has seen a large one: estimates of differences "
    "and their intervals in the other sections know nothing of the looks, which the verdicts here count."
)


def repeats(part: Part) -> Section:
    """How well trials came out the same when they were repeated."""
    if not part.trials["repeat"].any():
        return Section("repeats", "")
    figures: list[Drawn] = []
    sentences = again.sameness(part.trials, part.curves)
    spread = reproducibility.seed_spread(part.runs)
    some = part.runs[part.runs["config"].isin(part.highlight)]
    for measure in dict.fromkeys((part.decision.measure, "auc")):
        gaps = reproducibility.group_gaps(some, part.rng, measure)
        sentences += again.five_against_five(gaps, measure)
        if len(gaps):
            what = (
                "Two groups of seeds of the same configuration, drawn at random: "
                f"how far they lie apart by {WORDS[measure]}."
            )
            figures.append(part.drawn(f"gaps-{measure}", figure_of(group_gaps.plot(gaps, measure)), what, ""))
        typical = reproducibility.typical_difference_spread(part.runs, measure)
        needed = reproducibility.seeds_to_see(typical, num_comparisons=max(0, len(part.decision.order) - 1))
        if len(needed):
            alike = "" if len(part.decision.order) > 1 else ", as if the other configuration varied as this one does"
            what = (
                "Seeds that show a difference with a chance of 80%, if its standard deviation over seeds "
                f"is {typical:,.1f}{alike}."
            )
            drawn = seeds_needed.plot(needed, measure, int(spread["num_seeds"].max()))
            figures.append(part.drawn(f"needed-{measure}", figure_of(drawn), what, ""))
    return Section("repeats", "Will it come out the same?", tuple(sentences), tuple(figures))


def learning(part: Part) -> Section:
    """Learning curves."""
    figures = []
    for x, words in (("env_steps", "env steps"), ("wall_s", "seconds since the trial started")):
        bands = convergence.curve_bands(part.curves, part.runs, x=x, axes=part.axes)
        if bands.empty:
            continue
        what = f"Evaluation return over {words}: mean over seeds, with its interval."
        figures.append(part.drawn(f"learning-{x}", _curves(part, bands, x), what, MODERATED, bands["num_seeds"]))
    return Section("learning", "Learning curves", (), tuple(figures))


def _curves(part: Part, bands: pd.DataFrame, x: str) -> Figure:
    target = None if np.isnan(part.target) else part.target
    varied = [a for a in part.axes if part.runs[a].nunique() > 1]
    if not part.picked and len(varied) == 2 and len(part.summary) == len(part.summary[varied].drop_duplicates()):
        series, panel = sorted(varied, key=lambda a: (-part.runs[a].nunique(), part.axes.index(a)))
        if part.runs[panel].nunique() <= 6:
            merged = bands.merge(part.summary[["config", *varied]], on="config")
            return figure_of(learning_curves.panels(merged, panel=panel, series=series, x=x, target=target))  # type: ignore[arg-type]
    highlight = part.highlight if len(part.summary) > 6 else None
    return figure_of(learning_curves.plot(bands, x=x, target=target, highlight=highlight))  # type: ignore[arg-type]


def lr_and_batch(part: Part) -> Section:
    """Scores over the grid, the best learning rate of each batch, and the critical batch."""
    if part.picked:
        return Section("lr-batch", "")
    figures, sentences = [], []
    lr, batch = learning_rate_batch.learning_rate_axis(part.axes), "train_batch_size_total"
    grid = {lr, batch} <= set(part.axes)
    pair = (batch, lr) if grid else tuple(a for a in part.axes if part.runs[a].nunique() > 1)
    if len(pair) == 2 and len(part.summary) == len(part.summary[list(pair)].drop_duplicates()):
        for value, what in (
            ("score", "Score: mean over seeds."),
            (
                "env_steps_to_target",
                "Env steps to target: restricted mean; seeds that never hold it count with the budget.",
            ),
            ("seconds_to_target", "Training seconds to target, likewise."),
        ):
            if part.summary[value].notna().any():
                ax = score_heatmap.plot(
                    part.summary, value, x=pair[0], y=pair[1], packed=part.packed and "seconds" in value
                )
                figures.append(part.drawn(f"heatmap-{value}", figure_of(ax), what, MODERATED))
    if grid:
        for label, runs in learning_rate_batch.slices(part.runs, part.axes, lr):
            where = f"With {label}: " if label else ""
            try:
                found = lr_batch(label, runs, part.rng, part.replays, lr)
            except AnalysisError as error:
                sentences.append(f"{where}{error}")
                continue
            p, tradeoff = found.exponent, found.tradeoff
            sentences += [f"{where}{p.sentence}", f"{where}{tradeoff.sentence}"]
            rejected = [rule for rule, is_rejected in p.rejected.items() if is_rejected]
            what = (
                f"{where}The learning rate with the largest area under the learning curve, "
                "of each batch, and the three rules."
            )
            ax = best_lr.plot(found.best, p if np.isfinite(p.estimate) else None, rejected, lr)
            figures.append(
                part.drawn(
                    f"best-lr{slug(label)}", figure_of(ax), what, "Gaussian process posterior", found.best["num_seeds"]
                )
            )
            if tradeoff.batches["num_reached"].any():
                figures.append(
                    part.drawn(
                        f"tradeoff{slug(label)}", figure_of(_tradeoff(tradeoff)), _TRADEOFF.format(where), MODERATED
                    )
                )
    title = "Learning rate and batch" if grid else " and ".join(pair) if len(pair) == 2 else ""
    return Section("lr-batch", title, tuple(sentences), tuple(figures))


def _tradeoff(found: Tradeoff) -> Axes:
    return batch_tradeoff_plot.plot(
        found.batches,
        found.smin.estimate,
        found.emin.estimate,
        found.critical_batch.estimate,
        found.critical_batch.low,
        found.critical_batch.high,
        no_fit=found.sentence,
    )


def seeds(part: Part) -> Section:
    """Every seed."""
    target = None if np.isnan(part.target) else part.target
    seeds = seed_scatter.plot(part.runs, "score", target, part.summary)
    what = "The score of every seed, behind it the mean with its interval. Seeds without a score stand in the margin."
    figures = [part.drawn("seeds", figure_of(seeds), what, MODERATED)]
    highlight = part.highlight[:3] if len(part.summary) > 3 else None  # with a few seeds the bands are wide
    profile = convergence.score_profile(part.runs)
    if not profile.empty:
        what = "Performance profile: the share of seeds whose score is above a threshold."
        figures.append(part.drawn("profile", figure_of(score_profile.plot(profile, highlight, target)), what, WILSON))
    reached = convergence.target_profile(part.runs)
    if not reached.empty and part.summary["num_reached"].any():
        what = "Sample efficiency: the share of seeds that hold the target by then."
        figures.append(part.drawn("efficiency", figure_of(sample_efficiency.plot(reached, highlight)), what, WILSON))
    return Section("seeds", "Every seed", (wording.tolerance_sentence(part.summary),), tuple(figures))


def comparison(part: Part) -> Section:
    """Configurations in pairs."""
    figures = []
    pairs = convergence.pairwise(part.runs, part.decision.measure)
    best_first = list(part.decision.order[:MOST_IN_MATRIX])
    pairs = pairs[pairs["config_a"].isin(best_first) & pairs["config_b"].isin(best_first)].copy()
    if len(pairs):
        for name in ("config_a", "config_b"):
            pairs[name] = pd.Categorical(pairs[name], categories=best_first, ordered=True)
        by = part.decision.measure
        better = "a higher" if by not in SMALLER_IS_BETTER else "a lower" if by == "cost_to_target" else "fewer"
        measure = f"{better} {WORDS[by]}"
        what = f"The chance that a run of the row's configuration has {measure} than one of the column's; "
        what += "framed: significantly different (Holm, 5%)."
        what += f" The best {MOST_IN_MATRIX}." if len(part.decision.order) > MOST_IN_MATRIX else ""
        figures.append(part.drawn("improvement", figure_of(improvement_matrix.plot(pairs)), what, ""))
    return Section("comparison", "Pairwise comparisons", (), tuple(figures))


def same_learning(part: Part) -> Section:
    """The effect of the number of runners on what is learned."""
    sentences = [
        f"{wording.within(settings)}{found}" for settings, found in wording.same_learning(part.runs, part.axes)
    ]
    return Section("runners", "Do more runners learn the same?", tuple(sentences))
