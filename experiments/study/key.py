"""`study.key`: one study for a command, however often it is typed."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from experiments.config.errors import ConfigurationError
from experiments.config.schema import SuiteConfig
from experiments.config.space import group_choices, leaves
from experiments.config.trial_config import Compose
from experiments.contract import RESUME_MAY_CHANGE
from experiments.contract.words import labelled
from experiments.study.files.folder import Given, StudyFolder

_MAY_DIFFER = {*RESUME_MAY_CHANGE, "tracking.name", "resume", "study.key"}
"""Beside what is below `report`: what a resume may change, and what names the study."""
_MOST_DIFFERENCES = 8


@dataclass(frozen=True)
class StudyKey:
    """A study that is found again by its name.

    Attributes:
        name: `study.key`.
        folder: Where the study is, or will be.
        given: What the command line asks for.
    """

    name: str
    folder: StudyFolder
    given: Given

    @classmethod
    def of(cls, suite: SuiteConfig, compose: Compose, output_dir: Path) -> "StudyKey | None":
        """The key of a command line; None without one, or if it names the study to resume otherwise.

        Args:
            suite: The settings.
            compose: What they were composed with, before any is looked up.
            output_dir: Absolute.
        """
        name = suite.study.key
        if name is None or suite.resume is not None:
            return None
        given = [
            (choice, _as_kept(compose(choice))) for choice in ({}, *filter(None, group_choices(suite.study.space)))
        ]
        return cls(name, StudyFolder(output_dir / "studies" / f"key-{name}", f"study.key={name}"), given)

    def begun(self) -> StudyFolder | None:
        """The folder of the study, if it was begun.

        Raises:
            ConfigurationError: It was begun with other settings, or its state is damaged.
        """
        if not self.folder.is_begun:
            return None
        if differences := dict(_differences(self.folder.given(), self.given)):
            lines = [f"  {path}: {was} then, {now} now" for path, (was, now) in differences.items()]
            if len(lines) > _MOST_DIFFERENCES:
                lines[_MOST_DIFFERENCES:] = [f"  and {len(lines) - _MOST_DIFFERENCES} more"]
            raise ConfigurationError(
                f"study.key={self.name}: the study was begun with other settings. Choose another key, "
                f"or go on with it as it was begun: resume={self.folder.place}.\n" + "\n".join(lines)
            )
        return self.folder

    def line(self, finished: bool) -> str:
        """A line on whether the study begins, goes on or is finished.

        Args:
            finished: Whether there is no trial of it to run any more.
        """
        if not self.folder.is_begun:
            return labelled("key", f"{self.name} begins a study in {self.folder.place}")
        done = "is finished: nothing is run again" if finished else "was begun and goes on"
        return labelled("key", f"the study {self.name} {done}")


def _as_kept(composed: Any) -> dict[str, Any]:
    """As it is read from study.json, where no password is kept."""
    kept: dict[str, Any] = json.loads(json.dumps(composed))
    return {**kept, "tracking": {**kept["tracking"], "uri": None}}


def _differences(before: Given, now: Given) -> Iterator[tuple[str, tuple[str, str]]]:
    """Setting to what it was and what it is; "nothing" where there is none."""
    # other choices are another space, which differs as well
    for (_, composed_before), (_, composed_now) in zip(before, now, strict=False):
        was, is_now = dict(leaves(composed_before)), dict(leaves(composed_now))
        for path in dict.fromkeys([*was, *is_now]):
            if path not in _MAY_DIFFER and not path.startswith("report.") and was.get(path) != is_now.get(path):
                yield path, (_shown(was, path), _shown(is_now, path))


def _shown(settings: dict[str, Any], path: str) -> str:
    return json.dumps(settings[path]) if path in settings else "nothing"
