"""The critical batch: where a larger batch stops saving updates, from env steps to target at several batches."""

import numpy as np
import numpy.typing as npt
from scipy import special

from analysis.stats.interval import CONFIDENCE, Array, Interval

_NUM_DRAWS = 4000


def fit(
    size: Array, env_steps: Array, reached: npt.NDArray[np.bool_], rng: np.random.Generator
) -> tuple[Interval, Interval, Interval]:
    """Fit E = emin (1 + batch / critical) to runs with common scatter of log E;
    flat priors on the logarithms of all three.

    Args:
        size: (num_runs,) batches, env steps.
        env_steps: (num_runs,) to target, or the budget where it was not reached.
        reached: (num_runs,) whether the run reached the target.
        rng: Draws from the posterior.

    Returns:
        The critical batch, emin, and smin = emin / critical: the posterior's medians and 95% intervals.
    """
    steps, censored = np.log(env_steps), ~reached
    critical = np.geomspace(float(size.min()) / 30, float(size.max()) * 30, 121)
    residual = steps - np.log1p(size / critical[:, None])
    seen = residual[:, ~censored]
    num, centre = seen.shape[1], seen.mean(axis=1)[:, None, None]
    squares = ((seen - centre[..., 0]) ** 2).sum(axis=1)[:, None, None]
    scatter = np.geomspace(0.02, 2.0, 24)
    # log emin in units of the scatter, about its estimate from the runs that reach; the others can only raise it.
    away = np.linspace(-4 / np.sqrt(num), 4 / np.sqrt(num) + 2.0 * bool(censored.any()), 61)
    level = centre + away[:, None] * scatter
    log_posterior = -0.5 * (squares + num * (level - centre) ** 2) / scatter**2 - (num - 1) * np.log(scatter)
    for beyond in residual[:, censored].T:
        log_posterior += special.log_ndtr((level - beyond[:, None, None]) / scatter)
    posterior = special.softmax(log_posterior.ravel())
    i, j, k = np.unravel_index(rng.choice(posterior.size, _NUM_DRAWS, p=posterior), log_posterior.shape)
    # Spread over the grid's steps, so that quantiles are not stuck on its points.
    log_critical = np.log(critical[i]) + rng.uniform(-0.5, 0.5, _NUM_DRAWS) * np.log(critical[1] / critical[0])
    log_emin = level[i, j, k] + rng.uniform(-0.5, 0.5, _NUM_DRAWS) * (away[1] - away[0]) * scatter[k]
    tail = (1 - CONFIDENCE) / 2

    def interval(log_draws: Array) -> Interval:
        low, middle, high = np.exp(np.quantile(log_draws, [tail, 0.5, 1 - tail]))
        return Interval(float(middle), float(low), float(high))

    return interval(log_critical), interval(log_emin), interval(log_emin - log_critical)
