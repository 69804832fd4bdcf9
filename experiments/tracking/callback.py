"""Tune's events to MLflow runs."""

import json
import logging
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pandas as pd
import yaml

from experiments import views
from experiments.driver_callback import DriverCallback
from experiments.errors import first_line
from experiments.metrics import METRICS
from experiments.plan import Plan
from experiments.provenance import command_line, git_state, host, versions, without_passwords
from experiments.resolve import TrialConfig
from experiments.tracking.writer import STUDY_RUN, Writer
from experiments.trial import STEP, TRIAL

INDEX_EXPERIMENT = "studies"
"""The MLflow experiment with a run per execution of a study."""

STUDY_KEY = "study"

logger = logging.getLogger(__name__)


@dataclass
class TrackingCallback(DriverCallback):
    """Tune's events to MLflow runs."""

    plan: Plan
    writer: Writer
    ended: set[str] = field(default_factory=set)

    def begin(self) -> None:
        """Make the study's experiments, its run and its views."""
        plan, now = self.plan, _now_ms()
        for experiment in (INDEX_EXPERIMENT, plan.experiment):
            self.writer.put("experiment", experiment)
        self.writer.put("set_views", INDEX_EXPERIMENT, views.studies_view())
        labels = [c.label for c in plan.configurations]
        self.writer.put("set_views", plan.experiment, views.shared_views(plan.searched_params, labels))
        tags = {
            "kind": "study",
            "study": plan.study,
            "algorithm": plan.algorithms,
            "env": plan.envs,
            "hardware": plan.hardware,
            "exclusive": _word(plan.exclusive),
            "mlflow.note.content": f"**Question.** {plan.question}\n\n**Trials.** {plan.summary()}",
            **_source_tags(),
        }
        self.writer.put("create_run", STUDY_KEY, INDEX_EXPERIMENT, plan.experiment, now, tags)
        self.writer.put("log_params", STUDY_KEY, plan.study_params())
        texts = {
            "config.yaml": without_passwords(yaml.safe_dump(plan.composed, sort_keys=False)),
            "plan.json": json.dumps(plan.record(), indent=1),
            "provenance.json": json.dumps(_provenance(), indent=1),
        }
        if git_state().dirty_diff:
            texts["uncommitted.diff"] = git_state().dirty_diff
        self.writer.put("log_texts", STUDY_KEY, texts)

    def on_trial_start(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        """Make the trial's run."""
        key, config = trial.trial_id, TrialConfig.from_mapping(trial.config[TRIAL])
        if key in self.ended or getattr(trial, "_suite_started", False):
            return
        trial._suite_started = True
        tags = {
            "kind": "trial",
            "study": self.plan.study,
            "algorithm": config.algorithm["name"],
            "env": config.env.name,
            "hardware": self.plan.hardware,
            "config": config.label,
            "config_id": config.config_id,
            "seed": str(config.seed),
            "phase": "fixed",
            "exclusive": _word(self.plan.exclusive),
            "exploratory": "false",
            "trial_id": key,
            STUDY_RUN: STUDY_KEY,
            **_source_tags(),
        }
        self.writer.put("create_run", key, self.plan.experiment, config.name, _now_ms(), tags)
        self.writer.put("log_params", key, self.plan.trial_params(config))
        resolved = config.to_mapping()
        texts = {
            "config.yaml": yaml.safe_dump(resolved, sort_keys=False),
            "config.json": json.dumps({**resolved, "provenance": _provenance()}, indent=1),
        }
        self.writer.put("log_texts", key, texts)

    def on_trial_result(self, iteration: int, trials: list[Any], trial: Any, result: dict[str, Any], **info: Any) -> None:
        """Log one report."""
        values = {name: result[name] for name in METRICS if name in result and math.isfinite(result[name])}
        self.writer.put("log_metrics", trial.trial_id, values, int(result[STEP]), _now_ms())

    def on_trial_complete(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        """End the run of a finished trial."""
        self._end(trial.trial_id, "FINISHED")

    def on_failure(self, trial: Any, reason: str) -> None:
        """End the run of a failed trial, with the reason."""
        self.writer.put("set_tags", trial.trial_id, {"failure": reason})
        self._end(trial.trial_id, "FAILED")

    def _end(self, key: str, status: str) -> None:
        if key not in self.ended:
            self.ended.add(key)
            self.writer.put("finish", key, status, _now_ms())

    def end(self, trials: Sequence[Any], status: str, runs: pd.DataFrame) -> None:
        """End every run that is still open, and the study's own with its summary.

        Args:
            trials: Tune's.
            status: The study's: FINISHED, FAILED or KILLED.
            runs: All trials, as the analysis takes them.
        """
        for trial in trials:
            if getattr(trial, "_suite_started", False):
                self._end(trial.trial_id, "KILLED")
        try:
            self._conclude(runs)
        except Exception as error:  # noqa: BLE001  # what the trials logged is safe, whatever becomes of the conclusions
            logger.warning("The study's summary is not in MLflow (%s: %s).", type(error).__name__, first_line(error))
        self.writer.put("finish", STUDY_KEY, status, _now_ms())

    def _conclude(self, runs: pd.DataFrame) -> None:
        from analysis.answer import answers, best_metrics, closing_table

        found = answers(runs)
        table = closing_table(runs, list(self.plan.record()["axes"]))
        note = "\n\n".join([f"**Question.** {self.plan.question}", *(f"**Answer.** {a.markdown()}" for a in found)])
        chosen = ", ".join(a.decision.chosen for a in found if a.decision.chosen)
        self.writer.put("set_tags", STUDY_KEY, {"mlflow.note.content": note, "best": chosen})
        self.writer.put("log_table", STUDY_KEY, table.astype(object).where(table.notna(), None).to_dict("list"), "configurations.json")
        if len(found) == 1 and found[0].decision.chosen:
            self.writer.put("log_metrics", STUDY_KEY, best_metrics(table), 0, _now_ms())


def _provenance() -> dict[str, Any]:
    git = git_state()
    return {"commit": git.commit, "dirty": bool(git.dirty_diff), "versions": versions(), "host": host(), "command": command_line()}


def _source_tags() -> dict[str, str]:
    tags = {"mlflow.source.name": command_line()[:500], "mlflow.source.type": "LOCAL"}
    if commit := git_state().commit:
        tags["mlflow.source.git.commit"] = commit
        tags["git_dirty"] = _word(bool(git_state().dirty_diff))
    return tags


def _word(value: bool) -> str:
    return "true" if value else "false"


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
