"""How few intervals of a simulation may hold the truth before the promised coverage is refuted."""

from scipy import stats


def fewest_hits(num_intervals: int, promised: float = 0.95, risk: float = 0.01) -> int:
    """The lowest number of independent intervals that hold the truth with a chance of at least `risk`,
    if each does with `promised`.
    """
    return int(stats.binom.ppf(risk, num_intervals, promised))
