"""Does a search that starts from an earlier study reach the best configurations in fewer env steps, and what does it
cost where that study misleads?

Searches are replayed over the results of full grids with ten seeds each (`benchmarks/search/data`): nothing trains. In
each replay a random half of the seeds (of ten splits) is the earlier study, and the other half is all that the new one
can see. By these five seeds it is judged as well: what the earlier study saw by chance is no help.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from analysis.questions.decision import decide
from analysis.stats.interval import Array
from benchmarks.search.replay import BATCH, LR, Grid, frame, outcome_of, share
from benchmarks.support.harness import Report, Table
from experiments.config.space import Point, parse_space
from experiments.search.informed import Informed, num_best
from experiments.search.optuna_search import BEST_FIRST, Suggested
from experiments.search.prior import EarlierStudy, Prior, places_of
from experiments.search.racing import Racing
from experiments.search.strategy import SCORE, Listed, Strategy, key_of
from experiments.search.trial_queue import Limits, TrialQueue

REPLAYS, QUICK_REPLAYS = 40, 2
SPLITS = 10
"""Of the seeds into halves."""
NUM_SEEDS, HALF = 10, 5
DRAWS = 2000
"""Of the bootstrap over replays."""
RACING, OPTUNA = "racing", "Optuna (TPE)"
NOTHING, SAME, OTHER, REVERSED = "nothing", "the same environment", "the other environment", "the same, reversed"
MOST_COST = 1.1
"""Target: what a misleading start may cost, over that from nothing."""

Rows = Mapping[str, Sequence[Mapping[str, Any]]]
"""Configuration to its trials."""


@dataclass(frozen=True)
class Replayed:
    """A search that was replayed.

    Attributes:
        until: Env steps from which on its leader stays among the best; the most of the search that starts from
            nothing, where it does not end there.
        ended: Whether it ends there.
        env_steps: That it took in all.
        believed: Whether the earlier study proved right.
    """

    until: float
    ended: bool
    env_steps: float
    believed: bool


def earlier(name: str, points: Sequence[Point], rows: Rows) -> Prior:
    """What a study found that ran some points.

    Args:
        name: Of it.
        points: Those that are asked of it.
        rows: Its trials; it need not have run all points.
    """
    known = tuple(point for point in points if key_of(point) in rows)
    places = places_of([[outcome_of(row) for row in rows[key_of(point)]] for point in known], [SCORE])
    return Prior(known, (EarlierStudy(name, name, tuple(places)),))


def reversed_order(prior: Prior) -> Prior:
    """The same with the best last."""
    (study,) = prior.studies
    places = tuple(1 - place for place in study.places if place is not None)
    return replace(prior, studies=(replace(study, places=places),))


def searches(grid: Grid, points: Sequence[Point], seed: int) -> Mapping[str, Callable[[Prior | None], Strategy]]:
    """What is compared, by what it starts from.

    Args:
        grid: The results.
        points: Of the grid, in some order.
        seed: Random seed of Optuna's sampler.
    """
    seeds, aims, axes = tuple(range(HALF)), [SCORE], parse_space(grid.space)

    def racing(prior: Prior | None) -> Strategy:
        proposals = Listed(points, seeds[:1], aims) if prior is None else Informed(points, seeds[0], aims, prior)
        return Racing(proposals, seeds, None)

    def optuna(prior: Prior | None) -> Strategy:
        return Suggested(axes, _most_trials(grid), seeds, aims, "tpe", seed, prior=prior)

    return {RACING: racing, OPTUNA: optuna}


def _most_trials(grid: Grid) -> int:
    """Of a search that starts from nothing: half as many again as there are configurations."""
    return math.ceil(1.5 * len(grid.points))


def replay(strategy: Strategy, rows: Rows, best: set[str], grid: Grid, prior: Prior | None, first: int) -> Replayed:
    """Run a search to its end, a trial at a time.

    Args:
        strategy: The search.
        rows: Configuration to the trials that it gets to see, in this order.
        best: The best configurations.
        grid: Whose budget it is.
        prior: What it starts from.
        first: How many of the best of that it runs first.
    """
    queue, budget = TrialQueue(strategy, 1, Limits(grid.budget_env_steps)), grid.budget_env_steps
    seen: dict[str, int] = {}
    leads: list[bool] = []  # after so many trials, whether the leader is among the best
    while isinstance(index := queue.ask(), int):
        leads.append(_leads(strategy, best))
        key = key_of(queue.asked[index].point)
        queue.tell(index, outcome_of(rows[key][seen.get(key, 0)]))
        seen[key] = seen.get(key, 0) + 1
    leads.append(_leads(strategy, best))
    number = max((trials + 1 for trials, is_best in enumerate(leads) if not is_best), default=0)
    ended, believed = leads[-1], False
    if prior is not None:
        tried = prior.first(first)
        believed = any(prior.weights(tried, [strategy.outcomes[i] for i in range(len(tried))], [SCORE]))
    until = number if ended else _most_trials(grid)
    return Replayed(until * budget, ended, len(queue.asked) * budget, believed)


def _leads(strategy: Strategy, best: set[str]) -> bool:
    return bool(strategy.outcomes) and key_of(strategy.ranking()[0]) in best


def replayed(grid: Grid, other: Grid, replays: int) -> dict[str, dict[str, list[Replayed]]]:
    """Replay each search, from each start.

    Args:
        grid: The results of the environment.
        other: Those of another one.
        replays: How often, each time with another one of `SPLITS` splits of the seeds.

    Returns:
        Name of the search to that of the start to the replays.
    """
    found: dict[str, dict[str, list[Replayed]]] = {}
    best_of_half: dict[tuple[int, ...], set[str]] = {}
    for number in range(replays):
        order = np.random.default_rng(number % SPLITS).permutation(NUM_SEEDS)
        rng = np.random.default_rng([1, number])
        before, now = order[:HALF], order[HALF:]
        dealt = {key: [rows[i] for i in rng.permutation(now)] for key, rows in grid.rows.items()}
        points = [list(grid.points.values())[i] for i in rng.permutation(len(grid.points))]
        half = tuple(sorted(now.tolist()))
        if half not in best_of_half:
            trials = [(key, i, rows[i]) for key, rows in grid.rows.items() for i in half]
            best_of_half[half] = set(decide(frame(trials))[0].leaders)
        same = earlier(grid.name, points, {key: [rows[i] for i in before] for key, rows in grid.rows.items()})
        starts = {
            NOTHING: None,
            SAME: same,
            OTHER: earlier(other.name, points, other.rows),
            REVERSED: reversed_order(same),
        }
        for name, make in searches(grid, points, number).items():
            for start, prior in starts.items():
                first = BEST_FIRST if name == OPTUNA else num_best(len(prior.points) if prior else 0)
                done = replay(make(prior), dealt, best_of_half[half], grid, prior, first)
                found.setdefault(name, {}).setdefault(start, []).append(done)
    return found


def ratio(warm: Sequence[Replayed], cold: Sequence[Replayed]) -> tuple[float, float, float]:
    """Env steps until the leader stays among the best, over those from nothing: the ratio of the means, and its 95%
    interval, a bootstrap over replays.
    """
    a, b = (np.array([one.until for one in some]) for some in (warm, cold))
    draws = np.random.default_rng(0).integers(0, len(a), (DRAWS, len(a)))
    drawn: Array = a[draws].mean(axis=1) / b[draws].mean(axis=1)
    low, high = np.quantile(drawn, [0.025, 0.975])
    return float(a.mean() / b.mean()), float(low), float(high)


_COLUMNS = (
    "starts from",
    "env steps until it stays among the best",
    "of those from nothing",
    "ends among the best",
    "env steps in all",
    "believed",
)


def measure(quick: bool) -> Report:
    """Replay it all."""
    replays = QUICK_REPLAYS if quick else REPLAYS
    grids = [Grid("ppo_cartpole", {LR: 1e-4, BATCH: 4000}), Grid("ppo_acrobot", {LR: 3e-4, BATCH: 4000})]
    found = {
        (grid.name, name): of_search
        for grid, other in zip(grids, reversed(grids), strict=True)
        for name, of_search in replayed(grid, other, replays).items()
    }
    tables = tuple(
        Table(
            f"{name} on {grid}",
            _COLUMNS,
            tuple(_row(start, done, of_search[NOTHING]) for start, done in of_search.items()),
            f"{replays} replays; 95% intervals: of ratios a bootstrap over replays, of shares Wilson's.",
        )
        for (grid, name), of_search in found.items()
    )
    return Report(
        "warm_start",
        "Searches that start from an earlier study",
        (__doc__ or "").strip(),
        _verdict(found),
        tables,
        "The leader is what the search ranks first at the time. Those are the best that the suite's own rule does not "
        "tell from the best with all five seeds of the new half. A search that does not end among them counts with all "
        "env steps of the one that starts from nothing. Nothing is confirmed here; trials run one at a time. The other "
        "environment's study has all ten seeds of the settings that both grids have. Believed: its order held in the "
        "first trials. Replays share two grids of one algorithm: intervals say nothing of other grids.",
        packages=("optuna",),
    )


def _row(start: str, done: Sequence[Replayed], cold: Sequence[Replayed]) -> tuple[str, ...]:
    estimate, low, high = ratio(done, cold)
    return (
        start,
        f"{np.mean([one.until for one in done]):,.0f}",
        "" if start == NOTHING else f"{estimate:.2f} [{low:.2f}, {high:.2f}]",
        share([one.ended for one in done]),
        f"{np.mean([one.env_steps for one in done]):,.0f}",
        "" if start == NOTHING else f"{100 * np.mean([one.believed for one in done]):.0f}%",
    )


def _verdict(found: Mapping[tuple[str, str], Mapping[str, Sequence[Replayed]]]) -> str:
    parts = []
    for (grid, name), of_search in found.items():
        ratios = {start: ratio(done, of_search[NOTHING]) for start, done in of_search.items()}
        estimate, low, high = ratios[SAME]
        worst = max(ratios[start][0] for start in (OTHER, REVERSED))
        parts.append(
            f"{name} on {grid}: {estimate:.2f} [{low:.2f}, {high:.2f}] from the same environment "
            f"({'met' if high < 1 else 'missed'}), {worst:.2f} at worst ({'met' if worst <= MOST_COST else 'missed'})"
        )
    target = f"below 1 from a study of the same environment, at most {MOST_COST:g} from one that misleads"
    what = "Env steps to the best over those of a search that starts from nothing"
    return f"{what}, target: {target}. {'; '.join(parts)}."
