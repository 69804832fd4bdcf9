"""Where a function is zero."""

from collections.abc import Callable


def root(function: Callable[[float], float], low: float, high: float) -> float:
    """The zero of a function of a number between two at which its signs differ, by Brent's method.

    Raises:
        ValueError: The signs are the same.
    """
    from scipy.optimize import brentq  # half a second, which no study needs at its start

    return float(brentq(function, low, high))
