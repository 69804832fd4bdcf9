"""`search=compare` beside the package of AdaStop's authors: errors made and seeds spent,
on simulated scores and on those of real runs.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec

import numpy as np
from scipy import stats

from analysis.stats.interval import Array
from analysis.stats.sequential import Design, compare
from benchmarks.calibration.pools import pools, sampler
from benchmarks.calibration.robustness import Sampler
from benchmarks.calibration.seeds import SHAPES
from benchmarks.support.harness import BenchmarkError, Report, Table, say

DESIGN = Design(seeds_per_look=5, looks=5)
SIMULATED = ("normal, 300 +- 40", "80% near 460, 20% near 150", "70% at 500, 30% near 250", "480 +- 60, cut off at 500")
APART = (0.5, 1.0, 1.5, 2.0)
"""Standard deviations between two normal distributions."""


@dataclass(frozen=True)
class Shown:
    """What a method made of a study's scores.

    Attributes:
        different: (num_configurations, num_configurations); whether a pair was called different. Symmetric.
        seeds: Of all configurations together, that it took.
    """

    different: Array
    seeds: int


Method = Callable[[Array, int], Shown]
"""Takes the scores (num_configurations, most seeds) and a seed for what it draws."""


def suite(scores: Array, seed: int) -> Shown:
    """As `search=compare`: which has its permutations, and draws none."""
    verdict = compare(scores, DESIGN)
    lasts = np.where(verdict.look > 0, verdict.look, verdict.looks) - np.diag(np.full(len(scores), verdict.looks))
    return Shown((verdict.look > 0).astype(float), int(lasts.max(axis=1).sum()) * DESIGN.seeds_per_look)


def adastop(scores: Array, seed: int) -> Shown:
    """As the package does it, with its default of 10,000 permutations."""
    from adastop import MultipleAgentsComparator  # installed for benchmarks alone

    names = [str(i) for i in range(len(scores))]
    peer = MultipleAgentsComparator(n=DESIGN.seeds_per_look, K=DESIGN.looks, B=10_000, alpha=DESIGN.alpha, seed=seed)
    seen = dict.fromkeys(names, DESIGN.seeds_per_look)
    for look in range(1, DESIGN.looks + 1):
        peer.partial_compare({name: scores[int(name), : seen[name]] for name in names}, verbose=False)
        if peer.is_finished:
            break
        for agent in np.unique(peer.current_comparisons):
            seen[str(agent)] = DESIGN.seeds_per_look * (look + 1)
    different = np.zeros((len(scores), len(scores)))
    for pair in peer.comparisons:
        if peer.decisions[str(pair)] != "equal":
            different[pair[0], pair[1]] = different[pair[1], pair[0]] = 1
    return Shown(different, sum(seen.values()))


def fixed(scores: Array, seed: int) -> Shown:
    """All seeds at once, and Welch's t test of each pair at alpha over their number."""
    return _t_tests(scores, [scores.shape[1]])


def peeking(scores: Array, seed: int) -> Shown:
    """The same at each look, as if it were the only one."""
    return _t_tests(scores, [DESIGN.seeds_per_look * look for look in range(1, DESIGN.looks + 1)])


def _t_tests(scores: Array, looks: Sequence[int]) -> Shown:
    num = len(scores)
    first, second = np.triu_indices(num, 1)
    at = np.zeros((num, num))
    for seeds in looks:
        p = stats.ttest_ind(scores[first, :seeds], scores[second, :seeds], axis=1, equal_var=False).pvalue
        for a, b in zip(first[p <= DESIGN.alpha / len(first)], second[p <= DESIGN.alpha / len(first)], strict=True):
            at[a, b] = at[b, a] = at[a, b] or seeds
    needed = np.where(at > 0, at, looks[-1])
    np.fill_diagonal(needed, 0)
    return Shown((at > 0).astype(float), int(needed.max(axis=1).sum()))


OURS, PEER = "search=compare", "adastop"
METHODS: Mapping[str, Method] = {
    OURS: suite,
    PEER: adastop,
    "25 seeds, t tests": fixed,
    "t tests at each look": peeking,
}
QUICK_ONES = tuple(name for name in METHODS if name != PEER)
"""The package takes 0.4 s for a study of four configurations."""


@dataclass(frozen=True)
class Cell:
    """What a method comes to over many studies.

    Attributes:
        wrong: Share of studies in which a pair that is equal is called different.
        found: Share of the pairs that differ which are called different; NaN where none does.
        seeds: A configuration, on average.
    """

    wrong: float
    found: float
    seeds: float


def cells(
    draw: Callable[[np.random.Generator], Array],
    level: Sequence[float],
    reps: int,
    rng: np.random.Generator,
    methods: Sequence[str] = tuple(METHODS),
) -> dict[str, Cell]:
    """Methods on the same studies.

    Args:
        draw: The scores of a study (num_configurations, most seeds).
        level: Of each configuration: those of the same level are equal.
        reps: Studies.
        rng: Where the draws come from.
        methods: Of `METHODS`.
    """
    first, second = np.triu_indices(len(level), 1)
    equal = np.equal.outer(level, level)[first, second]
    found: dict[str, list[tuple[float, float, float]]] = {name: [] for name in methods}
    for rep in range(reps):
        scores = draw(rng)
        for name in methods:
            shown = METHODS[name](scores, rep)
            of_pairs = shown.different[first, second]
            right = float(of_pairs[~equal].mean()) if not equal.all() else np.nan
            found[name].append((float(of_pairs[equal].any()), right, shown.seeds / len(scores)))
    return {name: Cell(*(float(part) for part in np.mean(rows, axis=0))) for name, rows in found.items()}


def measure(quick: bool) -> Report:
    """Simulate it all; the same numbers every time."""
    if find_spec("adastop") is None:
        raise BenchmarkError("compare needs the package adastop: pip install -e '.[bench]'")
    rng, reps, seeds = np.random.default_rng(2), 8 if quick else 200, DESIGN.most_seeds

    def equal(shape: Sampler, num: int, methods: Sequence[str], first_is_better_by: float = 0.0) -> dict[str, Cell]:
        level = np.zeros(num)
        level[0] = first_is_better_by
        return cells(lambda r: shape(r, (num, seeds)) + level[:, None], level.tolist(), reps, rng, methods)

    simulated, several, one_better = {}, {}, {}
    for name in SIMULATED:
        say(name)
        simulated[name] = equal(SHAPES[name], 2, tuple(METHODS))
        several[name] = equal(SHAPES[name], 4, QUICK_ONES)
        one_better[name] = equal(SHAPES[name], 4, QUICK_ONES, 200.0)
    apart = {}
    for d in APART:
        draw = _together([_normal(d), _normal(0.0)])
        apart[f"normal, {d:g} standard deviations"] = cells(draw, [1, 0], reps // 2, rng)
    real = pools()
    for env, of_env in real.items():
        say(env)
        for config, scores in of_env.items():
            simulated[f"{env}, {config} ({len(scores)} real seeds)"] = equal(sampler(scores), 2, tuple(METHODS))
        draw = _together([sampler(scores) for scores in of_env.values()])
        apart[f"{env}, {' against '.join(of_env)} (real)"] = cells(draw, [1, 0], reps // 2, rng)
    return Report(
        name="compare",
        title="Sequential comparisons: errors made and seeds spent",
        compared=(
            f"`search=compare` (up to {DESIGN.looks} looks, {DESIGN.seeds_per_look} seeds of each configuration before "
            f"each, alpha {DESIGN.alpha:g}) beside the package `adastop` of the method's authors at the same settings, "
            f"Welch's t tests of all pairs at {DESIGN.alpha:g} over their number on {seeds} seeds each, and the same "
            f"tests at each look as if it were the only one. All see the same scores: {reps} studies per cell, "
            f"{reps // 2} where configurations differ; real ones are drawn with replacement from seeds of PPO "
            "(`python -m benchmarks.calibration.pools`). In brackets: seeds of a configuration, on average."
        ),
        verdict=_verdict(simulated, apart, reps),
        tables=(
            _errors("Two equal configurations called different, percent of studies", simulated),
            _errors("Any two of four equal configurations called different, percent of studies", several),
            _errors(
                "Any two of three equal configurations called different beside one that is 200 better, "
                "percent of studies",
                one_better,
            ),
            _power(apart),
        ),
        notes=_NOTES,
        packages=("adastop",),
    )


def _normal(mean: float) -> Sampler:
    return lambda rng, size: rng.normal(mean, 1.0, size)


def _together(shapes: Sequence[Sampler]) -> Callable[[np.random.Generator], Array]:
    """Studies whose configurations have distributions of their own."""
    return lambda rng: np.stack([shape(rng, (DESIGN.most_seeds,)) for shape in shapes])


_NOTES = (
    "`adastop` 0.1.3 takes its threshold from signed differences and holds absolute values against it "
    "(`partial_compare`), so that it errs more often than it is set to. From the second look on it has at most 252 "
    "permutations here; the suite has 10,080. So the suite has its own test of the same method."
)


def _errors(title: str, found: Mapping[str, Mapping[str, Cell]]) -> Table:
    methods = list(next(iter(found.values())))
    rows = tuple(
        (name, *(f"{100 * of[m].wrong:.1f} ({of[m].seeds:.1f})" for m in methods)) for name, of in found.items()
    )
    return Table(title, ("scores over seeds", *methods), rows, "At most 5 are promised.")


def _power(found: Mapping[str, Mapping[str, Cell]]) -> Table:
    rows = tuple(
        (name, *(f"{100 * of[m].found:.0f} ({of[m].seeds:.1f})" for m in METHODS)) for name, of in found.items()
    )
    return Table(
        "Two configurations that differ called different, percent of studies", ("scores over seeds", *METHODS), rows
    )


def _verdict(alike: Mapping[str, Mapping[str, Cell]], apart: Mapping[str, Mapping[str, Cell]], reps: int) -> str:
    wrong = {name: [100 * of[name].wrong for of in alike.values()] for name in (OURS, PEER)}
    error = 100 * float(np.sqrt(DESIGN.alpha * (1 - DESIGN.alpha) / reps))
    seeds = [of[OURS].seeds for of in apart.values()]
    return (
        f"Two equal configurations are called different in {np.mean(wrong[OURS]):.1f}% of studies "
        f"({min(wrong[OURS]):.1f} to {max(wrong[OURS]):.1f} by how scores are distributed, "
        f"standard error {error:.1f}), by the package `adastop` in {np.mean(wrong[PEER]):.1f}% "
        f"({min(wrong[PEER]):.1f} to {max(wrong[PEER]):.1f}); at most 5 are promised. Where they differ, "
        f"{min(seeds):.0f} to {max(seeds):.0f} of {DESIGN.most_seeds} seeds are spent."
    )
