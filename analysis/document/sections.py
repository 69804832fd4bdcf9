"""The figures of a study, section by section, with captions: what the report shows and the notebooks draw from."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from analysis import AnalysisError
from analysis.document.answer import closing_table
from analysis.document.wording import WORDS
from analysis.load import Study
from analysis.plots import (
    batch_tradeoff,
    best_lr,
    group_gaps,
    improvement_matrix,
    learning_curves,
    pareto,
    sample_efficiency,
    scaling_curve,
    scaling_efficiency,
    score_heatmap,
    score_profile,
    search_confirmed,
    search_progress,
    seed_scatter,
    seeds_needed,
    staleness,
    style,
    throughput_bars,
    time_breakdown,
)
from analysis.plots import lineage as family
from analysis.questions import (
    convergence,
    diagnosis,
    learning_rate_batch,
    lineage,
    lr_rules,
    repeats,
    reproducibility,
    runners,
    scaling_laws,
    throughput,
)
from analysis.questions import search as search_results
from analysis.questions.decision import Decision, decide

T_INTERVAL = "t, variances moderated over configurations"
WILSON = "Wilson"
MOST_IN_MATRIX = 20
"""Configurations of a matrix that can still be read."""


@dataclass(frozen=True)
class Drawn:
    """One figure.

    Attributes:
        key: For file names and links.
        figure: The figure, without caption.
        caption: What it shows, and what it rests on.
    """

    key: str
    figure: Figure
    caption: str


@dataclass(frozen=True)
class Section:
    """One subject of a report.

    Attributes:
        key: For links.
        title: Its heading.
        sentences: What was found, Markdown.
        figures: In their order.
    """

    key: str
    title: str
    sentences: tuple[str, ...] = ()
    figures: tuple[Drawn, ...] = ()


def by_env(study: Study, rng: np.random.Generator) -> dict[str, list[Section]]:
    """The sections of each environment of a study.

    Args:
        study: Finished or not.
        rng: For what is drawn at random.
    """
    parts = {
        str(env): part.assign(config=part["config"].cat.remove_unused_categories())
        for env, part in study.runs.groupby("env", observed=True, sort=False)
    }
    return {env: sections(study, part, rng) for env, part in parts.items()}


def across(runs: pd.DataFrame, axes: Sequence[str], rng: np.random.Generator) -> Section:
    """What settings come to over several environments; without a sentence where there is one environment.

    Args:
        runs: As `analysis.load` gives them.
        axes: The searched columns of `runs`.
        rng: For the bootstrap.
    """
    found = convergence.over_environments(runs, axes, rng)
    words = {"iqm": "interquartile mean", "mean": "mean", "median": "median", "optimality_gap": "optimality gap"}
    sentences = []
    for row in found.to_dict("records"):
        numbers = [f"{w} {row[m]:.2f} [{row[f'{m}_low']:.2f}, {row[f'{m}_high']:.2f}]" for m, w in words.items()]
        sentences.append(
            f"`{row['setting']}`: {', '.join(numbers)}; {row['num_envs']} environments, {row['num_seeds']} seeds each or more."
        )
    if sentences:
        sentences.insert(0, "Scores from 0, the lowest possible return, to 1, the target; 95% intervals: stratified bootstrap over seeds.")
    return Section("environments", "Over all environments", tuple(sentences))


def sections(study: Study, runs: pd.DataFrame, rng: np.random.Generator) -> list[Section]:
    """All figures of one environment of a study.

    Args:
        study: Finished or not.
        runs: Its trials on the environment.
        rng: For what is drawn at random.

    Returns:
        The sections that have something to show. Those of a search come first; all others rest on the trials that confirm what it found.
        Where a fixed design was confirmed, what compares its settings rests on its own trials.
    """
    first = [_search(study, runs)] if runs["exploratory"].any() else []
    first += [_lineage(study, runs)] if lineage.is_population(runs) else []
    design, runs = convergence.design(runs), convergence.concluding(runs)
    if not (convergence.replicates(runs)["status"] == "finished").any():
        return first
    drawn = _Figures(study, runs, rng)
    of_design = drawn if len(design) == len(runs) or design.empty else _Figures(study, design, rng)
    if convergence.is_measured(runs):
        found = [drawn.scaling(), drawn.speed(), drawn.bottlenecks(), drawn.health()]
    else:
        found = [
            drawn.repeats(),
            of_design.lr_rules(),
            drawn.learning(),
            of_design.lr_and_batch(),
            drawn.seeds(),
            drawn.comparison(),
            drawn.speed(),
        ]
        found += [drawn.same_learning(), drawn.bottlenecks(), drawn.health()]
    return [*first, *(section for section in found if section.figures or section.sentences)]


def _search(study: Study, runs: pd.DataFrame) -> Section:
    """What a search found on an environment."""
    sentences = search_results.sentences(runs, study.curves, study.base, study.objectives)
    return Section("search", "What the search found", tuple(sentences), tuple(_search_figures(study, runs)))


def _search_figures(study: Study, runs: pd.DataFrame) -> list[Drawn]:
    progress, confirmed = search_results.progress(runs, study.curves), search_results.winners_curse(runs, study.base)
    target = float(runs["target"].iloc[0])
    ax = search_progress.plot(progress, confirmed, None if np.isnan(target) else target)
    members = lineage.is_population(runs)
    seeds = runs[runs["exploratory"].astype(bool)].groupby("config", observed=True)["seed"].nunique()
    known = confirmed.loc[confirmed["num_seeds"] > 0, "num_seeds"]
    each = "a generation of a member each" if members else f"{search_results.how_many(seeds, 'seed')} per configuration"
    what = f"What the trials of the search came to ({each}), against the env steps spent by then"
    if known.empty:
        return [Drawn("search-progress", _figure(ax), f"{what}. {style.caption(study.name, seeds, '')}")]
    caption = style.caption(study.name, known, T_INTERVAL)
    curse = "The winner's curse: mean score in the search, over the seeds that finished there, against mean score on held-out seeds."
    if members:
        curse = (
            "Mean score of the members that ended with a configuration, whose weights may have gone through others, against mean score "
            "from scratch with this configuration alone, on held-out seeds."
        )
    return [
        Drawn("search-progress", _figure(ax), f"{what}; at the right, what was confirmed on held-out seeds. {caption}"),
        Drawn("search-confirmed", _figure(search_confirmed.plot(confirmed)), f"{curse} {caption}"),
    ]


def _lineage(study: Study, runs: pd.DataFrame) -> Section:
    """How the members of a population came to what they are."""
    tree = lineage.lineage(runs)
    caption = f"What each member came to, generation by generation. Study {study.name}; a seed per member; no intervals."
    drawn = Drawn("lineage", _figure(family.plot(tree)), caption)
    return Section("lineage", "Who was copied from whom", tuple(lineage.sentences(tree)), (drawn,))


class _Figures:
    def __init__(self, study: Study, runs: pd.DataFrame, rng: np.random.Generator) -> None:
        self.trials, self.runs = runs, convergence.replicates(runs)
        self.study, self.curves, self.axes, self.rng = study.name, study.curves, [a for a in study.axes if a in runs], rng
        self.table = closing_table(runs, self.axes)
        self.summary = self.table.sort_values("config", ignore_index=True)
        self.decision: Decision = decide(runs)[0]
        self.target = float(runs["target"].iloc[0])
        self.packed = not bool(runs["exclusive"].all())
        self.picked = bool((runs["phase"] == "confirm").all())
        """Whether a search picked the few configurations, which are no grid."""
        self.replays = any(study.facts.get(config, {}).get("replays", False) for config in runs["config"].unique())
        self.diagnosed = diagnosis.of_study(runs, study.curves, study.facts)
        self.highlight = list(self.table["config"].astype(str))[:6]

    def repeats(self) -> Section:
        if not self.trials["repeat"].any():
            return Section("repeats", "")
        figures: list[Drawn] = []
        sentences = repeats.sameness(self.trials, self.curves)
        spread = reproducibility.seed_spread(self.runs)
        some = self.runs[self.runs["config"].isin(self.highlight)]
        for measure in dict.fromkeys((self.decision.measure, "auc")):
            gaps = reproducibility.group_gaps(some, self.rng, measure)
            sentences += repeats.five_against_five(gaps, measure)
            if len(gaps):
                what = f"Two groups of seeds of the same configuration, drawn at random: how far they lie apart by {WORDS[measure]}."
                figures.append(self._drawn(f"gaps-{measure}", _figure(group_gaps.plot(gaps, measure)), what, ""))
            typical = reproducibility.typical_difference_spread(self.runs, measure)
            needed = reproducibility.seeds_to_see(typical, num_comparisons=len(self.decision.order) - 1)
            if len(needed):
                alike = "" if len(self.decision.order) > 1 else ", as if the other configuration varied as this one does"
                what = f"Seeds that show a difference with a chance of 80%, if its standard deviation over seeds is {typical:,.1f}{alike}."
                drawn = seeds_needed.plot(needed, measure, int(spread["num_seeds"].max()))
                figures.append(self._drawn(f"needed-{measure}", _figure(drawn), what, ""))
        return Section("repeats", "Will it come out the same?", tuple(sentences), tuple(figures))

    def learning(self) -> Section:
        figures = []
        for x, words in (("env_steps", "env steps"), ("wall_s", "seconds since the trial started")):
            bands = convergence.curve_bands(self.curves, self.runs, x=x)
            if bands.empty:
                continue
            what = f"Evaluation return over {words}: interquartile mean over seeds, with its interval."
            figures.append(self._drawn(f"learning-{x}", self._curves(bands, x), what, T_INTERVAL, bands["num_seeds"]))
        return Section("learning", "Learning curves", (), tuple(figures))

    def _curves(self, bands: pd.DataFrame, x: str) -> Figure:
        target = None if np.isnan(self.target) else self.target
        varied = [a for a in self.axes if self.runs[a].nunique() > 1]
        if not self.picked and len(varied) == 2 and len(self.summary) == len(self.summary[varied].drop_duplicates()):
            series, panel = sorted(varied, key=lambda a: (-self.runs[a].nunique(), self.axes.index(a)))
            if self.runs[panel].nunique() <= 6:
                merged = bands.merge(self.summary[["config", *varied]], on="config")
                return _figure(learning_curves.panels(merged, panel=panel, series=series, x=x, target=target))  # type: ignore[arg-type]
        highlight = self.highlight if len(self.summary) > 6 else None
        return _figure(learning_curves.plot(bands, x=x, target=target, highlight=highlight))  # type: ignore[arg-type]

    def lr_and_batch(self) -> Section:
        if self.picked:
            return Section("lr-batch", "")
        figures, sentences = [], []
        lr, batch = "lr", "train_batch_size_total"
        grid = {lr, batch} <= set(self.axes)
        pair = (batch, lr) if grid else tuple(a for a in self.axes if self.runs[a].nunique() > 1)
        if len(pair) == 2 and len(self.summary) == len(self.summary[list(pair)].drop_duplicates()):
            for value, what in (
                ("score", "Score: interquartile mean over seeds."),
                ("env_steps_to_target", "Env steps to target: restricted mean; seeds that never hold it count with the budget."),
                ("seconds_to_target", "Training seconds to target, likewise."),
            ):
                if self.summary[value].notna().any():
                    ax = score_heatmap.plot(self.summary, value, x=pair[0], y=pair[1], packed=self.packed and "seconds" in value)
                    figures.append(self._drawn(f"heatmap-{value}", _figure(ax), what, T_INTERVAL))
        if grid:
            for label, part in learning_rate_batch.slices(self.runs, self.axes, lr, batch):
                within = f"With {label}: " if label else ""
                try:
                    found, p = learning_rate_batch.best_learning_rates(part, self.rng), learning_rate_batch.exponent(part)
                    tradeoff = learning_rate_batch.batch_tradeoff(part, self.rng, self.replays)
                except AnalysisError as error:
                    sentences.append(f"{within}{error}")
                    continue
                sentences += [f"{within}{p.sentence}", f"{within}{tradeoff.sentence}"]
                rejected = [rule for rule, is_rejected in p.rejected.items() if is_rejected]
                what = f"{within}The best learning rate of each batch by area under the learning curve, and the three rules."
                ax = best_lr.plot(found, p if np.isfinite(p.estimate) else None, rejected)
                figures.append(self._drawn(f"best-lr{_slug(label)}", _figure(ax), what, "Gaussian process posterior", found["num_seeds"]))
                if tradeoff.batches["num_reached"].any():
                    figures.append(
                        self._drawn(f"tradeoff{_slug(label)}", _figure(_tradeoff(tradeoff)), _TRADEOFF.format(within), T_INTERVAL)
                    )
        title = "Learning rate and batch" if grid else " and ".join(pair) if len(pair) == 2 else ""
        return Section("lr-batch", title, tuple(sentences), tuple(figures))

    def lr_rules(self) -> Section:
        sentences = tuple(found.sentence for found in lr_rules.compare_rules(self.runs, self.axes))
        return Section("lr-rules", "Which rule for the learning rate?", sentences)

    def seeds(self) -> Section:
        target = None if np.isnan(self.target) else self.target
        seeds = seed_scatter.plot(self.runs, "score", target, self.summary)
        what = "The score of every seed, behind it the interquartile mean with its interval. Seeds without a score stand in the margin."
        figures = [self._drawn("seeds", _figure(seeds), what, T_INTERVAL)]
        highlight = self.highlight[:3] if len(self.summary) > 3 else None  # with a few seeds the bands are wide
        profile = convergence.score_profile(self.runs)
        if not profile.empty:
            what = "Performance profile: the share of seeds whose score is above a threshold."
            figures.append(self._drawn("profile", _figure(score_profile.plot(profile, highlight, target)), what, WILSON))
        reached = convergence.target_profile(self.runs)
        if not reached.empty and self.summary["num_reached"].any():
            what = "Sample efficiency: the share of seeds that hold the target by then."
            figures.append(self._drawn("efficiency", _figure(sample_efficiency.plot(reached, highlight)), what, WILSON))
        return Section("seeds", "Every seed", (), tuple(figures))

    def comparison(self) -> Section:
        figures = []
        pairs = convergence.pairwise(self.runs, self.decision.measure)
        best_first = list(self.decision.order[:MOST_IN_MATRIX])
        pairs = pairs[pairs["config_a"].isin(best_first) & pairs["config_b"].isin(best_first)].copy()
        if len(pairs):
            for name in ("config_a", "config_b"):
                pairs[name] = pd.Categorical(pairs[name], categories=best_first, ordered=True)
            measure = {"score": "a higher score", "env_steps_to_target": "fewer env steps to target"}[self.decision.measure]
            what = (
                f"The chance that a run of the row's configuration has {measure} than one of the column's; framed: told apart (Holm, 5%)."
            )
            what += f" The best {MOST_IN_MATRIX}." if len(self.decision.order) > MOST_IN_MATRIX else ""
            figures.append(self._drawn("improvement", _figure(improvement_matrix.plot(pairs)), what, ""))
        return Section("comparison", "Who beats whom", (), tuple(figures))

    def speed(self) -> Section:
        try:
            throughput.check_comparable(self.runs)
        except AnalysisError as error:
            return Section("speed", "Speed", (f"{error}",))
        beside = " Trials shared the machine." if self.packed else ""
        finished = self.summary[self.summary["num_seeds"] > 0]
        what = f"Env steps per second of training, warm-up left out: geometric mean over seeds.{beside}"
        figures = [self._drawn("throughput", _figure(throughput_bars.plot(finished)), what, T_INTERVAL)]
        stale = throughput.staleness(self.curves, self.runs)
        if stale["staleness_updates"].max() > 1:  # a synchronous algorithm alone is always an update behind
            what = f"Throughput against the updates that lie between the policy that sampled and the one that learns.{beside}"
            ax = staleness.plot(stale, limit_updates=diagnosis.STALE, packed=self.packed)
            figures.append(self._drawn("staleness", _figure(ax), what, T_INTERVAL, stale["num_seeds"]))
        costs = throughput.pareto(self.summary)
        if not costs.empty:
            what = f"Env steps against training seconds to target; nothing is better than the front in both.{beside}"
            figures.append(self._drawn("pareto", _figure(pareto.plot(costs, self.packed)), what, T_INTERVAL))
        return Section("speed", "Speed", (), tuple(figures))

    def scaling(self) -> Section:
        axis = throughput.scaling_axis(self.runs, self.axes)
        figures, sentences = self._grid(), []
        counts, curves, marks, held = [], [], [], []
        others = [a for a in self.axes if a != axis]
        for label, points in (throughput.scaling_points(self.runs, axis, others) if axis else {}).items():
            within = f"With {label}: " if label else ""
            try:
                fit = scaling_laws.fit(points, self.rng, axis or "")
            except AnalysisError as error:
                sentences.append(f"{within}{error}.")
                continue
            configs = dict(zip(points["num"], points["config"].astype(str), strict=True))
            limits = diagnosis.limits_sentence(self.diagnosed, configs, scaling_laws.units_of(axis or "")[1])
            sentences.append(f"{within}{fit.sentence} {limits}".rstrip())
            named = {"series": label}
            counts.append(fit.counts.assign(**named))
            curves.append(fit.predict(np.geomspace(1, _BEYOND * points["num"].max(), 60)).assign(**named))
            marks.append(_marks(fit).assign(**named))
            if points["num"].nunique() > scaling_laws.FEWEST_COUNTS:
                left_out = scaling_laws.hold_out(points, self.rng, axis or "")
                sentences.append(f"{within}{left_out.sentence}")
                row = {
                    "num": left_out.num,
                    "env_steps_per_s": left_out.env_steps_per_s,
                    "low": left_out.low,
                    "high": left_out.high,
                    **named,
                }
                held.append(pd.DataFrame([row]))
        if counts and axis:
            series = "series" if len(counts) > 1 else None
            measured, fitted, places = (pd.concat(frames, ignore_index=True) for frames in (counts, curves, marks))
            left_out_counts = pd.concat(held, ignore_index=True) if held else None
            what = (
                "Throughput against the count, with the fitted laws (Amdahl's and the Universal Scalability Law, weighted by the data) and "
                "linear scaling from the first count. Hollow: the largest count as predicted from the others, with its 95% prediction "
                "interval."
            )
            ax = scaling_curve.plot(measured, fitted, places, left_out_counts, series, axis, self.packed)
            figures.append(self._drawn("scaling", _figure(ax), what, T_INTERVAL, measured["num_seeds"]))
            what = "What each gives, as a share of what one alone gives, by the fit."
            ax = scaling_efficiency.plot(measured, series, axis, self.packed)
            figures.append(self._drawn("scaling-efficiency", _figure(ax), what, "posterior of the fit", measured["num_seeds"]))
        return Section("scaling", "How it scales", tuple(sentences), tuple(figures))

    def _grid(self) -> list[Drawn]:
        """Throughput over the two searched axes, if there are two."""
        pair = [a for a in self.axes if self.runs[a].nunique() > 1]
        if len(pair) != 2 or len(self.summary) > len(self.summary[pair].drop_duplicates()):
            return []
        ax = score_heatmap.plot(self.summary, "env_steps_per_s", x=pair[0], y=pair[1], packed=self.packed)
        return [self._drawn("heatmap-throughput", _figure(ax), "Env steps per second: geometric mean over seeds.", T_INTERVAL)]

    def same_learning(self) -> Section:
        return Section("runners", "Do more runners learn the same?", tuple(runners.same_learning(self.runs, self.axes)))

    def bottlenecks(self) -> Section:
        figures = []
        shares = throughput.time_shares(self.curves, self.runs)
        if not shares.empty:
            what = f"Where the time goes: mean over seeds.{' Trials shared the machine.' if self.packed else ''}"
            figures.append(self._drawn("time", _figure(time_breakdown.plot(shares, self.packed)), what, "", shares["num_seeds"]))
        sentences = diagnosis.bottleneck_sentences(self.diagnosed) if len(self.diagnosed) else []
        return Section("bottlenecks", "Where the time goes", tuple(sentences), tuple(figures))

    def health(self) -> Section:
        sentences = diagnosis.health_sentences(self.diagnosed) if len(self.diagnosed) else []
        return Section("health", "Health of the runs", tuple(sentences))

    def _drawn(self, key: str, figure: Figure, what: str, interval: str, num_seeds: pd.Series | None = None) -> Drawn:
        counts = self.summary["num_seeds"] if num_seeds is None else num_seeds
        return Drawn(key, figure, f"{what} {style.caption(self.study, counts, interval)}")


_BEYOND = 2
"""Times the largest count, up to which a fit is drawn."""


def _marks(fit: scaling_laws.ScalingFit) -> pd.DataFrame:
    """Where the curve's knee and peak are."""
    places = []
    for kind in ("knee", "peak"):
        num, low, high = (getattr(fit, f"{kind}{end}") for end in ("", "_low", "_high"))
        speed = float(fit.predict([num])["env_steps_per_s"].iloc[0]) if np.isfinite(num) else np.nan
        places.append({"kind": kind, "num": num, "num_low": low, "num_high": high, "env_steps_per_s": speed})
    return pd.DataFrame(places)


_TRADEOFF = (
    "{}Env steps against updates to target, a point a batch at its best learning rate (McCandlish et al. 2018); "
    "an update is a training batch."
)


def _tradeoff(found: learning_rate_batch.Tradeoff) -> Axes:
    return batch_tradeoff.plot(
        found.batches,
        found.smin,
        found.emin,
        found.critical_batch,
        found.critical_batch_low,
        found.critical_batch_high,
        no_fit=found.sentence,
    )


def _figure(axes: Axes | Sequence[Axes]) -> Figure:
    """The figure of axes."""
    first = axes if isinstance(axes, Axes) else axes[0]
    figure = first.figure
    assert isinstance(figure, Figure)
    return figure


def _slug(label: str) -> str:
    return "".join(f"-{word}" for word in re.findall(r"[^\W_]+", label))
