"""A study's own folder: what survives its driver, and what a resume starts from."""

import copy
import json
import os
import shutil
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import IO, Any

from experiments.errors import ConfigurationError
from experiments.plan import Configuration, Plan, concurrency_of
from experiments.resolve import TrialConfig, trial_config
from experiments.resources import Cluster
from experiments.schema import HardwareSettings, SuiteConfig, parse
from experiments.trial_folder import DamagedFileError, TrialFolder, began_with, check_checkpoint, locked

STATE_FILE = "study.json"
_FORMAT = 1


class StudyFolder:
    """A study's own folder.

    `study.json` has the plan, settled; `trials/<name>/` what each trial keeps; `tune/` what Tune and TensorBoard write.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock: IO[str] | None = None

    def trial(self, trial: TrialConfig) -> TrialFolder:
        """A trial's own folder; it need not exist."""
        return TrialFolder(self.path / "trials" / trial.folder_name)

    def create(self, plan: Plan) -> None:
        """Make the folder, with everything that a resume needs.

        Raises:
            ConfigurationError: The disk does not take it.
        """
        state: dict[str, Any] = {
            "format": _FORMAT,
            "suite": asdict(plan.suite),
            "composed": copy.deepcopy(plan.composed),
            "searched": plan.searched,
            "configurations": [
                {
                    "label": c.label,
                    "config_id": c.trial(plan.seeds[0]).config_id,
                    "point": c.point,
                    "suite": asdict(c.suite),
                    "rules": c.rules,
                }
                for c in plan.configurations
            ],
        }
        for suite in (state["suite"], state["composed"], *(c["suite"] for c in state["configurations"])):
            suite["tracking"]["uri"] = None  # it may hold a password; a resume is given it again
        partial = self.path / f"{STATE_FILE}.partial"
        try:
            self.path.mkdir(parents=True)
            with partial.open("w") as file:
                json.dump(state, file)
                file.flush()
                os.fsync(file.fileno())
            partial.rename(self.path / STATE_FILE)
        except OSError as error:
            shutil.rmtree(self.path, ignore_errors=True)
            raise ConfigurationError(
                f"output_dir: {error.filename or partial} cannot be written ({error.strerror}). Free some space, or choose another: "
                "output_dir=/path."
            ) from None
        self.lock()

    def began_with(self, now: Mapping[str, Any]) -> Mapping[str, Any]:
        """The provenance that the study began with; `now`, if it begins now."""
        return began_with(self.path, now)

    def lock(self) -> None:
        """Keep other drivers away from the study, until this process ends or `close` is called.

        Raises:
            ConfigurationError: One is at work on it.
        """
        self._lock = (self.path / "lock").open("w")
        if not locked(self._lock):
            raise ConfigurationError(f"resume={self.path}: the study is still running, in another process. Interrupt that one first.")

    def close(self) -> None:
        """Let other drivers take up the study."""
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def hardware(self, address: str | None) -> HardwareSettings:
        """The study's hardware profile, at another cluster if an address is given.

        Raises:
            ConfigurationError: The state is missing, damaged or of another version.
        """
        hardware = self._suite(self._state()["suite"]).hardware
        return hardware if address is None else replace(hardware, address=address)

    def _suite(self, saved: Mapping[str, Any]) -> SuiteConfig:
        try:
            return parse(saved)
        except ConfigurationError as error:
            raise ConfigurationError(f"{self.path / STATE_FILE}: is not of this version of the suite ({error}).") from None

    def plan(self, cluster: Cluster, tracking: Any) -> Plan:
        """The study's plan, as it was when the study began.

        Args:
            cluster: What there is to run on now.
            tracking: The store to log to now; what is measured stays as it was.

        Raises:
            ConfigurationError: The state is missing, damaged, of another version, or does not fit the cluster. Nothing was changed.
        """
        state = self._state()
        what = {name: state["suite"]["tracking"][name] for name in ("tensorboard", "system_metrics")}  # curves stay of one kind
        suite = self._suite({**state["suite"], "tracking": {**asdict(tracking), **what}})
        configurations = []
        for saved in state["configurations"]:
            settled = self._suite(saved["suite"])
            trial = trial_config(settled, suite.seeds[0], saved["label"])
            if trial.config_id != saved["config_id"]:
                raise ConfigurationError(
                    f"{self.path / STATE_FILE}: {saved['label']!r} was configuration {saved['config_id']} and would be {trial.config_id} "
                    "with this version of the suite. Resume with the version that began the study."
                )
            configurations.append(Configuration.of(saved["label"], saved["point"], settled, cluster, saved.get("rules", {})))
        concurrency = concurrency_of(suite, configurations, cluster)
        return Plan(suite, state["composed"], tuple(configurations), tuple(state["searched"]), cluster, concurrency)

    def standing(self, plan: Plan) -> str:
        """How far the trials are, in a line.

        Raises:
            ConfigurationError: Something that an unfinished trial would go on from is damaged; the message names the file and the fix.
        """
        finished, going_on, grid = 0, 0, plan.report_every_env_steps
        for trial in plan.trials:
            folder = self.trial(trial)
            try:
                folder.restarts()
                if any(report.done for report in folder.reports()):
                    finished += 1
                elif checkpoints := folder.checkpoints():
                    check_checkpoint(checkpoints[-1])
                    folder.check_reports(range(grid, int(checkpoints[-1].name), grid))
                    going_on += 1
            except DamagedFileError as error:
                raise ConfigurationError(str(error)) from None
        anew = len(plan.trials) - finished - going_on
        return f"resume      {finished} trials are finished, {going_on} go on from a checkpoint, {anew} start from the beginning"

    def _state(self) -> Mapping[str, Any]:
        path = self.path / STATE_FILE
        try:
            state = json.loads(path.read_text())
        except FileNotFoundError:
            raise ConfigurationError(f"{path}: is missing, so the study cannot be resumed. Start it again.") from None
        except (OSError, ValueError) as error:
            raise ConfigurationError(f"{path}: cannot be read ({error}), so the study cannot be resumed. Start it again.") from None
        if not isinstance(state, dict) or state.get("format") != _FORMAT:
            raise ConfigurationError(f"{path}: is not of this version of the suite. Resume with the version that began the study.")
        return state
