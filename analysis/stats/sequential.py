"""Which configurations differ, looked at again and again as seeds come in:
group-sequential permutation tests of all pairs.

AdaStop: Mathieu, Della Vecchia, Shilova, Centa, Kohler, Maillard and Preux (2023), "AdaStop: adaptive statistical
testing for sound comparisons of Deep RL agents", arXiv 2306.10882, without early acceptance.
"""

import math
from dataclasses import dataclass
from functools import cache
from itertools import combinations, product

import numpy as np
import numpy.typing as npt

from analysis.stats.interval import CONFIDENCE, Array

PERMUTATIONS = 10_000
"""Of the labels over all looks, at least; all of them where there are no more."""
_SEED = 0
"""Of the permutations: the same scores give the same verdict."""
_DIGITS = 9
"""To which sums of the same scores in another order are the same."""

Labels = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Design:
    """How often scores are looked at.

    Attributes:
        seeds_per_look: That every configuration of an undecided pair gets before each look.
        looks: At most.
        alpha: Risk of calling any pair different that is not, all pairs and all looks together.
    """

    seeds_per_look: int
    looks: int
    alpha: float = 1 - CONFIDENCE

    @property
    def most_seeds(self) -> int:
        """Seeds of a configuration, at most: those of the fixed design that takes as many."""
        return self.seeds_per_look * self.looks

    @property
    def can_decide(self) -> bool:
        """True if scores could show a difference at all: there are enough permutations
        for the share of alpha at the last look.
        """
        ways = math.comb(2 * self.seeds_per_look, self.seeds_per_look) ** self.looks
        return bool(2 / min(ways, PERMUTATIONS) <= self.alpha)


@dataclass(frozen=True)
class Findings:
    """The pairs that the looks so far show to differ.

    Attributes:
        higher: (num_configurations, num_configurations); whether a row's mean was shown to be higher than a column's.
        look: (num_configurations, num_configurations); at which look the pair was shown to differ,
            0 if it was not. Symmetric.
        looks: That were made.
        undecided: (num_configurations,); whether a configuration is in a pair that another look could decide:
            it gets more seeds.
    """

    higher: Labels
    look: npt.NDArray[np.int64]
    looks: int
    undecided: Labels

    @property
    def leaders(self) -> Labels:
        """(num_configurations,); whether nothing was shown to be higher than a configuration."""
        return np.asarray(~self.higher.any(axis=0))


def compare(scores: Array, design: Design) -> Findings:
    """Look at scores as often as their seeds allow.

    At each look, the statistic of a pair is the sum over the looks so far of the differences between the means of the
    seeds that came with each. The largest of all undecided pairs is compared with the largest that permuting seeds
    between the two of each pair gives, within each look and the same way for every pair. Alpha is spent in equal parts;
    what a look leaves of it goes to the next. A pair that is shown to differ is left out, and the others are tested
    again without it (step-down). A configuration without an undecided pair gets no more seeds.

    With two configurations the test is exact: seeds of equal ones are exchangeable. With more, the largest statistic
    has the right distribution if all are equal and their seeds independent, up to how pairs depend on each other, which
    is exact for many seeds alone (docs/benchmarks/calibration.md has how often it errs).

    Args:
        scores: (num_configurations, num_seeds), in the order in which seeds were run; NaN where one has not
            ended, minus infinity where it has no score, which takes all undecided pairs of that configuration out
            of the comparison.
        design: How often is looked.
    """
    num, n = len(scores), design.seeds_per_look
    higher, look = np.zeros((num, num), np.bool_), np.zeros((num, num), np.int64)
    pairs = list(combinations(range(num), 2))
    labels = _labels(n, design.looks)
    sums, alive, spent = np.zeros((labels.shape[1], len(pairs))), np.ones(labels.shape[1], np.bool_), 0.0
    looks = 0
    while looks < design.looks:
        new = scores[:, looks * n : (looks + 1) * n]
        failed = set(np.argwhere(np.isneginf(new))[:, 0].tolist())
        kept = [i for i, (a, b) in enumerate(pairs) if a not in failed and b not in failed]
        pairs, sums = [pairs[i] for i in kept], sums[:, kept]
        active = sorted({one for pair in pairs for one in pair})
        if not active or new.shape[1] < n or not np.isfinite(new[active]).all():
            break
        looks += 1
        sums = sums + _differences(new, pairs, labels[looks - 1])
        sizes = np.abs(sums)
        sizes = np.round(sizes / max(float(sizes.max()), 1e-300), _DIGITS)
        budget = design.alpha * looks / design.looks - spent
        while pairs:
            largest = np.where(alive, sizes.max(axis=1), -1.0)
            threshold, cost = _threshold(largest[alive], len(largest), budget)
            pair = int(sizes[0].argmax())
            if not sizes[0, pair] > threshold:
                alive, spent = alive & (largest <= threshold), spent + cost
                break
            a, b = pairs.pop(pair) if sums[0, pair] > 0 else pairs.pop(pair)[::-1]
            higher[a, b], look[a, b], look[b, a] = True, looks, looks
            sums, sizes = np.delete(sums, pair, axis=1), np.delete(sizes, pair, axis=1)
    undecided = np.zeros(num, np.bool_)
    if looks < design.looks:
        undecided[sorted({one for pair in pairs for one in pair})] = True
    return Findings(higher, look, looks, undecided)


def _differences(scores: Array, pairs: list[tuple[int, int]], labels: Labels) -> Array:
    """Of each pair, the difference of means for each assignment of its seeds
    to the two: (num_permutations, num_pairs).
    """
    n = scores.shape[1]
    both = np.stack([np.concatenate([scores[a], scores[b]]) for a, b in pairs], axis=1)
    signs = np.where(labels, 1.0, -1.0) / n
    return np.asarray(signs @ both)


def _threshold(largest: Array, count: int, budget: float) -> tuple[float, float]:
    """The smallest value that at most a share of all permutations exceed, and the share that does.

    Args:
        largest: Of each permutation that has crossed no threshold before.
        count: Of all permutations.
        budget: The share.
    """
    values = np.sort(largest)
    most = int(np.floor(budget * count + 1e-9))  # that may exceed it
    threshold = float(values[max(0, len(values) - 1 - most)])
    return threshold, float((largest > threshold).sum()) / count


@cache
def _labels(n: int, looks: int) -> npt.NDArray[np.bool_]:
    """Assignments of the seeds of two configurations to the first: (looks, num_permutations, 2 n),
    the first one as it was.

    All of them where they are at most `PERMUTATIONS`; else drawn, each look's in equal numbers where there are few.
    """
    ways = math.comb(2 * n, n)
    if ways > PERMUTATIONS:
        rng = np.random.default_rng(_SEED)
        drawn = rng.permuted(np.tile(np.arange(2 * n) < n, (looks, PERMUTATIONS, 1)), axis=2)
        drawn[:, 0] = np.arange(2 * n) < n
        return drawn
    each = np.zeros((ways, 2 * n), np.bool_)
    for row, first in enumerate(combinations(range(2 * n), n)):  # the first is 0, 1, ..., n - 1
        each[row, list(first)] = True
    if ways**looks <= PERMUTATIONS:
        return np.stack([each[list(rows)] for rows in product(range(ways), repeat=looks)], axis=1)
    rng, times = np.random.default_rng(_SEED), math.ceil(PERMUTATIONS / ways)
    places = np.tile(np.arange(ways), times)
    orders = [np.concatenate([[0], rng.permutation(places[1:])]) for _ in range(looks)]
    return np.stack([each[order] for order in orders])
