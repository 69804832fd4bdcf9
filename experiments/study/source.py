"""A study that is to run: one that begins, or one that goes on."""

import time
import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from ray._common.utils import get_default_system_temp_dir

from experiments.config.schema import HardwareSettings, SuiteConfig, TrackingSettings, parse
from experiments.config.trial_config import Compose
from experiments.contract.sqlite_address import sqlite_path
from experiments.contract.words import labelled, some
from experiments.limits.disk import free_bytes
from experiments.planning import terminal
from experiments.planning.disk import check_disk, check_store_disk, disk_line, full_line
from experiments.planning.machines import Cluster
from experiments.planning.plan import Plan, plan_study, with_auto
from experiments.study import lookup
from experiments.study.cluster.address import composed_at
from experiments.study.cluster.node_check import check_nodes
from experiments.study.cluster.session_folder import session_folder
from experiments.study.files.folder import StudyFolder
from experiments.study.key import StudyKey
from experiments.study.starting import Starting
from experiments.tracking.listener import provenance_of
from experiments.tracking.place import Place
from experiments.tracking.provenance_changes import changes

_MOST_CHANGES = 3

Say = Callable[[str], None]
"""Takes a line for the terminal."""


class Source(Protocol):
    """A study that is to run.

    Attributes:
        hardware: The hardware profile that it runs with.
        resumed: Whether it was begun before.
    """

    hardware: HardwareSettings
    resumed: bool

    @property
    def folder(self) -> StudyFolder | None:
        """The folder of one that was begun before; None of one that begins."""

    def plan(self, cluster: Cluster) -> Plan:
        """The study's plan on a cluster.

        Raises:
            ConfigurationError: It does not fit the cluster, or anything else is wrong.
        """

    def lines(self, plan: Plan) -> list[str]:
        """How far it is, for the terminal.

        Raises:
            ConfigurationError: Something that an unfinished trial would go on from is damaged.
        """

    def is_finished(self, plan: Plan) -> bool:
        """True if there is no trial to run any more, as far as that is known before it goes on."""

    def is_over(self, cluster: Cluster) -> bool:
        """The same, as far as it is known on a machine that may not be what the study was planned for."""

    def begin(self, plan: Plan, say: Say) -> StudyFolder:
        """Its folder, from which on it is begun, and no other driver's.

        Raises:
            ConfigurationError: The folder cannot be written, or a node of the cluster cannot run the study.
        """

    def close(self) -> None:
        """Let other drivers take it up, if it did not come to run."""


class Begins(ABC):
    """A study that begins.

    Attributes:
        hardware: As `Source.hardware`.
        folder: As `Source.folder`.
        place: The output folder and the store that will keep it.
        key: The key by which its command finds it again.
    """

    resumed = False
    folder: StudyFolder | None = None

    def __init__(self, hardware: HardwareSettings, place: Place, key: StudyKey | None) -> None:
        self.hardware, self.place, self.key = hardware, place, key
        self._free_bytes = None if place.objects_uri else free_bytes(place.output_dir)

    def plan(self, cluster: Cluster) -> Plan:
        """As `Source.plan`: every configuration is built and checked."""
        plan = self.planned(cluster)
        if self._free_bytes is not None:
            check_disk(plan, self._free_bytes)
        if (database := sqlite_path(self.place.store_uri)) is not None:
            check_store_disk(plan, database.parent)
        return plan

    @abstractmethod
    def planned(self, cluster: Cluster) -> Plan:
        """Its plan, whatever room there is for it."""

    def lines(self, plan: Plan) -> list[str]:
        """As `Source.lines`: whether the disk becomes tight."""
        key = self.key.line(finished=False) if self.key else ""
        disk = "" if self._free_bytes is None else disk_line(plan, self._free_bytes)
        full = "" if plan.cluster.is_joined else full_line(Path(session_folder() or get_default_system_temp_dir()))
        return list(filter(None, (key, disk, full)))

    def is_finished(self, plan: Plan) -> bool:
        """As `Source.is_finished`."""
        return False

    def is_over(self, cluster: Cluster) -> bool:
        """As `Source.is_over`."""
        return False

    def begin(self, plan: Plan, say: Say) -> StudyFolder:
        """As `Source.begin`."""
        return begun(plan, self.place, say, self.key)

    def close(self) -> None:  # noqa: B027  # nothing is held that another driver could want
        """As `Source.close`."""


class New(Begins):
    """A study that a command line describes."""

    def __init__(
        self,
        suite: SuiteConfig,
        compose: Compose,
        place: Place,
        address: str | None = None,
        key: StudyKey | None = None,
    ) -> None:
        """A study that was not begun.

        Args:
            suite: The settings of the study.
            compose: What they were composed with.
            place: The output folder and the store that will keep it.
            address: Of the cluster to run on, or `local`; None: what the settings say.
            key: The key by which its command finds it again.

        Raises:
            ConfigurationError: There is no such policy as its trials are to start from.
        """
        self._starting = None
        self._compose = composed_at(compose, address)
        if isinstance(suite.study.start, str):
            self._starting = Starting.of(suite.study.start, place)
            self._compose = self._starting.in_place(self._compose)
        self._suite = suite if self._compose is compose else parse(self._compose({}))
        super().__init__(self._suite.hardware, place, key)

    def planned(self, cluster: Cluster) -> Plan:
        """As `Begins.planned`."""
        plan = plan_study(self._suite, self._compose, cluster, lookup.past_peaks(self.place))
        if self._starting is not None:
            self._starting.check(plan)
        return plan

    def lines(self, plan: Plan) -> list[str]:
        """As `Source.lines`: also whether another hardware profile would be faster."""
        faster = terminal.faster_line(plan, with_auto(plan, self._compose))
        return [*super().lines(plan), *([faster] if faster else [])]


def begun(plan: Plan, place: Place, say: Say, key: StudyKey | None = None) -> StudyFolder:
    """The folder of a new study, with everything that a resume needs.

    Args:
        plan: What it is to run. Ray must be running.
        place: The output folder and the store that keep it.
        say: Told which nodes cannot be used.
        key: The key by which its command finds it again.

    Raises:
        ConfigurationError: The folder cannot be written, or a node of the cluster cannot run the study.
    """
    for line in check_nodes(plan, place.output_dir):
        say(line)
    name = f"{plan.study}-{plan.algorithms}-{plan.envs}-{time.strftime('%Y%m%d-%H%M%S')}-{uuid.uuid4().hex[:6]}"
    folder = StudyFolder(place.studies / name) if key is None else key.folder
    folder.create(plan, None if key is None else key.given)
    return folder


class Resumed:
    """A study that was begun before: what is finished stays, what is not goes on from its last checkpoint.

    Attributes:
        folder: As `Source.folder`.
    """

    resumed = True

    def __init__(
        self,
        folder: StudyFolder,
        tracking: TrackingSettings,
        address: str | None = None,
        looks_only: bool = False,
        key: StudyKey | None = None,
    ) -> None:
        """A study, from now on no other driver's.

        Args:
            folder: The folder that the study keeps its files in.
            tracking: The store to log to.
            address: Of the cluster to run on, or `local`; None: as the study began.
            looks_only: Whether it is not to go on: then another driver may be at work on it.
            key: The key by which its command found it.

        Raises:
            ConfigurationError: Another driver is at work on it, or its state is damaged.
        """
        self.folder, self._tracking, self._key, self._at_work = folder, tracking, key, ""
        self._finished: bool | None = None
        self.hardware = folder.hardware(address)
        if looks_only:
            self._at_work = folder.at_work()
        else:
            folder.lock()  # before its trials' files are looked at

    def plan(self, cluster: Cluster) -> Plan:
        """As `Source.plan`: as it was when the study began."""
        return self.folder.plan(cluster, self._tracking)

    def lines(self, plan: Plan) -> list[str]:
        """As `Source.lines`."""
        standing = self.folder.standing(plan, checked=not self._at_work)  # damaged files are said first
        named = [self._key.line(self.is_finished(plan))] if self._key else []
        return [*named, standing, *([labelled("at work", self._at_work)] if self._at_work else [])]

    def is_finished(self, plan: Plan) -> bool:
        """As `Source.is_finished`."""
        if self._finished is None:
            self._finished = self.folder.is_finished(plan)
        return self._finished

    def is_over(self, cluster: Cluster) -> bool:
        """As `Source.is_over`."""
        return self.folder.is_over(cluster, self._tracking)

    def begin(self, plan: Plan, say: Say) -> StudyFolder:
        """As `Source.begin`: says what has changed since the study began."""
        if not self.is_finished(plan):  # else Ray need not run
            for line in check_nodes(plan, self.folder.path, "resume"):
                say(line)
            now = provenance_of(plan)
            if changed := changes(self.folder.began_with(now), now):
                listed = some([*map(str, changed)], _MOST_CHANGES)
                what = f"since the study began: {listed}. What goes on may not be the same to the bit."
                say(labelled("changed", what))
        return self.folder

    def close(self) -> None:
        """As `Source.close`."""
        self.folder.close()
