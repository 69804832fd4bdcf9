"""Where scores have no more to say: several configurations hold the target, and env steps to it decide among them."""

import numpy as np
import numpy.typing as npt

FEWEST_SOLVING = 2
"""Configurations that solve the environment, from which on env steps to its target decide among them."""


def solving(mean_scores: npt.ArrayLike, targets: npt.ArrayLike, num_reached: npt.ArrayLike) -> npt.NDArray[np.bool_]:
    """Which configurations solve the environment: they end at its target on average, and some seed held it.

    Args:
        mean_scores: (num_configurations,) over seeds.
        targets: (num_configurations,) of their environment; NaN where it has none.
        num_reached: (num_configurations,) seeds that held it.

    Returns:
        (num_configurations,).
    """
    return np.asarray((np.asarray(mean_scores) >= np.asarray(targets)) & (np.asarray(num_reached) > 0))


def saturates(solve: npt.NDArray[np.bool_]) -> bool:
    """True if env steps to target decide among configurations whose scores are not significantly different.

    Args:
        solve: As `solving` gives it.
    """
    return bool(solve.sum() >= FEWEST_SOLVING)
