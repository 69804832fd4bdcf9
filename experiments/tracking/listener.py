"""The events of a study's trials to MLflow runs."""

import json
import logging
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import yaml

from experiments.config import own_modules
from experiments.config.errors import first_line
from experiments.config.own_modules import KEPT_IN
from experiments.config.trial_config import TrialConfig
from experiments.contract import FAILED, FINISHED, INDEX_EXPERIMENT, PRUNED, Tag, extensions
from experiments.contract.outcome import Outcome
from experiments.contract.passwords import without_passwords
from experiments.limits.arithmetic import NATIVE
from experiments.planning.plan import Plan
from experiments.planning.record import plan_record, searched_params, study_params, trial_params
from experiments.planning.terminal import summary
from experiments.planning.trials import StudyTrials
from experiments.rllib.algorithms import promises_bits
from experiments.tracking import provenance, views, writes
from experiments.tracking.occupancy import Occupancy
from experiments.tracking.writer import Writer
from experiments.trial.events import Ended, Event, Placed, Reported, Restarted, Reused, Started, now_ms
from experiments.trial.folder import TrialFolder

STUDY_KEY = "study"

Curves = Mapping[str, Sequence[tuple[float, float]]]
"""Metric to (env steps, value)."""

logger = logging.getLogger(__name__)


class Folder(Protocol):
    """Where a study keeps what it does, as far as it is told to MLflow.

    Attributes:
        path: On this machine.
        place: Where it is kept: `path`, or an address in an object store.
    """

    path: Path
    place: str

    def began_with(self, now: Mapping[str, Any]) -> Mapping[str, Any]:
        """The provenance that the study began with; `now`, if it begins now."""

    def trial(self, trial: TrialConfig) -> TrialFolder:
        """A trial's own folder."""


class Conclusions(Protocol):
    """The conclusions of a study, as its run and the terminal show them."""

    @property
    def problem(self) -> str:
        """Why there are none; "" if there are."""

    @property
    def note(self) -> str:
        """The answers, as Markdown."""

    @property
    def answers(self) -> Sequence[str]:
        """What to use, a sentence for each environment."""

    @property
    def recommended(self) -> Sequence[str]:
        """The recommended configurations."""

    @property
    def table(self) -> Mapping[str, Sequence[Any]]:
        """Column to values: how well each configuration did."""

    @property
    def best(self) -> Mapping[str, float]:
        """The `best/*` metrics; empty unless there is one recommendation."""

    def lines(self, width: int) -> list[Any]:
        """The last lines on a terminal of so many columns."""


class Analyst(Protocol):
    """The analysis, as far as it is asked: the commands give it, since the tracking itself does not know it."""

    def diagnose(self, planned: Mapping[str, Any], known: Mapping[str, Any], curves: Curves) -> Mapping[str, str]:
        """Tags of a trial, from its parameters, what else is known of its configuration, and its curves."""

    def prepare(self) -> None:
        """Make ready for the study's end."""

    def conclude(self, record: Mapping[str, Any], outcomes: Sequence[Outcome]) -> Conclusions:
        """Those of a study, from its plan's record and how each trial ended."""


@dataclass
class TrackingListener:
    """The events of a study's trials to MLflow runs.

    Everything it puts can be put again: runs are known by their tags, reports by the moment they were made. A resume
    puts what an earlier execution may not have delivered.

    Attributes:
        trials: The study's trials, as they become known.
        folder: Where the study keeps its state and the logs of its trials.
        writer: Delivers to MLflow.
        analyst: Draws the conclusions.
        resumed: Whether there was an earlier execution.
        delivered: Trials of which MLflow has everything.
    """

    trials: StudyTrials
    folder: Folder
    writer: Writer
    analyst: Analyst
    resumed: bool = False
    delivered: frozenset[str] = frozenset()
    _open_keys: set[str] = field(default_factory=set)
    _configs: dict[str, TrialConfig] = field(default_factory=dict)
    _last_steps: dict[str, int] = field(default_factory=dict)
    _tagged: dict[str, tuple[Any, ...]] = field(default_factory=dict)
    # of the trials that are running
    _curves: dict[str, dict[str, list[tuple[float, float]]]] = field(default_factory=dict)
    _occupancy: Occupancy = field(default_factory=Occupancy)
    _exclusive: dict[str, bool] = field(default_factory=dict)  # as the tag says
    _reused: set[str] = field(default_factory=set)  # which did not run here
    _replayed: bool = False

    @property
    def plan(self) -> Plan:
        """The plan, as far as the study knows it."""
        return self.trials.plan

    def begin(self) -> None:
        """Make or find the study's experiments, its run and its views."""
        plan, now = self.plan, now_ms()
        self._begun_ms = now
        for experiment in (INDEX_EXPERIMENT, plan.experiment):
            self.writer.put(experiment, writes.OpenExperiment())
        self.writer.put(INDEX_EXPERIMENT, writes.SetViews(views.studies_view()))
        self._set_views()
        params = study_params(plan)
        # Tags, since a resume may find another machine, and parameters never change.
        here = {
            Tag.EXCLUSIVE: _word(plan.exclusive),
            **{name: str(params.pop(name)) for name in ("concurrency", "cluster")},
        }
        tags = {
            Tag.KIND: "study",
            Tag.STUDY: plan.study,
            Tag.ALGORITHM: plan.algorithms,
            Tag.ENV: plan.envs,
            Tag.HARDWARE: plan.hardware,
            **here,
            Tag.STUDY_FOLDER: self.folder.place,
            Tag.NOTE: f"**Question.** {plan.question}\n\n**Trials.** {summary(plan)}",
            Tag.QUESTION: plan.question,
            **({Tag.CONFIRMS: plan.confirms["study_run"]} if plan.confirms else {}),
            **_source_tags(plan),
        }
        identity = (Tag.STUDY_FOLDER,)
        run = writes.OpenRun(INDEX_EXPERIMENT, plan.experiment, now, tags, identity, new=not self.resumed)
        self.writer.put(STUDY_KEY, run)
        self.writer.put(STUDY_KEY, writes.LogParams(params))
        if self.resumed:
            self.writer.put(STUDY_KEY, writes.SetTags(here))
        texts = {
            "config.yaml": without_passwords(yaml.dump(plan.composed, Dumper=yaml.CSafeDumper, sort_keys=False)),
            "plan.json": json.dumps(plan_record(self.trials), indent=1),
            "provenance.json": json.dumps(self.folder.began_with(provenance_of(plan)), indent=1),
            **provenance.files(),
            **{f"{KEPT_IN}/{name}": text for name, text in own_modules.texts(self.folder.path / KEPT_IN).items()},
        }
        self.writer.put(STUDY_KEY, writes.LogTexts(texts))

    def _set_views(self) -> None:
        labels = [c.label for c in self.trials.configurations]
        ends_early = self.plan.suite.scheduler.name != "fifo" or self.plan.suite.stop_at_target
        found = views.shared_views(searched_params(self.plan), labels, ends_early)
        self.writer.put(self.plan.experiment, writes.SetViews(found))

    def on_event(self, trial: TrialConfig, event: Event) -> None:
        """Put what a trial did."""
        key = trial.folder_name
        if key in self.delivered:
            return
        if self.resumed and not self._replayed and event.at_ms >= self._begun_ms:
            self._replayed = True
            self._occupancy.clear(self._begun_ms)
        self._open(trial, event.at_ms)
        if isinstance(event, Started):
            if (
                self.resumed and not self.plan.runs_alone(trial) and event.at_ms >= self._begun_ms
            ):  # whatever it was before
                self._tag_exclusive(key, False)
        elif isinstance(event, Reused):
            self._reused.add(key)
            self.writer.put(key, writes.SetTags({Tag.REUSED_FROM: event.run}))
            self._tag_exclusive(key, False)  # its speed is of another day
        elif isinstance(event, Placed):
            self._place(key, event)
        elif isinstance(event, Restarted):
            self._tag(key, event.count, event.reproducible)
        elif isinstance(event, Reported):
            if event.env_steps > self._last_steps[key]:
                self._last_steps[key] = event.env_steps
                self._log(key, event.metrics, event.env_steps, event.at_ms)
            self._tag(key, self._tagged[key][0], event.reproducible)
            if event.unsaved:
                self.writer.put(key, writes.SetTags({Tag.UNSAVED: event.unsaved[:500]}))
        elif isinstance(event, Ended) and key in self._open_keys:
            self._put_end(key, event)

    def _place(self, key: str, placed: Placed) -> None:
        """Put where a trial runs, and which trials are known by it to have shared a machine."""
        tags = {Tag.HOST: placed.hosts, Tag.CPU: placed.cpus, Tag.GPU: placed.gpus, Tag.NODE_TYPE: placed.node_types}
        self.writer.put(key, writes.SetTags({name: ", ".join(values) for name, values in tags.items() if values}))
        shared = set[str]() if key in self._reused else self._occupancy.place(key, placed.hosts, placed.at_ms)
        for other in shared:
            self._tag_exclusive(other, False)

    def _tag_exclusive(self, key: str, exclusive: bool) -> None:
        """Put whether a trial has its machines to itself, whatever was planned."""
        if self._exclusive.get(key) != exclusive:
            self._exclusive[key] = exclusive
            self.writer.put(key, writes.SetTags({Tag.EXCLUSIVE: _word(exclusive)}))

    def _put_end(self, key: str, end: Ended) -> None:
        if self._occupancy.was_alone(key):
            self._tag_exclusive(key, True)
        self._occupancy.leave(key, end.at_ms)
        self._tag(key, self._tagged[key][0], end.reproducible)
        if end.status == FINISHED:
            self._log(key, end.metrics, end.env_steps, end.at_ms)
            # perhaps: then it is not what it failed of any more
            failed_before = {Tag.FAILURE: ""} if end.attempt > 1 else {}
            self.writer.put(key, writes.SetTags({Tag.WEIGHTS: end.weights, **failed_before}))
        elif end.status == PRUNED:
            self.writer.put(key, writes.SetTags({Tag.STOPPED_AT: str(end.env_steps)}))
        else:
            self.writer.put(key, writes.SetTags({Tag.FAILURE: end.reason, Tag.DIVERGED: _word(end.diverged)}))
        ended_ms = end.at_ms if key in self._reused else now_ms()
        self._close(key, "FAILED" if end.status == FAILED else "FINISHED", ended_ms)

    def _open(self, config: TrialConfig, at_ms: int) -> None:
        key, generation = config.folder_name, self.trials.configuration_of(config).generation
        if key in self._last_steps:
            return
        self._last_steps[key] = 0
        self._exclusive[key] = self.plan.runs_alone(config)
        self._configs[key] = config
        self._open_keys.add(key)
        tags = {
            Tag.KIND: "trial",
            Tag.STUDY: self.plan.study,
            Tag.ALGORITHM: config.algorithm["name"],
            Tag.ENV: config.env.name,
            Tag.HARDWARE: self.plan.hardware,
            Tag.CONFIG: config.label,
            Tag.CONFIG_ID: config.config_id,
            Tag.SEED: str(config.seed),
            Tag.REPEAT: str(config.repeat),
            Tag.PHASE: config.phase,
            Tag.EXCLUSIVE: _word(self._exclusive[key]),
            Tag.EXPLORATORY: _word(config.exploratory),
            Tag.TRIAL_ID: key,
            **({Tag.BITS: config.bits} if config.bits != NATIVE else {}),
            **({} if generation is None else {Tag.GENERATION: str(generation)}),
            **({Tag.PARENT: config.start.trial, Tag.COPIED: _word(config.start.copied)} if config.start else {}),
            Tag.STUDY_RUN: STUDY_KEY,
            **_source_tags(self.plan),
        }
        identity = (Tag.STUDY_RUN, Tag.TRIAL_ID)
        run = writes.OpenRun(self.plan.experiment, config.name, at_ms, tags, identity, new=not self.resumed)
        self.writer.put(key, run)
        self.writer.put(key, writes.LogParams(trial_params(self.plan, config)))
        resolved, now = config.to_mapping(), provenance_of(self.plan)
        began_with = self.folder.trial(config).began_with(now)
        texts = {
            "config.yaml": yaml.dump(resolved, Dumper=yaml.CSafeDumper, sort_keys=False),
            "config.json": json.dumps({**resolved, "provenance": began_with}, indent=1),
            **(provenance.files() if began_with == now else {}),
        }
        self.writer.put(key, writes.LogTexts(texts))
        self._tag(key, 0, promises_bits(config))

    def _log(self, key: str, metrics: Mapping[str, float], step: int, at_ms: int) -> None:
        values = {
            name: metrics[name] for name in extensions.metrics() if name in metrics and math.isfinite(metrics[name])
        }
        for name, value in values.items():
            self._curves.setdefault(key, {}).setdefault(name, []).append((step, value))
        self.writer.put(key, writes.LogReport(values, step, at_ms))

    def _tag(self, key: str, restarts: int, reproducible: bool) -> None:
        if self._tagged.get(key) != (restarts, reproducible):
            self._tagged[key] = restarts, reproducible
            self.writer.put(key, writes.SetTags({Tag.RESTARTS: str(restarts), Tag.REPRODUCIBLE: _word(reproducible)}))

    def _close(self, key: str, status: str, ended_ms: int) -> None:
        self._open_keys.remove(key)
        self._diagnose(key)
        self.writer.put(key, writes.Finish(status, ended_ms))

    def _diagnose(self, key: str) -> None:
        """The bottleneck of a trial and its health, as tags."""
        config, curves = self._configs.pop(key), self._curves.pop(key, {})
        planned = {
            **trial_params(self.plan, config),
            "exclusive": self._exclusive[key],
            "target": config.env.target,
            "score": curves.get("final/score", [(0.0, None)])[-1][1],
        }
        try:
            found = self.analyst.diagnose(planned, self.trials.configuration_of(config).facts, curves)
        except Exception as error:  # noqa: BLE001  # what the trial logged is safe, whatever is said of it
            logger.warning("%s: no diagnosis (%s: %s).", config.name, type(error).__name__, first_line(error))
            return
        self.writer.put(key, writes.SetTags(found))

    def end(
        self,
        status: str,
        outcomes: Sequence[Outcome],
        limit: str = "",
        belief: Sequence[float] | None = None,
        register: Callable[[Sequence[str]], None] = lambda recommended: None,
    ) -> Conclusions:
        """End every run that is still open, and the study's own with its conclusions.

        Args:
            status: FINISHED, FAILED or KILLED.
            outcomes: How each trial ended.
            limit: Which one ended the study before it was done.
            belief: How much each earlier study counted, of a search that started from them.
            register: Is given the recommended configurations, and puts the policies that are to be used.
        """
        command = self.folder.began_with(provenance_of(self.plan))["command"]
        named = self.writer.run_ids.get(STUDY_KEY) or self.folder.place
        record = {**plan_record(self.trials, belief), "command": command, "named": named}
        for key in sorted(self._open_keys):
            self._close(key, "KILLED", now_ms())
        if self.plan.search:  # which has grown since
            self._set_views()
            self.writer.put(STUDY_KEY, writes.SetTags({Tag.LIMIT: limit}))
            self.writer.put(STUDY_KEY, writes.LogTexts({"plan.json": json.dumps(record, indent=1)}))
        found = self.analyst.conclude(record, outcomes)
        try:
            if not found.problem:
                self._put_conclusions(found)
                register(found.recommended)
            elif outcomes:
                logger.warning("The study's summary is not in MLflow (%s).", found.problem)
        except Exception as error:  # noqa: BLE001
            # what the trials logged is safe, whatever becomes of the conclusions
            logger.warning("The study's summary is not in MLflow (%s: %s).", type(error).__name__, first_line(error))
        self.writer.put(STUDY_KEY, writes.Finish(status, now_ms()))
        return found

    def _put_conclusions(self, found: Conclusions) -> None:
        note = f"**Question.** {self.plan.question}\n\n{found.note}"
        chosen = ", ".join(found.recommended)
        tags = {Tag.NOTE: note, Tag.ANSWERS: json.dumps(list(found.answers)), Tag.BEST: chosen}
        self.writer.put(STUDY_KEY, writes.SetTags(tags))
        self.writer.put(STUDY_KEY, writes.LogTable(found.table, "configurations.json"))
        if found.best:
            self.writer.put(STUDY_KEY, writes.LogReport(found.best, 0, now_ms()))


def provenance_of(plan: Plan) -> dict[str, Any]:
    """Where the results of a study come from, as recorded with each of its trials."""
    return {**provenance.record(plan.command), "num_nodes": len(plan.cluster.nodes)}


def _source_tags(plan: Plan) -> dict[str, str]:
    # The UI shows the whole command of a job, and of what ran locally no more than what follows its last slash.
    tags = {Tag.COMMAND: (plan.command or provenance.command_line())[:500], "mlflow.source.type": "JOB"}
    git = provenance.git_state()
    if git.commit:
        tags[Tag.COMMIT] = git.commit
        tags["git_dirty"] = _word(bool(git.dirty_diff))
    return tags


def _word(value: bool) -> str:
    return "true" if value else "false"
