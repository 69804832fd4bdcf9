"""Studies in a store whose trials did not train, for trials that are taken from there.

Plan, folder, logs of events, tracking and conclusions are the suite's own. What a trial reports is a number for each
seed, report and metric, with digits to the last place.
"""

import functools
import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np

from analysis.document import conclusions
from experiments.config.trial_config import TrialConfig
from experiments.contract import FINISHED
from experiments.contract.sqlite_address import sqlite_uri
from experiments.limits.processor import this_processor
from experiments.planning.plan import Plan
from experiments.planning.trials import StudyTrials
from experiments.rllib.algorithms import promises_bits
from experiments.study.files.folder import StudyFolder
from experiments.study.outcomes import Outcomes
from experiments.study.stream import EventStream
from experiments.tracking.listener import TrackingListener
from experiments.tracking.place import Place
from experiments.tracking.store import Store
from experiments.tracking.writer import Writer
from experiments.trial.events import Ended, Event, Placed, Reported, Started, now_ms, record_of
from experiments.trial.folder import STATE_FILE, TRIAL_FILE, TrialFolder
from tests.support.recorded_studies import FINAL, METRICS

GRID = (
    "study=smoke",
    "study.space={algorithm.training.lr:[1e-3,3e-3]}",
    "seeds=[0,1]",
    "budget_env_steps=4096",
    "report_every_env_steps=1024",
    "algorithm.training.train_batch_size_per_learner=512",
    "tracking.tensorboard=false",
    "report=false",
)
"""Four trials of four reports."""

Says = Callable[[TrialConfig], Iterator[Event]]


def place_in(folder: Path) -> Place:
    return Place(folder, sqlite_uri(folder / "mlflow.db"), 5.0)


def trained(trial: TrialConfig) -> Iterator[Event]:
    """What a trial does on this machine, from its start to its end, which is the moment of its last report."""
    values, reproducible = np.random.default_rng([trial.seed, int(trial.config_id, 16)]), promises_bits(trial)
    yield Started()
    yield Placed(hosts=("here",), cpus=(this_processor().name,))
    at_ms = now_ms()
    for env_steps in range(trial.report_every_env_steps, trial.budget_env_steps + 1, trial.report_every_env_steps):
        metrics, at_ms = dict(zip(METRICS, 100 * values.random(len(METRICS)), strict=True)), at_ms + 1
        yield Reported(env_steps=env_steps, metrics=metrics, reproducible=reproducible, at_ms=at_ms)
    yield Ended(
        status=FINISHED,
        env_steps=trial.budget_env_steps,
        metrics=dict(zip(FINAL, 100 * values.random(len(FINAL)), strict=True)),
        weights=f"{trial.seed:016x}",
        reproducible=reproducible,
        at_ms=at_ms,
    )


def with_events(change: Callable[[Event], Event | None]) -> Says:
    """What a trial does, with its events changed, or left out."""
    return lambda trial: (event for event in map(change, trained(trial)) if event is not None)


def named(plan: Plan, name: str) -> Plan:
    """The same study by another name."""
    return replace(plan, suite=replace(plan.suite, study=replace(plan.suite.study, name=name)))


def write(plan: Plan, place: Place, says: Says = trained) -> StudyFolder:
    """Run a study as a driver does, in this process."""
    folder = StudyFolder(place.studies / plan.study)
    folder.create(plan)
    writer = Writer(functools.partial(Store, place.store_uri, place.artifacts, place.timeout_s))
    trials, outcomes = StudyTrials(plan), Outcomes()
    listener = TrackingListener(trials, folder, writer, conclusions)
    listener.begin()
    stream = EventStream(folder, [outcomes, listener])
    for trial in plan.trials:
        for event in says(trial):
            stream.record(trial, event)
    listener.end("FINISHED", [outcomes.of(trial) for trial in plan.trials])
    writer.close(wait_s=60)
    folder.close()
    assert (writer.undelivered, writer.refused) == (0, 0)
    return folder


def leave_policy(folder: TrialFolder, trial: TrialConfig) -> Path:
    """The last checkpoint of a trial, as far as it is read without its networks."""
    *_, end = trained(trial)
    counters = {"grid_env_steps": trial.budget_env_steps, "env_steps": trial.budget_env_steps}
    state = {"events": [record_of(end)], "counters": counters, "return_mean": 1.0}

    def files(path: Path) -> None:
        (path / TRIAL_FILE).write_text(json.dumps(trial.to_mapping()))
        (path / STATE_FILE).write_text(json.dumps(state))

    folder.log.new()
    return folder.add_checkpoint(trial.budget_env_steps, folder.log.attempt, files, keep=1, keep_best=False)
