"""How throughput grows with the number of env runners (or learners, or envs): two laws fitted to what was measured,
and what they predict.

Amdahl's law is X(n) = lam n / (1 + sigma (n - 1)); Gunther's Universal Scalability Law (Guerrilla Capacity Planning,
2007, chapter 4) adds the time that processes lose to each other, X(n) = lam n / (1 + sigma (n - 1) + kappa n (n - 1)),
and so can fall. lam is what one runner gives, sigma the share of the work that only one at a time can do (contention),
kappa the cost of a pair of runners (coherency).

Errors of speeds are factors, so everything is fitted to logarithms. A measurement is

    log X = law + misfit of the law at this count + the block's effect + noise.

Blocks (passes over all counts) may be faster or slower as a whole. Machines have kinks, at the number of cores say,
which neither law has: the misfit is a random walk over the logarithm of the count, whose step is estimated along with
the law. Intervals are posterior quantiles, averaged over both laws by how well each describes the data.
`benchmarks/calibration/scaling_laws.py` measures what they cover.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import pandas as pd

from analysis import AnalysisError
from analysis.stats.distributions import t_quantile
from analysis.stats.interval import CONFIDENCE, Array, Interval
from analysis.stats.law_means import LEAST_NOISE, Means, means_of
from analysis.stats.law_posterior import Draws, fit_both, interval_of, knee, of_these_blocks, peak

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


@dataclass(frozen=True)
class ScalingFit:
    """Both laws, and what they say together. Ends of the 95% intervals are NaN without replicates.

    Attributes:
        law: "usl" if coherency cannot be nil (`kappa.low` > 0), else "amdahl": the simpler law is not rejected.
        usl_probability: Weight of the Universal Scalability Law with kappa > 0; the rest is Amdahl's.
            Even before the data.
        lam: Throughput of one runner by the laws, env steps/s.
        sigma: Contention, 0 to 1.
        kappa: Coherency, 0 or more.
        misfit: Standard deviation of log X by which the curve leaves the laws over one doubling of the count.
        peak: Count with the highest throughput, sqrt((1 - sigma) / kappa); infinite if beyond sight
            (`SIGHT` times the largest count).
        peak_env_steps_per_s: Throughput there; Amdahl's limit lam / sigma where there is no peak.
        knee: The largest count whose last runner still brings half of what the first one brings; infinite if beyond
            sight. The definition is ours: by the laws, X(n) - X(n - 1) >= X(1) / 2.
        counts: A row a measured count, ascending: `num`; `env_steps_per_s`, the geometric mean of what was measured,
            with _low and _high; `efficiency`, X(n) / (n X(1)), of the fit, with _low and _high; `num_seeds`.
        laws: A row a law of `LAWS`: `law`, `weight`, and `lam`, `sigma`, `kappa` with _low
            and _high under that law alone.
        num_seeds: Blocks, at the count that has most.
        axis: What was counted.
        can_tell: The knee is known to within a factor of `WIDEST_FACTOR` and may lie within the counts, a prediction at
            twice the largest count spans no more than that either, and the curve has no kink to speak of.
        reasons: What weakens the answer, each a clause.
    """

    law: str
    usl_probability: float
    lam: Interval
    sigma: Interval
    kappa: Interval
    misfit: Interval
    peak: Interval
    peak_env_steps_per_s: Interval
    knee: Interval
    counts: pd.DataFrame
    laws: pd.DataFrame
    num_seeds: int
    axis: str
    can_tell: bool
    reasons: tuple[str, ...]
    _draws: Draws = field(repr=False, compare=False)
    _replicated: bool = field(repr=False, compare=False)

    def predict(self, nums: Iterable[float]) -> pd.DataFrame:
        """Throughput at any counts, also those that were not run.

        Args:
            nums: Counts, 1 or more.

        Returns:
            A row a count, in the order given: `num`; `env_steps_per_s`; `low` and `high`, the 95% prediction interval
            of one new measurement, in a pass of its own; `mean_low` and `mean_high`, the 95% interval of the mean over
            many passes, misfit of the laws included; `extrapolated`, outside the counts measured, where both intervals
            also hold the chance of a limit that no count has met yet. Ends are NaN without replicates.

        Raises:
            AnalysisError: A count is below 1.
        """
        asked = [float(num) for num in nums]
        if any(not num >= 1 for num in asked):
            raise AnalysisError(f"{self.axis}={min(asked):g} cannot be predicted: counts start at 1")
        low, high = float(self.counts["num"].min()), float(self.counts["num"].max())
        rows = []
        for num in asked:
            curve = self._draws.curve(num)
            mean = interval_of(np.exp(curve + self._draws.of_mean()), self._replicated)
            new = interval_of(np.exp(curve + self._draws.of_new_measurement()), self._replicated)
            rows.append(
                {
                    "num": num,
                    "env_steps_per_s": float(np.exp(np.median(curve))),
                    # Beyond the counts draws are few at the ends: a new measurement is never known better
                    # than the mean.
                    "low": min(new.low, mean.low),
                    "high": max(new.high, mean.high),
                    "mean_low": mean.low,
                    "mean_high": mean.high,
                    "extrapolated": not low <= num <= high,
                }
            )
        columns = ["num", "env_steps_per_s", "low", "high", "mean_low", "mean_high", "extrapolated"]
        frame = pd.DataFrame(rows, columns=columns)
        whole = all(num.is_integer() for num in asked)
        return frame.astype({"num": int if whole else float, "extrapolated": bool})


@dataclass(frozen=True)
class HeldOut:
    """The largest count, predicted from the others.

    Attributes:
        num: The count left out.
        env_steps_per_s: What the fit to the others predicts there.
        low: Lower end of the 95% prediction interval of the mean that was measured, in the same passes;
            NaN without replicates.
        high: Upper end.
        measured: Geometric mean of what was measured.
        error_percent: By how much the prediction is too high (negative: too low), percent of what was measured.
        inside: What was measured lies in the interval; False without one.
        num_seeds: Measurements at the count.
        largest_fitted: The largest count that the fit saw.
        axis: What was counted.
        can_tell: There is an interval, it spans no more than a factor of `WIDEST_FACTOR`, and the fit saw the knee or
            signs of it: a curve that only rises tells nothing of what may end it.
        reasons: What weakens the answer, each a clause.
    """

    num: int
    env_steps_per_s: float
    low: float
    high: float
    measured: float
    error_percent: float
    inside: bool
    num_seeds: int
    largest_fitted: int
    axis: str
    can_tell: bool
    reasons: tuple[str, ...]


def fit(points: pd.DataFrame, rng: np.random.Generator, axis: str = "num_env_runners") -> ScalingFit:
    """Fit Amdahl's law and the Universal Scalability Law.

    Args:
        points: A row a measurement: `num`, the count, 1 or more; `env_steps_per_s`; `block`,
            the pass (seed) in which it was made.
        rng: Draws from the posterior.
        axis: What was counted, as the study's space calls it.

    Returns:
        The fit, and whether the data can tell.

    Raises:
        AnalysisError: There are fewer than three counts, a throughput is not a positive number, or a count is below 1.
    """
    points, counts = _checked(points, axis, FEWEST_COUNTS, "a fit")
    means = means_of(points)
    draws, of_law, usl_probability = fit_both(means, rng)
    at_peak, height = peak(draws)
    drawn = {
        "lam": np.exp(draws.law(1.0) + draws.of_mean()),
        "sigma": draws.sigma,
        "kappa": draws.kappa,
        "misfit": draws.misfit,
        "peak": at_peak,
        "peak_env_steps_per_s": height,
        "knee": knee(draws),
    }
    found = {name: interval_of(values, means.replicated) for name, values in drawn.items()}
    usl = found["kappa"].low > 0 if means.replicated else usl_probability > 0.5
    doubled = interval_of(np.exp(draws.curve(2 * counts[-1]) + draws.of_new_measurement()), means.replicated)
    reasons = _reasons_to_doubt(means, found, doubled.high / doubled.low, axis)
    within = found["knee"].low < counts[-1] and found["knee"].high <= WIDEST_FACTOR * found["knee"].low
    told = within and doubled.high <= WIDEST_FACTOR * doubled.low and found["misfit"].estimate <= LARGE_MISFIT
    can_tell = bool(means.replicated and told)
    table = _count_table(means, draws)
    return ScalingFit(
        law="usl" if usl else "amdahl",
        usl_probability=usl_probability,
        **found,
        counts=table,
        laws=_law_table(of_law, usl_probability, means.replicated),
        num_seeds=int(table["num_seeds"].max()),
        axis=axis,
        can_tell=can_tell,
        reasons=tuple(reasons),
        _draws=draws,
        _replicated=means.replicated,
    )


def hold_out(points: pd.DataFrame, rng: np.random.Generator, axis: str = "num_env_runners") -> HeldOut:
    """Predict the largest count from the others and compare.

    Args:
        points: As in `fit`.
        rng: Draws from the posterior.
        axis: What was counted.

    Returns:
        Prediction, interval, and what was measured.

    Raises:
        AnalysisError: There are fewer than four counts, a throughput is not a positive number, or a count is below 1.
    """
    points, counts = _checked(points, axis, FEWEST_COUNTS + 1, "holding out the largest count")
    largest = points["num"] == counts[-1]
    left = points[largest]
    means = means_of(points[~largest])
    draws, _, _ = fit_both(means, rng)
    measured = np.log(left["env_steps_per_s"].to_numpy(float))
    log_x = draws.curve(counts[-1]) + of_these_blocks(means, draws, left["block"])
    predicted = replace(interval_of(np.exp(log_x), means.replicated), estimate=float(np.exp(np.median(log_x))))
    low, high, mean = predicted.low, predicted.high, float(np.exp(measured.mean()))
    reasons = []
    if not means.replicated:
        reasons.append("one seed gives no interval")
    elif high > WIDEST_FACTOR * low:
        reasons.append(f"the interval spans a factor of {high / low:.1f}")
    if means.replicated and interval_of(knee(draws)).low >= means.num[-1]:
        reasons.append(f"up to {means.num[-1]:,.0f} {units_of(axis)[1]} nothing was seen that could end the growth")
    return HeldOut(
        num=int(counts[-1]),
        env_steps_per_s=predicted.estimate,
        low=low,
        high=high,
        measured=mean,
        error_percent=100 * (predicted.estimate / mean - 1),
        inside=bool(low <= mean <= high),
        num_seeds=len(left),
        largest_fitted=int(counts[-2]),
        axis=axis,
        can_tell=not reasons,
        reasons=tuple(reasons),
    )


def units_of(axis: str) -> tuple[str, str]:
    """The words for one of a count, and for several."""
    return _UNITS.get(axis, (axis, axis))


def _reasons_to_doubt(means: Means, found: Mapping[str, Interval], doubled: float, axis: str) -> list[str]:
    """The weaknesses of a fit, each a clause; `doubled` is the factor that the prediction at twice
    the largest count spans.
    """
    one, units = units_of(axis)
    reasons = []
    if not means.replicated:
        reasons.append("one seed gives no interval")
    elif not means.separable:
        reasons.append("no two passes share enough counts to tell their speed from the counts'")
    if len(means.num) == FEWEST_COUNTS:
        reasons.append(f"{FEWEST_COUNTS} counts fit the law whatever they are")
    if means.num[0] > 1:
        reasons.append(f"1 was not measured: what one {one} gives is extrapolated from {means.num[0]:,.0f}")
    if found["misfit"].estimate > LARGE_MISFIT:
        reasons.append(
            "the curve has a kink that neither law has: it leaves them "
            f"by {100 * found['misfit'].estimate:.0f}% per doubling"
        )
    if means.replicated and found["knee"].low >= means.num[-1]:
        known = f"throughput still rises at {means.num[-1]:,.0f} {units}"
        reasons.append(f"{known}: the peak is known from below only, so add larger counts")
    if doubled > WIDEST_FACTOR:
        reasons.append(f"at twice the largest count the prediction spans a factor of {doubled:.1f}")
    return reasons


def _checked(points: pd.DataFrame, axis: str, fewest: int, what: str) -> tuple[pd.DataFrame, Array]:
    """The measurements, as numbers, and the counts, ascending.

    Raises:
        AnalysisError: As `fit` says; there are fewer counts than `what` takes.
    """
    for name in ("num", "env_steps_per_s", "block"):
        if name not in points:
            raise AnalysisError(
                f"the measurements have no column {name!r}; they have {', '.join(map(str, points)) or 'none'}"
            )
    speed = pd.to_numeric(points["env_steps_per_s"], errors="coerce").astype(float)
    bad = ~(np.isfinite(speed) & (speed > 0))
    if bad.any():
        raise AnalysisError(
            f"env_steps_per_s is not a positive number in {int(bad.sum())} of {len(points)} measurements; "
            "leave those out or repeat them"
        )
    num = pd.to_numeric(points["num"], errors="coerce").astype(float)
    below = ~(np.isfinite(num) & (num >= 1))
    if below.any():
        hint = (
            " (0 runners sample in the learner's process, which is no point of this curve)"
            if axis == "num_env_runners"
            else ""
        )
        raise AnalysisError(
            f"{axis} is below 1 in {int(below.sum())} of {len(points)} measurements{hint}; leave those out"
        )
    counts = np.unique(num.to_numpy())
    if len(counts) < fewest:
        there = ", ".join(f"{count:g}" for count in counts) or "none"
        raise AnalysisError(
            f"{what} needs {fewest} counts or more; the study has {there}: add counts to {axis} in study.space"
        )
    return pd.DataFrame({"num": num, "env_steps_per_s": speed, "block": points["block"].astype(object)}).reset_index(
        drop=True
    ), counts


def _count_table(means: Means, draws: Draws) -> pd.DataFrame:
    """The measurements at each count, with the efficiency by the fit."""
    one = draws.curve(1.0)
    # Satterthwaite's degrees of freedom of one measurement's variance, a sum of the blocks' and the noise's.
    noise = max(means.noise, LEAST_NOISE) ** 2
    parts = [(noise, means.free)]
    if means.separable:
        size = means.per_block
        parts = [(means.block_square / size, len(means.blocks) - 1), (noise * (size - 1) / size, means.free)]
    variance = sum(part for part, _ in parts)
    free = variance**2 / sum(part**2 / df for part, df in parts if df > 0) if means.replicated else np.nan
    rows = []
    for i, num in enumerate(means.num):
        half = (
            float(t_quantile((1 + CONFIDENCE) / 2, free) * np.sqrt(variance / means.num_seeds[i]))
            if means.replicated
            else np.nan
        )
        measured = Interval(*(float(np.exp(means.mean[i] + away)) for away in (0.0, -half, half)))
        efficiency = interval_of(np.exp(draws.curve(float(num)) - one - np.log(num)), means.replicated)
        rows.append(
            {
                "num": int(num) if float(num).is_integer() else float(num),
                **measured.columns("env_steps_per_s"),
                **efficiency.columns("efficiency"),
                "num_seeds": int(means.num_seeds[i]),
            }
        )
    return pd.DataFrame(rows)


def _law_table(of_law: Mapping[str, Draws], usl_probability: float, replicated: bool) -> pd.DataFrame:
    rows = []
    for law, draws in of_law.items():
        row: dict[str, object] = {"law": law, "weight": usl_probability if law == "usl" else 1 - usl_probability}
        for name, values in (
            ("lam", np.exp(draws.law(1.0) + draws.of_mean())),
            ("sigma", draws.sigma),
            ("kappa", draws.kappa),
        ):
            row |= interval_of(values, replicated).columns(name)
        rows.append(row)
    return pd.DataFrame(rows)
