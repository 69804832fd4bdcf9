"""What does it cost to confirm what a search found, by a fixed number of seeds and by a race over them?

Searches and their confirmations are replayed over the results of full grids with ten seeds each
(`benchmarks/search/data`), as in [searches against the truth](search.md): nothing trains. The code that asks for trials
and draws conclusions is that of a study.
"""

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from analysis.stats.comparisons import leaders
from analysis.stats.interval import Array
from analysis.stats.moderated import moderated_intervals
from benchmarks.search.replay import BATCH, HELD_OUT, LR, SEEDS, TOP, Grid, Replay, share
from benchmarks.support.harness import Report, Table
from experiments.config.search_settings import Asha
from experiments.config.space import Point
from experiments.contract import CONFIRM, FINISHED
from experiments.search.confirmation_race import ConfirmationRace, RacedConfirmation
from experiments.search.racing import Racing
from experiments.search.strategy import SCORE, Ask, Confirming, Listed, Outcome, Strategy, key_of
from experiments.study.tune.early_stopping import EarlyStopping, rule_of

REPLAYS, QUICK_REPLAYS = 200, 4
"""Those that are reported. The constants of the race, and those below, were chosen on the replays 400 to 599."""
STUDIES, QUICK_STUDIES = 2000, 20
"""Made-up studies of equal configurations."""
SHORTER = 1.25
"""Trials of a shorter search, for each configuration; `search=racing` runs 1.5 by itself."""
SEEDS_OF_ASHA = 5
"""That each configuration begins with, where most trials are stopped early: with the fresh ones all that a grid has."""
DEFAULT, RACED = "racing, the 3 best", f"ASHA with {SEEDS_OF_ASHA} seeds, the {TOP} best by a race"
TARGETS = {"ppo_cartpole": 0.18, "ppo_acrobot": 0.25}
"""Of the full grid's env steps, at most, with confirmation."""
MOST_LOST = 0.02
"""Of the replays that end among the best, at most, against the default."""
Design = Callable[[int], tuple[Strategy, EarlyStopping | None]]


def designs(grid: Grid) -> Mapping[str, Design]:
    """What is compared: searches with their confirmations, each made by a seed."""
    points = list(grid.points.values())

    def racing(trials: float) -> Racing:
        return Racing(Listed(points, SEEDS[:1], [SCORE]), SEEDS, math.ceil(trials * len(points)))

    def asha(seed: int, confirming: type[Confirming], seeds: int, top: int) -> tuple[Strategy, EarlyStopping]:
        order = np.random.default_rng(seed).permutation(len(points))  # the first ones meet nobody to be compared with
        search = Listed([points[i] for i in order], SEEDS[:seeds], [SCORE])
        stopping = EarlyStopping(rule_of(Asha("asha", None, 4.0), grid.budget_env_steps))
        return confirming(search, grid.base, top, HELD_OUT), stopping

    return {
        DEFAULT: lambda seed: (Confirming(racing(1.5), grid.base, TOP, HELD_OUT), None),
        "racing, the best": lambda seed: (Confirming(racing(1.5), grid.base, 1, HELD_OUT), None),
        "racing, the 3 best by a race": lambda seed: (RacedConfirmation(racing(1.5), grid.base, TOP, HELD_OUT), None),
        "shorter, the 3 best by a race": lambda seed: (
            RacedConfirmation(racing(SHORTER), grid.base, TOP, HELD_OUT),
            None,
        ),
        "ASHA with 3 seeds, the 3 best": lambda seed: asha(seed, Confirming, 3, TOP),
        "ASHA with 3 seeds, the 4 best by a race": lambda seed: asha(seed, RacedConfirmation, 3, 4),
        RACED: lambda seed: asha(seed, RacedConfirmation, SEEDS_OF_ASHA, TOP),
    }


@dataclass(frozen=True)
class Replayed:
    """What the replays of a search and its confirmation came to, an entry each.

    Attributes:
        by_score: Whether it ended on a configuration that is not significantly different from the best by score.
        by_all: Likewise by the suite's own rule.
        score_short: How far the mean score of what it ended on, over all seeds, falls short of the best one.
        searching: Share of the grid's env steps before it confirmed.
        cost: Likewise in all.
        seeds: Fresh seeds of what it ended on.
    """

    by_score: Array
    by_all: Array
    score_short: Array
    searching: Array
    cost: Array
    seeds: Array

    def row(self, name: str) -> tuple[str, ...]:
        """For the page."""
        return (
            name,
            share([*self.by_score]),
            share([*self.by_all]),
            f"{self.score_short.mean():.1f}, {np.quantile(self.score_short, 0.95):.1f}",
            f"{100 * self.searching.mean():.1f}%",
            f"{100 * self.cost.mean():.1f}%",
            f"{self.seeds.mean():.1f} ({100 * np.mean(self.seeds == len(HELD_OUT)):.0f}%)",
        )


def replayed(grid: Grid, make: Design, replays: Sequence[int]) -> Replayed:
    """Replay a search and its confirmation.

    Args:
        grid: The results.
        make: Makes the search, and what stops its trials early.
        replays: Random seeds by which the configurations' seeds are dealt out.
    """
    best, found = max(grid.scores.values()), []
    for number in replays:
        replay = Replay(grid, np.random.default_rng(number))
        replay.run(*make(number))
        chosen = replay.chosen()
        found.append(
            (
                chosen in grid.best_by_score,
                chosen in grid.best,
                best - grid.scores[chosen],
                replay.env_steps_searching / grid.cost,
                replay.env_steps / grid.cost,
                sum(key == chosen for key, _, _ in replay.confirmed),
            )
        )
    return Replayed(*np.array(found, dtype=float).T)


@dataclass(frozen=True)
class Noise:
    """How the scores of equal configurations are distributed over seeds.

    Attributes:
        draw: One score.
        mean: Of the distribution.
    """

    draw: Callable[[np.random.Generator], float]
    mean: float


NOISES = {
    "normal, 300 +- 40": Noise(lambda rng: rng.normal(300, 40), 300.0),
    "80% near 460, 20% near 150": Noise(
        lambda rng: rng.normal(460, 15) if rng.random() < 0.8 else rng.normal(150, 40), 0.8 * 460 + 0.2 * 150
    ),
}
CONFIGURATIONS, SEARCHED = 4, 3
"""Equal ones, of which three are the best of a search and one is the base; and their seeds in the search."""


def equal(noise: Noise, studies: int, race: bool) -> tuple[float, float, float]:
    """What is said of equal configurations, where scores decide.

    Args:
        noise: Of their scores.
        studies: How many are made up.
        race: Whether they are confirmed by a race.

    Returns:
        Share of studies in which any is called worse; share in which the interval of what leads holds its mean; mean
        number of trials that confirm.
    """
    points: list[Point] = [{"place": place} for place in range(CONFIGURATIONS)]
    wrong, held, trials = 0, 0, 0
    for number in range(studies):
        rng = np.random.default_rng(number)
        known = {key_of(p): [_outcome(noise.draw(rng)) for _ in range(SEARCHED)] for p in points}
        ranked = sorted(points[:-1], key=lambda p: -sum(o.values[SCORE] for o in known[key_of(p)]))
        strategy: Strategy = (
            ConfirmationRace(ranked, points[-1], known, HELD_OUT, [SCORE])
            if race
            else Listed(points, HELD_OUT, [SCORE], CONFIRM)
        )
        while isinstance(ask := strategy.ask(), Ask):
            strategy.start(ask)
            strategy.tell(len(strategy.asked) - 1, _outcome(noise.draw(rng)))
        scores = np.full((len(points), len(HELD_OUT)), np.nan)
        had: Counter[str] = Counter()
        for index, ask in enumerate(strategy.asked):
            key = key_of(ask.point)
            scores[points.index(ask.point), had[key]] = strategy.outcomes[index].values[SCORE]
            had[key] += 1
        confirmed = scores[np.isfinite(scores).any(axis=1)]
        wrong += not leaders(confirmed, larger_is_better=True).all()
        means = moderated_intervals(confirmed)
        leader = int(np.argmax(means.estimate))
        held += bool(means.low[leader] <= noise.mean <= means.high[leader])
        trials += len(strategy.asked)
    return wrong / studies, held / studies, trials / studies


def _outcome(score: float) -> Outcome:
    return Outcome(FINISHED, {SCORE: score, "auc": score}, 1)


_COLUMNS = (
    "search, confirmation",
    "among the best by score",
    "by score and env steps",
    "score short of the best (mean, 95th percentile)",
    "env steps before it confirms",
    "in all",
    "fresh seeds of the choice (all of them)",
)


def measure(quick: bool) -> Report:
    """Replay all designs over both grids, and make up studies of equal configurations; the same numbers every time."""
    replays = range(QUICK_REPLAYS if quick else REPLAYS)
    studies = QUICK_STUDIES if quick else STUDIES
    grids = [Grid("ppo_cartpole", {LR: 1e-4, BATCH: 4000}), Grid("ppo_acrobot", {LR: 3e-4, BATCH: 4000})]
    found = {grid.name: {name: replayed(grid, make, replays) for name, make in designs(grid).items()} for grid in grids}
    tables = tuple(
        Table(
            f"{grid.name}: {len(grid.points)} configurations x 10 seeds x {grid.budget_env_steps:,} env steps",
            _COLUMNS,
            tuple(of_one.row(name) for name, of_one in found[grid.name].items()),
            f"{len(replays)} replays; 95% intervals: Wilson. Env steps: mean share of the full grid's. The base is "
            f"confirmed as well. Shorter: `search.max_trials={math.ceil(SHORTER * len(grid.points))}`.",
        )
        for grid in grids
    )
    claims = Table(
        "Equal configurations",
        (
            "scores over seeds",
            "any called worse, all seeds",
            "any called worse, by a race",
            "interval holds, all seeds",
            "interval holds, by a race",
            "trials of the race",
        ),
        tuple(_claims(name, noise, studies) for name, noise in NOISES.items()),
        f"{CONFIGURATIONS} configurations with the same scores, {SEARCHED} seeds of each in the search, up to "
        f"{len(HELD_OUT)} fresh ones: percent of {studies} made-up studies. "
        "Interval: of what leads, 95%; the best of several flatters itself, however it is confirmed. Trials: that "
        f"confirm, on average, of {CONFIGURATIONS * len(HELD_OUT)}.",
    )
    return Report(
        "confirmation",
        "Confirmation by a race",
        __doc__ or "",
        _verdict(found),
        (*tables, claims),
        "The constants of the race, and the seeds of ASHA, were chosen on 200 other replays of the same grids: other "
        "orders of the same seeds, so that the two halves know more of each other than two studies would. Which "
        "configurations are the best rests on the same ten seeds, so that a search which runs more of them sees more "
        "of that. A replay deals each configuration's seeds out in an order of its own: a seed that searched does not "
        "confirm.",
        by_machine=False,
    )


def _claims(name: str, noise: Noise, studies: int) -> tuple[str, ...]:
    (wrong, held, _), (wrong_race, held_race, trials) = (equal(noise, studies, race) for race in (False, True))
    return (name, *(f"{100 * share:.1f}" for share in (wrong, wrong_race, held, held_race)), f"{trials:.1f}")


def _verdict(found: Mapping[str, Mapping[str, Replayed]]) -> str:
    parts = []
    for name, of_grid in found.items():
        before, after = of_grid[DEFAULT], of_grid[RACED]
        cost, lost = float(after.cost.mean()), float(before.by_all.mean() - after.by_all.mean())
        met = cost <= TARGETS[name] and lost <= MOST_LOST
        parts.append(
            f"{name}: {100 * after.by_all.mean():.0f}% at {100 * cost:.1f}% (at most {100 * TARGETS[name]:.0f}), "
            f"{'met' if met else 'missed'}; all seeds of the {TOP} best: {100 * before.by_all.mean():.0f}% at "
            f"{100 * before.cost.mean():.1f}%"
        )
    return (
        f"Replays that end among the best by score and env steps, and their share of the grid's env steps, by {RACED}: "
        f"{'. '.join(parts)}. Target: at most {100 * MOST_LOST:.0f} points fewer."
    )
