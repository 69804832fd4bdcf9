"""The writes that a `Writer` takes, and what it has to know of each: what is gathered, what waits for what."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from experiments.contract import Tag
from experiments.tracking.registry import PolicyModel


class ToKey:
    """A write to what a key stands for: a run, if nothing else is said.

    Attributes:
        call: Its name in messages.
    """

    call: ClassVar[str]

    def needs(self, key: str) -> str | None:
        """The key of the run that has to be open before; None if none has to."""
        return key


@dataclass(frozen=True)
class Rows(ToKey):
    """Values, of which one call takes several.

    Attributes:
        values: By name.
    """

    values: Mapping[str, Any]


class Files(ToKey):
    """Files, which are delivered beside the rows."""


class ToExperiment(ToKey):
    """A write to the experiment whose name is the key."""

    def needs(self, key: str) -> None:
        """No run."""


@dataclass(frozen=True)
class OpenExperiment(ToExperiment):
    """Make the experiment, if need be."""

    call = "experiment"


@dataclass(frozen=True)
class SetViews(ToExperiment):
    """Set shared views of the UI, by their keys."""

    call = "set_views"
    states: Mapping[str, str]


@dataclass(frozen=True)
class OpenRun(ToKey):
    """Open the run of the key: the one in its experiment with the same values of the tags `identity`, or a new one.

    Attributes:
        experiment: Name of its experiment.
        name: As the UI shows it.
        start_ms: Since the epoch.
        tags: By name. `Tag.STUDY_RUN` is the key of the study's run, whose id is not known before it exists.
        identity: The tags that tell it from others.
        new: Whether the first look for it is left out.
    """

    call = "open_run"
    experiment: str
    name: str
    start_ms: int
    tags: Mapping[str, str]
    identity: Sequence[str]
    new: bool

    def needs(self, key: str) -> str | None:
        """The key of the study's run; None of a study's own."""
        return self.tags.get(Tag.STUDY_RUN)


@dataclass(frozen=True)
class LogParams(Rows):
    """Log parameters."""

    call = "log_params"


@dataclass(frozen=True)
class SetTags(Rows):
    """Set tags."""

    call = "set_tags"


@dataclass(frozen=True)
class LogReport(Rows):
    """Log the metrics of a report, all or none.

    Attributes:
        step: Env steps.
        at_ms: When they were reported, ms since the epoch.
    """

    call = "log_metrics"
    step: int
    at_ms: int


@dataclass(frozen=True)
class LogTexts(Files):
    """Attach text files, path to content."""

    call = "log_texts"
    texts: Mapping[str, str]


@dataclass(frozen=True)
class LogTable(Files):
    """Attach a table, column to values, that the UI shows."""

    call = "log_table"
    columns: Mapping[str, Sequence[Any]]
    name: str


@dataclass(frozen=True)
class LogModel(Files):
    """Log a policy as a model of its trial's run, in the experiment of the trials, and register it."""

    call = "log_model"
    experiment: str
    model: PolicyModel


@dataclass(frozen=True)
class MakeChampion(Files):
    """Give a logged policy the alias `champion`, if it deserves it."""

    call = "make_champion"
    experiment: str
    model: PolicyModel


@dataclass(frozen=True)
class Finish(ToKey):
    """End a run, `end_ms` ms since the epoch: after its files, so that one that has ended is whole."""

    call = "finish"
    status: str
    end_ms: int


Write = (
    OpenExperiment | SetViews | OpenRun | LogParams | SetTags | LogReport
    | LogTexts | LogTable | LogModel | MakeChampion | Finish
)  # fmt: skip
