"""Runs a search over made-up results, in an order of ends that is drawn at random."""

import zlib
from collections.abc import Callable

import numpy as np

from experiments.config.space import Point
from experiments.contract import FINISHED
from experiments.search.strategy import Ask, Outcome, Signal, key_of
from experiments.search.trial_queue import TrialQueue

OutcomeOf = Callable[[Ask], Outcome]


def scores(mean: Callable[[Point], float], spread: float) -> OutcomeOf:
    """Scores around a mean, the same for the same point and seed."""

    def outcome(ask: Ask) -> Outcome:
        noise = np.random.default_rng([ask.seed, zlib.crc32(key_of(ask.point).encode())]).normal()
        return Outcome(FINISHED, {"score": mean(ask.point) + spread * noise, "auc": mean(ask.point) / 2}, 1000, 1.0)

    return outcome


def solved(
    env_steps: Callable[[Point], float], spread: float, target: float = 475.0, budget: int = 60_000
) -> OutcomeOf:
    """Trials that all end at a score of 500, and hold the target from a number of env steps on,
    unless that is beyond the budget.

    Args:
        env_steps: A configuration's, on average.
        spread: Standard deviation over seeds.
        target: Of the environment.
        budget: Of a trial, in env steps.
    """

    def outcome(ask: Ask) -> Outcome:
        noise = np.random.default_rng([ask.seed, zlib.crc32(key_of(ask.point).encode())]).normal()
        taken = max(1.0, env_steps(ask.point) + spread * noise)
        values = {"score": 500.0, "auc": 400.0, "env_steps_to_target": min(taken, budget)}
        return Outcome(FINISHED, values, budget, 1.0, target=target, reached=taken < budget)

    return outcome


def run(
    queue: TrialQueue, outcome: OutcomeOf, side_by_side: int = 2, ends: int = 0, most: int | None = None
) -> list[Ask]:
    """Run what a queue asks for.

    Args:
        queue: The search's.
        outcome: Of a trial.
        side_by_side: Trials that run at once.
        ends: Seed of the order in which they end.
        most: Trials after whose end the driver is killed; None: none.
    """
    rng, running, ended = np.random.default_rng(ends), [], 0
    while True:
        found = queue.ask() if len(running) < side_by_side else None
        if isinstance(found, int):
            running.append(found)
            continue
        if not running:
            assert found is Signal.DONE, "nothing runs, and the search waits"
            return queue.asked
        index = running.pop(int(rng.integers(len(running))))
        queue.tell(index, outcome(queue.asked[index]))
        ended += 1
        if ended == most:
            return queue.asked
