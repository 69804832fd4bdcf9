"""Amdahl's law and the Universal Scalability Law: draws from their posterior, averaged over both,
given mean log throughputs.

Not scipy's least squares with weights by AICc and a parametric bootstrap: on the curves of
`benchmarks/calibration/scaling_laws.py` that follow a law (90 studies), its 95% intervals held 77% of held-out largest
counts and 89% of means at twice the largest, these here 99% and 100%; on curves with a kink (70 studies) 64% and 47%,
these 93% and 86%. It took 3.6 to 4.7 times the CPU seconds.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy import special

from analysis.stats.distributions import chi2_quantile
from analysis.stats.interval import CONFIDENCE, Array, Interval
from analysis.stats.law_means import LEAST_NOISE, Means

LAWS: Mapping[str, str] = {"amdahl": "Amdahl's law", "usl": "the Universal Scalability Law"}

SIGHT = 10.0
"""A peak or a knee beyond this many times the largest count is out of sight."""

# Priors, chosen by the coverage found in simulation. Contention and coherency are log-uniform from where they would
# cost 1% at the largest count up to 1, or nothing at all.
_LEAST_COST = 0.01
_NO_CONTENTION = 0.2
# Step of the misfit's walk, log X per square root of a doubling: half-Cauchy with this scale.
_MISFIT_SCALE = 0.01
_MISFITS: Array = np.geomspace(0.002, 0.8, 13)
# Beyond the largest count waits what no count has met yet: the last core, the memory, the learner. The chance that
# growth ends right there (people measure up to the number of cores), the chance that it ends in each further doubling,
# and the mean power of n by which throughput falls from then on. And where the laws say that it falls, the chance that
# it only stays: coherency is seen before the peak, not behind it.
_LIMIT_AT_ONCE = 0.05
_LIMIT_PER_DOUBLING = 0.1
_MEAN_FALL = 0.3
_STAYS = 0.2
# Without replicates the noise is anything between.
_NOISE_OF_SINGLE_SEEDS = (0.005, 0.15)
_NUM_NOISES = 7
_CELLS = 48
_MOST_PASSES = 6
NUM_DRAWS = 4000


@dataclass(frozen=True)
class Draws:
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
        return np.asarray(self.level + log_law(num, self.sigma, self.kappa))

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
        """By how much the mean over many blocks may differ from the blocks of the data."""
        return np.asarray(self.between / np.sqrt(self.num_blocks) * self.normals[0])

    def of_new_measurement(self) -> Array:
        """By how much one measurement in a block of its own may differ."""
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
        return np.asarray(
            (1 - share) * self.away[:, right - 1] + share * self.away[:, right] + self.misfit * spread * self.walk
        )


def log_law(num: float | Array, sigma: Array, kappa: Array) -> Array:
    """Log X(n) - log lam."""
    num = np.asarray(num, dtype=float)
    return np.asarray(np.log(num) - np.log1p(sigma * (num - 1) + kappa * num * (num - 1)))


def fit_both(means: Means, rng: np.random.Generator) -> tuple[Draws, dict[str, Draws], float]:
    """Draws averaged over both laws, those of each law, and the weight of the Universal Scalability Law."""
    noises, log_noise = _noise_grid(means)
    hypers = [_Hyper.of(means, noise, misfit) for noise in noises for misfit in _MISFITS]
    fitted = {law: _posterior(means, law, noises, log_noise, hypers, rng) for law in LAWS}
    weight = float(special.expit(fitted["usl"][0] - fitted["amdahl"][0]))
    common = _around(means, rng)
    of_law = {law: _with_blocks(means, parts, common) for law, (_, parts) in fitted.items()}
    take = np.arange(NUM_DRAWS) < round(weight * NUM_DRAWS)
    parts = {
        name: np.where(take if usl.ndim == 1 else take[:, None], usl, fitted["amdahl"][1][name])
        for name, usl in fitted["usl"][1].items()
    }
    return _with_blocks(means, parts, common), of_law, weight


def _around(means: Means, rng: np.random.Generator) -> dict[str, Array]:
    """Draws that no law is needed for."""
    free = max(len(means.blocks) - 1, 1)
    rate = -np.log1p(-_LIMIT_PER_DOUBLING)
    return {
        "square": free * means.block_square / rng.chisquare(free, NUM_DRAWS),
        "walk": rng.standard_normal(NUM_DRAWS),
        "limit_at": np.where(rng.random(NUM_DRAWS) < _LIMIT_AT_ONCE, 0.0, rng.exponential(1 / rate, NUM_DRAWS)),
        "limit_fall": rng.exponential(_MEAN_FALL, NUM_DRAWS),
        "stays": rng.random(NUM_DRAWS),
        "normals": rng.standard_normal((3, NUM_DRAWS)),
    }


def _with_blocks(means: Means, parts: Mapping[str, Array], common: Mapping[str, Array]) -> Draws:
    """A law's draws with the blocks' standard deviation: their mean square less the noise's share in it."""
    between = np.sqrt(np.maximum(common["square"] - parts["noise"] ** 2, 0.0) / means.per_block)
    if not means.separable:
        between = np.zeros(NUM_DRAWS)
    return Draws(
        num=means.num,
        between=between,
        num_blocks=len(means.blocks),
        **parts,
        **{name: values for name, values in common.items() if name != "square"},
    )


def _noise_grid(means: Means) -> tuple[Array, Array]:
    """Standard deviations that the noise may have, and the logarithms of their weights: what the replicates say."""
    if not means.replicated:
        return np.geomspace(*_NOISE_OF_SINGLE_SEEDS, _NUM_NOISES), np.zeros(_NUM_NOISES)
    measured = max(means.noise, LEAST_NOISE)
    least, most = measured * np.sqrt(means.free / chi2_quantile([0.997, 0.003], means.free))
    noises = np.geomspace(float(least), float(most), _NUM_NOISES)
    return noises, -means.free * (np.log(noises) + 0.5 * (measured / noises) ** 2)


def _posterior(
    means: Means, law: str, noises: Array, log_noise: Array, hypers: Sequence["_Hyper"], rng: np.random.Generator
) -> tuple[float, dict[str, Array]]:
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
        residual = means.mean - log_law(means.num, sigma[:, None], kappa[:, None])
        log_posterior = np.stack([hyper.log_likelihood(residual) for hyper in hypers]) + log_hyper[:, None]
        log_posterior += (log_prior["sigma"][:, None] + log_prior["kappa"]).ravel()
        evidence = float(special.logsumexp(log_posterior))
        weights = np.exp(log_posterior - evidence)
        grid = weights.sum(axis=0).reshape(len(values["sigma"]), len(values["kappa"]))
        closer = {
            "sigma": _closer(edges["sigma"], grid.sum(axis=1)),
            "kappa": _closer(edges["kappa"], grid.sum(axis=0)),
        }
        if all(np.ptp(closer[name]) >= 0.6 * np.ptp(box[name]) for name in box):
            break
        box = closer
    which = np.searchsorted(np.cumsum(weights.ravel())[:-1], rng.random(NUM_DRAWS))
    hyper_index, cell = np.divmod(which, weights.shape[1])
    drawn = {}
    for name, index in zip(("sigma", "kappa"), np.divmod(cell, len(values["kappa"])), strict=True):
        # Spread over the grid's cells, so that quantiles are not stuck on its points.
        width = edges[name][1] - edges[name][0] if len(edges[name]) > 1 else 0.0
        drawn[name] = np.minimum(values[name][index] * np.exp(width * rng.uniform(-0.5, 0.5, NUM_DRAWS)), 1.0)
    residual = means.mean - log_law(means.num, drawn["sigma"][:, None], drawn["kappa"][:, None])
    level, away = np.empty(NUM_DRAWS), np.empty(residual.shape)
    for index in np.unique(hyper_index):
        at = hyper_index == index
        level[at], away[at] = hypers[index].draw(residual[at], rng)
    noise, misfit = np.repeat(noises, len(_MISFITS)), np.tile(_MISFITS, len(noises))
    return evidence, {**drawn, "level": level, "away": away, "noise": noise[hyper_index], "misfit": misfit[hyper_index]}


def _closer(edges: Array, weights: Array) -> Array:
    """The range of the cells that hold all but a trace of the weight, and one more on either side;
    the first weight is that of 0.
    """
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
    def of(cls, means: Means, noise: float, misfit: float) -> "_Hyper":
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


def interval_of(values: Array, replicated: bool = True) -> Interval:
    """Median and 95% interval of draws; infinite ends stay infinite. NaN ends without replicates."""
    tail = (1 - CONFIDENCE) / 2
    middle, low, high = (float(v) for v in np.quantile(values, [0.5, tail, 1 - tail], method="inverted_cdf"))
    return Interval(middle, low, high) if replicated else Interval(middle, np.nan, np.nan)


def peak(draws: Draws) -> tuple[Array, Array]:
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


def knee(draws: Draws) -> Array:
    """The largest count whose last runner brings half of what the first one brings, by bisection: steps only shrink."""

    def brings(num: Array) -> npt.NDArray[np.bool_]:
        step = np.exp(log_law(num, draws.sigma, draws.kappa)) - np.exp(
            log_law(np.maximum(num - 1, 1), draws.sigma, draws.kappa)
        )
        return np.asarray(np.where(num > 1, step, 1.0) >= 0.5)

    low = np.ones(len(draws.sigma))
    high = np.full(len(draws.sigma), np.ceil(SIGHT * draws.num[-1]) + 1)
    beyond = brings(high)
    while (high - low > 1).any():
        middle = np.where(high - low > 1, np.floor((low + high) / 2), low)
        holds = brings(middle)
        low, high = np.where(holds, middle, low), np.where(holds, high, np.maximum(middle, low + 1))
    return np.where(beyond, np.inf, low)


def of_these_blocks(means: Means, draws: Draws, blocks: pd.Series) -> Array:
    """By how much the mean of one measurement in each of these blocks differs from the curve."""
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
