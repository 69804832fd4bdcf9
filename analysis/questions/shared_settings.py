"""The parts of several studies, and the settings that were run in all of them: the same values, or the same multiples
of what each starts from.

A part is what a study ran in one environment, by one algorithm, with one budget. Pure functions of the studies' frames
and of the settings that these were composed with.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeGuard

import numpy as np
import pandas as pd

from analysis import AnalysisError
from analysis.evidence import counted, is_measured
from analysis.questions.convergence import by_seed
from analysis.questions.labels import listed
from analysis.questions.side_by_side import Settings, flat

MULTIPLES, VALUES = "multiples", "values"
"""Forms of settings: factors of what a part starts from, as far as a study asked for these, or what they are."""
FEWEST = 2
"""Parts, settings that they share, and seeds of each."""

Setting = tuple[str, ...]
"""The values of all axes, as text: settings with the same text are one."""

_APART = ("env", "algorithm", "budget_env_steps")
"""Columns, and paths, by which parts are told apart."""
_OF_FACTORS = "_multiple"
"""Ending of the column of an axis that moves several settings at once."""


@dataclass(frozen=True)
class Source:
    """A study, as far as its settings are compared with those of others.

    Attributes:
        letter: What it is called: A, B, ...
        runs: The trials that are compared.
        axes: Searched column of these to its dotted path, or to the word that moves several settings at once.
        points: Configuration to the values that it was given of these; empty if the study did not record it.
        composed: The study's own settings, nested; empty if the record is missing.
    """

    letter: str
    runs: pd.DataFrame
    axes: Mapping[str, str]
    points: Mapping[str, Settings]
    composed: Settings

    @property
    def space(self) -> Mapping[str, Any]:
        """What it searches, by words and paths."""
        return (self.composed.get("study") or {}).get("space") or {}

    def word(self, path: str) -> str:
        """The axis that moves a setting and no other, whatever an algorithm calls it; its path where there is none."""
        axes = (self.composed.get("algorithm") or {}).get("axes") or {}
        words: dict[str, str] = {f"algorithm.{paths[0]}": word for word, paths in axes.items() if len(paths) == 1}
        return words.get(path, path)

    def multiples(self) -> set[str]:
        """The axes that it was given as multiples."""
        given = [path for path, values in self.space.items() if _are_multiples(values)]
        moved = [path for column, path in self.axes.items() if column.endswith(_OF_FACTORS)]
        return {self.word(path) for path in (*given, *moved)}


@dataclass(frozen=True)
class Axis:
    """An axis that all parts have.

    Attributes:
        word: By which it can be searched: one of `NAMED_AXES`, or a dotted path.
        path: Of the setting in the first study.
        column: Of that study's runs.
        is_relative: Whether some study has it as multiples.
    """

    word: str
    path: str
    column: str
    is_relative: bool


@dataclass(frozen=True)
class Part:
    """What a study ran in one environment, by one algorithm, with one budget.

    Attributes:
        name: What tells it from the others.
        letter: Of its study.
        env: The environment.
        algorithm: The algorithm.
        budget_env_steps: Of a trial.
        scores: A row a configuration with `FEWEST` seeds or more, a column a seed; `scale` becomes 0 and 1.
        scale: The environment's lowest possible return and its target; in place of one that it has not the lowest or
            the highest mean of a configuration.
        settings: Form to setting to configuration. A form that is not known is not there.
    """

    name: str
    letter: str
    env: str
    algorithm: str
    budget_env_steps: int
    scores: pd.DataFrame
    scale: tuple[float, float]
    settings: Mapping[str, Mapping[Setting, str]]

    def named(self, config: str) -> str:
        """A configuration of its, without environment and algorithm, if more is left: `lr=3e-3 b=512`."""
        return " ".join(word for word in config.split() if word not in (self.env, self.algorithm)) or config

    @property
    def num_seeds(self) -> int:
        """The fewest of any configuration."""
        return int(self.scores.notna().sum(axis=1).min())

    @property
    def streams(self) -> list[tuple[str, str, int]]:
        """What the random draws of each seed are: those of another part with the same ones are no others."""
        return [(self.env, self.algorithm, int(seed)) for seed in self.scores.columns]

    def mean(self, config: str) -> float:
        """Mean score of a configuration, as a return."""
        low, high = self.scale
        return low + (high - low) * float(self.scores.loc[config].mean())


def parts_of(sources: Sequence[Source], measure: str) -> tuple[list[Part], list[Axis]]:
    """The parts of all studies, and the axes of their settings.

    Args:
        sources: One or more.
        measure: `score` or `auc`.

    Raises:
        AnalysisError: There is one part alone, one of them has no scores, or they do not have the same axes.
    """
    if measured := [source.letter for source in sources if is_measured(source.runs)]:
        raise AnalysisError(f"{listed(measured)} measured throughput, where there are no scores: leave that out.")
    split = [
        (source, runs)
        for source in sources
        for _, runs in counted(source.runs).groupby([*_APART], sort=False, observed=True)
    ]
    if len(split) < FEWEST:
        which = f"{split[0][1]['algorithm'].iloc[0]} on {split[0][1]['env'].iloc[0]}" if split else "nothing"
        raise AnalysisError(
            f"{which} is all there is. It takes two environments, algorithms or budgets: name another "
            "study that searched the same settings, or one that ran in several environments."
        )
    axes = _common_axes(split)
    return _named([_part(source, runs, measure, axes) for source, runs in split]), axes


def kind_of(parts: Sequence[Part]) -> str:
    """What the parts are: `environment`, `algorithm` or `budget` where they differ in it alone, else `case`."""
    fields = _telling(parts)
    kinds = {"env": "environment", "algorithm": "algorithm", "budget_env_steps": "budget"}
    return kinds.get(fields[0], "case") if len(fields) == 1 else "case"


def shared(parts: Sequence[Part], form: str) -> list[Setting]:
    """The settings that all parts have in a form, in the order of the first; none where one has not that form."""
    first, *others = (part.settings.get(form, {}) for part in parts)
    return [setting for setting in first if all(setting in other for other in others)]


def _common_axes(split: Iterable[tuple[Source, pd.DataFrame]]) -> list[Axis]:
    """The axes that the settings of all parts have.

    Raises:
        AnalysisError: Some have others, or there are none.
    """
    relative: set[str] = set()
    found: list[dict[str, tuple[str, str]]] = []
    for source, runs in split:
        relative |= source.multiples()
        found.append({source.word(path): (path, column) for column, path in _axes(source, runs).items()})
    if odd := {word for some in found for word in some if any(word not in others for others in found)}:
        raise AnalysisError(
            f"{listed(sorted(odd))} was not searched in all of these studies, so that their settings cannot be paired: "
            "search the same axes in each, or leave out the study that differs."
        )
    if not found[0]:
        raise AnalysisError(
            "these studies search no settings, but at most environment, algorithm and budget. "
            "Name studies with a space of settings, such as study=lr_batch."
        )
    return [Axis(word, path, column, word in relative) for word, (path, column) in found[0].items()]


def _axes(source: Source, runs: pd.DataFrame) -> dict[str, str]:
    """Column to path, of the axes that the settings of a part have."""
    return {
        column: path
        for column, path in source.axes.items()
        if path not in _APART and column in runs and runs[column].notna().any()
    }


def _part(source: Source, runs: pd.DataFrame, measure: str, axes: Sequence[Axis]) -> Part:
    """A part, without a name yet.

    Args:
        source: Its study.
        runs: Its trials, those that crashed included.
        measure: A column of these.
        axes: Of all parts.

    Raises:
        AnalysisError: No configuration has two seeds, or all score the same.
    """
    env, algorithm, budget = (runs[column].iloc[0] for column in _APART)
    where = f"{algorithm} on {env} in study {source.letter}"
    scores = by_seed(runs, measure)
    scores = scores[scores.notna().sum(axis=1) >= FEWEST]
    if scores.empty:
        raise AnalysisError(
            f"{where} has no configuration with two finished seeds, and seeds that chose cannot judge: "
            "run it with seeds=[0,1,2] or more, or leave it out."
        )
    scores.index = scores.index.astype(str)
    means = scores.mean(axis=1)
    low, high = float(runs["score_range_low"].iloc[0]), float(runs["target"].iloc[0])
    low = low if np.isfinite(low) else float(means.min())
    high = high if high > low else float(means.max())
    if not high > low:
        raise AnalysisError(f"{where}: all settings score the same, which says nothing of them: leave it out.")
    configs = runs.assign(config=runs["config"].astype(str)).drop_duplicates("config").set_index("config")
    columns = {source.word(path): (column, path) for column, path in _axes(source, runs).items()}
    settings = {}
    for form in (MULTIPLES, VALUES):
        texts = [_texts(source, configs.loc[scores.index], *columns[axis.word], form, axis) for axis in axes]
        known = [of_axis for of_axis in texts if of_axis is not None]
        if len(known) == len(axes):
            settings[form] = dict(zip(zip(*known, strict=True), scores.index, strict=True))
    return Part(
        "", source.letter, str(env), str(algorithm), int(budget), (scores - low) / (high - low), (low, high), settings
    )


def _texts(source: Source, configs: pd.DataFrame, column: str, path: str, form: str, axis: Axis) -> list[str] | None:
    """The values of an axis in a form, a text for each configuration of a part; None where they are not known.

    Args:
        source: The part's study.
        configs: A row a configuration.
        column: Of the axis.
        path: Of the setting there.
        form: `VALUES` or `MULTIPLES`.
        axis: As all parts have it.
    """
    values, holds_factors = configs[column], column.endswith(_OF_FACTORS)
    if form == VALUES and holds_factors:
        return None
    if form == VALUES or holds_factors or not axis.is_relative:
        return [_text(value) for value in values]
    given = source.space.get(axis.word, source.space.get(path))
    factors = sorted(given.get("factors") or ()) if _are_multiples(given) else []
    levels = sorted(values.dropna().unique())
    if len(factors) == len(levels) and values.notna().all():  # whatever it starts from, and however that was rounded
        of_level = dict(zip(levels, map(_text, factors), strict=True))
        return [of_level[value] for value in values]
    base = _base(source, path, given, configs)
    points = [source.points.get(str(config), {}).get(path) for config in configs.index]
    numbers = [float(point) for point in points if _is_number(point)]
    return None if base is None or len(numbers) < len(points) else [f"{number / base:.6g}" for number in numbers]


def _base(source: Source, path: str, given: Any, configs: pd.DataFrame) -> float | None:
    """What a part starts from at a path; None where that was not recorded: of several environments or algorithms, a
    study was composed for one.
    """
    own = given.get("base") if _are_multiples(given) else None
    if _is_number(own):
        return float(own)
    composed = [(source.composed.get(group) or {}).get("name") for group in ("env", "algorithm")]
    base = flat(source.composed).get(path)
    is_of_part = composed == [configs[group].iloc[0] for group in ("env", "algorithm")]
    return float(base) if is_of_part and _is_number(base) and base > 0 else None


def _are_multiples(values: Any) -> bool:
    return isinstance(values, Mapping) and values.get("distribution") == "multiples"


def _is_number(value: Any) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _text(value: Any) -> str:
    is_number = isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)
    return f"{value:.12g}" if is_number else str(value)


def _telling(parts: Sequence[Part]) -> list[str]:
    """The fields by which parts differ: environment and algorithm; budget and study where these are not enough."""

    def number(fields: Sequence[str]) -> int:
        return len({tuple(getattr(part, field) for field in fields) for part in parts})

    fields = [field for field in ("env", "algorithm") if number([field]) > 1]
    for field in ("budget_env_steps", "letter"):
        if number(fields) < len(parts) and number([field]) > 1:
            fields.append(field)
    return fields


def _named(parts: Sequence[Part]) -> list[Part]:
    """The same by their names."""
    fields = _telling(parts)

    def name(part: Part) -> str:
        texts = {"budget_env_steps": f"{part.budget_env_steps:,} env steps"}
        return ", ".join(texts.get(field, str(getattr(part, field))) for field in fields)

    return [replace(part, name=name(part)) for part in parts]
