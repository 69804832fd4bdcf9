"""The writes that a `Writer` takes, and what it has to know of each: what is gathered, what waits for what."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from experiments.contract import Tag
from experiments.tracking.registry import PolicyModel


class ToKey:
    """A write to what a key stands for: a run, if nothing else is said.

    Attributes:
        call: The name of the write in messages.
    """

    call: ClassVar[str]

    def __init_subclass__(cls, call: str = "") -> None:
        """Name it."""
        cls.call = call

    def needs(self, key: str) -> str | None:
        """The key of the run that has to be open before; None if none has to."""
        return key


@dataclass(frozen=True)
class Rows(ToKey):
    """Values, of which one call takes several.

    Attributes:
        values: Name of each parameter, tag or metric to its value.
    """

    values: Mapping[str, Any]


class Files(ToKey):
    """Files, which are delivered beside the rows."""


class ToExperiment(ToKey):
    """A write to the experiment whose name is the key."""

    def needs(self, key: str) -> None:
        """No run."""


@dataclass(frozen=True)
class OpenExperiment(ToExperiment, call="experiment"):
    """Make the experiment, if need be."""


@dataclass(frozen=True)
class SetViews(ToExperiment, call="set_views"):
    """Set shared views of the UI, by their keys."""

    states: Mapping[str, str]


@dataclass(frozen=True)
class OpenRun(ToKey, call="open_run"):
    """Open the run of the key: the one in its experiment with the same values of the tags `identity`, or a new one.

    Attributes:
        experiment: Name of its experiment.
        name: Name of the run, as the UI shows it.
        start_ms: Since the epoch.
        tags: By name. `Tag.STUDY_RUN` is the key of the study's run, whose id is not known before it exists.
        identity: The tags that tell it from others.
        new: Whether the first look for it is left out.
    """

    experiment: str
    name: str
    start_ms: int
    tags: Mapping[str, str]
    identity: Sequence[str]
    new: bool

    def needs(self, key: str) -> str | None:
        """The key of the study's run; None of a study's own."""
        return self.tags.get(Tag.STUDY_RUN)


class LogParams(Rows, call="log_params"):
    """Log parameters."""


class SetTags(Rows, call="set_tags"):
    """Set tags."""


@dataclass(frozen=True)
class LogReport(Rows, call="log_metrics"):
    """Log the metrics of a report, all or none.

    Attributes:
        step: Env steps.
        at_ms: When they were reported, ms since the epoch.
    """

    step: int
    at_ms: int


@dataclass(frozen=True)
class LogTexts(Files, call="log_texts"):
    """Attach text files, path to content."""

    texts: Mapping[str, str]


@dataclass(frozen=True)
class LogTable(Files, call="log_table"):
    """Attach a table, column to values, that the UI shows."""

    columns: Mapping[str, Sequence[Any]]
    name: str


@dataclass(frozen=True)
class LogModel(Files, call="log_model"):
    """Log a policy as a model of its trial's run, in the experiment of the trials, and register it."""

    experiment: str
    model: PolicyModel


@dataclass(frozen=True)
class MakeChampion(Files, call="make_champion"):
    """Give a logged policy the alias `champion`, if it deserves it."""

    experiment: str
    model: PolicyModel


@dataclass(frozen=True)
class Finish(ToKey, call="finish"):
    """End a run, `end_ms` ms since the epoch: after its files, so that one that has ended is whole."""

    status: str
    end_ms: int


Write = (
    OpenExperiment | SetViews | OpenRun | LogParams | SetTags | LogReport
    | LogTexts | LogTable | LogModel | MakeChampion | Finish
)  # fmt: skip
