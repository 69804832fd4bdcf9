"""|G|^2 and S from gradients of one batch: the gradient noise scale is S / |G|^2
(McCandlish et al. 2018, arXiv 1812.06162).

The gradient of a mean over n rows is G plus noise of covariance Sigma / n, so E|g_n|^2 = |G|^2 + S / n with S = tr
Sigma. Two sizes of batch give both unknowns (their appendix A.1). The noise scale is S / |G|^2, in rows. Of each
measurement both estimates are unbiased, and their ratio is not: they are averaged separately, and divided at the end.
NumPy alone, for a learner's process loads it.
"""

import numpy as np
import numpy.typing as npt


def estimates(gradients: npt.NDArray[np.floating], rows: npt.NDArray[np.integer]) -> tuple[float, float]:
    """Unbiased estimates of |G|^2 and of S from the gradients of the parts of one batch.

    The whole batch's gradient is the mean of its parts', weighted by their rows. For k parts of N rows in
    all, the expectation of the weighted mean of |g_i|^2 is |G|^2 + k S / N, and that of the whole batch's
    |g|^2 is |G|^2 + S / N.

    Args:
        gradients: (num_parts, num_weights), each of the mean loss over the part's rows.
        rows: (num_parts,) of each part, drawn independently of the others'.

    Returns:
        |G|^2, which can come out negative, and S, which cannot.

    Raises:
        ValueError: There are fewer than two parts, or one without rows.
    """
    num_parts, total = len(rows), float(rows.sum())
    if num_parts < 2 or rows.min() < 1:
        raise ValueError(f"parts of {rows.tolist()} rows: it takes two parts, with a row each")
    weights = (rows / total)[:, None]
    whole = (weights * gradients).sum(axis=0, dtype=np.float64)
    noise = total / (num_parts - 1) * float((weights * (gradients - whole) ** 2).sum())
    return float(whole @ whole) - noise / total, noise
