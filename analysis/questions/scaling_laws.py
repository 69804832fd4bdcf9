"""How throughput grows with the number of env runners (or learners, or envs): two laws fitted to what was measured, and what they predict.

Amdahl's law is X(n) = lam n / (1 + sigma (n - 1)); Gunther's Universal Scalability Law (Guerrilla Capacity Planning, 2007, chapter 4) adds
the time that processes lose to each other, X(n) = lam n / (1 + sigma (n - 1) + kappa n (n - 1)), and so can fall. lam is what one runner
gives, sigma the share of the work that only one at a time can do (contention), kappa the cost of a pair of runners (coherency).

Errors of speeds are factors, so everything is fitted to logarithms. A measurement is

    log X = law + misfit of the law at this count + the block's effect + noise.

Blocks (passes over all counts) may be faster or slower as a whole. Machines have kinks, at the number of cores say, which neither law has:
the misfit is a random walk over the logarithm of the count, whose step is estimated along with the law. Intervals are posterior quantiles,
averaged over both laws by how well each describes the data. `benchmarks/calibration/scaling_laws.py` measures what they cover.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy import special, stats

from analysis import AnalysisError
from analysis.stats.interval import CONFIDENCE, Array

LAWS: Mapping[str, str] = {"amdahl": "Amdahl's law", "usl": "the Universal Scalability Law"}

_UNITS: Mapping[str, tuple[str, str]] = {
    "num_env_runners": ("env runner", "env runners"),
    "num_envs_per_env_runner": ("env per runner", "envs per runner"),
    "num_learners": ("learner", "learners"),
}
FEWEST_COUNTS = 3
"""The Universal Scalability Law has three parameters."""
WIDEST_FACTOR = 4.0
"""A prediction whose interval spans more than this tells nobody how many runners to use."""
SIGHT = 10.0
"""A peak or a knee beyond this many times the largest count is out of sight."""

# Priors, chosen by the coverage found in simulation. Contention and coherency are log-uniform from where they would cost 1% at the largest
# count up to 1, or nothing at all.
_LEAST_COST = 0.01
_NO_CONTENTION = 0.2
# Step of the misfit's walk, log X per square root of a doubling: half-Cauchy with this scale.
_MISFIT_SCALE = 0.01
_MISFITS: Array = np.geomspace(0.002, 0.8, 13)
# Beyond the largest count waits what no count has met yet: the last core, the memory, the learner. The chance that growth ends right there
# (people measure up to the number of cores), the chance that it ends in each further doubling, and the mean power of n by which throughput
# falls from then on. And where the laws say that it falls, the chance that it only stays: coherency is seen before the peak, not behind it.
_LIMIT_AT_ONCE = 0.05
_LIMIT_PER_DOUBLING = 0.1
_MEAN_FALL = 0.3
_STAYS = 0.2
# No speed is known better than this, however alike the seeds are.
_LEAST_NOISE = 1e-3
# Without replicates the noise is anything between.
_NOISE_OF_SINGLE_SEEDS = (0.005, 0.15)
_NUM_NOISES = 7
_CELLS = 48
_MOST_PASSES = 6
_NUM_DRAWS = 4000
_LARGE_MISFIT = 0.1


@dataclass(frozen=True)
class ScalingFit:
    """Both laws, and what they say together. Names with _low and _high are ends of 95% intervals, NaN without replicates.

    Attributes:
        law: "usl" if coherency cannot be nil (`kappa_low` > 0), else "amdahl": the simpler law is not rejected.
        usl_probability: Weight of the Universal Scalability Law with kappa > 0; the rest is Amdahl's. Even before the data.
        lam: Throughput of one runner by the laws, env steps/s.
        lam_low: Lower end.
        lam_high: Upper end.
        sigma: Contention, 0 to 1.
        sigma_low: Lower end.
        sigma_high: Upper end.
        kappa: Coherency, 0 or more.
        kappa_low: Lower end.
        kappa_high: Upper end.
        misfit: Standard deviation of log X by which the curve leaves the laws over one doubling of the count.
        misfit_low: Lower end.
        misfit_high: Upper end.
        peak: Count with the highest throughput, sqrt((1 - sigma) / kappa); infinite if beyond sight (`SIGHT` times the largest count).
        peak_low: Lower end.
        peak_high: Upper end.
        peak_env_steps_per_s: Throughput there; Amdahl's limit lam / sigma where there is no peak.
        peak_env_steps_per_s_low: Lower end.
        peak_env_steps_per_s_high: Upper end.
        knee: The largest count whose last runner still brings half of what the first one brings; infinite if beyond sight. The definition
            is ours: by the laws, X(n) - X(n - 1) >= X(1) / 2.
        knee_low: Lower end.
        knee_high: Upper end.
        counts: A row a measured count, ascending: `num`; `env_steps_per_s`, the geometric mean of what was measured, with _low and _high;
            `efficiency`, X(n) / (n X(1)), of the fit, with _low and _high; `num_seeds`.
        laws: A row a law of `LAWS`: `law`, `weight`, and `lam`, `sigma`, `kappa` with _low and _high under that law alone.
        num_seeds: Blocks, at the count that has most.
        axis: What was counted.
        can_tell: The knee is known to within a factor of `WIDEST_FACTOR` and may lie within the counts, a prediction at twice the largest
            count spans no more than that either, and the curve has no kink to speak of.
        reasons: What weakens the answer, each a clause.
        sentence: The answer for a report, Markdown.
    """

    law: str
    usl_probability: float
    lam: float
    lam_low: float
    lam_high: float
    sigma: float
    sigma_low: float
    sigma_high: float
    kappa: float
    kappa_low: float
    kappa_high: float
    misfit: float
    misfit_low: float
    misfit_high: float
    peak: float
    peak_low: float
    peak_high: float
    peak_env_steps_per_s: float
    peak_env_steps_per_s_low: float
    peak_env_steps_per_s_high: float
    knee: float
    knee_low: float
    knee_high: float
    counts: pd.DataFrame
    laws: pd.DataFrame
    num_seeds: int
    axis: str
    can_tell: bool
    reasons: tuple[str, ...]
    sentence: str
    _draws: "_Draws" = field(repr=False, compare=False)
    _replicated: bool = field(repr=False, compare=False)

    def predict(self, nums: Iterable[float]) -> pd.DataFrame:
        """Throughput at any counts, also those that were not run.

        Args:
            nums: Counts, 1 or more.

        Returns:
            A row a count, in the order given: `num`; `env_steps_per_s`; `low` and `high`, the 95% prediction interval of one new
            measurement, in a pass of its own; `mean_low` and `mean_high`, the 95% interval of the mean over many passes, misfit of the laws
            included; `extrapolated`, outside the counts measured, where both intervals also hold the chance of a limit that no count has
            met yet. Ends are NaN without replicates.

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
            _, mean_low, mean_high = _quantiles(np.exp(curve + self._draws.of_mean()), self._replicated)
            _, new_low, new_high = _quantiles(np.exp(curve + self._draws.of_new_measurement()), self._replicated)
            rows.append(
                {
                    "num": num,
                    "env_steps_per_s": float(np.exp(np.median(curve))),
                    # Beyond the counts draws are few at the ends: a new measurement is never known better than the mean.
                    "low": min(new_low, mean_low),
                    "high": max(new_high, mean_high),
                    "mean_low": mean_low,
                    "mean_high": mean_high,
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
        low: Lower end of the 95% prediction interval of the mean that was measured, in the same passes; NaN without replicates.
        high: Upper end.
        measured: Geometric mean of what was measured.
        error_percent: By how much the prediction is too high (negative: too low), percent of what was measured.
        inside: What was measured lies in the interval; False without one.
        num_seeds: Measurements at the count.
        largest_fitted: The largest count that the fit saw.
        can_tell: There is an interval, it spans no more than a factor of `WIDEST_FACTOR`, and the fit saw the knee or signs of it: a curve
            that only rises tells nothing of what may end it.
        reasons: What weakens the answer, each a clause.
        sentence: The answer for a report, Markdown.
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
    can_tell: bool
    reasons: tuple[str, ...]
    sentence: str


def fit(points: pd.DataFrame, rng: np.random.Generator, axis: str = "num_env_runners") -> ScalingFit:
    """Fit Amdahl's law and the Universal Scalability Law.

    Args:
        points: A row a measurement: `num`, the count, 1 or more; `env_steps_per_s`; `block`, the pass (seed) in which it was made.
        rng: Draws from the posterior.
        axis: What was counted, as the study's space calls it.

    Returns:
        The fit. Where the data can't tell, it says so in `sentence`.

    Raises:
        AnalysisError: There are fewer than three counts, a throughput is not a positive number, or a count is below 1.
    """
    points = _checked(points, axis)
    counts = np.unique(points["num"].to_numpy(float))
    if len(counts) < FEWEST_COUNTS:
        raise AnalysisError(
            f"a fit needs {FEWEST_COUNTS} counts or more; the study has {_listed(counts)}: add counts to {axis} in study.space"
        )
    means = _means(points)
    draws, of_law, usl_probability = _fit_both(means, rng)
    lam = np.exp(draws.law(1.0) + draws.of_mean())
    peak, at_peak = _peak(draws)
    knee = _knee(draws)
    found = {
        "lam": lam,
        "sigma": draws.sigma,
        "kappa": draws.kappa,
        "misfit": draws.misfit,
        "peak": peak,
        "peak_env_steps_per_s": at_peak,
        "knee": knee,
    }
    numbers = {
        f"{name}{end}": value
        for name, values in found.items()
        for end, value in zip(("", "_low", "_high"), _quantiles(values, means.replicated), strict=True)
    }
    usl = numbers["kappa_low"] > 0 if means.replicated else usl_probability > 0.5
    _, low, high = _quantiles(np.exp(draws.curve(2 * counts[-1]) + draws.of_new_measurement()), means.replicated)
    reasons = _reasons(means, numbers, high / low, axis)
    within = numbers["knee_low"] < counts[-1] and numbers["knee_high"] <= WIDEST_FACTOR * numbers["knee_low"]
    can_tell = bool(means.replicated and within and high <= WIDEST_FACTOR * low and numbers["misfit"] <= _LARGE_MISFIT)
    table = _count_table(means, draws)
    return ScalingFit(
        law="usl" if usl else "amdahl",
        usl_probability=usl_probability,
        **numbers,
        counts=table,
        laws=_law_table(of_law, usl_probability, means.replicated),
        num_seeds=int(table["num_seeds"].max()),
        axis=axis,
        can_tell=can_tell,
        reasons=tuple(reasons),
        sentence=_fit_sentence(numbers, usl, counts, int(table["num_seeds"].max()), can_tell, reasons, axis),
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
    points = _checked(points, axis)
    counts = np.unique(points["num"].to_numpy(float))
    if len(counts) <= FEWEST_COUNTS:
        raise AnalysisError(
            f"holding out the largest count needs {FEWEST_COUNTS + 1} counts or more; the study has {_listed(counts)}: add counts to "
            f"{axis} in study.space"
        )
    largest = points["num"] == counts[-1]
    left = points[largest]
    means = _means(points[~largest])
    draws, _, _ = _fit_both(means, rng)
    measured = np.log(left["env_steps_per_s"].to_numpy(float))
    log_x = draws.curve(counts[-1]) + _of_these_blocks(means, draws, left["block"])
    _, low, high = _quantiles(np.exp(log_x), means.replicated)
    predicted, mean = float(np.exp(np.median(log_x))), float(np.exp(measured.mean()))
    inside = bool(low <= mean <= high)
    reasons = []
    if not means.replicated:
        reasons.append("one seed gives no interval")
    elif high > WIDEST_FACTOR * low:
        reasons.append(f"the interval spans a factor of {high / low:.1f}")
    if means.replicated and _quantiles(_knee(draws))[1] >= means.num[-1]:
        reasons.append(f"up to {_count(means.num[-1])} {units_of(axis)[1]} nothing was seen that could end the growth")
    held = HeldOut(
        num=int(counts[-1]),
        env_steps_per_s=predicted,
        low=low,
        high=high,
        measured=mean,
        error_percent=100 * (predicted / mean - 1),
        inside=inside,
        num_seeds=len(left),
        largest_fitted=int(counts[-2]),
        can_tell=not reasons,
        reasons=tuple(reasons),
        sentence="",
    )
    return _with_sentence(held, axis)


# --- from measurements to means of counts ---


@dataclass(frozen=True)
class _Means:
    """Mean log throughput of each count, effects of the blocks taken out.

    Attributes:
        num: (num_counts,) ascending.
        mean: (num_counts,) log env steps/s, at the average block.
        shape: (num_counts, num_counts) covariance of the means, in units of the noise's variance.
        num_seeds: (num_counts,) measurements.
        noise: Standard deviation of one measurement about its count's and block's effects.
        free: Degrees of freedom of the noise.
        blocks: Their effects, by block, adding to 0; all 0 where they cannot be told from those of the counts.
        block_square: Mean square of the blocks, of which the noise's variance is a part; 0 where they are left out.
        per_block: Measurements in a block, on average.
        replicated: Noise and blocks can be judged.
    """

    num: Array
    mean: Array
    shape: Array
    num_seeds: npt.NDArray[np.int64]
    noise: float
    free: int
    blocks: pd.Series
    block_square: float
    per_block: float
    replicated: bool

    @property
    def separable(self) -> bool:
        """The blocks' effects are known apart from the counts'."""
        return self.block_square > 0


def _checked(points: pd.DataFrame, axis: str) -> pd.DataFrame:
    """The measurements, as numbers.

    Raises:
        AnalysisError: As `fit` says, but for the number of counts.
    """
    for name in ("num", "env_steps_per_s", "block"):
        if name not in points:
            raise AnalysisError(f"the measurements have no column {name!r}; they have {', '.join(map(str, points)) or 'none'}")
    speed = pd.to_numeric(points["env_steps_per_s"], errors="coerce").astype(float)
    bad = ~(np.isfinite(speed) & (speed > 0))
    if bad.any():
        raise AnalysisError(
            f"env_steps_per_s is not a positive number in {int(bad.sum())} of {len(points)} measurements; leave those out or repeat them"
        )
    num = pd.to_numeric(points["num"], errors="coerce").astype(float)
    below = ~(np.isfinite(num) & (num >= 1))
    if below.any():
        hint = " (0 runners sample in the learner's process, which is no point of this curve)" if axis == "num_env_runners" else ""
        raise AnalysisError(f"{axis} is below 1 in {int(below.sum())} of {len(points)} measurements{hint}; leave those out")
    return pd.DataFrame({"num": num, "env_steps_per_s": speed, "block": points["block"].astype(object)}).reset_index(drop=True)


def _means(points: pd.DataFrame) -> _Means:
    """Least squares of log X on counts and blocks."""
    num, count = np.unique(points["num"].to_numpy(float), return_inverse=True)
    blocks, block = np.unique(points["block"].astype(str), return_inverse=True)
    y = np.log(points["env_steps_per_s"].to_numpy(float))
    of_count = np.eye(len(num))[count]
    # Effects that add to 0: the last block's is minus the sum of the others'.
    of_block = np.vstack([np.eye(len(blocks) - 1), -np.ones(len(blocks) - 1)])[block]
    design = np.hstack([of_count, of_block])
    if np.linalg.matrix_rank(design) < design.shape[1]:
        # Each block has counts of its own: what is the block's and what is the count's can't be told, and noise is what blocks add to it.
        design = of_count
    centre = y.mean()
    inverse: Array = np.asarray(np.linalg.inv(design.T @ design), dtype=np.float64)
    effects = inverse @ design.T @ (y - centre)
    residual = y - centre - design @ effects
    free = len(y) - design.shape[1]
    noise = float(np.sqrt(residual @ residual / free)) if free > 0 else 0.0
    own = np.zeros(len(blocks))
    if design.shape[1] > len(num):
        own[:-1] = effects[len(num) :]
        own[-1] = -own[:-1].sum()
    per_block = len(y) / len(blocks)
    square = per_block * float(own @ own) / (len(blocks) - 1) if design.shape[1] > len(num) else 0.0
    return _Means(
        num=num,
        mean=centre + effects[: len(num)],
        shape=inverse[: len(num), : len(num)],
        num_seeds=np.bincount(count),
        noise=noise,
        free=free,
        blocks=pd.Series(own, index=blocks),
        block_square=max(square, _LEAST_NOISE**2) if design.shape[1] > len(num) else 0.0,
        per_block=per_block,
        replicated=bool(free > 0 and len(blocks) > 1),
    )


# --- the posterior ---


@dataclass(frozen=True)
class _Draws:
    """Draws from the posterior, (num_draws,) each unless said otherwise.

    Attributes:
        num: (num_counts,) measured counts.
        sigma: Contention.
        kappa: Coherency.
        level: log lam in the average block of the data.
        misfit: Step of the misfit's walk, per square root of a doubling.
        away: (num_draws, num_counts) misfit at the measured counts.
        noise: Standard deviation of log X within a block.
        between: Standard deviation of log X between blocks.
        num_blocks: How many the data have.
        walk: Standard normal: where the misfit goes between and beyond the counts.
        limit_at: Doublings beyond the largest count at which a limit is met.
        limit_fall: Power of n by which throughput falls from there on.
        stays: Uniform; below `_STAYS`, throughput does not fall beyond the largest count but for a limit.
        normals: (3, num_draws) standard normal: of the level, of a new block, of a new measurement.
    """

    num: Array
    sigma: Array
    kappa: Array
    level: Array
    misfit: Array
    away: Array
    noise: Array
    between: Array
    num_blocks: int
    walk: Array
    limit_at: Array
    limit_fall: Array
    stays: Array
    normals: Array

    def law(self, num: float | Array) -> Array:
        """Log X by the laws, without misfit."""
        return np.asarray(self.level + _log_law(num, self.sigma, self.kappa))

    def curve(self, num: float) -> Array:
        """Log X at a count, misfit and limits beyond the largest count included."""
        doublings = np.log2(num / self.num[-1])
        if doublings <= 0:
            return self.law(num) + self._away(num)
        free = np.minimum(self.limit_at, doublings)
        until = self._beyond(self.num[-1] * 2**free)
        after = np.minimum(self._beyond(num) - until, -self.limit_fall * np.log(2) * (doublings - free))
        return np.asarray(until + after + self._away(num))

    def _beyond(self, num: float | Array) -> Array:
        """The laws beyond the largest count, where some draws do not fall."""
        law = self.law(num)
        return np.asarray(np.where(self.stays < _STAYS, np.maximum(law, self.law(self.num[-1])), law))

    def of_mean(self) -> Array:
        """What the mean over many blocks may differ by from the blocks of the data."""
        return np.asarray(self.between / np.sqrt(self.num_blocks) * self.normals[0])

    def of_new_measurement(self) -> Array:
        """What one measurement in a block of its own may differ by."""
        return np.asarray(self.of_mean() + self.between * self.normals[1] + self.noise * self.normals[2])

    def _away(self, num: float) -> Array:
        """The misfit: a random walk over log2 of the count through its values at the measured counts."""
        at, t = np.log2(self.num), float(np.log2(num))
        right = int(np.searchsorted(at, t))
        if right < len(at) and at[right] == t:
            return self.away[:, right]
        if right in (0, len(at)):
            end = min(right, len(at) - 1)
            return np.asarray(self.away[:, end] + self.misfit * np.sqrt(abs(t - at[end])) * self.walk)
        share = (t - at[right - 1]) / (at[right] - at[right - 1])
        spread = np.sqrt(share * (1 - share) * (at[right] - at[right - 1]))
        return np.asarray((1 - share) * self.away[:, right - 1] + share * self.away[:, right] + self.misfit * spread * self.walk)


def _log_law(num: float | Array, sigma: Array, kappa: Array) -> Array:
    """Log X(n) - log lam."""
    num = np.asarray(num, dtype=float)
    return np.asarray(np.log(num) - np.log1p(sigma * (num - 1) + kappa * num * (num - 1)))


def _fit_both(means: _Means, rng: np.random.Generator) -> tuple[_Draws, dict[str, _Draws], float]:
    """Draws averaged over both laws, those of each law, and the weight of the Universal Scalability Law."""
    noises, log_noise = _noise_grid(means)
    fitted = {law: _posterior(means, law, noises, log_noise, rng) for law in LAWS}
    weight = float(special.expit(fitted["usl"][0] - fitted["amdahl"][0]))
    common = _around(means, rng)
    of_law = {law: _with_blocks(means, parts, common) for law, (_, parts) in fitted.items()}
    take = np.arange(_NUM_DRAWS) < round(weight * _NUM_DRAWS)
    parts = {
        name: np.where(take if usl.ndim == 1 else take[:, None], usl, fitted["amdahl"][1][name]) for name, usl in fitted["usl"][1].items()
    }
    return _with_blocks(means, parts, common), of_law, weight


def _around(means: _Means, rng: np.random.Generator) -> dict[str, Array]:
    """Draws that no law is needed for."""
    free = max(len(means.blocks) - 1, 1)
    rate = -np.log1p(-_LIMIT_PER_DOUBLING)
    return {
        "square": free * means.block_square / rng.chisquare(free, _NUM_DRAWS),
        "walk": rng.standard_normal(_NUM_DRAWS),
        "limit_at": np.where(rng.random(_NUM_DRAWS) < _LIMIT_AT_ONCE, 0.0, rng.exponential(1 / rate, _NUM_DRAWS)),
        "limit_fall": rng.exponential(_MEAN_FALL, _NUM_DRAWS),
        "stays": rng.random(_NUM_DRAWS),
        "normals": rng.standard_normal((3, _NUM_DRAWS)),
    }


def _with_blocks(means: _Means, parts: Mapping[str, Array], common: Mapping[str, Array]) -> _Draws:
    """A law's draws with the blocks' standard deviation: their mean square less the noise's share in it."""
    between = np.sqrt(np.maximum(common["square"] - parts["noise"] ** 2, 0.0) / means.per_block)
    if not means.separable:
        between = np.zeros(_NUM_DRAWS)
    return _Draws(
        num=means.num,
        between=between,
        num_blocks=len(means.blocks),
        **parts,
        **{name: values for name, values in common.items() if name != "square"},
    )


def _noise_grid(means: _Means) -> tuple[Array, Array]:
    """Standard deviations that the noise may have, and the logarithms of their weights: what the replicates say."""
    if not means.replicated:
        return np.geomspace(*_NOISE_OF_SINGLE_SEEDS, _NUM_NOISES), np.zeros(_NUM_NOISES)
    measured = max(means.noise, _LEAST_NOISE)
    least, most = measured * np.sqrt(means.free / np.asarray(stats.chi2.ppf([0.997, 0.003], means.free), dtype=float))
    noises = np.geomspace(float(least), float(most), _NUM_NOISES)
    return noises, -means.free * (np.log(noises) + 0.5 * (measured / noises) ** 2)


def _posterior(means: _Means, law: str, noises: Array, log_noise: Array, rng: np.random.Generator) -> tuple[float, dict[str, Array]]:
    """The posterior under one law, on a grid that closes in on it.

    Returns:
        The logarithm of the evidence, up to a constant that both laws share, and draws.
    """
    largest = means.num[-1]
    whole = {
        "sigma": np.log([_LEAST_COST / (largest - 1), 1.0]),
        "kappa": np.log([_LEAST_COST / (largest * (largest - 1)), 1.0]),
    }
    nothing = {"sigma": _NO_CONTENTION, "kappa": 1.0 if law == "amdahl" else 0.0}
    hypers = [_Hyper.of(means, noise, misfit) for noise in noises for misfit in _MISFITS]
    # Half-Cauchy, on a grid that is even in the logarithm.
    log_misfit = np.log(_MISFITS / (1 + (_MISFITS / _MISFIT_SCALE) ** 2))
    log_hyper = (log_noise[:, None] + log_misfit).ravel() + np.array([hyper.log_scale for hyper in hypers])
    box = whole
    for _ in range(_MOST_PASSES):
        values, log_prior, edges = {}, {}, {}
        for name, (low, high) in box.items():
            edges[name] = np.linspace(low, high, (_CELLS if nothing[name] < 1 else 0) + 1)
            share = np.diff(edges[name]) / np.ptp(whole[name])
            values[name] = np.concatenate([[0.0], np.exp((edges[name][1:] + edges[name][:-1]) / 2)])
            with np.errstate(divide="ignore"):
                log_prior[name] = np.log(np.concatenate([[nothing[name]], (1 - nothing[name]) * share]))
        sigma, kappa = (a.ravel() for a in np.meshgrid(values["sigma"], values["kappa"], indexing="ij"))
        residual = means.mean - _log_law(means.num, sigma[:, None], kappa[:, None])
        log_posterior = np.stack([hyper.log_likelihood(residual) for hyper in hypers]) + log_hyper[:, None]
        log_posterior += (log_prior["sigma"][:, None] + log_prior["kappa"]).ravel()
        evidence = float(special.logsumexp(log_posterior))
        weights = np.exp(log_posterior - evidence)
        grid = weights.sum(axis=0).reshape(len(values["sigma"]), len(values["kappa"]))
        closer = {"sigma": _closer(edges["sigma"], grid.sum(axis=1)), "kappa": _closer(edges["kappa"], grid.sum(axis=0))}
        if all(np.ptp(closer[name]) >= 0.6 * np.ptp(box[name]) for name in box):
            break
        box = closer
    which = np.searchsorted(np.cumsum(weights.ravel())[:-1], rng.random(_NUM_DRAWS))
    hyper_index, cell = np.divmod(which, weights.shape[1])
    drawn = {}
    for name, index in zip(("sigma", "kappa"), np.divmod(cell, len(values["kappa"])), strict=True):
        # Spread over the grid's cells, so that quantiles are not stuck on its points.
        width = edges[name][1] - edges[name][0] if len(edges[name]) > 1 else 0.0
        drawn[name] = np.minimum(values[name][index] * np.exp(width * rng.uniform(-0.5, 0.5, _NUM_DRAWS)), 1.0)
    residual = means.mean - _log_law(means.num, drawn["sigma"][:, None], drawn["kappa"][:, None])
    level, away = np.empty(_NUM_DRAWS), np.empty(residual.shape)
    for index in np.unique(hyper_index):
        at = hyper_index == index
        level[at], away[at] = hypers[index].draw(residual[at], rng)
    noise, misfit = np.repeat(noises, len(_MISFITS)), np.tile(_MISFITS, len(noises))
    return evidence, {**drawn, "level": level, "away": away, "noise": noise[hyper_index], "misfit": misfit[hyper_index]}


def _closer(edges: Array, weights: Array) -> Array:
    """The range of the cells that hold all but a trace of the weight, and one more on either side; the first weight is that of 0."""
    cells = weights[1:]
    if cells.sum() < 1e-6:
        return edges[[0, -1]]
    held = np.flatnonzero(cells > 1e-5 * cells.sum())
    return edges[[max(held[0] - 1, 0), min(held[-1] + 2, len(edges) - 1)]]


@dataclass(frozen=True)
class _Hyper:
    """The normal model of the means at one noise and one misfit; the level is flat before the data.

    Attributes:
        project: (num_counts, num_counts) precision of the means, level taken out.
        log_scale: Logarithm of the density's constant.
        level_weights: (num_counts,) residuals to the level's estimate.
        level_sd: Of the level.
        gain: (num_counts, num_counts) residuals about the level to the misfit's estimate.
        root: (num_counts, num_counts) square root of the misfit's covariance.
    """

    project: Array
    log_scale: float
    level_weights: Array
    level_sd: float
    gain: Array
    root: Array

    @classmethod
    def of(cls, means: _Means, noise: float, misfit: float) -> "_Hyper":
        """The walk starts at the smallest count, where the law meets the curve."""
        t = np.log2(means.num / means.num[0])
        walk = misfit**2 * np.minimum(t[:, None], t)
        covariance = walk + noise**2 * means.shape
        precision = np.linalg.inv(covariance)
        summed = precision.sum(axis=1)
        total = float(summed.sum())
        gain = walk @ precision
        values, vectors = np.linalg.eigh(walk - gain @ walk)
        return cls(
            project=precision - np.outer(summed, summed) / total,
            log_scale=float(-0.5 * np.linalg.slogdet(covariance)[1] - 0.5 * np.log(total)),
            level_weights=summed / total,
            level_sd=total**-0.5,
            gain=gain,
            root=vectors * np.sqrt(np.maximum(values, 0.0)),
        )

    def log_likelihood(self, residual: Array) -> Array:
        """Of means less law, (..., num_counts), without the constant."""
        return np.asarray(-0.5 * np.einsum("gi,gi->g", residual @ self.project, residual))

    def draw(self, residual: Array, rng: np.random.Generator) -> tuple[Array, Array]:
        """Levels and misfits at the counts, one each a row of residuals."""
        level = residual @ self.level_weights + self.level_sd * rng.standard_normal(len(residual))
        away = (residual - level[:, None]) @ self.gain.T + rng.standard_normal(residual.shape) @ self.root.T
        return level, away


# --- what follows from the draws ---


def _quantiles(values: Array, replicated: bool = True) -> tuple[float, float, float]:
    """Median and 95% interval; infinite ends stay infinite. NaN ends without replicates."""
    tail = (1 - CONFIDENCE) / 2
    middle, low, high = (float(v) for v in np.quantile(values, [0.5, tail, 1 - tail], method="inverted_cdf"))
    return (middle, low, high) if replicated else (middle, np.nan, np.nan)


def _peak(draws: _Draws) -> tuple[Array, Array]:
    """Where the law is highest, at least 1, and how high."""
    with np.errstate(divide="ignore", invalid="ignore"):
        peak = np.sqrt((1 - draws.sigma) / draws.kappa)
        limit = np.exp(draws.level) / draws.sigma
    peak = np.where(draws.kappa > 0, np.maximum(peak, 1.0), np.inf)
    at = np.where(np.isfinite(peak), peak, 1.0)
    height = np.where(np.isfinite(peak), np.exp(draws.law(at)), limit)
    # The misfit at the nearest count: a kink's plateau is lower than the law's peak.
    nearest = np.abs(np.log(np.minimum(peak, draws.num[-1]))[:, None] - np.log(draws.num)).argmin(axis=1)
    height = height * np.exp(draws.away[np.arange(len(peak)), nearest] + draws.of_mean())
    return np.where(peak > SIGHT * draws.num[-1], np.inf, peak), height


def _knee(draws: _Draws) -> Array:
    """The largest count whose last runner brings half of what the first one brings, by bisection: steps only shrink."""

    def brings(num: Array) -> npt.NDArray[np.bool_]:
        step = np.exp(_log_law(num, draws.sigma, draws.kappa)) - np.exp(_log_law(np.maximum(num - 1, 1), draws.sigma, draws.kappa))
        return np.asarray(np.where(num > 1, step, 1.0) >= 0.5)

    low = np.ones(len(draws.sigma))
    high = np.full(len(draws.sigma), np.ceil(SIGHT * draws.num[-1]) + 1)
    beyond = brings(high)
    while (high - low > 1).any():
        middle = np.where(high - low > 1, np.floor((low + high) / 2), low)
        holds = brings(middle)
        low, high = np.where(holds, middle, low), np.where(holds, high, np.maximum(middle, low + 1))
    return np.where(beyond, np.inf, low)


def _count_table(means: _Means, draws: _Draws) -> pd.DataFrame:
    """What was measured at each count, and how efficient the fit says it is."""
    one = draws.curve(1.0)
    # Satterthwaite's degrees of freedom of one measurement's variance, a sum of the blocks' and the noise's.
    noise = max(means.noise, _LEAST_NOISE) ** 2
    parts = [(noise, means.free)]
    if means.separable:
        size = means.per_block
        parts = [(means.block_square / size, len(means.blocks) - 1), (noise * (size - 1) / size, means.free)]
    variance = sum(part for part, _ in parts)
    free = variance**2 / sum(part**2 / df for part, df in parts if df > 0) if means.replicated else np.nan
    rows = []
    for i, num in enumerate(means.num):
        half = stats.t.ppf((1 + CONFIDENCE) / 2, free) * np.sqrt(variance / means.num_seeds[i]) if means.replicated else np.nan
        ends = {end: float(np.exp(means.mean[i] + sign * half)) for end, sign in (("_low", -1), ("_high", 1))}
        efficiency = _quantiles(np.exp(draws.curve(float(num)) - one - np.log(num)), means.replicated)
        rows.append(
            {
                "num": int(num) if float(num).is_integer() else float(num),
                "env_steps_per_s": float(np.exp(means.mean[i])),
                **{f"env_steps_per_s{end}": value for end, value in ends.items()},
                **{f"efficiency{end}": value for end, value in zip(("", "_low", "_high"), efficiency, strict=True)},
                "num_seeds": int(means.num_seeds[i]),
            }
        )
    return pd.DataFrame(rows)


def _law_table(of_law: Mapping[str, _Draws], usl_probability: float, replicated: bool) -> pd.DataFrame:
    rows = []
    for law, draws in of_law.items():
        row: dict[str, object] = {"law": law, "weight": usl_probability if law == "usl" else 1 - usl_probability}
        for name, values in (("lam", np.exp(draws.law(1.0) + draws.of_mean())), ("sigma", draws.sigma), ("kappa", draws.kappa)):
            row.update(zip((name, f"{name}_low", f"{name}_high"), _quantiles(values, replicated), strict=True))
        rows.append(row)
    return pd.DataFrame(rows)


def _of_these_blocks(means: _Means, draws: _Draws, blocks: pd.Series) -> Array:
    """What the mean of one measurement in each of these blocks differs by from the curve."""
    names = blocks.astype(str)
    known = names.isin(means.blocks.index)
    shift = float(names[known].map(means.blocks).sum()) / len(names)
    # A block's effect is known as well as its measurements tell; a new block's is not known at all.
    variance = draws.noise**2 / len(names)
    if means.separable and set(names) != set(means.blocks.index):
        variance = variance + draws.noise**2 / means.per_block * float(known.mean()) / max(1, names[known].nunique())
    new = names[~known].value_counts().to_numpy(float)
    variance = variance + draws.between**2 * float((new**2).sum()) / len(names) ** 2
    return np.asarray(shift + np.sqrt(variance) * draws.normals[2])


# --- in words ---


def _reasons(means: _Means, numbers: Mapping[str, float], doubled: float, axis: str) -> list[str]:
    largest, units = _count(means.num[-1]), units_of(axis)[1]
    reasons = []
    if not means.replicated:
        reasons.append("one seed gives no interval")
    elif not means.separable:
        reasons.append("no two passes share enough counts to tell their speed from the counts'")
    if len(means.num) == FEWEST_COUNTS:
        reasons.append(f"{FEWEST_COUNTS} counts fit the law whatever they are")
    if means.num[0] > 1:
        reasons.append(f"1 was not measured: what one {units_of(axis)[0]} gives is extrapolated from {_count(means.num[0])}")
    if numbers["misfit"] > _LARGE_MISFIT:
        reasons.append(f"the curve has a kink that neither law has: it leaves them by {100 * numbers['misfit']:.0f}% per doubling")
    if means.replicated and numbers["knee_low"] >= means.num[-1]:
        reasons.append(f"throughput still rises at {largest} {units}: the peak is known from below only, so add larger counts")
    if doubled > WIDEST_FACTOR:
        reasons.append(f"at twice the largest count the prediction spans a factor of {doubled:.1f}")
    return reasons


def _fit_sentence(
    numbers: Mapping[str, float], usl: bool, counts: Array, num_seeds: int, can_tell: bool, reasons: list[str], axis: str
) -> str:
    """The fit in words."""
    one, units = units_of(axis)
    law = LAWS["usl" if usl else "amdahl"]
    seeds = f"{num_seeds} seed{'' if num_seeds == 1 else 's'}"
    text = (
        f"One {one} gives {_with_ends(numbers, 'lam', _speed)} env steps/s (95% intervals, {seeds} at {_listed(counts)} {units}); "
        f"the data {'need' if usl else 'do not reject'} {law}, with contention {_with_ends(numbers, 'sigma', _small)}"
        f" and coherency {_with_ends(numbers, 'kappa', _small)}."
    )
    text += f" {_knee_words(numbers, float(counts[-1]), one, units)} {_peak_words(numbers, units)}"
    if reasons:
        text += f" {'Mind that' if can_tell else f'How many {units} are enough can' + chr(39) + 't be told from these data:'} "
        text += f"{'; '.join(reasons)}."
    return text


def _knee_words(numbers: Mapping[str, float], largest: float, one: str, units: str) -> str:
    knee, low, high = (numbers[f"knee{end}"] for end in ("", "_low", "_high"))
    if not np.isfinite(knee):
        least = f" (at least {_count(low)})" if np.isfinite(low) else ""
        return f"One more {one} brings at least half of what the first brought as far as can be seen{least}."
    ends = f" [{_count(low)}, {_count(high) if np.isfinite(high) else 'beyond sight'}]" if low == low else ""
    beyond = ", beyond what was measured" if knee > largest else ""
    return f"Up to {_count(knee)}{ends} {units} one more brings at least half of what the first brought{beyond}."


def _peak_words(numbers: Mapping[str, float], units: str) -> str:
    peak, low, high = (numbers[f"peak{end}"] for end in ("", "_low", "_high"))
    if not np.isfinite(peak):
        least = f": it is at {_count(low)} {units} or more" if np.isfinite(low) else ""
        return f"No peak is within sight{least}."
    ends = f" [{_count(low)}, {_count(high) if np.isfinite(high) else 'beyond sight'}]" if low == low else ""
    return f"Throughput peaks at {_count(peak)}{ends} {units} with {_with_ends(numbers, 'peak_env_steps_per_s', _speed)} env steps/s."


def _with_sentence(held: HeldOut, axis: str) -> HeldOut:
    units = units_of(axis)[1]
    ends = f" [{_speed(held.low)}, {_speed(held.high)}]" if held.low == held.low else ""
    verdict = f", {'inside' if held.inside else 'outside'} the 95% prediction interval" if ends else ""
    text = (
        f"Fitted up to {held.largest_fitted} {units}, the laws predict {_speed(held.env_steps_per_s)}{ends} env steps/s at {held.num}; "
        f"measured were {_speed(held.measured)} ({held.num_seeds} seed{'' if held.num_seeds == 1 else 's'}): the prediction is "
        f"{abs(held.error_percent):.1f}% too {'high' if held.error_percent > 0 else 'low'}{verdict}."
    )
    if held.reasons:
        text += f" This tells little: {'; '.join(held.reasons)}."
    return replace(held, sentence=text)


def units_of(axis: str) -> tuple[str, str]:
    """What one of a count is called, and several."""
    return _UNITS.get(axis, (axis, axis))


def _with_ends(numbers: Mapping[str, float], name: str, form: Callable[[float], str]) -> str:
    value, low, high = (numbers[f"{name}{end}"] for end in ("", "_low", "_high"))
    return f"{form(value)} [{form(low)}, {form(high)}]" if low == low else form(value)


def _count(value: float) -> str:
    return f"{value:,.0f}"


def _listed(counts: Array) -> str:
    return ", ".join(f"{count:g}" for count in counts) or "none"


def _speed(value: float) -> str:
    if not np.isfinite(value):
        return "no limit"
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _small(value: float) -> str:
    return f"{value:.2g}"
