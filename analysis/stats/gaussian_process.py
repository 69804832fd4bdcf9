"""Curves of a measure over the learning rate as Gaussian processes: one a batch, or one shape for all of them
that shifts with the batch.

Not scikit-learn's regressor. With the same priors it gives the same curves (to 3e-10) in 0.18 s instead of 0.04 s; with
optimised ones its intervals of the best learning rate cover as well (95.7% against 94.4% of 324,
`benchmarks/calibration/learning_rate_batch.py`) in 2.1 times the CPU seconds; and the shape that shifts with the batch
takes a kernel of our own in 1,980 fits, 6.8 s instead of 0.02 s.
"""

from dataclasses import dataclass
from itertools import product

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy import special
from scipy.interpolate import CubicSpline

from analysis.stats.interval import CONFIDENCE, Array
from analysis.stats.moderated import moderate

# Priors of the curves. Lengths are decades of learning rate over which a curve bends; amplitudes are multiples of the
# spread of the measured means. Chosen, together with the prior seeds below, by the coverage found in simulation.
_LENGTHS_DECADES = (0.5, 0.8, 1.3, 2.0)
_AMPLITUDES = (0.5, 1.0, 2.0)
# How much a batch's curve may differ from the common one, as a share of its amplitude. Without this, intervals of the
# exponent cover as seldom as 40% when the curves' shapes differ a little between batches; with it they are wide where
# the shapes do differ.
_DEVIATIONS = (0.01, 0.02, 0.05, 0.2, 0.5)
EXPONENTS: Array = np.linspace(-1.5, 2.5, 33)
"""Those that are considered, alike before the data."""
# A variance of 3 seeds is too uncertain to weigh by: each is averaged with those at nearby learning rates in all
# batches (divergence is a matter of the learning rate), which weigh as that many more seeds.
_PRIOR_SEEDS = 2
_NOISE_DECADES = 0.4
_NOISE_FLOOR = 0.02
# Without replicates the noise is unknown: the shares of the spread's square that it may have.
_NOISE_OF_SINGLE_SEEDS = (0.02, 0.1, 0.4)
_FINE_POINTS = 81
NUM_DRAWS = 4000


@dataclass(frozen=True)
class Cells:
    """Mean of a measure at each (learning rate, batch), larger is better; sorted by batch, then learning rate.

    Attributes:
        lr: (num_cells,) learning rates.
        batch: (num_cells,) batches, env steps.
        mean: (num_cells,) over seeds.
        count: (num_cells,) seeds.
        noise: (num_cells,) variance of the mean.
        replicated: Some cell has two seeds: the noise is known.
    """

    lr: Array
    batch: Array
    mean: Array
    count: npt.NDArray[np.int64]
    noise: Array
    replicated: bool

    def take(self, keep: npt.NDArray[np.bool_]) -> "Cells":
        """Some of the cells."""
        return Cells(
            self.lr[keep], self.batch[keep], self.mean[keep], self.count[keep], self.noise[keep], self.replicated
        )

    @classmethod
    def of(cls, data: pd.DataFrame) -> "Cells":
        """Means over seeds, with their noise.

        Args:
            data: A row a run: `lr`, `batch`, `value`; NaN where there is none.
        """
        cells = (
            data.dropna(subset="value").groupby(["batch", "lr"])["value"].agg(["mean", "count", "var"]).reset_index()
        )
        lr, count, variance = (
            cells["lr"].to_numpy(float),
            cells["count"].to_numpy(np.int64),
            cells["var"].to_numpy(float),
        )
        free, x = count - 1, np.log10(lr)
        near = np.exp(-0.5 * ((x[:, None] - x) / _NOISE_DECADES) ** 2) + _NOISE_FLOOR
        pooled = near @ (free * np.nan_to_num(variance)) / np.maximum(near @ free, 1e-12)
        noise = moderate(variance, free, pooled, _PRIOR_SEEDS)[0] / count
        return cls(
            lr, cells["batch"].to_numpy(float), cells["mean"].to_numpy(float), count, noise, bool(free.sum() > 0)
        )

    @property
    def x(self) -> Array:
        """(num_cells,) log10 learning rate."""
        return np.asarray(np.log10(self.lr))

    @property
    def z(self) -> Array:
        """(num_cells,) log10 batch."""
        return np.asarray(np.log10(self.batch))

    @property
    def spread(self) -> float:
        """Standard deviation of the means about their batch's, 0 if all are alike."""
        batches, index = np.unique(self.batch, return_inverse=True)
        free = len(index) - len(batches)
        centred = self.mean - (np.bincount(index, self.mean) / np.bincount(index))[index]
        spread = float(np.sqrt((centred**2).sum() / free)) if free > 0 else 0.0
        return spread if spread > 1e-9 * np.abs(self.mean).max(initial=0.0) else 0.0


@dataclass(frozen=True)
class Curve:
    """A batch's curve over a fine grid of log10 learning rate: a mixture of normal posteriors, one a prior.

    Attributes:
        grid: (num_points,)
        mean: (num_points,) of the mixture.
        means: (num_priors, num_points)
        covariances: (num_priors, num_points, num_points)
        weights: (num_priors,) adding to 1.
    """

    grid: Array
    mean: Array
    means: Array
    covariances: Array
    weights: Array

    def draw_highest(self, rng: np.random.Generator) -> npt.NDArray[np.intp]:
        """(NUM_DRAWS,) indices of the highest points of curves drawn from the mixture."""
        highest = []
        for number, mean, covariance in zip(
            rng.multinomial(NUM_DRAWS, self.weights), self.means, self.covariances, strict=True
        ):
            if number:
                values, vectors = np.linalg.eigh(covariance)
                root = vectors * np.sqrt(np.maximum(values, 0.0))
                highest.append((mean + rng.standard_normal((number, len(mean))) @ root.T).argmax(axis=1))
        return np.concatenate(highest)


def _noise_options(cells: Cells) -> list[Array]:
    """The noise of the means, or what it may be when there are no replicates."""
    if cells.replicated:
        return [cells.noise]
    return [np.full(len(cells.lr), share * cells.spread**2) for share in _NOISE_OF_SINGLE_SEEDS]


def _kernel(differences: Array, length: float) -> Array:
    """Matern covariance, smoothness 7/2: a smoother one is too sure of what lies between the grid's points,
    a rougher one unsure.
    """
    r = np.sqrt(7) * np.abs(differences) / length
    return np.asarray((1 + r * (1 + r * (0.4 + r / 15))) * np.exp(-r))


def fit_each(cells: Cells) -> dict[float, Curve]:
    """A curve for each batch with three learning rates or more, keyed by batch; none if the measure never varies."""
    batches = [b for b in np.unique(cells.batch) if (cells.batch == b).sum() >= 3]
    spread = cells.spread
    if spread == 0:
        return {}
    log_weights = []
    fitted: dict[float, list[tuple[Array, Array]]] = {b: [] for b in batches}
    grids = {b: np.linspace(cells.x[cells.batch == b][0], cells.x[cells.batch == b][-1], _FINE_POINTS) for b in batches}
    for noise, length, amplitude in product(_noise_options(cells), _LENGTHS_DECADES, _AMPLITUDES):
        evidence, height = 0.0, (amplitude * spread) ** 2
        for b in batches:
            at = cells.batch == b
            x, y, grid = cells.x[at], cells.mean[at] - cells.mean[at].mean(), grids[b]
            level = (100 * spread) ** 2
            inner = (
                height * _kernel(x[:, None] - x, length)
                + level
                + np.diag(noise[at])
                + 1e-6 * spread**2 * np.eye(len(x))
            )
            cross = height * _kernel(grid[:, None] - x, length) + level
            gain = np.linalg.solve(inner, cross.T).T
            evidence += float(-0.5 * y @ np.linalg.solve(inner, y) - 0.5 * np.linalg.slogdet(inner)[1])
            covariance = height * _kernel(grid[:, None] - grid, length) + level - gain @ cross.T
            fitted[b].append((gain @ y, covariance))
        log_weights.append(evidence)
    weights = special.softmax(np.array(log_weights))
    curves = {}
    for b in batches:
        means = np.stack([mean for mean, _ in fitted[b]])
        curves[b] = Curve(
            grids[b], weights @ means, means, np.stack([covariance for _, covariance in fitted[b]]), weights
        )
    return curves


def edge(grid: Array, index: int) -> str:
    """On which edge of the grid a point lies; a single point is no grid."""
    return "" if len(grid) < 2 else "low" if index == 0 else "high" if index == len(grid) - 1 else ""


def best_of(curve: Curve, replicated: bool, rng: np.random.Generator) -> dict[str, object]:
    """Where the curve is highest, with the interval of the highest points of curves drawn from it."""
    index = int(curve.mean.argmax())
    best = {"best_lr": float(10 ** curve.grid[index]), "at_edge": edge(curve.grid, index)}
    if not replicated:
        return best
    drawn = curve.draw_highest(rng)
    tail = (1 - CONFIDENCE) / 2
    low, high = np.quantile(curve.grid[drawn], [tail, 1 - tail])
    low, high = min(low, curve.grid[index]), max(high, curve.grid[index])
    return {
        **best,
        "best_lr_low": float(10**low),
        "best_lr_high": float(10**high),
        "low_open": bool((drawn == 0).mean() > tail or index == 0),
        "high_open": bool((drawn == len(curve.grid) - 1).mean() > tail or index == len(curve.grid) - 1),
    }


def exponent_posterior(cells: Cells) -> tuple[Array, Array, list[tuple[float, float, float, Array]]]:
    """The posterior of the exponent.

    Returns:
        A fine grid of exponents, their probabilities, and the priors (length, amplitude, deviation, noise),
        the likeliest first.
    """
    spread, level = cells.spread, (100 * cells.spread) ** 2
    same = (cells.batch[:, None] == cells.batch).astype(float)
    dx, dz = cells.x[:, None] - cells.x, cells.z[:, None] - cells.z
    shifted = dx - EXPONENTS[:, None, None] * dz
    y = cells.mean - cells.mean.mean()
    priors, evidence = [], []
    for length in _LENGTHS_DECADES:
        common, own = _kernel(shifted, length), _kernel(dx, length) * same
        for noise, amplitude, deviation in product(_noise_options(cells), _AMPLITUDES, _DEVIATIONS):
            height = (amplitude * spread) ** 2
            covariance = (
                height * (common + deviation**2 * own)
                + level * same
                + np.diag(noise)
                + 1e-6 * spread**2 * np.eye(len(y))
            )
            root = np.linalg.cholesky(covariance)
            solved = np.linalg.solve(covariance, np.broadcast_to(y[:, None], (len(EXPONENTS), len(y), 1)))[..., 0]
            evidence.append(-0.5 * solved @ y - np.log(np.diagonal(root, axis1=1, axis2=2)).sum(axis=1))
            priors.append((length, amplitude, deviation, noise))
    stacked = np.stack(evidence)
    log_posterior = special.logsumexp(stacked, axis=0)
    fine = np.linspace(EXPONENTS[0], EXPONENTS[-1], 1601)
    weights = special.softmax(CubicSpline(EXPONENTS, log_posterior)(fine))
    order = np.argsort(-special.logsumexp(stacked, axis=1))
    return fine, weights, [priors[i] for i in order]


def reference_lr(cells: Cells, p: float, priors: list[tuple[float, float, float, Array]], reference: float) -> float:
    """Where the common curve is highest, at the reference batch, under the likeliest prior."""
    length, amplitude, deviation, noise = priors[0]
    spread, height = cells.spread, (amplitude * cells.spread) ** 2
    same = (cells.batch[:, None] == cells.batch).astype(float)
    aligned = cells.x - p * (cells.z - np.log10(reference))
    dx = cells.x[:, None] - cells.x
    covariance = height * (_kernel(aligned[:, None] - aligned, length) + deviation**2 * _kernel(dx, length) * same)
    covariance += (100 * spread) ** 2 * same + np.diag(noise) + 1e-6 * spread**2 * np.eye(len(dx))
    grid = np.linspace(aligned.min(), aligned.max(), 4 * _FINE_POINTS)
    curve = (
        height * _kernel(grid[:, None] - aligned, length) @ np.linalg.solve(covariance, cells.mean - cells.mean.mean())
    )
    return float(10 ** grid[curve.argmax()])
