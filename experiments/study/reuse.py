"""`reuse=true`: trials that other studies have run whole are taken from the store, and not run again.

With the same code, package versions and kind of machine, the same configuration and seed come out the same to the bit,
if the algorithm promises that: a second run would bring what is there. An asynchronous algorithm promises no bits: what
is there is a sample of what another run would bring, and as good a one, since it is taken whatever it came to, the
oldest of several. Trials that failed are run again, as when a study is resumed.

What is taken is told as the events of a trial that runs. So listeners, a resume and a search, which is told at once
what it asks for, need not know of it; and a rule that stops trials early stops it where it would stop the trial.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from experiments.config.errors import ConfigurationError
from experiments.config.trial_config import TrialConfig
from experiments.contract import FINISHED, PRUNED, SCORE, Tag
from experiments.limits.arithmetic import PORTABLE, Arithmetic
from experiments.limits.processor import this_processor
from experiments.planning.known import Known, may_be_known
from experiments.planning.plan import Plan
from experiments.rllib.algorithms import promises_bits
from experiments.study.files.folder import StudyFolder
from experiments.study.reproduction import trial_of
from experiments.study.stream import EventStream
from experiments.study.trained import newest_checkpoint
from experiments.tracking import provenance
from experiments.tracking.archive import Archive, FinishedTrial, LoggedReport, LoggedTrial
from experiments.tracking.place import Place
from experiments.tracking.provenance_changes import Change, changes_of_bits
from experiments.trial.events import Ended, Event, Placed, Reported, Restarted, Reused
from experiments.trial.folder import TrialFolder

_STEPS = "progress/env_steps"
"""A metric that every report has."""
_FINAL = "final/"


@dataclass(frozen=True)
class _Source:
    """The run that a trial can be taken from.

    Attributes:
        finished: With its last metrics.
        logged: With its record.
    """

    finished: FinishedTrial
    logged: LoggedTrial


@dataclass
class KnownTrials:
    """The trials that stand whole in a store.

    Attributes:
        place: The store, and where studies of the person's own are, with their policies.
    """

    place: Place
    _of_configuration: dict[str, list[FinishedTrial]] = field(default_factory=dict)
    _found: dict[str, _Source | Sequence[Change]] = field(default_factory=dict)  # by folder name of a trial
    _studies: dict[str, str | None] = field(default_factory=dict)  # run of a study to its folder

    def of_plan(self, plan: Plan, folder: StudyFolder | None) -> Known:
        """The trials of a plan that need not run.

        Args:
            plan: The study.
            folder: Its own, if it was begun before: what has begun goes on.

        Raises:
            ConfigurationError: The store cannot be read.
        """
        trials, seconds, otherwise, changes = [], 0.0, 0, dict[str, None]()
        for trial in may_be_known(plan):
            if folder is not None and folder.trial(trial).log.all():
                continue
            found = self._look_up(trial, plan, "" if folder is None else folder.place)
            if isinstance(found, _Source):
                trials.append(trial)
                seconds += found.finished.metrics.get("final/wall_s", 0.0)
            elif found:
                otherwise += 1
                changes |= dict.fromkeys(map(str, found))
        return Known(trials, seconds, otherwise, list(changes))

    def take(
        self,
        trial: TrialConfig,
        plan: Plan,
        folder: StudyFolder,
        stream: EventStream,
        stops: Callable[[TrialConfig], bool],
    ) -> bool:
        """Tell what a trial did in another study, if it is known and no process has taken it up here.

        A kill in between leaves a beginning of it, with which the next call goes on.

        Args:
            trial: A trial of the study.
            plan: The study.
            folder: Its own.
            stream: Of its events.
            stops: Whether a rule stops a trial, by what was told of it.

        Returns:
            Whether the trial has ended by that.
        """
        own = folder.trial(trial)
        told = own.log.new()
        if own.log.attempt or own.log.end is not None:
            return False
        try:
            source = self._look_up(trial, plan, folder.place)
            reports = self._archive.reports_of(source.finished) if isinstance(source, _Source) else []
        except ConfigurationError:  # it was deleted meanwhile, or the store is away: the trial is run
            return False
        begun = [event.run for event in told if isinstance(event, Reused)]
        if not isinstance(source, _Source) or not _is_whole(reports, trial):
            return False
        if begun not in ([], [source.finished.run_id]):  # the rest of another one may not go with it
            return False
        own.began_with(source.logged.provenance)
        *before, end = _events(source.finished, reports)
        for event in before[len(told) :]:
            stream.record(trial, event)
            if stops(trial):
                stream.end(trial, PRUNED)
                return True
        self._copy_policy(source.logged, own)
        stream.record(trial, end)
        return True

    def _copy_policy(self, source: LoggedTrial, own: TrialFolder) -> None:
        """Copy the newest checkpoint of a trial. Where it is not at hand, whoever asks for it is told whose it is."""
        with suppress(ConfigurationError, OSError):
            named = f"run={source.run_id}"
            own.copy_checkpoint(newest_checkpoint(self._archive, source, trust=False, named=named).path)

    @cached_property
    def _archive(self) -> Archive:
        return Archive(self.place)

    @cached_property
    def _now(self) -> Mapping[str, Any]:
        return provenance.record()

    def _look_up(self, trial: TrialConfig, plan: Plan, own: str) -> _Source | Sequence[Change]:
        """The run to take a trial from, of another study than the one whose folder is `own`; without one, in what the
        first run that stands there differs, if there is any.
        """
        if trial.folder_name not in self._found:
            nowhere = self.place.missing_database is not None
            self._found[trial.folder_name] = () if nowhere else self._first(trial, plan, own)
        return self._found[trial.folder_name]

    def _first(self, trial: TrialConfig, plan: Plan, own: str) -> _Source | Sequence[Change]:
        otherwise: Sequence[Change] = ()
        for finished in self._finished(trial.config_id):
            if not (_is_of(finished, trial) and self._is_of_another(finished, own)):
                continue
            if not _is_whole(self._archive.reports_of(finished, [_STEPS]), trial):
                continue
            try:
                logged = self._archive.trial(finished.run_id, with_curves=False)
                recorded = trial_of(logged)
            except ConfigurationError:  # without its record nobody knows what it was run with
                continue
            if recorded.extension != trial.extension:  # one that does not change results may measure something else
                continue
            if changes := self._changes(logged, trial, plan.cluster.is_joined):
                otherwise = otherwise or changes
                continue
            return _Source(finished, logged)
        return otherwise

    def _finished(self, config_id: str) -> list[FinishedTrial]:
        if config_id not in self._of_configuration:
            self._of_configuration[config_id] = self._archive.finished_of(config_id)
        return self._of_configuration[config_id]

    def _is_of_another(self, finished: FinishedTrial, own: str) -> bool:
        """True for a run of another study whose own run is there: by that the trial's policy is found."""
        study_run = finished.tags.get(Tag.STUDY_RUN, "")
        if study_run not in self._studies:
            self._studies[study_run] = self._archive.tag_of(study_run, Tag.STUDY_FOLDER)
        return self._studies[study_run] not in (None, own)

    def _changes(self, logged: LoggedTrial, trial: TrialConfig, is_joined: bool) -> list[Change]:
        """How a trial was run otherwise than it would be now, as far as its result may depend on it."""
        before, now = logged.provenance, self._now
        code = Change("the suite's code", str(before.get("code", "unknown")), str(now["code"]))
        found = [] if code.before == code.after else [code]
        found += changes_of_bits(_without_set(before, trial), _without_set(now, trial), trial.bits)
        if trial.bits == PORTABLE:
            return found
        # Where a cluster would place the trial is not known before: on a machine of the driver's kind, it is assumed.
        cpu, gpu = logged.tags.get(Tag.CPU, "unknown"), logged.tags.get(Tag.GPU, "")
        if cpu != (here := this_processor().name) and not any(change.what == "CPU" for change in found):
            found.append(Change("CPU", cpu, here))
        return [*found, Change("GPU", gpu, "whichever the cluster gives")] if gpu and is_joined else found


def _without_set(record: Mapping[str, Any], trial: TrialConfig) -> dict[str, Any]:
    """A provenance record without the variables that the suite sets for a trial's processes, whatever the shell has."""
    own = {*Arithmetic(trial.threads_per_process, trial.bits).variables, "PYTHONHASHSEED"}
    variables = record.get("environment") or {}
    return {**record, "environment": {name: value for name, value in variables.items() if name not in own}}


def _is_of(finished: FinishedTrial, trial: TrialConfig) -> bool:
    """True for a run of the same configuration, seed and repeat that came to its end as it had promised."""
    tags = finished.tags
    same = (tags.get(Tag.SEED), tags.get(Tag.REPEAT, "0")) == (str(trial.seed), str(trial.repeat))
    as_promised = not promises_bits(trial) or tags.get(Tag.REPRODUCIBLE) == "true"
    return same and as_promised and Tag.STOPPED_AT not in tags and SCORE in finished.metrics


def _is_whole(reports: Collection[LoggedReport], trial: TrialConfig) -> bool:
    """True if all reports are there, up to the budget, or to where a trial ended that stops at its target."""
    steps, every = [report.env_steps for report in reports], trial.report_every_env_steps
    if not steps or (steps[-1] != trial.budget_env_steps and not trial.stop_at_target):
        return False
    return steps == list(range(every, steps[-1] + 1, every))


def _events(source: FinishedTrial, reports: Sequence[LoggedReport]) -> list[Event]:
    """What a trial did, as its log would have it.

    Args:
        source: Its run.
        reports: All of it.
    """
    tags, began = source.tags, source.started_ms
    reproducible = tags.get(Tag.REPRODUCIBLE) == "true"

    def words(tag: str) -> tuple[str, ...]:
        return tuple(tags[tag].split(", ")) if tag in tags else ()

    events: list[Event] = [
        Reused(run=source.run_id, at_ms=began),
        Placed(
            hosts=words(Tag.HOST),
            cpus=words(Tag.CPU),
            gpus=words(Tag.GPU),
            node_types=words(Tag.NODE_TYPE),
            at_ms=began,
        ),
    ]
    if restarts := int(tags.get(Tag.RESTARTS, 0)):
        why = "in the study that it was taken from"
        events.append(
            Restarted(env_steps=0, reason=why, cause="study", count=restarts, reproducible=reproducible, at_ms=began)
        )
    for report in reports:
        metrics = {name: value for name, value in report.metrics.items() if not name.startswith(_FINAL)}
        events.append(
            Reported(env_steps=report.env_steps, metrics=metrics, reproducible=reproducible, at_ms=report.at_ms)
        )
    last = reports[-1]
    final = {name: value for name, value in last.metrics.items() if name.startswith(_FINAL)}
    weights = tags.get(Tag.WEIGHTS, "")
    return [
        *events,
        Ended(
            status=FINISHED,
            env_steps=last.env_steps,
            metrics=final,
            weights=weights,
            reproducible=reproducible,
            at_ms=last.at_ms,
        ),
    ]
