"""A study's trials under Tune: what watches over them, and what Tune is told."""

import os
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from ray import tune
from ray.tune import CheckpointConfig, FailureConfig, PlacementGroupFactory, RunConfig, TuneConfig
from ray.tune.execution import class_cache
from ray.tune.schedulers import TrialScheduler

from experiments.config.search_settings import Pbt
from experiments.config.trial_config import TrialConfig
from experiments.planning.machines import Node, grown
from experiments.planning.plan import Plan, concurrency_of
from experiments.planning.trials import StudyTrials
from experiments.study.cluster.demand import MOST
from experiments.study.cluster.node_check import JoinCheck
from experiments.study.cluster.ray_process import PRELOADED
from experiments.study.files.folder import StudyFolder
from experiments.study.interruption import Interruption, StopOnRequest
from experiments.study.stream import EventStream
from experiments.study.tune import actor_manager
from experiments.study.tune.attempts import Attempts, config_of
from experiments.study.tune.callbacks import NoProgressOfTunes, StreamCallback, StudyScheduler, described
from experiments.study.tune.early_stopping import EarlyStopping
from experiments.study.tune.listed_trials import ListedTrials
from experiments.study.tune.nodes import NodeWatch
from experiments.study.tune.searcher import QueueSearcher
from experiments.study.tune.watchdog import Watchdog, receiver
from experiments.trial.measured_trial import MeasuredTrial
from experiments.trial.trainable import Trial
from experiments.trial.tune_keys import DRIVER, FOLLOWED, MEASURE_SYSTEM
from experiments.trial.usage.resource_usage import this_process


def run_trials(
    trials: StudyTrials,
    left: Sequence[TrialConfig] | QueueSearcher,
    folder: StudyFolder,
    stream: EventStream,
    stopping: EarlyStopping | None,
    say: Callable[[str], None],
    interruption: Interruption,
) -> bool:
    """Run what is left of a study, on as many nodes as there ever are.

    Args:
        trials: The trials of the study, as they become known.
        left: The trials that have not ended, or what chooses them.
        folder: Where the study keeps its state and the logs of its trials.
        stream: Of its events.
        stopping: The rule that stops trials early, if there is one.
        say: Takes a line for the terminal.
        interruption: What ends a study before its time.

    Returns:
        Whether Tune came to its end.
    """
    plan, stop, heartbeats = trials.plan, StopOnRequest(), receiver()
    # How many trials of a search may be under way is part of what it comes to: it keeps what it began with.
    search = left if isinstance(left, QueueSearcher) else _listed(trials, left, folder)
    nodes: NodeWatch | None = None
    if plan.cluster.is_joined:

        def resize(present: Iterable[Node]) -> int:
            at_once = max(1, concurrency_of(plan.suite, plan.configurations, grown(present)))
            if isinstance(search, QueueSearcher):
                return min(at_once, plan.ahead)
            search.max_concurrent = at_once
            return at_once

        def more() -> Sequence[PlacementGroupFactory]:
            if isinstance(search, QueueSearcher):
                return []
            most = 1 if plan.is_measured else plan.suite.hardware.max_concurrent_trials or len(trials.trials)
            besides = search.left[: max(0, min(MOST, most - search.max_concurrent))]
            return [trials.request_of(trial) for trial in besides]

        nodes = NodeWatch(
            JoinCheck(plan, folder.path), plan.suite.hardware.wait_for_nodes_s, say, resize, more, stop.asked.set
        )
    attempts = Attempts(stream, heartbeats, nodes, say)
    is_reached = nodes.states.answers if nodes else (lambda ids: True)
    scheduler = StudyScheduler(stream, attempts, stopping, (lambda: nodes.states.unused) if nodes else None)
    if isinstance(search, QueueSearcher):
        search.waits = lambda: scheduler.waits
    callbacks: list[Any] = [
        StreamCallback(stream, attempts, scheduler),
        Watchdog(stream, attempts, heartbeats, is_reached),
    ]
    callbacks.append(NoProgressOfTunes())
    if nodes:
        nodes.watch(attempts)
        callbacks.append(nodes)
    try:
        return interruption.run(_tuner(plan, search, folder, callbacks, scheduler, stop).fit, stop.asked.set)
    finally:
        if nodes:
            nodes.close()
            interruption.gave_up = nodes.gave_up


def _listed(trials: StudyTrials, left: Sequence[TrialConfig], folder: StudyFolder) -> ListedTrials:
    return ListedTrials(
        left,
        lambda trial: described(trial, folder.trial_place(trial), trials.request_of(trial)),
        trials.plan.concurrency,
    )


def _tuner(
    plan: Plan,
    search: QueueSearcher | ListedTrials,
    folder: StudyFolder,
    callbacks: list[Any],
    scheduler: TrialScheduler,
    stop: tune.Stopper,
) -> tune.Tuner:
    """Tune's, of trials that are known, or of what a search asks for."""
    suite = plan.suite
    actor_manager.use()
    if PRELOADED in os.environ:
        # Tune's, for Lightning: with one, a trial gets none of the processes that are ready
        class_cache.DEFAULT_ENV_VARS.clear()
    # Of a search, the queue knows how many trials may be under way, unless there is room for more than were asked for.
    limit = plan.concurrency if isinstance(search, QueueSearcher) and suite.hardware.max_concurrent_trials else None
    return tune.Tuner(
        MeasuredTrial if plan.measures else Trial,
        param_space={
            # A measurement must know what else runs on the machine.
            FOLLOWED: isinstance(suite.scheduler, Pbt),
            MEASURE_SYSTEM: suite.tracking.system_metrics or plan.measures,
            DRIVER: this_process(),
        },
        tune_config=TuneConfig(
            reuse_actors=True,
            scheduler=scheduler,
            max_concurrent_trials=limit,
            search_alg=search,
            num_samples=-1,
            trial_name_creator=_trial_name,
            trial_dirname_creator=_trial_name,
        ),
        run_config=RunConfig(
            name="tune",
            storage_path=str(folder.path),
            callbacks=callbacks,
            stop=stop,
            verbose=0,
            progress_reporter=tune.CLIReporter(),  # else, in a notebook, one that clears what was printed
            log_to_file=True,
            # What raises within a trial, the trial sees to itself; Tune makes a new process where one died,
            # as often as `Attempts` lets it.
            failure_config=FailureConfig(max_failures=-1),
            checkpoint_config=CheckpointConfig(checkpoint_frequency=0, checkpoint_at_end=False),
        ),
    )


def _trial_name(trial: Any) -> str:
    return config_of(trial).folder_name
