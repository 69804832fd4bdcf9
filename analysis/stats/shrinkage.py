"""What a configuration that was picked for its numbers is to be expected to come to."""

import numpy as np

from analysis.stats.interval import Array


def shrunken(means: Array, errors: Array) -> Array:
    """Means of configurations that are about as good, each moved towards that of all as far as chance explains how far
    they lie apart (James and Stein 1961, the positive part; Lindley 1962 for the common mean).

    The best of several is the best partly by luck: of nine equal ones its 95% interval holds the truth in 84% of
    simulated studies of five seeds, of a hundred in 26% of three seeds; moved like this in 94 to 100%. Configurations
    that are significantly worse must be left out: they would hide how alike the others are, or pull them away.

    Args:
        means: (num_configurations,).
        errors: Their standard errors; NaN where unknown.

    Returns:
        (num_configurations,); the means themselves where there is one alone, or no error is known.
    """
    num, error = len(means), float(np.nanmean(errors**2)) if np.isfinite(errors).any() else 0.0
    centre = means.mean()
    apart = float(((means - centre) ** 2).sum())
    # of two to four nothing would be left to move by James and Stein's own count, num - 3
    kept = max(0.0, 1 - max(num - 3, (num - 1) / 2) * error / apart) if apart else 1.0
    return np.asarray(centre + kept * (means - centre))
