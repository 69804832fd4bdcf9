"""What the fit of the scaling laws, and their prediction of a count that was left out, come to in words."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import astuple

import numpy as np

from analysis.stats.interval import Array, Interval
from analysis.stats.law_means import Means
from analysis.stats.law_posterior import LAWS

FEWEST_COUNTS = 3
"""The Universal Scalability Law has three parameters."""
WIDEST_FACTOR = 4.0
"""A prediction whose interval spans more than this tells nobody how many runners to use."""

LARGE_MISFIT = 0.1
"""Of log throughput per doubling of the count: the curve has a kink that neither law has."""

_UNITS: Mapping[str, tuple[str, str]] = {
    "num_env_runners": ("env runner", "env runners"),
    "num_envs_per_env_runner": ("env per runner", "envs per runner"),
    "num_learners": ("learner", "learners"),
}


def reasons_to_doubt(means: Means, found: Mapping[str, Interval], doubled: float, axis: str) -> list[str]:
    """What weakens a fit, each a clause."""
    largest, units = counted(means.num[-1]), units_of(axis)[1]
    reasons = []
    if not means.replicated:
        reasons.append("one seed gives no interval")
    elif not means.separable:
        reasons.append("no two passes share enough counts to tell their speed from the counts'")
    if len(means.num) == FEWEST_COUNTS:
        reasons.append(f"{FEWEST_COUNTS} counts fit the law whatever they are")
    if means.num[0] > 1:
        reasons.append(f"1 was not measured: what one {units_of(axis)[0]} gives is extrapolated from {counted(means.num[0])}")
    if found["misfit"].estimate > LARGE_MISFIT:
        reasons.append(f"the curve has a kink that neither law has: it leaves them by {100 * found['misfit'].estimate:.0f}% per doubling")
    if means.replicated and found["knee"].low >= means.num[-1]:
        reasons.append(f"throughput still rises at {largest} {units}: the peak is known from below only, so add larger counts")
    if doubled > WIDEST_FACTOR:
        reasons.append(f"at twice the largest count the prediction spans a factor of {doubled:.1f}")
    return reasons


def fit_sentence(
    found: Mapping[str, Interval], usl: bool, counts: Array, num_seeds: int, can_tell: bool, reasons: list[str], axis: str
) -> str:
    """The fit in words."""
    one, units = units_of(axis)
    law = LAWS["usl" if usl else "amdahl"]
    seeds = f"{num_seeds} seed{'' if num_seeds == 1 else 's'}"
    text = (
        f"One {one} gives {_with_ends(found['lam'], _speed)} env steps/s (95% intervals, {seeds} at {listed(counts)} {units}); "
        f"the data {'need' if usl else 'do not reject'} {law}, with contention {_with_ends(found['sigma'], _small)}"
        f" and coherency {_with_ends(found['kappa'], _small)}."
    )
    text += f" {_knee_words(found, float(counts[-1]), one, units)} {_peak_words(found, units)}"
    if reasons:
        text += f" {'Mind that' if can_tell else f'How many {units} are enough can' + chr(39) + 't be told from these data:'} "
        text += f"{'; '.join(reasons)}."
    return text


def _knee_words(found: Mapping[str, Interval], largest: float, one: str, units: str) -> str:
    knee, low, high = astuple(found["knee"])
    if not np.isfinite(knee):
        least = f" (at least {counted(low)})" if np.isfinite(low) else ""
        return f"One more {one} brings at least half of what the first brought as far as can be seen{least}."
    ends = f" [{counted(low)}, {counted(high) if np.isfinite(high) else 'beyond sight'}]" if low == low else ""
    beyond = ", beyond what was measured" if knee > largest else ""
    return f"Up to {counted(knee)}{ends} {units} one more brings at least half of what the first brought{beyond}."


def _peak_words(found: Mapping[str, Interval], units: str) -> str:
    peak, low, high = astuple(found["peak"])
    if not np.isfinite(peak):
        least = f": it is at {counted(low)} {units} or more" if np.isfinite(low) else ""
        return f"No peak is within sight{least}."
    ends = f" [{counted(low)}, {counted(high) if np.isfinite(high) else 'beyond sight'}]" if low == low else ""
    return f"Throughput peaks at {counted(peak)}{ends} {units} with {_with_ends(found['peak_env_steps_per_s'], _speed)} env steps/s."


def held_out_sentence(
    num: int, predicted: Interval, measured: float, largest_fitted: int, num_seeds: int, reasons: Sequence[str], axis: str
) -> str:
    """The prediction of the count that was left out, and what was measured there."""
    units = units_of(axis)[1]
    inside = "inside" if predicted.low <= measured <= predicted.high else "outside"
    verdict = f", {inside} the 95% prediction interval" if predicted.low == predicted.low else ""
    error_percent = 100 * (predicted.estimate / measured - 1)
    text = (
        f"Fitted up to {largest_fitted} {units}, the laws predict {_with_ends(predicted, _speed)} env steps/s at {num}; "
        f"measured were {_speed(measured)} ({num_seeds} seed{'' if num_seeds == 1 else 's'}): the prediction is "
        f"{abs(error_percent):.1f}% too {'high' if error_percent > 0 else 'low'}{verdict}."
    )
    return f"{text} This tells little: {'; '.join(reasons)}." if reasons else text


def units_of(axis: str) -> tuple[str, str]:
    """What one of a count is called, and several."""
    return _UNITS.get(axis, (axis, axis))


def _with_ends(found: Interval, form: Callable[[float], str]) -> str:
    ends = f" [{form(found.low)}, {form(found.high)}]" if found.low == found.low else ""
    return form(found.estimate) + ends


def counted(value: float) -> str:
    """A count, as text."""
    return f"{value:,.0f}"


def listed(counts: Array) -> str:
    """Counts, as text."""
    return ", ".join(f"{count:g}" for count in counts) or "none"


def _speed(value: float) -> str:
    if not np.isfinite(value):
        return "no limit"
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _small(value: float) -> str:
    return f"{value:.2g}"
