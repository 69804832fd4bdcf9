"""Do intervals of means cover, and how well do those of bounded scores do beside those that borrow one variance from
all configurations alike?

Studies of 15 configurations, 5 learning rates x 3 batches, whose distributions differ from cell to cell as they do in
real grids: they learn, or not, or on some seeds. Their scores lie between 0 and 1.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from analysis.stats.bootstrap import stratified_bootstrap
from analysis.stats.interval import CONFIDENCE, Array
from analysis.stats.moderated import Estimates, moderated_intervals, neighbour_weights
from benchmarks.calibration.pools import pools
from benchmarks.calibration.seeds import CHUNK, SHAPES, TRUTH_DRAWS, Sampler
from benchmarks.support.harness import Report, Table

Draw = Callable[[np.random.Generator, int], Array]
SEEDS = (3, 5, 10)
_TRUTH_DRAWS = 20_000
_GRID = np.array([(rate, batch) for rate in range(5) for batch in range(3)], dtype=float)
_NEAR = neighbour_weights(_GRID, np.array([True, True]))
_RANGES: Mapping[str, tuple[float, float]] = {"cartpole": (0.0, 500.0), "acrobot": (-500.0, 0.0)}


@dataclass(frozen=True)
class Kind:
    """Studies of a kind.

    Attributes:
        name: In words.
        draw: Distributions of the configurations of a study, each a name and its draws.
    """

    name: str
    draw: Callable[[np.random.Generator], Sequence[tuple[str, Draw]]]


def _normal(mean: float, deviation: float) -> Draw:
    return lambda rng, size: np.clip(rng.normal(mean, deviation, size), 0, 1)


def _beta(mean: float, weight: float) -> Draw:
    return lambda rng, size: rng.beta(mean * weight, (1 - mean) * weight, size)


def _modes(share: float, high: Draw, low: Draw) -> Draw:
    def draw(rng: np.random.Generator, size: int) -> Array:
        return np.where(rng.random(size) < share, high(rng, size), low(rng, size))

    return draw


def _two_modes(share: float) -> Draw:
    return _modes(share, _beta(0.95, 60), _beta(0.25, 12))


def _changing(rng: np.random.Generator) -> list[tuple[str, Draw]]:
    """The share of seeds that learn falls off around a best learning rate that differs from study to study."""
    best, width = rng.uniform(1, 3), rng.uniform(0.8, 2)
    off = ((_GRID[:, 0] - best - 0.3 * (_GRID[:, 1] - 1)) / width) ** 2
    return [(f"cell {i}", _two_modes(1 / (1 + np.exp(2 * o - 2.5)))) for i, o in enumerate(off)]


def _cliff(rng: np.random.Generator) -> list[tuple[str, Draw]]:
    by_rate: list[Callable[[float], Draw]] = [
        lambda batch: _beta(0.2 + 0.05 * batch, 20),
        lambda batch: _beta(0.45 + 0.05 * batch, 20),
        lambda batch: _normal(0.98, 0.06),
        lambda batch: _two_modes(0.75),
        lambda batch: _modes(0.2, _beta(0.95, 60), _beta(0.05, 40)),
    ]
    return [(f"learning rate {int(rate)}", by_rate[int(rate)](batch)) for rate, batch in _GRID]


def _solving(rng: np.random.Generator) -> list[tuple[str, Draw]]:
    shares, means = (0.05, 0.5, 0.95, 0.9, 0.4), (0.6, 0.75, 0.83, 0.82, 0.8)
    failing = _modes(0.6, lambda rng, size: np.zeros(size), _beta(0.375, 8))
    return [(f"learning rate {int(r)}", _modes(shares[int(r)], _beta(means[int(r)], 150), failing)) for r, _ in _GRID]


def _saturating(rng: np.random.Generator) -> list[tuple[str, Draw]]:
    means, deviations = (0.3, 0.9, 1.0, 1.02, 0.8), (0.05, 0.12, 0.06, 0.08, 0.25)
    return [(f"learning rate {int(r)}", _normal(means[int(r)] - 0.04 * b, deviations[int(r)])) for r, b in _GRID]


_UNLIKE: Mapping[str, Draw] = {
    "all at the highest": lambda rng, size: np.ones(size),
    "0.96 +- 0.12, cut off at 1": _normal(0.96, 0.12),
    "0.96 +- 0.012": _normal(0.96, 0.012),
    "0.02 +- 0.002": _normal(0.02, 0.002),
    "0.04 to 0.24, skewed": lambda rng, size: 0.04 + 0.2 * rng.beta(1, 3, size),
    "0.6 +- 0.08": _normal(0.6, 0.08),
    "skewed low, Beta(5, 1)": lambda rng, size: rng.beta(5, 1, size),
    "skewed high, Beta(1, 4)": lambda rng, size: rng.beta(1, 4, size),
    "log-normal, sigma 0.6": lambda rng, size: np.minimum(1, 0.1 * np.exp(0.6 * rng.standard_normal(size))),
    **{f"{share:.0%} in the upper of two modes": _two_modes(share) for share in (0.93, 0.8, 0.6, 0.4, 0.2)},
    "70% at the highest": _modes(0.7, lambda rng, size: np.ones(size), _normal(0.5, 0.05)),
}


def _shuffled(rng: np.random.Generator) -> list[tuple[str, Draw]]:
    return [list(_UNLIKE.items())[i] for i in rng.permutation(len(_UNLIKE))]


def _equal(draw: Draw) -> Callable[[np.random.Generator], list[tuple[str, Draw]]]:
    return lambda rng: [("each", draw)] * len(_GRID)


def _measured(scores: Array, bounds: tuple[float, float]) -> Draw:
    share = (scores - bounds[0]) / (bounds[1] - bounds[0])
    return lambda rng, size: rng.choice(share, size)


def _real(of_env: Mapping[str, Array], bounds: tuple[float, float], rng: np.random.Generator) -> list[tuple[str, Draw]]:
    """Two configurations that were run, one on either side of the grid."""
    first, second = ((name, _measured(scores, bounds)) for name, scores in of_env.items())
    return [first if rate < 2.5 else second for rate, _ in _GRID]


def kinds() -> list[Kind]:
    """The studies: made up, and drawn from the pools of real scores where these were measured."""
    made_up = [
        Kind("two modes, the share changes over the grid", _changing),
        Kind("a cliff above the best learning rate", _cliff),
        Kind("most solve it, some fail at the lowest", _solving),
        Kind("saturating", _saturating),
        Kind("unlike, in no order", _shuffled),
        Kind("equal, two modes", _equal(_two_modes(0.6))),
        Kind("equal, normal", _equal(_normal(0.6, 0.08))),
        Kind("equal, skewed", _equal(_UNLIKE["skewed low, Beta(5, 1)"])),
    ]
    found = {env: of_env for env, of_env in pools().items() if len(of_env) == 2}
    real = [Kind(f"{env}, real scores", partial(_real, of_env, _RANGES[env])) for env, of_env in found.items()]
    return [*made_up, *real]


def one_variance(values: Array) -> Estimates:
    """Student t on variances averaged with those of all others alike, cut at the bounds."""
    found = moderated_intervals(values)
    return replace(found, low=np.clip(found.low, 0.0, 1.0), high=np.clip(found.high, 0.0, 1.0))


def score_intervals(values: Array) -> Estimates:
    """As reports have them."""
    return moderated_intervals(values, (0.0, 1.0), _NEAR)


METHODS: Mapping[str, Callable[[Array], Estimates]] = {"t": one_variance, "score": score_intervals}


@dataclass(frozen=True)
class Result:
    """How a method does on studies of a kind, by configuration.

    Attributes:
        coverage: Name of a distribution to how often the interval holds its mean.
        score: Of all, the interval score (Gneiting and Raftery 2007): the width, and 2 / 5% times how far the truth is
            outside; the whole range where there is no interval.
    """

    coverage: Mapping[str, float]
    score: float

    @property
    def overall(self) -> float:
        """Mean coverage."""
        return float(np.mean(list(self.coverage.values())))


def results(kind: Kind, num_seeds: int, reps: int, rng: np.random.Generator) -> dict[str, Result]:
    """Each of `METHODS` on the same studies."""
    held: dict[str, dict[str, list[bool]]] = {method: {} for method in METHODS}
    scores: dict[str, list[Array]] = {method: [] for method in METHODS}
    for _ in range(reps):
        shapes = kind.draw(rng)
        truth = np.array([draw(rng, _TRUTH_DRAWS).mean() for _, draw in shapes])
        values = np.stack([draw(rng, num_seeds) for _, draw in shapes])
        for method, intervals in METHODS.items():
            found = intervals(values)
            inside = (found.low - 1e-9 <= truth) & (truth <= found.high + 1e-9)
            outside = np.maximum(0, found.low - truth) + np.maximum(0, truth - found.high)
            score = found.high - found.low + 2 / (1 - CONFIDENCE) * outside
            scores[method].append(np.where(np.isfinite(score), score, 1.0))
            for (name, _), holds in zip(shapes, inside, strict=True):
                held[method].setdefault(name, []).append(bool(holds))
    return {
        method: Result(
            {name: float(np.mean(holds)) for name, holds in of_names.items()}, float(np.mean(scores[method]))
        )
        for method, of_names in held.items()
    }


def _bounded(reps: int, rng: np.random.Generator) -> tuple[list[Table], float, float]:
    """Both methods side by side, of all kinds of studies and of the distributions of the unlike ones; the least and the
    most that the new one covers of a kind with 5 and 10 seeds.
    """
    found = {kind.name: [results(kind, n, reps, rng) for n in SEEDS] for kind in kinds()}
    rows, ratios = [], []
    for name, of_seeds in found.items():
        ratios.append([each["score"].score / each["t"].score for each in of_seeds])
        cells: list[str] = []
        for of_methods, ratio in zip(of_seeds, ratios[-1], strict=True):
            cells += [f"{100 * m.overall:.0f} ({100 * min(m.coverage.values()):.0f})" for m in of_methods.values()]
            cells.append(f"{ratio:.2f}")
        rows.append((name, *cells))
    mean = [f"{value:.2f}" for value in np.mean(ratios, axis=0)]
    rows.append(("all", *(cell for ratio in mean for cell in ("", "", ratio))))
    both = Table(
        "Coverage of 95% intervals of bounded scores, percent, and what they cost",
        ("studies of 15 configurations", *(f"{n} seeds: {column}" for n in SEEDS for column in (*METHODS, "ratio"))),
        tuple(rows),
        f"{reps} studies per row and number of seeds. t: Student t on a variance that is averaged with those of all "
        "others alike. score: as reports have them, by dispersions of neighbours. In brackets: the distribution "
        "(in the first row the cell) that is covered least. ratio: of the interval scores (Gneiting and Raftery "
        "2007: width, and 40 times how far the truth is outside), score by t; below 1, score is better.",
    )
    unlike = found["unlike, in no order"]
    each = Table(
        "Unlike configurations in one study, coverage in percent",
        ("scores over seeds", *(f"{n} seeds: {m}" for n in SEEDS for m in METHODS)),
        tuple(
            (name, *(f"{100 * of_seeds[m].coverage[name]:.0f}" for of_seeds in unlike for m in METHODS))
            for name in _UNLIKE
        ),
        "Neighbours have nothing in common here: the worst case of any method that borrows.",
    )
    covered = [of_methods["score"].overall for of_seeds in found.values() for of_methods in of_seeds[1:]]
    return [both, each], min(covered), max(covered)


def coverage(shape: Sampler, num_configurations: int, num_seeds: int, reps: int, rng: np.random.Generator) -> float:
    """How often the moderated 95% interval of a configuration holds the truth,
    in studies whose configurations share a distribution.

    Args:
        shape: The distribution.
        num_configurations: In a study.
        num_seeds: Of each.
        reps: Studies.
        rng: Where the draws come from.
    """
    truth = _truth(shape, rng)
    held = 0.0
    for _ in range(0, reps, CHUNK):
        # Points of a curve don't borrow from each other: each serves as a study.
        found = moderated_intervals(shape(rng, (num_configurations, num_seeds, CHUNK)))
        held += _holds(found, truth)
    return held / float(np.ceil(reps / CHUNK))


def bootstrap_coverage(shape: Sampler, num_seeds: int, reps: int, rng: np.random.Generator) -> float:
    """The same of a percentile bootstrap over one configuration's seeds."""
    truth, held = _truth(shape, rng), 0
    for _ in range(reps):
        found = stratified_bootstrap([shape(rng, (num_seeds,))], lambda draws: draws.mean(axis=1), rng, reps=500)
        held += found.low - 1e-9 <= truth <= found.high + 1e-9
    return held / reps


def measure(quick: bool) -> Report:
    """Simulate it all; the same numbers every time."""
    rng = np.random.default_rng(0)
    few, many = (20, 2000) if quick else (200, 20_000)
    bounded, least, most = _bounded(few, np.random.default_rng(5))
    sizes = ((15, 3), (15, 5), (15, 10), (4, 5), (4, 10), (1, 5), (1, 10))
    rows = []
    for name, shape in SHAPES.items():
        cells = [coverage(shape, k, n, max(many // k, CHUNK), rng) for k, n in sizes]
        peers = [bootstrap_coverage(shape, n, many // 10, rng) for n in (5, 10)]
        rows.append((name, *(f"{100 * c:.1f}" for c in (*cells, *peers))))
    unbounded = Table(
        "Coverage of 95% intervals of the mean where no bounds are known, percent",
        ("scores over seeds", *(f"{k} x {n}" for k, n in sizes), "bootstrap, 5", "bootstrap, 10"),
        tuple(rows),
        "Columns: configurations x seeds of a study, moderated t interval; then the percentile bootstrap "
        "over one configuration's seeds. A study of one configuration has nobody to borrow from, "
        "and where all of its few seeds saturate there is no interval, or none that knows of the others: "
        "both count as not covered.",
    )
    return Report(
        name="intervals",
        title="Intervals of means over few seeds",
        compared=(
            f"Simulated studies with a fixed generator: {few} per kind and number of seeds, {many:,} configurations "
            "per cell of the last table."
        ),
        verdict=(
            f"95% intervals of bounded scores cover {100 * least:.0f} to {100 * most:.0f}% of each kind of studies "
            "with 5 and 10 seeds; the last row of the first table says what they cost beside Student's t on one "
            "variance."
        ),
        tables=(*bounded, unbounded),
    )


def _truth(shape: Sampler, rng: np.random.Generator) -> float:
    return float(shape(rng, (TRUTH_DRAWS,)).mean())


def _holds(found: Estimates, truth: float) -> float:
    return float(((found.low - 1e-9 <= truth) & (truth <= found.high + 1e-9)).mean())
