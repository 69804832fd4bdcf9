"""`search.from`: what a search takes from earlier studies, found in its own space."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from experiments.config.earlier import AUTO, earlier_of
from experiments.config.errors import ConfigurationError
from experiments.config.fields import is_number
from experiments.config.named_axes import settings_of
from experiments.config.space import Axis, Choice, Point, Uniform, is_there, parse_space, value_at
from experiments.config.trial_config import LAYOUT
from experiments.contract import NAMED_AXES
from experiments.contract.words import labelled, plural, some
from experiments.planning.plan import Plan
from experiments.search.prior import FEWEST, OTHERS, EarlierStudy, Prior, places_of
from experiments.search.strategy import Outcome, key_of

Findings = Mapping[str, Any]
"""What a study found in one environment by one algorithm, as the analysis gives it: `name`, `run`, `env`, `algorithm`;
and `trials`, each with its `point`, dotted path to value, its `seed`, and its `outcome` (`Outcome`)."""

_MOST_STUDIES = 3
"""Earlier studies that a line names."""
_TOLD_APART = ("env", "algorithm", "hardware", *LAYOUT)
"""Searched there, and no part of a point here: trials are taken by environment and algorithm, and hardware changes
little of what is learned."""
_ABSENT = object()


def with_prior(plan: Plan, found: Sequence[Findings]) -> Plan:
    """The plan of a search that starts from what earlier studies found.

    Args:
        plan: The plan of the search.
        found: What they found; one or more of each study that was named.

    Returns:
        The plan, with a prior that it records (`SearchDesign.prior`); without one, if the suite was to find studies by
        itself, and none ran settings of this space.

    Raises:
        ConfigurationError: A study that was named ran too few settings of this space; names the fix.
    """
    design = plan.search
    assert design is not None
    points: dict[str, Point] = {}
    taken: list[tuple[Findings, Mapping[str, float]]] = []
    for study in found:
        own, places = _ranked(plan, study)
        if len(places) >= FEWEST and len({*places.values()}) > 1:
            points |= own
            taken.append((study, places))
    if AUTO not in earlier_of(plan.suite):
        runs = {study["run"] for study, _ in taken}
        if lacking := [study for study in found if study["run"] not in runs]:
            raise ConfigurationError(_too_few(plan, lacking))
    if not taken:
        return plan
    studies = [
        EarlierStudy(study["name"], study["run"], tuple(places.get(key) for key in points), _seeds_here(plan, study))
        for study, places in taken
    ]
    return replace(plan, search=replace(design, prior=Prior(tuple(points.values()), tuple(studies))))


def prior_line(plan: Plan) -> str:
    """What a search starts from, and what becomes of it."""
    prior = None if plan.search is None else plan.search.prior
    if prior is None:
        return labelled(
            "warm start",
            f"from nothing: no study of {plan.algorithms} in this store ran {FEWEST} settings of this space to the end",
        )
    named = some([f"{study.name} ({study.run})" for study in prior.studies], _MOST_STUDIES)
    number, best = len(prior.points), prior.points[prior.order()[0]]
    holds = (
        "Optuna is told of all of them"
        if getattr(plan.suite.search, "proposals", "optuna") == "optuna"
        else "the others of them are not run"
    )
    return labelled(
        "warm start",
        f"{plural(number, 'setting')} of this space ran in {named}, best there: {_shown(best)}. The first trials run "
        f"the best of them and {OTHERS} others. If their order holds here, {holds}; else the search goes on as without "
        f"them{_same_seeds(plan, prior)}{_centre(plan, best)}",
    )


def point_in(axes: Mapping[str, Axis], composed: Mapping[str, Any], shown: Mapping[str, Any]) -> Point | None:
    """A configuration of another study as a point of this one's space; None if it is not in it.

    Args:
        axes: Of the space.
        composed: The study's own settings.
        shown: Dotted path, or word that moves several settings, to value, of all that the other study searched. What
            this study does not search must be as it has it.
    """
    point: Point = {}
    left = {path: value for path, value in shown.items() if path not in _TOLD_APART or path in axes}
    for path, axis in axes.items():
        if not is_there(axis, point):
            continue
        found = _factor(path, axis, left, composed) if path in NAMED_AXES else left.pop(path, _ABSENT)
        if (value := _value_of(axis, found)) is _ABSENT:
            return None
        point[path] = value
    same = all((1 if path in NAMED_AXES else value_at(composed, path)) == value for path, value in left.items())
    return point if same else None


def _factor(word: str, axis: Axis, left: dict[str, Any], composed: Mapping[str, Any]) -> Any:
    """The factor by which another study's setting is a multiple of this one's; absent if it is none."""
    if word in left:  # which moved several settings there as well
        return left.pop(word)
    (path, *several) = [f"algorithm.{path}" for path in composed["algorithm"]["axes"][word]]
    value, base = left.pop(path, _ABSENT), value_at(composed, path)
    if several or value is _ABSENT:
        return _ABSENT
    if isinstance(axis, Choice):  # whole numbers are rounded
        moved = (factor for factor in axis.values if settings_of({word: factor}, composed).by_path[path] == value)
        return next(moved, _ABSENT)
    return value / base if is_number(value) and is_number(base) else _ABSENT


def _value_of(axis: Axis, value: Any) -> Any:
    """A value as an axis has it; absent if it does not."""
    if isinstance(axis, Choice):
        return next((own for own in axis.values if _is_same(own, value)), _ABSENT)
    low, high = axis.corners()[0], axis.corners()[-1]
    if not is_number(value) or not low <= value <= high:
        return _ABSENT
    if isinstance(axis, Uniform):
        return round(value) if axis.integer else value
    return int(value) if (value - axis.low) % axis.step == 0 else _ABSENT


def _is_same(own: Any, other: Any) -> bool:
    return math.isclose(own, other, rel_tol=1e-9) if is_number(own) and is_number(other) else bool(own == other)


def _ranked(plan: Plan, study: Findings) -> tuple[dict[str, Point], dict[str, float]]:
    """The points of a plan that a study ran, by `key_of`, and their places in its order."""
    design = plan.search
    assert design is not None
    if study["algorithm"] != plan.algorithms:
        return {}, {}
    axes = parse_space(plan.suite.study.space)
    known = None if design.is_endless else {key_of(c.point) for c in design.known}
    points: dict[str, Point] = {}
    outcomes: dict[str, list[Outcome]] = {}
    for trial in study["trials"]:
        point = point_in(axes, plan.composed, trial["point"])
        if point is not None and (known is None or key_of(point) in known):
            points[key_of(point)] = point
            outcomes.setdefault(key_of(point), []).append(Outcome(**trial["outcome"]))
    places = places_of(list(outcomes.values()), plan.suite.objectives) if outcomes else []
    return points, dict(zip(outcomes, places, strict=True))


def _too_few(plan: Plan, lacking: Sequence[Findings]) -> str:
    """Why named studies cannot be started from, and what to do."""
    first = lacking[0]
    named, searched = f"search.from={first['name']}", {path for trial in first["trials"] for path in trial["point"]}
    if plan.algorithms not in {study["algorithm"] for study in lacking if study["run"] == first["run"]}:
        return f"{named}: is of {first['algorithm']}, and this study of {plan.algorithms}. Name a study of that."
    number = max(len(_ranked(plan, study)[1]) for study in lacking if study["run"] == first["run"])
    return (
        f"{named}: it ran {number} settings of this study's space to the end with results that differ, and it takes "
        f"{FEWEST}. Its axes are {', '.join(sorted(searched)) or 'none'}, those here "
        f"{', '.join(plan.suite.study.space)}: search the same ones, and the same values, or leave search.from out."
    )


def _seeds_here(plan: Plan, study: Findings) -> tuple[int, ...]:
    """The seeds that a study ran in a plan's own environment."""
    return tuple(sorted({trial["seed"] for trial in study["trials"]})) if study["env"] == plan.envs else ()


def _same_seeds(plan: Plan, prior: Prior) -> str:
    """That the first trials may be the very trials that ran earlier, and so no test of their order."""
    before = {seed for study in prior.studies for seed in study.seeds}
    if not before & {*plan.seeds}:
        return ""
    fresh = range(max(before) + 1, max(before) + 1 + len(plan.seeds))
    return (
        ". Their seeds are among those here, with which trials come out the same, and confirm what was chance: "
        f"seeds=[{','.join(map(str, fresh))}] tests their order anew"
    )


def _shown(point: Point) -> str:
    return " ".join(f"{path.rpartition('.')[2]}={'x' if path in NAMED_AXES else ''}{v}" for path, v in point.items())


def _centre(plan: Plan, best: Point) -> str:
    """What the multiples of a study would be of, were they of what was best earlier; "" if they are."""
    moved = {word: factor for word, factor in best.items() if word in NAMED_AXES and is_number(factor) and factor != 1}
    settings = settings_of(moved, plan.composed).by_path
    if not settings:
        return ""
    words = " ".join(f"{path}={value}" for path, value in settings.items())
    return f". Multiples are of this study's own settings; to have them of the best there: {words}"
