"""The parts of reports that extensions make."""

import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import ClassVar

import numpy as np
import pandas as pd

from analysis import AnalysisError
from analysis.document.parts import Drawn, Part, Section
from analysis.load import Study
from experiments.contract import extensions


class Report:
    """An extension's part of reports: of any study, if there is something to show.

    Attributes:
        before: Key of the section of the suite's own before which these come: "learning" for what a study asks,
            "seeds" for what is seen beside it. "": after all others.
        name: What the manifest calls the extension whose report part this is; set when it is loaded.
    """

    before: ClassVar[str] = ""
    name: str = ""

    def sections(self, part: Part) -> Sequence[Section]:
        """The sections on one environment; one without sentences and figures is left out.

        Args:
            part: The trials that were designed, not those that confirm what was found.
        """
        return ()

    def across(self, study: Study, runs: pd.DataFrame, rng: np.random.Generator) -> tuple[list[str], list[Drawn]]:
        """Sentences and figures of the section over all environments.

        Args:
            study: Finished or not.
            runs: Its trials that conclusions rest on.
            rng: For what is drawn at random.
        """
        return [], []


def reports() -> list[Report]:
    """Those of all extensions, in their order.

    Raises:
        AnalysisError: One cannot be taken.
    """
    found = []
    try:
        for extension in extensions.found():
            if extension.manifest.report:
                found.append(extension.load_class(extension.manifest.report, Report)())
                found[-1].name = extension.name
    except extensions.ExtensionError as error:
        raise AnalysisError(str(error)) from None
    return found


def sections_of(report: Report, part: Part) -> list[Section]:
    """The sections of an extension; one that says why, where it raises an error."""
    try:
        return list(report.sections(part))
    except Exception as error:  # noqa: BLE001  # whatever it raises, the rest of the report stands
        return [Section(f"extension-{report.name}", f"Extension {report.name}", (_failed(report, error),))]


def across_of(
    report: Report, study: Study, runs: pd.DataFrame, rng: np.random.Generator
) -> tuple[list[str], list[Drawn]]:
    """An extension's words over all environments; why there are none, where it raises an error."""
    try:
        return report.across(study, runs, rng)
    except Exception as error:  # noqa: BLE001  # as above
        return [_failed(report, error)], []


def _failed(report: Report, error: Exception) -> str:
    last = traceback.extract_tb(error.__traceback__)[-1]
    where = f"{Path(last.filename).name}, line {last.lineno}"
    return f"The extension {report.name} shows nothing: {type(error).__name__}: {error} ({where})."


def command(word: str) -> Callable[[Sequence[str]], int]:
    """The function that runs an extension's command line, and gives its exit code.

    Args:
        word: Of `Manifest.commands`.

    Raises:
        AnalysisError: No extension has such a command.
    """
    for extension in extensions.found():
        if word in extension.manifest.commands:
            run: Callable[[Sequence[str]], int] = extension.load(extension.manifest.commands[word])
            return run
    raise AnalysisError(f"{word}: no extension has such a command.")
