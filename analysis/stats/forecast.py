"""What learning curves are expected to come to at more env steps than they have.

Laws by which returns grow are fitted to the mean over seeds: a power law, exponential saturation and the sigmoid by
which ScaleRL extrapolates (Khatri et al. 2025, arXiv 2510.13786); beside them stands the last value. A seed's own
curve may jump, and only the mean over seeds is smooth. Each law is first fitted to the first part of the curves and
weighted by how well it foretells the rest. What all of them together miss there says how wide the interval has to be.

`benchmarks/search/forecast.py` measures it on curves that are cut.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from analysis.stats.distributions import t_quantile
from analysis.stats.interval import Array, Interval
from analysis.stats.moderated import UNBOUNDED, moderate

INTERVAL = 0.9
"""Of a forecast: what is predicted has no test to pass."""
FEWEST_POINTS = 3
"""Of a curve: two to fit to, and one to foretell."""

_RISES_ALPHA = 0.05
"""Risk of calling a curve that stays level one that rises."""
_FIRST_PART = 2 / 3
"""Of a curve's points, to which laws are fitted that are then held against the rest."""
_ASYMPTOTE_SD = 0.3
"""Standard deviation of an asymptote about the best that any seed has come to, as a share of the range of returns."""
_WALK, _WALK_POINTS = 0.024, 4
"""Mean square by which laws miss held-out points, as a share of the squared range of returns and of a unit of the
logarithm of env steps, before any curve was seen; and the number of points as which that counts. The former is the mean
over the held-out points of the curves that the method was chosen on. With it 90% intervals hold 95% of what came of
these where each is a study of its own; without it, 81%.
"""
_LEAST_NOISE = 0.01
"""Standard deviation of a mean over seeds, at least, as a share of the range of returns."""


@dataclass(frozen=True)
class Curve:
    """The returns of a configuration's seeds.

    Attributes:
        env_steps: (num_points,) above 0, ascending.
        returns: (num_seeds, num_points) without NaN.
    """

    env_steps: Array
    returns: Array

    @property
    def mean(self) -> Array:
        """(num_points,) over seeds."""
        return np.asarray(self.returns.mean(axis=0))

    def first(self, num_points: int) -> "Curve":
        """Its first points."""
        return Curve(self.env_steps[:num_points], self.returns[:, :num_points])

    def without(self, first: "Curve") -> "Curve":
        """The points after its first ones."""
        num_points = len(first.env_steps)
        return Curve(self.env_steps[num_points:], self.returns[:, num_points:])


@dataclass(frozen=True)
class _Law:
    """How returns grow from the last env steps that were seen, where the law is 0, to the asymptote, 1.

    Attributes:
        growth: Of env steps, as multiples of the last ones that were seen, and of the shape.
        centre: Natural logarithm of the shape's parameters before any return was seen.
        sd: Standard deviation of these.
    """

    growth: Callable[[Array, Array], Array]
    centre: tuple[float, ...]
    sd: tuple[float, ...]


def _power(times: Array, shape: Array) -> Array:
    return np.asarray(1 - times ** -shape[0])


def _exponential(times: Array, shape: Array) -> Array:
    return np.asarray(1 - np.exp(shape[0] * (1 - times)))


def _sigmoid(times: Array, shape: Array) -> Array:
    """ScaleRL's A - (A - R0) / (1 + (x / C)^B) from its value at 1 on; the second parameter is C^B."""
    return np.asarray((times ** shape[0] - 1) / (times ** shape[0] + shape[1]))


_LAWS = (
    _Law(_power, (0.0,), (1.0,)),
    _Law(_exponential, (0.0,), (1.0,)),
    _Law(_sigmoid, (math.log(2.0), 0.0), (0.5, 1.0)),
)


def rises(curve: Curve) -> bool:
    """True if the mean over seeds still rises where the curve ends: over the last half of its points the slope on the
    logarithm of env steps is above 0, by a one-sided t test over seeds at 5%. False where there are too few points, or
    a single seed.
    """
    num_seeds, num_points = curve.returns.shape
    last = max(FEWEST_POINTS, math.ceil(num_points / 2))
    if num_seeds < 2 or num_points < FEWEST_POINTS:
        return False
    x = np.log(curve.env_steps[-last:])
    slopes = curve.returns[:, -last:] @ (x - x.mean())
    error = float(slopes.std(ddof=1)) / math.sqrt(num_seeds)
    return bool(slopes.mean() > t_quantile(1 - _RISES_ALPHA, num_seeds - 1) * error)


def forecasts(
    curves: Sequence[Curve], at: Sequence[float], bounds: tuple[float, float] = UNBOUNDED
) -> list[list[Interval]]:
    """The mean return over a configuration's seeds at more env steps, were these to train on, with its 90% interval.

    The variance of a forecast is that of the laws about their mean, weighted as they are; that of the seeds' last
    returns, moderated, over their number, since each goes its own way from there; and the mean square by which the
    held-out parts of all curves were missed, averaged with what is usual, which grows with the logarithm of env steps,
    as in a random walk. The interval is Student's t, cut at the bounds.

    Args:
        curves: One for each configuration of an environment: the others say what can be reached, and how far forecasts
            are off. Each has `FEWEST_POINTS` or more.
        at: Env steps, beyond the last of every curve.
        bounds: The lowest and the highest possible return.

    Returns:
        For each curve one for each of `at`; without an interval (NaN) of a single seed.
    """
    low, span = _range_of(curves, bounds)
    scaled = [Curve(curve.env_steps, (curve.returns - low) / span) for curve in curves]
    ends = ((bounds[0] - low) / span, (bounds[1] - low) / span)
    firsts = [curve.first(max(FEWEST_POINTS - 1, round(_FIRST_PART * len(curve.env_steps)))) for curve in scaled]
    tails = [curve.without(first) for curve, first in zip(scaled, firsts, strict=True)]
    told = _laws_at(firsts, [tail.env_steps for tail in tails], ends)
    misses = [laws - tail.mean for laws, tail in zip(told, tails, strict=True)]
    weights = _weights(misses)
    log_times = [np.log(tail.env_steps / first.env_steps[-1]) for tail, first in zip(tails, firsts, strict=True)]
    walks = [np.mean((w @ miss) ** 2 / log) for w, miss, log in zip(weights, misses, log_times, strict=True)]
    num_held_out = sum(len(tail.env_steps) for tail in tails)
    walk = (num_held_out * np.mean(walks) + _WALK_POINTS * _WALK) / (num_held_out + _WALK_POINTS)
    variances, df = _of_seeds(scaled)
    found = []
    for i, laws in enumerate(_laws_at(scaled, [np.asarray(at)] * len(scaled), ends)):
        estimate, num_seeds = weights[i] @ laws, len(scaled[i].returns)
        disagreement = weights[i] @ (laws - estimate) ** 2
        missed = walk * np.log(np.asarray(at) / scaled[i].env_steps[-1])
        half = t_quantile((1 + INTERVAL) / 2, df[i]) * np.sqrt(disagreement + variances[i] / num_seeds + missed)
        half = half if num_seeds > 1 else np.full(len(at), math.nan)
        sides = (estimate, np.maximum(estimate - half, ends[0]), np.minimum(estimate + half, ends[1]))
        found.append([Interval(*(float(low + span * side[j]) for side in sides)) for j in range(len(at))])
    return found


def _of_seeds(curves: Sequence[Curve]) -> tuple[Array, Array]:
    """Variances of the last returns over seeds and their degrees of freedom, each averaged with the others'
    (`analysis.stats.moderated`); (num_curves,).
    """
    free = np.array([len(curve.returns) - 1 for curve in curves])
    squares = np.array([curve.returns[:, -1].var() * len(curve.returns) for curve in curves])
    pooled = squares.sum() / max(1, free.sum())
    return moderate(squares / np.maximum(1, free), free, pooled, free.sum() - free)


def _range_of(curves: Sequence[Curve], bounds: tuple[float, float]) -> tuple[float, float]:
    """The lowest return and the range of returns; where a bound is unknown, what was seen."""
    low = bounds[0] if math.isfinite(bounds[0]) else min(float(curve.returns.min()) for curve in curves)
    high = bounds[1] if math.isfinite(bounds[1]) else max(float(curve.returns.max()) for curve in curves)
    return low, high - low if high > low else 1.0


def _weights(misses: Sequence[Array]) -> list[Array]:
    """(num_laws,) of each curve: the better a law foretells its rest, and that of all curves, the more."""
    own = np.array([np.mean(miss**2, axis=1) for miss in misses])
    errors = own + own.mean(axis=0) + _LEAST_NOISE**2
    weights = 1 / errors
    return list(weights / weights.sum(axis=1, keepdims=True))


def _laws_at(curves: Sequence[Curve], at: Sequence[Array], ends: tuple[float, float]) -> list[Array]:
    """The last value and each law of each curve, (num_laws, num_at), between two ends.

    Args:
        curves: In shares of the range of returns.
        at: Env steps, of each curve.
        ends: The lowest and the highest possible return.
    """
    best = max(float(curve.returns[:, -1].max()) for curve in curves)
    found = []
    for curve, steps in zip(curves, at, strict=True):
        last = np.full(len(steps), curve.mean[-1])
        found.append(np.clip([last, *(_extrapolated(law, curve, steps, best) for law in _LAWS)], *ends))
    return found


def _extrapolated(law: _Law, curve: Curve, at: Array, best: float) -> Array:
    """A law at more env steps, fitted by least squares; what is known beforehand of its shape and its asymptote counts
    as a residual each, without which three points would not do.

    The later a point, the more it counts: its residual's variance is inverse to its env steps.
    """
    from scipy.optimize import least_squares  # half a second, which no study needs at its start

    times, mean = curve.env_steps / curve.env_steps[-1], curve.mean
    noise, centre, sd = _noise_of(curve), np.array(law.centre), np.array(law.sd)

    def residuals(given: Array) -> Array:
        level, gain, shape = given[0], given[1], given[2:]
        off = (level + gain * law.growth(times, np.exp(shape)) - mean) * np.sqrt(times) / noise
        return np.concatenate([off, [(level + gain - best) / _ASYMPTOTE_SD], (shape - centre) / sd])

    start = np.array([mean[-1], max(0.1, best - mean[-1]), *centre])
    least = np.array([-np.inf, 0.0, *(centre - 3 * sd)])
    most = np.array([np.inf, np.inf, *(centre + 3 * sd)])
    fitted = least_squares(residuals, start, bounds=(least, most)).x
    return np.asarray(fitted[0] + fitted[1] * law.growth(at / curve.env_steps[-1], np.exp(fitted[2:])))


def _noise_of(curve: Curve) -> float:
    """Standard deviation of the mean over seeds about a smooth curve, by second differences; that of the seeds where
    there are two points alone.
    """
    num_seeds, num_points = curve.returns.shape
    if num_points > 2:
        variance = float(np.mean(np.diff(curve.returns, 2, axis=1) ** 2)) / 6
    else:
        variance = float(np.mean(curve.returns.var(axis=0)))
    return max(_LEAST_NOISE, math.sqrt(variance / num_seeds))
