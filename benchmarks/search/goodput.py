"""What does a choice of learning rate, batch and layout cost in minutes to target, by the product of env steps and
seconds, and by whole trainings?

Grids of all three that are made from real curves: env steps to target of PPO over learning rate and batch, ten seeds
each (`benchmarks/search/data`), and a machine whose throughput follows a law that the choosers do not know.
"""

from dataclasses import dataclass

import numpy as np
import pandas as pd

from analysis.evidence import counted
from analysis.questions.convergence import by_seed
from analysis.questions.decision import decide
from analysis.stats.interval import Array
from benchmarks.search.replay import BATCH, LR, Grid
from benchmarks.support.harness import Report, Table
from experiments.config.space import Point
from experiments.contract import CONFIRM, FINISHED, THROUGHPUT
from experiments.search.joint import Candidate, Joint
from experiments.search.strategy import TO_TARGET, Ask, Outcome, key_of

GRIDS = {"ppo_cartpole": {LR: 3e-3, BATCH: 2048}, "ppo_acrobot": {LR: 3e-3, BATCH: 2000}}
LAYOUTS = [(runners, envs) for runners in (0, 1, 2) for envs in (4, 8, 16)]
"""Runners, 0 for the trial's own process, and environments of each."""
ENVS = 16
"""Environments with which learning is measured."""
ROUNDS = 2
"""Of measuring each layout."""
ROUND_S = 2.5
"""Seconds of a measurement, beside its start."""
MOST_SEEDS = 30
"""That learn, of what the others have not decided."""
CONFIRMED, FRESH_SEEDS = 3, 5
"""The soonest that are run again beside the base, and with how many seeds."""
SEEDS = (3, 5)


@dataclass(frozen=True)
class Machine:
    """Seconds of a training, and what its environments do to its env steps.

    Attributes:
        step_s: Of stepping one environment once, alone.
        call_s: Of stepping all environments of a runner once, whatever their number.
        learn_s: Of learning from one env step.
        iteration_s: Of an iteration, whatever its batch.
        remote_s: Of an env step that comes from another process.
        start_s: Until a runner has started.
        exponent: Of env steps to target in the number of environments.
    """

    step_s: float
    call_s: float
    learn_s: float
    iteration_s: float
    remote_s: float
    start_s: float
    exponent: float

    @classmethod
    def drawn(cls, rng: np.random.Generator) -> "Machine":
        """One of many: environments of a microsecond or of a millisecond, runners that pay or do not."""
        step = 10 ** rng.uniform(-5.3, -3.0)
        return cls(
            step,
            step * rng.uniform(1, 6),
            10 ** rng.uniform(-5.0, -4.3),
            10 ** rng.uniform(-2.7, -1.7),
            10 ** rng.uniform(-5.3, -4.5),
            rng.uniform(1, 4),
            rng.uniform(0.0, 0.4),
        )

    def speed(self, runners: int, envs: int, batch: float) -> float:
        """Env steps/s."""
        sampling = (self.step_s + self.call_s / envs) / max(1, runners) + (self.remote_s if runners else 0.0)
        return float(1 / (sampling + self.learn_s + self.iteration_s / batch))

    def start(self, runners: int) -> float:
        """Seconds until training begins."""
        return self.start_s if runners else 0.1

    def env_steps(self, at_reference: Array | float, runners: int, envs: int, budget: float) -> Array:
        """Env steps to target with other environments than those it was measured with."""
        factor = (max(1, runners) * envs / ENVS) ** self.exponent
        return np.asarray(np.minimum(np.asarray(at_reference) * factor, budget))


@dataclass(frozen=True)
class _Study:
    """A grid of learning rates, batches and layouts on a machine, with the truth."""

    steps: dict[tuple[float, float], Array]
    reached: dict[tuple[float, float], Array]
    budget: float
    machine: Machine
    truth: pd.DataFrame


def _study(grid: Grid, machine: Machine) -> _Study:
    steps, reached, rows = {}, {}, []
    for key, point in grid.points.items():
        cell = (float(point[LR]), float(point[BATCH]))
        found = np.array([row["env_steps_to_target"] for row in grid.rows[key]], dtype=float)
        steps[cell], reached[cell] = np.where(np.isnan(found), grid.budget_env_steps, found), ~np.isnan(found)
        for runners, envs in LAYOUTS:
            mean = machine.env_steps(steps[cell], runners, envs, grid.budget_env_steps).mean()
            seconds = machine.start(runners) + mean / machine.speed(runners, envs, cell[1])
            rows.append(
                {"lr": cell[0], "batch": cell[1], "runners": runners, "envs_each": envs, "minutes": seconds / 60}
            )
    truth = pd.DataFrame(rows)
    truth["layout"] = truth["runners"].astype(str) + "x" + truth["envs_each"].astype(str)
    truth["envs"] = np.maximum(1, truth["runners"]) * truth["envs_each"]
    return _Study(steps, reached, float(grid.budget_env_steps), machine, truth)


def _noise(rng: np.random.Generator, size: int) -> Array:
    return np.exp(rng.normal(0.0, 0.03, size))


def by_search(
    study: _Study, base: dict[str, float], num_seeds: int, rng: np.random.Generator
) -> tuple[int, int, float]:
    """The rows of the truth that a joint search chooses, by the product and after fresh seeds of the soonest by it; and
    the minutes that it trained and measured for that.
    """
    seconds, truth = 0.0, study.truth
    points: list[Point] = truth[["lr", "batch", "runners", "envs_each"]].to_dict("records")
    row_of = {key_of(point): row for row, point in zip(truth.index, points, strict=True)}
    candidates = [
        Candidate(
            point,
            (float(np.log10(point["lr"])), float(np.log10(point["batch"]))),
            max(1, point["runners"]) * point["envs_each"],
            point["batch"],
            "",
            f"{point['runners']} x {point['envs_each']}",
            point["runners"],
            int(study.budget),
        )
        for point in points
    ]
    lr, batch = min(study.steps, key=lambda cell: abs(np.log(cell[0] / base[LR])) + abs(np.log(cell[1] / base[BATCH])))
    start = {"lr": lr, "batch": batch, "runners": 0, "envs_each": ENVS}
    search = Joint(candidates, start, range(num_seeds), ROUNDS, range(num_seeds, MOST_SEEDS))

    def train(point: Point) -> tuple[float, float]:
        """Env steps to target of a seed, and its seconds."""
        runners, envs, batch = point["runners"], point["envs_each"], point["batch"]
        drawn = rng.choice(study.steps[point["lr"], batch])
        steps = float(study.machine.env_steps(drawn, runners, envs, study.budget))
        speed = study.machine.speed(runners, envs, batch) * _noise(rng, 1)[0]
        return steps, study.machine.start(runners) + steps / speed

    while isinstance(ask := search.ask(), Ask):
        index, point = len(search.asked), ask.point
        search.start(ask)
        if ask.phase == THROUGHPUT:
            speed = study.machine.speed(point["runners"], point["envs_each"], point["batch"]) * _noise(rng, 1)[0]
            begun = study.machine.start(point["runners"])
            seconds += begun + ROUND_S
            search.tell(index, Outcome(FINISHED, {"env_steps_per_s": speed, "start_s": begun}))
        else:
            steps, took = train(point)
            seconds += took
            search.tell(index, Outcome(FINISHED, {TO_TARGET: steps}, reached=steps < study.budget))
    predicted = search.predicted()
    assert predicted is not None
    at_once = row_of[key_of(points[predicted.order[0]])]
    chosen = {key_of(point): point for point in (*search.found()[:CONFIRMED], start)}
    for point in chosen.values():
        for seed in range(FRESH_SEEDS):
            steps, took = train(point)
            seconds += took
            search.asked.append(Ask(point, seed, CONFIRM))
            search.outcomes[len(search.outcomes)] = Outcome(FINISHED, {TO_TARGET: steps}, reached=steps < study.budget)
    predicted = search.predicted()
    assert predicted is not None
    best = next(points[i] for i in predicted.order if key_of(points[i]) in chosen)
    return at_once, row_of[key_of(best)], seconds / 60


def by_trainings(study: _Study, num_seeds: int, rng: np.random.Generator) -> tuple[int, int, float]:
    """The rows that whole trainings of the full grid choose: by the smallest mean of their seconds, and by env steps
    among what solves it, as the score decides; and the minutes that they took.
    """
    rows, minutes = [], 0.0
    for i, at in study.truth.iterrows():
        cell, runners, envs = (at["lr"], at["batch"]), int(at["runners"]), int(at["envs_each"])
        drawn = rng.choice(len(study.steps[cell]), size=num_seeds)
        steps = study.machine.env_steps(study.steps[cell][drawn], runners, envs, study.budget)
        speed = study.machine.speed(runners, envs, at["batch"]) * _noise(rng, num_seeds)
        start = study.machine.start(runners)
        minutes += float((start + study.budget / speed).sum()) / 60
        for seed in range(num_seeds):
            held = study.reached[cell][drawn[seed]] and steps[seed] < study.budget
            rows.append((i, seed, steps[seed] if held else np.nan, speed[seed], start))
    runs = _runs(rows, study.budget)
    seconds = by_seed(counted(runs), "minutes_to_target").mean(axis=1)
    (decision,) = decide(runs)
    return int(str(seconds.idxmin())), int(decision.chosen or 0), minutes


def _runs(rows: list[tuple[int, int, float, float, float]], budget: float) -> pd.DataFrame:
    """Trials as the analysis takes them, of an environment whose scores saturate."""
    frame = pd.DataFrame(rows, columns=["config", "seed", "env_steps_to_target", "env_steps_per_s", "start_s"])
    held = frame["env_steps_to_target"].notna()
    frame["seconds_to_target"] = frame["env_steps_to_target"] / frame["env_steps_per_s"]
    frame["train_s"] = budget / frame["env_steps_per_s"]
    known = {"status": "finished", "env": "env", "phase": "fixed", "repeat": 0, "exploratory": False, "run_id": "x"}
    texts = {"cpu": "", "gpu": "", "failure": ""}
    numbers = {"budget_env_steps": int(budget), "target": 475.0, "score_range_low": 0.0, "score_range_high": 500.0}
    frame = frame.assign(**known, **texts, **numbers, wall_s=frame["train_s"], trained_steps_per_s=np.nan)
    frame["score"], frame["auc"] = np.where(held, 500.0, 300.0), np.where(held, 400.0, 200.0)
    names = [str(name) for name in frame["config"].unique()]
    return frame.astype({"config": str}).astype({"config": pd.CategoricalDtype(names, ordered=True)})


def measure(quick: bool) -> Report:
    """Simulate it all; the same numbers every time."""
    rng = np.random.default_rng(0)
    reps, rows, worst = (3 if quick else 100), [], 0.0
    for name, base in GRIDS.items():
        grid = Grid(name, base)
        for num_seeds in SEEDS:
            regrets: dict[str, list[float]] = {"env steps": [], "seconds": [], "at once": [], "product": []}
            cost = []
            for _ in range(reps):
                study = _study(grid, Machine.drawn(rng))
                minutes, best = study.truth["minutes"], float(study.truth["minutes"].min())
                at_once, product, spent = by_search(study, base, num_seeds, rng)
                seconds, today, whole = by_trainings(study, num_seeds, rng)
                for rule, row in zip(regrets, (today, seconds, at_once, product), strict=True):
                    regrets[rule].append(float(minutes[row]) / best - 1)
                cost.append(spent / whole)
            cells = [f"+{100 * np.mean(of):.0f}%, {100 * np.quantile(of, 0.9):.0f}%" for of in regrets.values()]
            rows.append((name, str(num_seeds), *cells, f"{100 * np.median(cost):.0f}%"))
            worst = max(worst, float(np.mean(regrets["product"]))) if num_seeds == max(SEEDS) else worst
    return Report(
        name="goodput",
        title="Choosing learning rate, batch and layout by minutes to target",
        compared=(
            f"{reps} simulated machines a row, with a fixed generator; on each a grid of learning rates x batches x "
            f"{len(LAYOUTS)} layouts, whose env steps to target are those of real seeds of PPO."
        ),
        verdict=(
            f"Chosen by a joint search, with {max(SEEDS)} seeds that learn, a configuration takes at "
            f"most {100 * worst:.0f}% longer than the soonest one on average; the target is 5%."
        ),
        tables=(
            Table(
                "By how much longer the chosen configuration takes than the soonest one: mean, 90th percentile",
                (
                    "env steps of",
                    "seeds",
                    "score, env steps",
                    "seconds",
                    "product",
                    "and fresh seeds",
                    "measured",
                ),
                tuple(rows),
                "score, env steps: what a grid of whole trainings answers by itself. seconds: the smallest mean of "
                "minutes to target of the same trainings. product: what `search=joint` predicts, from learning rates "
                f"and batches that are trained with {ENVS} environments in the trial's own process, the best two with "
                f"4 as well, {ROUNDS} measurements of a layout, and up to {MOST_SEEDS} seeds of what is not decided. "
                f"and fresh seeds: the {CONFIRMED} soonest and the base with {FRESH_SEEDS} fresh seeds each, of which "
                "the product of all trials chooses. measured: the minutes of training and measuring that this takes, "
                "of those of the full grid; median.",
            ),
        ),
    )
