"""How often a search ends on one of the best configurations, and at what share of the full grid's env steps.

Searches are replayed over the results of full grids with ten seeds each (`benchmarks/search/data`): nothing trains.
"""

import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from analysis.questions.decision import decide
from analysis.stats.comparisons import leaders
from analysis.stats.shares import share_interval
from benchmarks.search.table import DATA
from benchmarks.support.commanded import plan_of_command
from benchmarks.support.harness import Report, Table
from experiments.config.search_settings import Asha
from experiments.config.space import Point, parse_space
from experiments.contract import CONFIRM, FINISHED, PRUNED
from experiments.planning.machines import Cluster, Node
from experiments.planning.trials import StudyTrials
from experiments.search.optuna_search import Suggested
from experiments.search.racing import Racing
from experiments.search.strategy import (
    SCORE,
    TIE_BREAK,
    TO_TARGET,
    Ask,
    Confirming,
    Listed,
    Outcome,
    Signal,
    Strategy,
    key_of,
)
from experiments.search.trial_queue import Limits, TrialQueue
from experiments.study.files.folder import StudyFolder
from experiments.study.tune.early_stopping import EarlyStopping, rule_of

REPLAYS, QUICK_REPLAYS = 400, 4
SUGGESTIONS, QUICK_SUGGESTIONS = 500, 10
SIDE_BY_SIDE = 2
HELD_OUT = (1000, 1001, 1002, 1003, 1004)
TOP = 3
SEEDS = tuple(range(10))
RACING, OPTUNA = "racing, confirmed", "Optuna (TPE), confirmed"
TARGET_SHARE, TARGET_COST = 0.9, 0.25
LR, BATCH = "algorithm.training.lr", "algorithm.training.train_batch_size_per_learner"


class Grid:
    """A full grid's results.

    Attributes:
        space: Of the study.
        points: All, in order.
        base: The algorithm's own setting, or what of the grid is nearest to it.
        runs: As the analysis takes them.
        budget_env_steps: Of a trial.
        scores: Configuration to its mean score.
        best_by_score: Configurations that are not significantly different from the best by score.
        best: Likewise by the suite's own rule.
    """

    def __init__(self, name: str, base: Point) -> None:
        table = pd.read_csv(DATA / f"{name}.csv")
        self.name, self.base = name, base
        self.space = {path: sorted(table[path].unique().tolist()) for path in (LR, BATCH)}
        table["key"] = [key_of({LR: lr, BATCH: batch}) for lr, batch in zip(table[LR], table[BATCH], strict=True)]
        self.points = {
            key: {LR: lr, BATCH: batch} for key, lr, batch in zip(table["key"], table[LR], table[BATCH], strict=True)
        }
        self.budget_env_steps = int(table["budget_env_steps"].iloc[0])
        self.rows: Mapping[str, list[dict[str, Any]]] = {
            key: part.to_dict("records") for key, part in table.groupby("key", sort=False)
        }
        self.runs = frame([(key, i, row) for key, rows in self.rows.items() for i, row in enumerate(rows)])
        self.cost = len(table) * self.budget_env_steps
        matrix = np.array([[row["score"] for row in rows] for rows in self.rows.values()])
        tied = leaders(matrix, larger_is_better=True)
        self.best_by_score = {key for key, is_tied in zip(self.rows, tied, strict=True) if is_tied}
        self.best = set(decide(self.runs)[0].leaders)
        self.scores = {key: float(np.mean([row["score"] for row in rows])) for key, rows in self.rows.items()}


def frame(rows: list[tuple[str, int, dict[str, Any]]]) -> pd.DataFrame:
    """Trials as the analysis takes them.

    Args:
        rows: Configuration, seed, and the row of a grid's file.
    """
    found = pd.DataFrame([{**row, "config": key, "seed": seed} for key, seed, row in rows])
    constant = {
        "repeat": 0,
        "status": "finished",
        "exploratory": False,
        "phase": "fixed",
        **dict.fromkeys(("run_id", "cpu", "gpu"), ""),
        "trained_steps_per_s": np.nan,
        "wall_s": np.nan,
    }
    return found.assign(**constant, score_range_low=np.nan, score_range_high=np.nan).astype(
        {"config": pd.CategoricalDtype(list(dict.fromkeys(found["config"])), ordered=True)}
    )


@dataclass
class Replay:
    """A search over a grid's results.

    Attributes:
        grid: Its results.
        rng: Deals out seeds.
        dealt: Configuration to its rows, those still to come last.
        confirmed: Configuration, seed and row of each trial that confirms.
        found: Configuration to its scores in the search.
        env_steps: That it spent.
        env_steps_searching: Those of them before it confirmed.
    """

    grid: Grid
    rng: np.random.Generator
    dealt: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    confirmed: list[tuple[str, int, dict[str, Any]]] = field(default_factory=list)
    found: dict[str, list[float]] = field(default_factory=dict)
    env_steps: int = 0
    env_steps_searching: int = 0

    def row(self, ask: Ask) -> dict[str, Any]:
        """The result of a seed of the configuration that was not seen yet; any of them, where all were."""
        key = key_of(ask.point)
        left = self.dealt.setdefault(key, [])
        if not left:
            left += [self.grid.rows[key][i] for i in self.rng.permutation(len(self.grid.rows[key]))]
        return left.pop()

    def run(self, strategy: Strategy, scheduler: EarlyStopping | None = None) -> None:
        """Run a search to its end, trials side by side, each report in turn."""
        queue = TrialQueue(strategy, SIDE_BY_SIDE + 1, Limits(self.grid.budget_env_steps))
        running: dict[int, _Running] = {}
        while True:
            while len(running) < SIDE_BY_SIDE and isinstance(index := queue.ask(), int):
                running[index] = _Running(queue.asked[index], self.row(queue.asked[index]), self.grid.budget_env_steps)
            if not running:
                assert queue.ask() is Signal.DONE
                return
            for index, trial in list(running.items()):
                if (outcome := trial.step(scheduler)) is not None:
                    del running[index]
                    queue.tell(index, outcome)
                    self._note(trial.ask, trial.row, outcome)

    def _note(self, ask: Ask, row: dict[str, Any], outcome: Outcome) -> None:
        self.env_steps += outcome.env_steps
        self.env_steps_searching += outcome.env_steps if ask.phase != CONFIRM else 0
        key = key_of(ask.point)
        if ask.phase == CONFIRM:
            self.confirmed.append((key, ask.seed, row))
        else:
            self.found.setdefault(key, []).append(outcome.values["score"])

    def chosen(self) -> str:
        """The configuration that it ends on: by the confirmed trials, if there are any."""
        if self.confirmed:
            return str(decide(frame(self.confirmed))[0].chosen)
        return max(self.found, key=lambda key: (float(np.mean(self.found[key])), self.rng.random()))


def outcome_of(row: Mapping[str, Any]) -> Outcome:
    """The outcome of a trial that had its whole budget.

    Args:
        row: Of a grid's file.
    """
    values = {name: float(row[name]) for name in (SCORE, TIE_BREAK)}
    reached, budget = bool(np.isfinite(row[TO_TARGET])), int(row["budget_env_steps"])
    values[TO_TARGET] = float(row[TO_TARGET]) if reached else float(budget)
    return Outcome(FINISHED, values, budget, target=float(row["target"]), reached=reached)


class _Running:
    def __init__(self, ask: Ask, row: dict[str, Any], budget_env_steps: int) -> None:
        self.ask, self.row = ask, row
        self._returns = [float(value) for value in str(row["returns"]).split()]
        self._every, self._reports = budget_env_steps // len(self._returns), 0

    def step(self, scheduler: EarlyStopping | None) -> Outcome | None:
        """One report; how it ended, if it did."""
        reports = len(self._returns) if scheduler is None or self.ask.phase == CONFIRM else self._reports + 1
        self._reports, env_steps = reports, reports * self._every
        value = self._returns[reports - 1]
        if reports == len(self._returns):
            return outcome_of(self.row)
        name = f"{key_of(self.ask.point)} {self.ask.seed}"
        if scheduler is not None and scheduler.on_report(name, env_steps, value):
            return Outcome(PRUNED, {"score": value}, env_steps)
        return None


def searches(grid: Grid) -> Mapping[str, Callable[[int], tuple[Strategy, EarlyStopping | None]]]:
    """What is compared, each made by a seed."""
    points, axes, num = list(grid.points.values()), parse_space(grid.space), len(grid.points)

    def confirming(search: Strategy) -> Strategy:
        return Confirming(search, grid.base, TOP, HELD_OUT)

    def asha(seed: int) -> tuple[Strategy, EarlyStopping]:
        settings = Asha("asha", None, 4.0)
        order = np.random.default_rng(seed).permutation(num)
        shuffled = [points[i] for i in order]  # the first ones meet nobody to be compared with
        return confirming(Listed(shuffled, SEEDS[:3], ["score"])), EarlyStopping(
            rule_of(settings, grid.budget_env_steps)
        )

    return {
        "the grid with 1 seed, its best": lambda seed: (Listed(points, SEEDS[:1], ["score"]), None),
        "the grid with 3 seeds, its best": lambda seed: (Listed(points, SEEDS[:3], ["score"]), None),
        RACING: lambda seed: (confirming(Racing(Listed(points, SEEDS[:1], ["score"]), SEEDS, None)), None),
        OPTUNA: lambda seed: (confirming(Suggested(axes, round(1.5 * num), SEEDS, ["score"], "tpe", seed)), None),
        "racing over Optuna's, confirmed": lambda seed: (
            confirming(Racing(Suggested(axes, num, SEEDS, ["score"], "tpe", seed), SEEDS, None)),
            None,
        ),
        "ASHA, 3 seeds, confirmed": asha,
    }


@dataclass(frozen=True)
class Found:
    """What the replays of a search came to.

    Attributes:
        by_score: Of each, whether it ended on a configuration that is not significantly different
            from the best by score.
        by_all: Likewise by the suite's own rule, which goes on to env steps to target where scores end at the target.
        short: Of each, how far the score of what it ended on, mean over all seeds,
            falls short of the best configuration's.
        searching: Of each, the share of the grid's env steps that it spent before it confirmed.
        cost: Likewise in all.
    """

    by_score: list[bool]
    by_all: list[bool]
    short: list[float]
    searching: list[float]
    cost: list[float]

    def row(self, name: str) -> tuple[str, ...]:
        """For the page."""
        shares = [share(values) for values in (self.by_score, self.by_all)]
        short = f"{np.mean(self.short):.1f}, {np.quantile(self.short, 0.95):.1f}"
        return (name, *shares, short, f"{100 * np.mean(self.searching):.0f}%", f"{100 * np.mean(self.cost):.0f}%")


def share(values: Sequence[bool]) -> str:
    """How many of some replays did, with Wilson's 95% interval, for a page."""
    low, high = share_interval(sum(values), len(values))
    return f"{100 * np.mean(values):.0f}% [{100 * float(low):.0f}, {100 * float(high):.0f}]"


def replayed(grid: Grid, make: Callable[[int], tuple[Strategy, EarlyStopping | None]], replays: int) -> Found:
    """Replay a search, each time with other seeds."""
    best, found = max(grid.scores.values()), Found([], [], [], [], [])
    for seed in range(replays):
        replay = Replay(grid, np.random.default_rng(seed))
        replay.run(*make(seed))
        chosen = replay.chosen()
        found.by_score.append(chosen in grid.best_by_score)
        found.by_all.append(chosen in grid.best)
        found.short.append(best - grid.scores[chosen])
        found.searching.append(replay.env_steps_searching / grid.cost)
        found.cost.append(replay.env_steps / grid.cost)
    return found


def suggestion_s(num: int) -> list[float]:
    """Seconds that the driver takes for each of so many trials of a search: to tell, to ask,
    to build and check the configuration, to note.

    Of Optuna over an endless space, with its storage on disk, where every trial is another configuration.
    """
    overrides = (
        "search=optuna",
        f"search.num_samples={num}",
        f"study.space={{{LR}:{{distribution:loguniform,low:1e-5,high:1e-1}},{BATCH}:[512,2000,4000]}}",
    )
    plan = plan_of_command(overrides, Cluster((Node(2, 0),)))
    assert plan.search
    trials = StudyTrials(plan)
    rng, seconds = np.random.default_rng(0), []
    with tempfile.TemporaryDirectory(prefix="benchmark-") as scratch:
        folder = StudyFolder(Path(scratch) / "study")
        folder.create(plan)
        queue = TrialQueue(plan.search.strategy(folder.optuna_storage), plan.ahead, plan.search.limits(), folder.note)
        for _ in range(num):
            start = time.perf_counter()
            index = queue.ask()
            assert isinstance(index, int)
            trials.take(queue.asked[index])
            folder.keep_configurations(trials)
            queue.tell(index, Outcome(FINISHED, {"score": float(rng.random()), "auc": 0.0}, 60_000, 1.0))
            seconds.append(time.perf_counter() - start)
        folder.close()
    return seconds


_COLUMNS = (
    "search",
    "among the best by score",
    "by score and env steps",
    "score short of the best (mean, 95th percentile)",
    "env steps",
    "with confirmation",
)


def measure(quick: bool) -> Report:
    """Replay every search over both grids."""
    replays = QUICK_REPLAYS if quick else REPLAYS
    # The base is a poor one, so that a search gains nothing from starting there:
    # the grid's point nearest to RLlib's own defaults.
    grids = [Grid("ppo_cartpole", {LR: 1e-4, BATCH: 4000}), Grid("ppo_acrobot", {LR: 3e-4, BATCH: 4000})]
    found = {
        grid.name: {name: replayed(grid, make, replays) for name, make in searches(grid).items()} for grid in grids
    }
    tables = tuple(
        Table(
            f"{grid.name}: {len(grid.points)} configurations x 10 seeds x {grid.budget_env_steps:,} env steps",
            _COLUMNS,
            tuple(of_one.row(name) for name, of_one in found[grid.name].items()),
            f"{len(grid.best_by_score)} of {len(grid.points)} configurations are not significantly different from the "
            f"best by score with ten seeds; {len(grid.best)} by the suite's rule, which goes on to env steps to "
            f"target. {replays} replays; 95% intervals: Wilson. Env steps: mean share of the full grid's.",
        )
        for grid in grids
    )
    seconds = suggestion_s(QUICK_SUGGESTIONS if quick else SUGGESTIONS)
    of_a_trial, every = float(grids[0].runs["train_s"].mean()), len(seconds) // 5
    medians = {end: float(np.median(seconds[end - every : end])) for end in range(every, len(seconds) + 1, every)}
    cost = Table(
        "What the search itself costs",
        ("trials so far", "ms for each of the last ones (median)", f"of a trial's {of_a_trial:.1f} s of training"),
        tuple(
            (f"{end}", f"{1000 * median:.0f}", f"{100 * median / of_a_trial:.1f}%") for end, median in medians.items()
        ),
        "Optuna (TPE) over a range and a list, its storage on disk: the driver's time between two trials, while others "
        f"train. The trials compared with are those of {grids[0].name}.",
    )
    return Report(
        "search",
        "Searches against the truth",
        __doc__ or "",
        _verdict({(name, grid): of_grid[name] for grid, of_grid in found.items() for name in (RACING, OPTUNA)}),
        (*tables, cost),
        "A replay deals each configuration's ten seeds out in an order of its own: a seed that searched does not "
        "confirm. ASHA sees each trial's evaluations as they come, two trials side by side. The three best and the "
        "base are confirmed, with five seeds each. The best by the suite's rule rests on ten, so no search can always "
        "end there.",
        packages=("optuna",),
    )


def _verdict(found: Mapping[tuple[str, str], Found]) -> str:
    parts = []
    for (name, grid), of_one in found.items():
        share, cost = np.mean(of_one.by_score), np.mean(of_one.cost)
        word = "met" if share >= TARGET_SHARE and cost <= TARGET_COST else "missed"
        steps = f"{100 * cost:.0f}% ({100 * np.mean(of_one.searching):.0f}% before it confirms)"
        parts.append(
            f"{name} on {grid}: {100 * share:.0f}% at {steps}, {word}; by the stricter rule "
            f"{100 * np.mean(of_one.by_all):.0f}%"
        )
    target = (
        f"at least {100 * TARGET_SHARE:.0f}% of replays, at no more than {100 * TARGET_COST:.0f}% "
        "of the grid's env steps"
    )
    return f"Target: {target}. {'. '.join(parts)}."
