"""The events of a trial, immutable. Standard library only."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar

SCHEMA = 1
"""Version of the records; a log that has a later one is refused."""


def now_ms() -> int:
    """Now, ms since the epoch."""
    return time.time_ns() // 1_000_000


@dataclass(frozen=True, kw_only=True)
class Event:
    """Something that a trial did.

    Attributes:
        number: Its place in the log, from 1; 0 where it is in none, since the disk is full.
        attempt: The process' turn at the trial, from 1.
        at_ms: Time in ms since the epoch.
    """

    kind: ClassVar[str]
    number: int = 0
    attempt: int = 0
    at_ms: int = field(default_factory=now_ms)


@dataclass(frozen=True, kw_only=True)
class Started(Event):
    """A process takes the trial up: an attempt begins."""

    kind = "started"


@dataclass(frozen=True, kw_only=True)
class Reused(Event):
    """The trial need not run: what follows is what another study's trial did.

    Attributes:
        run: Run id of that trial in MLflow.
    """

    kind = "reused"
    run: str


@dataclass(frozen=True, kw_only=True)
class Placed(Event):
    """The processes of an attempt are there. Each value once, the trial's own process first.

    Attributes:
        hosts: Names of the machines that they run on.
        cpus: Models of these machines' CPUs.
        gpus: Models of the GPUs that they have.
        node_types: Of the nodes, in a cluster whose autoscaler made them.
    """

    kind = "placed"
    hosts: Sequence[str]
    cpus: Sequence[str] = ()
    gpus: Sequence[str] = ()
    node_types: Sequence[str] = ()


@dataclass(frozen=True, kw_only=True)
class Reported(Event):
    """A report.

    Attributes:
        env_steps: The point on the study's report grid.
        metrics: As in `experiments.contract`.
        reproducible: Whether the same trial would come out the same to the bit, as far as this one can tell.
        unsaved: Files that the disk did not take since the last report, and why; empty if it took everything.
    """

    kind = "reported"
    env_steps: int
    metrics: Mapping[str, float]
    reproducible: bool = True
    unsaved: str = ""


@dataclass(frozen=True, kw_only=True)
class Restarted(Event):
    """The trial is taken up again, from a checkpoint or from its start.

    Attributes:
        env_steps: The last report before it.
        reason: The reason, in words.
        cause: `fault` (something raised), `process` (a process died), `memory` (one was killed for want of memory),
            `node` (a node was lost) or `study` (the study was interrupted and resumed).
        count: Restarts so far, with this one.
        reproducible: As in `Reported`.
    """

    kind = "restarted"
    env_steps: int
    reason: str
    cause: str
    count: int
    reproducible: bool = True


@dataclass(frozen=True, kw_only=True)
class Ended(Event):
    """The trial is over.

    Attributes:
        status: `FINISHED`, `PRUNED` or `FAILED`.
        env_steps: The last report.
        metrics: The `final/` ones, if it finished.
        weights: Digest of the final weights, if it finished.
        reason: Why it failed.
        diverged: Whether it failed on a value that was not finite.
        reproducible: As in `Reported`.
    """

    kind = "ended"
    status: str
    env_steps: int
    metrics: Mapping[str, float] = field(default_factory=dict)
    weights: str = ""
    reason: str = ""
    diverged: bool = False
    reproducible: bool = True


_KINDS: Mapping[str, type[Event]] = {kind.kind: kind for kind in (Started, Reused, Placed, Reported, Restarted, Ended)}


def reports(events: Sequence[Event]) -> list[Reported]:
    """The reports among events."""
    return [event for event in events if isinstance(event, Reported)]


def event_of(record: Mapping[str, Any]) -> Event:
    """The event in a record of a log.

    Raises:
        ValueError: It was written by a later version of the suite, or is no event.
    """
    if record["schema"] > SCHEMA:
        raise ValueError(f"written by a later version of the suite: schema {record['schema']}")
    kind = _KINDS[record["kind"]]
    known = {f.name for f in fields(kind)}
    given = {name: value for name, value in record.items() if name in known}
    if kind is Ended and "diverged" not in given:  # before that was recorded, the class of the error told it
        given["diverged"] = given.get("reason", "").startswith("NonFiniteError: ")
    return kind(**given)


def record_of(event: Event) -> dict[str, Any]:
    """The inverse of `event_of`: plain values."""
    return {"schema": SCHEMA, "kind": event.kind, **vars(event)}
