"""Tune's events to MLflow runs."""

import json
import logging
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pandas as pd
import yaml

from experiments.config.errors import first_line
from experiments.config.trial_config import TrialConfig
from experiments.metrics import INDEX_EXPERIMENT, METRICS, Tag
from experiments.planning.plan import Plan
from experiments.planning.search_plan import SearchPlan
from experiments.rllib.building import promises_bits
from experiments.search.strategy import STOPPED, Ended
from experiments.study.driver_callback import DriverCallback, config_of
from experiments.study.folder import StudyFolder
from experiments.tracking import provenance, views
from experiments.tracking.writer import Writer
from experiments.trial.folder import Report
from experiments.trial.trainable import AT_MS, FAILURE, REPRODUCIBLE, RESTARTS, STEP, UNSAVED, WEIGHTS

STUDY_KEY = "study"

logger = logging.getLogger(__name__)


@dataclass
class TrackingCallback(DriverCallback):
    """Tune's events to MLflow runs.

    Everything it puts can be put again: runs are known by their tags, reports by the moment they were made. A resume puts what an
    earlier execution may not have delivered.
    """

    plan: Plan
    folder: StudyFolder
    writer: Writer
    resumed: bool = False
    open_keys: set[str] = field(default_factory=set)
    configs: dict[str, TrialConfig] = field(default_factory=dict)
    last_steps: dict[str, int] = field(default_factory=dict)
    told: dict[str, tuple[Any, ...]] = field(default_factory=dict)
    curves: dict[str, dict[str, list[tuple[float, float]]]] = field(default_factory=dict)  # of the trials that are running

    def begin(self) -> None:
        """Make or find the study's experiments, its run and its views."""
        plan, now = self.plan, _now_ms()
        for experiment in (INDEX_EXPERIMENT, plan.experiment):
            self.writer.put("experiment", experiment)
        self.writer.put("set_views", INDEX_EXPERIMENT, views.studies_view())
        self._set_views()
        params = plan.study_params()
        # Tags, since a resume may find another machine, and parameters never change.
        here = {Tag.EXCLUSIVE: _word(plan.exclusive), **{name: str(params.pop(name)) for name in ("concurrency", "cluster")}}
        tags = {
            Tag.KIND: "study",
            Tag.STUDY: plan.study,
            Tag.ALGORITHM: plan.algorithms,
            Tag.ENV: plan.envs,
            Tag.HARDWARE: plan.hardware,
            **here,
            Tag.STUDY_FOLDER: str(self.folder.path),
            Tag.NOTE: f"**Question.** {plan.question}\n\n**Trials.** {plan.summary()}",
            **_source_tags(),
        }
        self.writer.put("open_run", STUDY_KEY, INDEX_EXPERIMENT, plan.experiment, now, tags, (Tag.STUDY_FOLDER,), not self.resumed)
        self.writer.put("log_params", STUDY_KEY, params)
        if self.resumed:
            self.writer.put("set_tags", STUDY_KEY, here)
        texts = {
            "config.yaml": provenance.without_passwords(yaml.safe_dump(plan.composed, sort_keys=False)),
            "plan.json": json.dumps(plan.record(), indent=1),
            "provenance.json": json.dumps(self.folder.began_with(provenance_of(plan)), indent=1),
            **provenance.files(),
        }
        self.writer.put("log_texts", STUDY_KEY, texts)

    def _set_views(self) -> None:
        labels, exploratory = [c.label for c in self.plan.configurations], self.plan.suite.scheduler.name != "fifo"
        found = views.shared_views(self.plan.searched_params, labels, exploratory)
        self.writer.put("set_views", self.plan.experiment, found)

    def deliver_earlier(self, config: TrialConfig, reports: Sequence[Report], restarts: int, reproducible: bool) -> None:
        """Put what a trial of an earlier execution reported, and end its run if it finished."""
        self._open(config)
        key = config.folder_name
        self._tell(key, restarts, reproducible)
        for report in reports:
            self._put_report(key, report.metrics, report.env_steps, report.at_ms)
        if reports and reports[-1].done:
            self.writer.put("set_tags", key, {Tag.WEIGHTS: reports[-1].weights})
            self._end(key, "FINISHED")

    def end_earlier(self, config: TrialConfig, outcome: Ended) -> None:
        """End the run of a trial that an earlier execution stopped early or gave up, and may not have come to end."""
        self._open(config)
        if outcome.status == STOPPED:
            self._stopped(config.folder_name, outcome.env_steps)
        else:
            self._failed(config.folder_name, outcome.reason)

    def on_trial_start(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        """Make or find the trial's run."""
        self._open(config_of(trial))
        if self.resumed and not self.plan.exclusive:  # whatever it was before
            self.writer.put("set_tags", config_of(trial).folder_name, {Tag.EXCLUSIVE: "false"})

    def _open(self, config: TrialConfig) -> None:
        key = config.folder_name
        if key in self.last_steps:
            return
        self.last_steps[key] = 0
        self.configs[key] = config
        self.open_keys.add(key)
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
            Tag.EXCLUSIVE: _word(self.plan.exclusive),
            Tag.EXPLORATORY: _word(config.exploratory),
            Tag.TRIAL_ID: key,
            **({Tag.PARENT: config.start.trial, Tag.COPIED: _word(config.start.copied)} if config.start else {}),
            Tag.STUDY_RUN: STUDY_KEY,
            **_source_tags(),
        }
        identity = (Tag.STUDY_RUN, Tag.TRIAL_ID)
        self.writer.put("open_run", key, self.plan.experiment, config.name, _now_ms(), tags, identity, not self.resumed)
        self.writer.put("log_params", key, self.plan.trial_params(config))
        resolved, now = config.to_mapping(), provenance_of(self.plan)
        began_with = self.folder.trial(config).began_with(now)
        texts = {
            "config.yaml": yaml.safe_dump(resolved, sort_keys=False),
            "config.json": json.dumps({**resolved, "provenance": began_with}, indent=1),
            **(provenance.files() if began_with == now else {}),
        }
        self.writer.put("log_texts", key, texts)
        self._tell(key, 0, promises_bits(config))

    def on_trial_result(self, iteration: int, trials: list[Any], trial: Any, result: dict[str, Any], **info: Any) -> None:
        """Log one report; one that a restarted trial makes again is known by its step."""
        key = config_of(trial).folder_name
        if FAILURE not in result:
            self._put_report(key, result, int(result[STEP]), int(result[AT_MS]))
        self._tell(key, result[RESTARTS], result[REPRODUCIBLE])
        if result[UNSAVED]:
            self.writer.put("set_tags", key, {Tag.UNSAVED: result[UNSAVED][:500]})

    def _put_report(self, key: str, metrics: Mapping[str, Any], step: int, at_ms: int) -> None:
        if step <= self.last_steps[key]:
            return
        self.last_steps[key] = step
        values = {name: metrics[name] for name in METRICS if name in metrics and math.isfinite(metrics[name])}
        for name, value in values.items():
            self.curves.setdefault(key, {}).setdefault(name, []).append((step, value))
        self.writer.put("log_metrics", key, values, step, at_ms)

    def _tell(self, key: str, restarts: int, reproducible: bool) -> None:
        if self.told.get(key) != (restarts, reproducible):
            self.told[key] = restarts, reproducible
            self.writer.put("set_tags", key, {Tag.RESTARTS: str(restarts), Tag.REPRODUCIBLE: _word(reproducible)})

    def on_finish(self, trial: Any) -> None:
        """End the run of a finished trial."""
        key = config_of(trial).folder_name
        tags = {Tag.WEIGHTS: trial.last_result[WEIGHTS]}
        self.writer.put("set_tags", key, {**tags, Tag.FAILURE: ""} if self.resumed else tags)
        self._end(key, "FINISHED")

    def on_early_stop(self, trial: Any) -> None:
        """End the run of a trial that a scheduler has stopped, and say where."""
        self._stopped(config_of(trial).folder_name, trial.last_result[STEP])

    def on_failure(self, trial: Any, reason: str) -> None:
        """End the run of a failed trial, with the reason."""
        self._open(config_of(trial))
        self._failed(config_of(trial).folder_name, reason)

    def _stopped(self, key: str, env_steps: int) -> None:
        self.writer.put("set_tags", key, {Tag.STOPPED_AT: str(env_steps)})
        self._end(key, "FINISHED")

    def _failed(self, key: str, reason: str) -> None:
        self.writer.put("set_tags", key, {Tag.FAILURE: reason})
        self._end(key, "FAILED")

    def _end(self, key: str, status: str) -> None:
        if key in self.open_keys:
            self.open_keys.remove(key)
            self._diagnose(key)
            self.writer.put("finish", key, status, _now_ms())

    def _diagnose(self, key: str) -> None:
        """What held the trial up, and how healthy it was, as tags."""
        from analysis.questions.diagnosis import facts_of, tags

        config, curves = self.configs.pop(key), self.curves.pop(key, {})
        planned = {**self.plan.trial_params(config), "exclusive": self.plan.exclusive, "target": config.env.target}
        score = curves.get("final/score", [(0.0, None)])[-1][1]
        try:
            found = tags(curves, facts_of({**planned, "score": score}, self.plan.facts[config.label]))
        except Exception as error:  # noqa: BLE001  # what the trial logged is safe, whatever is said of it
            logger.warning("%s: no diagnosis (%s: %s).", config.name, type(error).__name__, first_line(error))
            return
        self.writer.put("set_tags", key, found)

    def end(self, status: str, runs: pd.DataFrame, limit: str = "") -> None:
        """End every run that is still open, and the study's own with its summary.

        Args:
            status: The study's: FINISHED, FAILED or KILLED.
            runs: All trials, as the analysis takes them.
            limit: Which one ended the study before it was done.
        """
        for key in sorted(self.open_keys):
            self._end(key, "KILLED")
        if isinstance(self.plan, SearchPlan):  # which has grown since
            self._set_views()
            self.writer.put("set_tags", STUDY_KEY, {Tag.LIMIT: limit})
            self.writer.put("log_texts", STUDY_KEY, {"plan.json": json.dumps(self.plan.record(), indent=1)})
        try:
            self._conclude(runs)
        except Exception as error:  # noqa: BLE001  # what the trials logged is safe, whatever becomes of the conclusions
            logger.warning("The study's summary is not in MLflow (%s: %s).", type(error).__name__, first_line(error))
        self.writer.put("finish", STUDY_KEY, status, _now_ms())

    def _conclude(self, runs: pd.DataFrame) -> None:
        from analysis.document.answer import answers, best_metrics, closing_table

        if runs.empty:
            return
        found = answers(runs)
        table = closing_table(runs, list(self.plan.record()["axes"]))
        note = "\n\n".join([f"**Question.** {self.plan.question}", *(f"**Answer.** {a.markdown()}" for a in found)])
        chosen = ", ".join(a.decision.chosen for a in found if a.decision.chosen)
        self.writer.put("set_tags", STUDY_KEY, {Tag.NOTE: note, Tag.BEST: chosen})
        self.writer.put("log_table", STUDY_KEY, table.astype(object).where(table.notna(), None).to_dict("list"), "configurations.json")
        if len(found) == 1 and found[0].decision.chosen:
            self.writer.put("log_metrics", STUDY_KEY, best_metrics(table), 0, _now_ms())


def provenance_of(plan: Plan) -> dict[str, Any]:
    """Where the results of a study come from, as recorded with each of its trials."""
    return {**provenance.record(), "num_nodes": len(plan.cluster.nodes)}


def _source_tags() -> dict[str, str]:
    tags = {Tag.COMMAND: provenance.command_line()[:500], "mlflow.source.type": "LOCAL"}
    git = provenance.git_state()
    if git.commit:
        tags[Tag.COMMIT] = git.commit
        tags["git_dirty"] = _word(bool(git.dirty_diff))
    return tags


def _word(value: bool) -> str:
    return "true" if value else "false"


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
