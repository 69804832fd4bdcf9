"""At a study's end: the policies that are to be used, exported and put into MLflow's registry."""

import json
import logging
import shutil
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from experiments.config.errors import ConfigurationError, first_line
from experiments.config.trial_config import TrialConfig
from experiments.contract import CONFIRM, FINISHED, SCORE, Tag
from experiments.planning.trials import StudyTrials
from experiments.policies import checkpoint, policy
from experiments.policies.export import Origin, export_policy
from experiments.policies.mlflow_model import save_model
from experiments.study.files.folder import StudyFolder
from experiments.study.outcomes import Outcomes
from experiments.tracking.listener import STUDY_KEY
from experiments.tracking.registry import SCORES, TASK, PolicyModel
from experiments.tracking.writer import Writer
from experiments.tracking.writes import LogModel, MakeChampion

ONNX = "policy.onnx"

logger = logging.getLogger(__name__)


@dataclass
class Registration:
    """Puts the policies of a study into MLflow.

    Attributes:
        trials: The trials of the study, as they become known.
        outcomes: How each ended.
        folder: Where the study keeps its state and the checkpoints of its trials.
        writer: Delivers to MLflow.
        interrupted: Whether the person has asked the study to stop.
    """

    trials: StudyTrials
    outcomes: Outcomes
    folder: StudyFolder
    writer: Writer
    interrupted: Callable[[], bool]
    _traced: dict[str, Any] = field(default_factory=dict)

    def prepare(self, trial: TrialConfig) -> None:
        """Export a policy for what the first one alone takes: imports, and the trace of networks
        that are alike in most studies.
        """
        if self._wanted:
            with TemporaryDirectory() as scratch:
                newest = checkpoint.read(self.folder.trial(trial).checkpoints()[-1], trial.name)
                self._write(newest, trial, Path(scratch), Origin())

    @property
    def _wanted(self) -> bool:
        """True for a policy that may become a model."""
        return self.trials.plan.suite.registry.models != "none" and not self.trials.plan.is_measured

    def __call__(self, recommended: Sequence[str]) -> None:
        """Export the policies that `registry.models` asks for, and put them.

        One that cannot be exported is said, and left out.
        """
        if not self._wanted:
            return
        models = self.trials.plan.suite.registry.models
        for trial in self.trials.trials:
            of_recommended = trial.label in recommended and not trial.exploratory
            wanted = of_recommended or models != "recommended"
            if self.outcomes.of(trial).status != FINISHED or trial.repeat or not wanted:
                continue
            if self.interrupted():
                return
            try:
                self._put(trial, of_recommended, every_checkpoint=models == "checkpoints")
            except Exception as error:  # noqa: BLE001
                # a study that ran ends with its exit code, whatever becomes of its models
                if self.interrupted():
                    return
                readable = isinstance(error, ConfigurationError)
                what = str(error) if readable else f"{type(error).__name__}: {first_line(error)}"
                logger.warning("%s is not in MLflow's registry: %s", trial.name, what)
        for label in recommended:
            self._put_champion(label)

    def _put(self, trial: TrialConfig, of_recommended: bool, every_checkpoint: bool) -> None:
        own = self.folder.trial(trial)
        own.fetch()
        kept = own.checkpoints()
        for path in kept if every_checkpoint else kept[-1:]:
            found = checkpoint.read(path, trial.name)
            last = path == kept[-1]
            model = self._model(trial, found.env_steps, last, of_recommended and last)
            if not (model.folder / "MLmodel").is_file():
                self._export(found, trial, model.folder)
            self.writer.put(STUDY_KEY, LogModel(self.trials.plan.experiment, model))

    def _model(self, trial: TrialConfig, env_steps: int, last: bool, registers: bool) -> PolicyModel:
        name = "policy" if last else f"policy-{env_steps}"
        tags = {
            Tag.STUDY: self.trials.plan.study,
            Tag.ALGORITHM: str(trial.algorithm["name"]),
            Tag.ENV: trial.env.name,
            Tag.CONFIG: trial.label,
            Tag.CONFIG_ID: trial.config_id,
            Tag.SEED: str(trial.seed),
            Tag.PHASE: trial.phase,
            TASK: json.dumps([trial.env.id, trial.env.make_arguments], sort_keys=True),
        }
        if last:
            tags["score"] = repr(self.outcomes.of(trial).final[SCORE])
        if registers and trial.phase == CONFIRM:
            tags[SCORES] = json.dumps([self.outcomes.of(t).final[SCORE] for t in self._confirmed(trial.label)])
        registered = f"{trial.algorithm['name']}-{trial.env.name}" if registers else None
        score = f": score {self.outcomes.of(trial).final[SCORE]:.4g}" if last else ""
        description = f"{trial.name}, trained for {env_steps:,} env steps{score}"
        return PolicyModel(trial.folder_name, name, self._place(trial, name), env_steps, registered, tags, description)

    def _place(self, trial: TrialConfig, name: str) -> Path:
        return self.folder.path / "policies" / trial.folder_name / name

    def _export(self, found: checkpoint.Checkpoint, trial: TrialConfig, place: Path) -> None:
        run, study_run = (self.writer.run_ids.get(key, "") for key in (trial.folder_name, STUDY_KEY))
        commit = str(found.provenance.get("commit") or "")
        origin = Origin(self.trials.plan.study, study_run, run, commit, found.env_steps)
        partial = place.with_name(f".{place.name}")
        shutil.rmtree(partial, ignore_errors=True)
        shutil.rmtree(place, ignore_errors=True)
        partial.mkdir(parents=True)
        try:
            self._write(found, trial, partial, origin)
            (partial / "model").rename(place)
        finally:
            shutil.rmtree(partial, ignore_errors=True)

    def _write(self, found: checkpoint.Checkpoint, trial: TrialConfig, folder: Path, origin: Origin) -> None:
        exported = export_policy(policy.load(found, trial.name), folder / ONNX, origin, self._traced, self._go_on)
        save_model(exported, folder / "model")

    def _go_on(self) -> None:
        """End an export that the person does not wait for: episodes of some environments take minutes."""
        if self.interrupted():
            raise InterruptedError("the study was asked to stop")

    def _confirmed(self, label: str) -> list[TrialConfig]:
        """The trials with the seeds that the choice of a configuration did not rest on, or was confirmed by."""
        own = [t for t in self.trials.trials if t.label == label and t.phase == CONFIRM and not t.repeat]
        return [t for t in own if self.outcomes.of(t).status == FINISHED]

    def _put_champion(self, label: str) -> None:
        """The best seed's policy stands for its configuration; whether the alias moves is decided by all seeds."""
        confirmed = self._confirmed(label)
        if not confirmed:
            return
        best = max(confirmed, key=lambda trial: self.outcomes.of(trial).final[SCORE])
        with suppress(IndexError):  # its checkpoint is gone, as was said
            env_steps = self.folder.trial(best).saved()[-1]
            model = self._model(best, env_steps, last=True, registers=True)
            if (model.folder / "MLmodel").is_file():
                self.writer.put(STUDY_KEY, MakeChampion(self.trials.plan.experiment, model))
