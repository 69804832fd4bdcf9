"""Builds and runs the Tuner of a checked plan."""

import functools
import signal
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console

from experiments.config.search_settings import Asha, Median
from experiments.contract import FAILED, FINISHED, INDEX_EXPERIMENT, PRUNED, Tag
from experiments.contract.report_file import report_file
from experiments.contract.words import labelled
from experiments.planning.plan import Plan
from experiments.planning.trials import StudyTrials
from experiments.study.files.folder import StudyFolder
from experiments.study.interruption import Interruption
from experiments.study.last_trials import Preparation
from experiments.study.live_page import LivePage
from experiments.study.outcomes import INTERRUPTED, Outcomes, TrialOutcome
from experiments.study.progress import Progress, say
from experiments.study.registration import Registration
from experiments.study.reuse import KnownTrials
from experiments.study.stream import EventStream, Listener
from experiments.study.tune.early_stopping import EarlyStopping, rule_of
from experiments.study.tune.execution import run_trials
from experiments.study.tune.searcher import QueueSearcher
from experiments.tracking.listener import STUDY_KEY, Analyst, Conclusions, TrackingListener
from experiments.tracking.place import Place
from experiments.tracking.store import Store, num_writers
from experiments.tracking.writer import Writer

MANY_WRITES = 500
"""Writes to MLflow that are left at the end of a study, from which on the terminal says so."""


@dataclass(frozen=True)
class StudyOutcome:
    """The end of a study.

    Attributes:
        outcomes: One per trial of the plan.
        conclusions: The answers that the trials' outcomes give, for MLflow and the terminal.
        interrupted_by: What stopped it, if something did: the name of a signal, or that Ray is gone.
        tune_hangs: Whether Tune did not end, since Ray is gone or a second signal came: this process had better end
            without Ray's consent.
        folder: The study's own folder.
        study_run: Its run in the experiment `studies`; None if MLflow never took it.
        experiment_ids: Name to id, of `studies` and of the trials' experiment.
        undelivered: Operations that MLflow did not take yet.
        refused: Operations that MLflow will never take.
        limit: Which one ended the study before it was done; empty if none did.
        registered: Registered models that have versions of this study, name to how many.
    """

    outcomes: tuple[TrialOutcome, ...]
    conclusions: Conclusions
    interrupted_by: str | None
    tune_hangs: bool
    folder: Path
    study_run: str | None
    experiment_ids: dict[str, str]
    undelivered: int
    refused: int
    limit: str = ""
    registered: Mapping[str, int] = field(default_factory=dict)

    @property
    def exit_code(self) -> int:
        """As the contract says: 0 all finished, 1 some failed, 128 + the signal's number if interrupted by one,
        3 not whole in MLflow.

        What is not whole in MLflow comes before what failed: the failures are a part of it, and the command that
        delivers it tells of them.
        """
        signals = {number.name: number for number in signal.Signals}
        if self.interrupted_by in signals:
            return 128 + signals[self.interrupted_by]
        if self.interrupted_by is None and not self.in_mlflow:
            return 3
        return 0 if all(o.status in (FINISHED, PRUNED) for o in self.outcomes) else 1

    @property
    def in_mlflow(self) -> bool:
        """True if MLflow has the whole study."""
        return self.study_run is not None and not (self.undelivered or self.refused)


def run_study(
    plan: Plan,
    folder: StudyFolder,
    place: Place,
    console: Console,
    analyst: Analyst,
    resumed: bool = False,
    listeners: Sequence[Listener] = (),
    has_page: bool = False,
    known: KnownTrials | None = None,
) -> StudyOutcome:
    """Run every trial of a plan that has not ended. Ray must be running, if there is one.

    Args:
        plan: The checked study.
        folder: Its own, of which this process is the driver; let go at the end.
        place: The store to log to.
        console: Where progress is shown.
        analyst: Draws the conclusions.
        resumed: Whether there was an earlier execution.
        listeners: Who else hears of what happens from now on.
        has_page: Whether there is a page while it runs, where its report will be.
        known: The trials of other studies that are taken in place of running them; None: all are run.

    Returns:
        How it went, over all executions; failed trials don't raise.
    """
    tracking = plan.suite.tracking
    tell = functools.partial(say, console)
    connect = functools.partial(Store, place.store_uri, place.artifacts, place.timeout_s)
    trials = StudyTrials(plan)
    outcomes, progress, tune_ended = Outcomes(), Progress(plan, console), True
    page: LivePage | None = None
    searcher: QueueSearcher | None = None
    with Interruption() as interruption:
        delivered = _finished_in_mlflow(connect, plan, folder) if resumed else frozenset()
        writer = Writer(connect, num_writers(place.store_uri))
        to_mlflow = TrackingListener(trials, folder, writer, analyst, resumed, delivered)
        to_mlflow.begin()
        models = Registration(trials, outcomes, folder, writer, lambda: bool(interruption.signals))
        preparation = Preparation(
            trials, outcomes, [models.prepare, *([lambda _: analyst.prepare()] if plan.suite.report else [])]
        )
        try:
            if plan.search:
                warn = functools.partial(console.print, style="yellow", highlight=False, soft_wrap=True)
                searcher = QueueSearcher(trials, plan.search, folder, warn)
            stopping = _early_stopping(plan)
            if has_page:
                page = LivePage(plan, progress, functools.partial(_report_file, plan, place, writer), tell)
            heard = (outcomes, progress, to_mlflow, stopping, searcher, preparation, page)
            stream = EventStream(folder, filter(None, heard))
            if resumed:
                _replay(trials, folder, stream, stopping)
            if tracking.tensorboard:
                # half a second, for those who want its files
                from experiments.tracking.tensorboard import TensorBoardListener

                stream.add(TensorBoardListener(folder.path / "tune"))
            for listener in listeners:
                stream.add(listener)
            left = [trial for trial in trials.trials if outcomes.of(trial).status not in (FINISHED, PRUNED)]
            if known is not None:
                stops = stopping.stops if stopping else (lambda trial: False)
                takes = functools.partial(known.take, plan=plan, folder=folder, stream=stream, stops=stops)
                if searcher:
                    searcher.takes = takes
                else:
                    left = [trial for trial in left if interruption.signals or not takes(trial)]
            with progress:
                if (searcher or left) and not interruption.signals:
                    tune_ended = run_trials(trials, searcher or left, folder, stream, stopping, tell, interruption)
        finally:
            preparation.wait()
            if page is not None:
                page.end()
            ended = tuple(outcomes.of(trial) for trial in trials.trials)
            unfinished = any(o.status == INTERRUPTED for o in ended)
            failed = any(o.status == FAILED for o in ended)
            limit, belief = (searcher.queue.closed, searcher.queue.strategy.belief) if searcher else ("", None)
            status = "KILLED" if unfinished else "FAILED" if failed else "FINISHED"
            register = (lambda recommended: None) if unfinished else models
            found = to_mlflow.end(status, ended, limit, belief, register)
            if (behind := writer.pending) >= MANY_WRITES:
                say(console, labelled("tracking", f"{behind:,} writes are on their way to MLflow"))
            interruption.run(functools.partial(writer.close, patient=not unfinished))
            writer.close(wait_s=0)  # counts what is left, where that was cut short
            folder.close()
    study_run = writer.run_ids.get(STUDY_KEY)
    interrupted_by = (interruption.reason or "Tune") if unfinished else None
    to, registered = dict(writer.experiment_ids), {name: len(versions) for name, versions in writer.versions.items()}
    left_over = writer.undelivered, writer.refused
    return StudyOutcome(
        ended, found, interrupted_by, not tune_ended, folder.path, study_run, to, *left_over, limit, registered
    )


def _report_file(plan: Plan, place: Place, writer: Writer) -> Path | None:
    """Where the study's report will be; None until MLflow has its run."""
    study_run = writer.run_ids.get(STUDY_KEY)
    return report_file(plan.experiment, study_run, place.output_dir) if study_run else None


def _replay(trials: StudyTrials, folder: StudyFolder, stream: EventStream, stopping: EarlyStopping | None) -> None:
    """Tell the listeners what earlier executions did.

    What failed is tried again; of a search, its queue has seen to that.
    """
    for trial in trials.trials:
        if not trials.plan.search:
            folder.trial(trial).log.start_again()
    stream.replay(trials.trials)
    for trial in trials.trials:
        if stopping is not None and stopping.stops(trial):  # decided right before the kill
            stream.end(trial, PRUNED)


def _finished_in_mlflow(connect: Callable[[], Store], plan: Plan, folder: StudyFolder) -> frozenset[str]:
    try:
        return frozenset(connect().finished_trials(INDEX_EXPERIMENT, {Tag.STUDY_FOLDER: folder.place}, plan.experiment))
    except Exception:  # noqa: BLE001
        # whatever MLflow raises: all is delivered then, which changes nothing where it was before
        return frozenset()


def _early_stopping(plan: Plan) -> EarlyStopping | None:
    settings = plan.suite.scheduler
    if not isinstance(settings, Asha | Median):
        return None
    return EarlyStopping(rule_of(settings, max(c.suite.budget_env_steps for c in plan.configurations)))
