"""Drivers of studies whose trials do not train.

Plan, folder, logs of events, the stream of events, tracking and conclusions are the suite's own. What a trial reports
is not measured, but a number for each seed, report and metric, with digits to the last place.
"""

import functools
import itertools
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from analysis.document import conclusions
from experiments.config.trial_config import TrialConfig
from experiments.contract import FINISHED
from experiments.planning.plan import Plan
from experiments.planning.trials import StudyTrials
from experiments.study.files.folder import StudyFolder
from experiments.study.outcomes import Outcomes
from experiments.study.stream import EventStream
from experiments.tracking.listener import TrackingListener
from experiments.tracking.store import Store, num_writers
from experiments.tracking.writer import Writer
from experiments.trial.events import Ended, Event, Reported, Started
from tests.support.planning import plan_for

METRICS = (
    "eval/return_mean", "eval/return_std", "train/return_mean", "train/episodes", "throughput/env_steps_per_s",
    "progress/env_steps", "progress/updates", "progress/train_s", "learner/loss", "learner/entropy", "learner/kl",
    "system/memory_mib",
)  # fmt: skip
FINAL = ("final/score", "final/auc", "final/env_steps_per_s", "final/train_s", "final/wall_s")
BUDGET, REPORT_EVERY = 60_000, 6_000

Point = tuple[str, int, int, float]
"""Metric, step, moment (ms since the epoch), value."""


def plan_of_200_trials(name: str) -> Plan:
    """Four learning rates, 50 seeds each."""
    seeds, axis = list(range(50)), "{algorithm.training.lr:[1e-4,3e-4,1e-3,3e-3]}"
    grid = f"budget_env_steps={BUDGET}", f"report_every_env_steps={REPORT_EVERY}"
    return plan_for(f"study.name={name}", f"study.space={axis}", f"seeds={seeds}".replace(" ", ""), *grid)


def events_of(trial: TrialConfig) -> Iterator[Event]:
    """What a trial does, from its start to its end."""
    values = np.random.default_rng([trial.seed, int(trial.config_id, 16)])
    yield Started()
    for env_steps in range(REPORT_EVERY, BUDGET + 1, REPORT_EVERY):
        yield Reported(env_steps=env_steps, metrics=dict(zip(METRICS, 100 * values.random(len(METRICS)), strict=True)))
    final = dict(zip(FINAL, 100 * values.random(len(FINAL)), strict=True))
    yield Ended(status=FINISHED, env_steps=BUDGET, metrics=final, weights="0123456789abcdef")


def drive(name: str, uri: str, out: Path, resumed: bool = False, side_by_side: int = 8) -> None:
    """Run a study of 200 trials as a driver does, in this process, or go on with it."""
    plan, folder = plan_of_200_trials(name), StudyFolder(out / "studies" / name)
    if resumed:
        folder.lock()
    else:
        folder.create(plan)
    writer = Writer(functools.partial(Store, uri, out / "mlartifacts", 30.0), num_writers(uri))
    trials, outcomes = StudyTrials(plan), Outcomes()
    listener = TrackingListener(trials, folder, writer, conclusions, resumed)
    listener.begin()
    stream = EventStream(folder, [outcomes, listener])
    stream.replay(plan.trials)
    for first in range(0, len(plan.trials), side_by_side):
        running = [(trial, _left(folder, trial)) for trial in plan.trials[first : first + side_by_side]]
        while running:
            running = [(trial, events) for trial, events in running if _next(folder, stream, trial, events)]
    listener.end("FINISHED", [outcomes.of(trial) for trial in plan.trials])
    writer.close(wait_s=600)
    folder.close()
    assert (writer.undelivered, writer.refused) == (0, 0)


def _left(folder: StudyFolder, trial: TrialConfig) -> Iterator[Event]:
    """What a trial has not done yet; one that was interrupted begins another attempt."""
    done = folder.trial(trial).log.all()
    if done and isinstance(done[-1], Ended):
        return iter(())
    if not done:
        return events_of(trial)
    reported = sum(isinstance(event, Reported) for event in done)
    return itertools.chain([Started()], itertools.islice(events_of(trial), 1 + reported, None))


def _next(folder: StudyFolder, stream: EventStream, trial: TrialConfig, events: Iterator[Event]) -> bool:
    """Let a trial do the next thing; False at its end."""
    event = next(events, None)
    if event is not None:
        stream.tell(trial, folder.trial(trial).log.add(event))
    return event is not None


def logged_points(folder: StudyFolder, trial: TrialConfig) -> Counter[Point]:
    """What a trial reported, by its log, each once."""
    found: Counter[Point] = Counter()
    for event in folder.trial(trial).log.all():
        if isinstance(event, Reported | Ended):
            found.update((name, event.env_steps, event.at_ms, value) for name, value in event.metrics.items())
    return found
