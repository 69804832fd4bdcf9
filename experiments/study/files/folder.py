"""A study's own folder: what survives its driver, and what a resume starts from."""

import copy
import json
import os
import shutil
import socket
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from experiments.config import own_modules
from experiments.config.errors import ConfigurationError
from experiments.config.named_axes import Settings
from experiments.config.output_dir import is_within, stored_at
from experiments.config.own_modules import KEPT_IN
from experiments.config.schema import HardwareSettings, StartingPolicy, SuiteConfig, parse
from experiments.config.trial_config import TrialConfig
from experiments.contract import FINISHED
from experiments.contract.words import labelled
from experiments.planning.configuration import Configuration, ResolvedPoint
from experiments.planning.machines import Cluster
from experiments.planning.memory import placed
from experiments.planning.plan import Plan, concurrency_of
from experiments.planning.resolver import Resolver
from experiments.planning.search_design import SearchDesign
from experiments.planning.trials import StudyTrials
from experiments.rllib import starting_weights
from experiments.search.prior import Prior
from experiments.study.cluster.address import at
from experiments.study.files.local_files import LocalFiles
from experiments.study.files.notes import Notes
from experiments.study.files.object_files import ObjectFiles
from experiments.study.files.study_files import STATE_FILE, StudyFiles
from experiments.trial.event_log import DamagedFileError
from experiments.trial.events import Ended, Event
from experiments.trial.folder import PROVENANCE_FILE, TrialFolder, began_with
from experiments.trial.json_lines import lines_of

_OPTUNA_FILE = "optuna.db"
_JOURNAL_FILE = "search.jsonl"
"""The steps of a search, in order."""
_LATER_FILE = "configurations.jsonl"
"""Configurations that came up in a search."""
_FORMAT = 3

Given = Sequence[tuple[Mapping[str, str], Mapping[str, Any]]]
"""A command line: group choices, and the configuration that was composed with them."""


class StudyFolder:
    """A study's own folder.

    `study.json` has the plan; `modules/` the modules of a person's own; `start.npz` the weights that trials start from,
    if these are not their seeds' own; `trials/<name>/` what each trial keeps; `tune/` what Tune and TensorBoard write.
    A search notes what it does in `search.jsonl`, and Optuna has its study in `optuna.db`.

    All of it but `tune/` may be in an object store, of which the folder is a copy then.

    Attributes:
        path: Absolute.
        place: Where it is kept: `path`, or its address in an object store.
        named: What named it, as in a command line.
    """

    def __init__(self, path: Path, named: str = "") -> None:
        """A folder, which need not be there.

        Args:
            path: Absolute.
            named: What named it, as in a command line; "": the path.
        """
        self.path = path
        uri = stored_at(path)
        self._files: StudyFiles = ObjectFiles(uri, path) if uri else LocalFiles(path)
        self.place = self._files.place
        self.named = named or self.place
        self._notes = Notes(path, self._files, _OPTUNA_FILE)
        self._kept: set[str] = set()

    def trial(self, trial: TrialConfig) -> TrialFolder:
        """A trial's own folder; it need not exist."""
        return self._files.trial(trial.folder_name)

    def trial_place(self, trial: TrialConfig) -> str:
        """Where a trial's own folder is kept, for the process that trains it."""
        return f"{self.place}/trials/{trial.folder_name}"

    @property
    def is_begun(self) -> bool:
        """True if a study was begun in it: a driver that is killed on the way to that leaves a folder
        without trials, or none.
        """
        with self._answering():
            return self._files.is_begun()

    def create(self, plan: Plan, given: Given | None = None) -> None:
        """Make the folder, with everything that a resume needs, and keep other drivers away.

        Args:
            plan: The study.
            given: What its command line asked for, if the same command is to find the study again.
                The folder may be there then.

        Raises:
            ConfigurationError: The disk does not take it, or another driver has begun a study in it.
        """
        state: dict[str, Any] = {
            "format": _FORMAT,
            "suite": asdict(plan.suite),
            "composed": copy.deepcopy(plan.composed),
            "configurations": [_saved(c) for c in plan.configurations],
        }
        if plan.confirms is not None:
            state["confirms"] = plan.confirms
        if (search := plan.search) is not None:
            state["search"] = {
                "composed": [
                    [dict(choice), dict(composed)]
                    for choice, composed in copy.deepcopy(search.resolver.composed).items()
                ],
                "report_every_env_steps": search.resolver.report_every_env_steps,
                "base": search.base,
                "concurrency": plan.concurrency,
                **({"prior": asdict(search.prior)} if search.prior else {}),
            }
        for suite in (
            state["suite"],
            state["composed"],
            *(composed for _, composed in state.get("search", {}).get("composed", [])),
        ):
            suite["tracking"] = {**suite["tracking"], "uri": None}  # it may hold a password; a resume is given it again
        if given is not None:
            state["given"] = given
        partial = self.path / f"{STATE_FILE}.partial"
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            self._take()
        except OSError as error:
            with suppress(OSError):
                self.path.rmdir()
            raise _unwritable(error, partial) from None
        if self.is_begun:
            self.close()
            raise ConfigurationError(
                f"{self.named}: another process has begun the study meanwhile. Give the command again."
            )
        try:
            self._files.discard()
            self.path.mkdir(parents=True, exist_ok=True)
            own_modules.keep(plan.suite.modules, self.path / KEPT_IN)
            if isinstance(start := plan.suite.study.start, StartingPolicy):
                starting_weights.keep(start, self.path / starting_weights.FILE)
            with partial.open("w") as file:
                json.dump(state, file)
                file.flush()
                os.fsync(file.fileno())
            partial.rename(self.path / STATE_FILE)
            self._files.keep(KEPT_IN, starting_weights.FILE, STATE_FILE)  # by the last one the study is known
        except (ConfigurationError, OSError) as error:
            shutil.rmtree(self.path, ignore_errors=True)
            with suppress(OSError):
                self._files.discard()
            self.close()
            if isinstance(error, OSError):
                raise _unwritable(error, partial) from None
            raise

    def given(self) -> Given:
        """The command line that began the study.

        Raises:
            ConfigurationError: The state is missing, damaged or of another version, or has nothing of it.
        """
        if "given" not in (state := self._state()):
            raise ConfigurationError(f"{self.path}: is not the folder of a study with a key. Choose another study.key.")
        return [(choice, composed) for choice, composed in state["given"]]

    def began_with(self, now: Mapping[str, Any]) -> Mapping[str, Any]:
        """The provenance that the study began with; `now`, if it begins now."""
        found = began_with(self.path, now)
        with suppress(OSError):  # no more than a record is lost
            self._files.keep(PROVENANCE_FILE)
        return found

    def lock(self) -> None:
        """Keep other drivers away from the study, until this process ends or `close` is called.

        Raises:
            ConfigurationError: One is at work on it.
        """
        with self._answering():
            self._take()

    def _take(self) -> None:
        driver = f"process {os.getpid()} on {socket.gethostname()}, since {time.strftime('%Y-%m-%d %H:%M:%S')}"
        if said := self._files.take(driver):
            raise ConfigurationError(f"{self.named}: the study is still running, in {said}. Interrupt that one first.")
        self._notes.cut_torn_lines(_JOURNAL_FILE, _LATER_FILE)

    def close(self) -> None:
        """Let other drivers take up the study."""
        self._files.release()

    def at_work(self) -> str:
        """Which driver is at work on the study: its process and host; "" if none is."""
        with self._answering():
            return self._files.driver()

    def hardware(self, address: str | None) -> HardwareSettings:
        """The study's hardware profile, at another address if one is given.

        Raises:
            ConfigurationError: The state is missing, damaged or of another version.
        """
        return at(self._suite(self._state()["suite"]).hardware, address)

    def take_modules(self, within: Path | None = None) -> None:
        """Import the modules of a person's own that the study was begun with, from what it kept of them.

        Args:
            within: Where the folder must be: a store that others write to may name any. None: a person named it.

        Raises:
            ConfigurationError: It is elsewhere; or they are not what they were, or cannot be imported.
        """
        recorded = self._state()["suite"].get("modules") or {}
        if recorded and within is not None and not is_within(self.path, within):
            raise ConfigurationError(
                f"the store says that the study is in {self.path}, outside of output_dir={within}, and the study has "
                "modules of its own, which would be run. If it is yours, say where it is: "
                f"output_dir={self.path.parent.parent}."
            )
        if recorded:
            with self._answering():
                self._files.fetch_modules()
            own_modules.take(own_modules.kept(recorded, self.path / KEPT_IN), recorded)

    def _suite(self, saved: Mapping[str, Any]) -> SuiteConfig:
        try:
            return parse(saved)
        except ConfigurationError as error:
            raise ConfigurationError(
                f"{self.path / STATE_FILE}: is not of this version of the suite ({error})."
            ) from None

    def plan(self, cluster: Cluster, tracking: Any) -> Plan:
        """The study's plan, as it was when the study began.

        Args:
            cluster: What there is to run on now.
            tracking: The store to log to now; what is measured stays as it was.

        Raises:
            ConfigurationError: The state is missing, damaged, of another version, or does not fit the cluster.
                Nothing was changed.
        """
        state = self._state()
        # curves stay of one kind
        what = {name: state["suite"]["tracking"][name] for name in ("tensorboard", "system_metrics")}
        suite = self._suite({**state["suite"], "tracking": {**asdict(tracking), **what}})
        configurations = self._configurations(state["configurations"], cluster)
        concurrency = concurrency_of(suite, configurations, cluster)
        if (search := state.get("search")) is None:
            return Plan(suite, state["composed"], configurations, cluster, concurrency, confirms=state.get("confirms"))
        composed = {tuple(sorted(choice.items())): settings for choice, settings in search["composed"]}
        resolver = Resolver(composed, cluster, search["report_every_env_steps"], tuple(suite.study.space))
        known = (*configurations, *self._configurations(self._lines(_LATER_FILE), cluster))
        prior = Prior.of(search["prior"]) if "prior" in search else None  # not looked up again
        design = SearchDesign(suite, known, search["base"], resolver, prior)
        # part of what the search comes to
        concurrency = search.get("concurrency", concurrency)
        return Plan(suite, state["composed"], known, cluster, concurrency, search=design)

    def _configurations(self, saved: Sequence[Mapping[str, Any]], cluster: Cluster) -> tuple[Configuration, ...]:
        found = [self._configuration(one, cluster) for one in saved]
        return placed(found, cluster) if all(c.predicted_bytes for c in found) else tuple(found)

    def _configuration(self, saved: Mapping[str, Any], cluster: Cluster) -> Configuration:
        resolved = ResolvedPoint(
            saved["label"],
            saved["point"],
            Settings(**saved["settings"]),
            self._suite(saved["suite"]),
            saved["rules"],
            saved["generation"],
            saved.get("staleness", 0),
        )
        if (config_id := resolved.config_id) != saved["config_id"]:
            raise ConfigurationError(
                f"{self.path / STATE_FILE}: {saved['label']!r} was configuration {saved['config_id']} and would "
                f"be {config_id} with this version of the suite. Resume with the version that began the study."
            )
        predicted = saved.get("predicted_bytes", ())
        return replace(Configuration.of(resolved, cluster), predicted_bytes=tuple(predicted))

    @property
    def optuna_storage(self) -> Path:
        """Where Optuna keeps its study of the search; `optuna-dashboard sqlite:///<path>` opens it."""
        return self.path / _OPTUNA_FILE

    def journal(self) -> list[Mapping[str, Any]]:
        """The steps of a search so far, as they were noted.

        Raises:
            ConfigurationError: The file is damaged.
        """
        return self._lines(_JOURNAL_FILE)

    def _lines(self, name: str) -> list[Mapping[str, Any]]:
        try:
            return lines_of(self._files.read(name))[0]
        except FileNotFoundError:
            return []
        except ValueError as error:
            raise ConfigurationError(
                f"{self.path / name}: cannot be read ({error}), so the search cannot be resumed. Start it again."
            ) from None

    @contextmanager
    def _answering(self) -> Iterator[None]:
        """Say what cannot be read."""
        try:
            yield
        except OSError as error:
            raise self._unreachable(error) from None

    def _unreachable(self, error: OSError) -> ConfigurationError:
        return ConfigurationError(f"{self.named}: {error.filename} cannot be read ({error.strerror}). Try again later.")

    def note(self, step: Mapping[str, Any]) -> None:
        """Note what a search does. What a full disk does not take is kept in mind until it does."""
        self._notes.add(_JOURNAL_FILE, step)

    def keep_configurations(self, trials: StudyTrials) -> None:
        """Note the configurations that the plan did not know when the study began."""
        known = {c.label for c in trials.plan.configurations} | self._kept
        new = [configuration for configuration in trials.configurations if configuration.label not in known]
        self._kept |= {configuration.label for configuration in new}
        self._notes.add(_LATER_FILE, *map(_saved, new))

    def is_finished(self, plan: Plan) -> bool:
        """True if there is no trial to run any more; of a study that chooses its trials,
        that is known only as it goes on.
        """
        with self._answering():
            return not plan.search and all(_has_finished(self.trial(trial).log.all()) for trial in plan.trials)

    def is_over(self, cluster: Cluster, tracking: Any) -> bool:
        """True if there is no trial to run any more, as far as a machine can tell
        that may not be what the study was planned for.
        """
        try:
            return self.is_finished(self.plan(cluster, tracking))
        except ConfigurationError:
            return False

    def standing(self, plan: Plan, checked: bool = True) -> str:
        """How far the trials are, in a line.

        Args:
            plan: The study.
            checked: Whether what unfinished trials go on from is checked: not while a driver is at work on it.

        Raises:
            ConfigurationError: Something that an unfinished trial would go on from is damaged; the message names the
                file and the fix.
        """
        finished, going_on, grid = 0, 0, plan.report_every_env_steps
        for trial in plan.trials:
            folder = self.trial(trial)
            try:
                events = folder.log.all()
                if _has_finished(events):
                    finished += 1
                elif saved := folder.saved():
                    if checked:
                        folder.check_saved(saved[-1])
                        folder.check_reports(events, range(trial.first_env_steps + grid, saved[-1], grid))
                    going_on += 1
            except DamagedFileError as error:
                raise ConfigurationError(str(error)) from None
            except OSError as error:
                raise self._unreachable(error) from None
        anew = len(plan.trials) - finished - going_on
        return labelled(
            "resume",
            f"{finished} trials are finished, {going_on} go on from a checkpoint, {anew} start from the beginning",
        )

    def _state(self) -> Mapping[str, Any]:
        path = f"{self.place}/{STATE_FILE}"
        fix = (
            "Start it again."
            if self.named == self.place
            else f"Start it again: remove {self.place}, or choose another study.key."
        )
        try:
            state = json.loads(self._files.read(STATE_FILE))
        except FileNotFoundError:
            raise ConfigurationError(f"{path}: is missing, so the study cannot be resumed. {fix}") from None
        except (OSError, ValueError) as error:
            raise ConfigurationError(
                f"{path}: cannot be read ({error}), so the study cannot be resumed. {fix}"
            ) from None
        if not isinstance(state, dict) or state.get("format") != _FORMAT:
            raise ConfigurationError(
                f"{path}: is not of this version of the suite. Resume with the version that began the study."
            )
        return state


def _has_finished(events: Sequence[Event]) -> bool:
    return any(isinstance(event, Ended) and event.status == FINISHED for event in events)


def _unwritable(error: OSError, path: Path) -> ConfigurationError:
    return ConfigurationError(
        f"output_dir: {error.filename or path} cannot be written ({error.strerror}). Free some space, "
        "or choose another: output_dir=/path."
    )


def _saved(configuration: Configuration) -> dict[str, Any]:
    suite = asdict(configuration.suite)
    suite["tracking"]["uri"] = None  # it may hold a password; a resume is given it again
    return {
        "label": configuration.label,
        "config_id": configuration.config_id,
        "point": configuration.point,
        "settings": asdict(configuration.settings),
        "suite": suite,
        "rules": configuration.rules,
        "generation": configuration.generation,
        **({"staleness": configuration.staleness} if configuration.staleness else {}),
        "predicted_bytes": configuration.predicted_bytes,
    }
