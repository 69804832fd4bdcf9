"""Which settings carry over from one environment, budget or algorithm to another, and what it costs to rely on that.

Pure functions of the parts of studies (`shared_settings`): what each ran in one environment, by one algorithm, with one
budget.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from analysis import AnalysisError
from analysis.questions.labels import listed
from analysis.questions.shared_settings import (
    FEWEST,
    MULTIPLES,
    VALUES,
    Axis,
    Part,
    Setting,
    Source,
    kind_of,
    parts_of,
    shared,
)
from analysis.stats.aggregates import known_means
from analysis.stats.interval import Array, Interval, mean_interval
from analysis.stats.rank_correlation import RankCorrelations, rank_correlations
from analysis.stats.regret import Regret, regret

FEWEST_FOR_AN_INTERVAL = 3
"""Parts: of two values Student's t is thirteen standard errors wide either way."""


@dataclass(frozen=True)
class LeftOut:
    """A part that is left out while the others choose its setting.

    Attributes:
        part: Which.
        chosen: The setting that the others choose, by all their seeds.
        regret: What such a choice costs, in normalised scores.
    """

    part: Part
    chosen: Setting
    regret: Regret


@dataclass(frozen=True)
class Carried:
    """How settings carry over, paired in one form.

    Attributes:
        form: `VALUES` or `MULTIPLES`.
        axes: Of the settings.
        settings: That were run in all parts.
        num_seeds: The fewest of any of these.
        correlations: Of their scores between parts, by place.
        left_out: Each part in turn.
        first: The setting that is best over all parts, by mean normalised score.
        regret: Mean of the parts' regrets; this interval, as the next ones, is over parts, and NaN of two of them.
        by_axis: Axis to the mean regret of its value alone; empty unless two axes have several values.
        at_random: Mean regret of a setting that is picked at random.
    """

    form: str
    axes: tuple[Axis, ...]
    settings: tuple[Setting, ...]
    num_seeds: int
    correlations: RankCorrelations
    left_out: tuple[LeftOut, ...]
    first: Setting
    regret: Interval
    by_axis: Mapping[Axis, Interval]
    at_random: Interval

    def has_factors(self, axis: Axis) -> bool:
        """True if the values of an axis are factors."""
        return self.form == MULTIPLES and axis.is_relative

    def name(self, axis: Axis) -> str:
        """An axis as it is shown."""
        return axis.word if self.has_factors(axis) else axis.column

    def label(self, setting: Setting) -> str:
        """A setting as it is shown: the name that all parts have for it, but for environment and algorithm, `lr=3e-3
        b=512`; where they differ, `lr=0.003 gamma=0.99`, or of factors, `learning_rate=x1 gamma=0.99`.
        """
        names = {one.part.named(one.part.settings[self.form][setting]) for one in self.left_out}
        if len(names) == 1 and not any(map(self.has_factors, self.axes)):
            return names.pop()
        return " ".join(
            f"{self.name(axis)}={'x' if self.has_factors(axis) else ''}{value}"
            for axis, value in zip(self.axes, setting, strict=True)
        )


@dataclass(frozen=True)
class Transfer:
    """How settings carry over between the parts of studies.

    Attributes:
        kind: What the parts are, as `shared_settings.kind_of` says it.
        parts: Two or more.
        best: In the form in which they share most settings; in multiples, where they share as many in both.
        other: In the other form, where that pairs other settings.
        is_one: Whether both forms pair the same.
        difference: Mean over parts of the regret in the other form minus that in the first, likewise.
    """

    kind: str
    parts: tuple[Part, ...]
    best: Carried
    other: Carried | None
    is_one: bool
    difference: Interval

    @property
    def same_streams(self) -> list[tuple[Part, Part]]:
        """Parts that are not independent: the same algorithm in the same environment, with a seed in common."""
        return [(a, b) for i, a in enumerate(self.parts) for b in self.parts[i + 1 :] if {*a.streams} & {*b.streams}]


def transfer(sources: Sequence[Source], measure: str, rng: np.random.Generator) -> Transfer:
    """How settings carry over between all parts of all studies.

    Args:
        sources: One or more.
        measure: `score` or `auc`.
        rng: For draws and splits.

    Raises:
        AnalysisError: There is one part alone, one of them has no scores, or they have not the same axes, or fewer than
            two settings in common; names the fix.
    """
    parts, axes = parts_of(sources, measure)
    forms = (MULTIPLES, VALUES) if any(axis.is_relative for axis in axes) else (VALUES,)
    settings = {form: shared(parts, form) for form in forms}
    enough = {form: some for form, some in settings.items() if len(some) >= FEWEST}
    if not enough:
        counts = listed([f"{len(some)} as {form}" for form, some in settings.items()])
        raise AnalysisError(
            f"{listed([part.name for part in parts])} share too few settings with two finished seeds: {counts}, and it "
            f"takes {FEWEST}. Search the same values of {listed([axis.column for axis in axes])} in each, or the same "
            "multiples of learning_rate and batch_size; or leave out the study that differs."
        )
    pairs = {frozenset(tuple(p.settings[form][s] for p in parts) for s in some) for form, some in enough.items()}
    is_one = len(enough) == len(forms) > len(pairs)
    best, *others = sorted(enough, key=lambda form: -len(enough[form]))
    first = _carried(parts, axes, best, enough[best], rng)
    other = None if is_one or not others else _carried(parts, axes, others[0], enough[others[0]], rng)
    apart = [] if other is None else [b - a for a, b in zip(_regrets(first), _regrets(other), strict=True)]
    return Transfer(kind_of(parts), tuple(parts), first, other, is_one, _over_parts(apart))


def _carried(
    parts: Sequence[Part], axes: Sequence[Axis], form: str, settings: Sequence[Setting], rng: np.random.Generator
) -> Carried:
    """How settings carry over, paired in one form.

    Args:
        parts: Two or more.
        axes: Of all settings.
        form: Of the pairs.
        settings: That all parts have.
        rng: For draws and splits.
    """
    own = [setting for part in parts for setting in part.settings[form]]
    whole = list(dict.fromkeys([*settings, *own]))
    streams = list(dict.fromkeys(stream for part in parts for stream in part.streams))
    scores = np.full((len(parts), len(whole), len(streams)), np.nan)
    for i, part in enumerate(parts):
        configs = [part.settings[form].get(setting, "") for setting in whole]
        scores[i][:, [streams.index(stream) for stream in part.streams]] = part.scores.reindex(configs)
    common = scores[:, : len(settings)]
    means = known_means(common)
    levels = np.stack([np.unique([s[i] for s in whole], return_inverse=True)[1] for i in range(len(axes))], axis=1)
    left_out = tuple(
        LeftOut(part, settings[_best(np.delete(means, i, axis=0))], regret(scores, i, levels, rng))
        for i, part in enumerate(parts)
    )
    several = [i for i in range(len(axes)) if len({setting[i] for setting in settings}) > 1]
    by_axis = {axes[i]: _over_parts([one.regret.by_axis[i].estimate for one in left_out]) for i in several}
    return Carried(
        form,
        tuple(axes),
        tuple(settings),
        num_seeds=int(np.isfinite(common).sum(axis=2).min()),
        correlations=rank_correlations(_packed(common), rng),
        left_out=left_out,
        first=settings[_best(means)],
        regret=_over_parts([one.regret.whole.estimate for one in left_out]),
        by_axis=by_axis if len(several) > 1 else {},
        at_random=_over_parts([one.regret.at_random.estimate for one in left_out]),
    )


def _best(means: Array) -> int:
    """The setting with the best mean over parts, (num_parts, num_settings)."""
    return int(means.mean(axis=0).argmax())


def _packed(scores: Array) -> Array:
    """The same with NaN behind the last seed of each, and no column of NaN alone."""
    packed = np.take_along_axis(scores, np.argsort(np.isnan(scores), axis=-1, kind="stable"), axis=-1)
    return packed[..., np.isfinite(packed).any(axis=(0, 1))]


def _regrets(carried: Carried) -> list[float]:
    return [one.regret.whole.estimate for one in carried.left_out]


def _over_parts(values: Sequence[float]) -> Interval:
    """A mean over parts; of two of them without an interval, which would say nothing."""
    known = [value for value in values if np.isfinite(value)]
    if len(known) < FEWEST_FOR_AN_INTERVAL:
        return Interval(float(np.mean(known)) if known else np.nan, np.nan, np.nan)
    return mean_interval(known)
