"""Messages on a study go to a sink, and to nobody unless the environment says so."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from experiments.config.errors import ConfigurationError
from experiments.contract import FAILED, FINISHED
from experiments.study.notify import VARIABLE, Notifier, notifier
from experiments.trial.events import Ended
from tests.support.sink import Sink, listening
from tests.support.suite import PlanOf


@pytest.fixture
def sink() -> Iterator[Sink]:
    with listening() as server:
        yield server


def telling(address: str) -> Notifier:
    found = notifier("lr_batch", {VARIABLE: address})
    assert found is not None
    return found


def test_nobody_is_told_unless_the_environment_names_somebody() -> None:
    assert notifier("lr_batch", {}) is None
    assert notifier("lr_batch", {VARIABLE: " "}) is None


def test_the_first_failure_the_first_stall_and_the_end_are_told_in_their_order(sink: Sink, plan_of: PlanOf) -> None:
    telling_, trial = telling(sink.address), plan_of("study=smoke").trials[0]
    for reason, status in (("", FINISHED), ("env broke", FAILED), ("env broke", FAILED), ("stalled: no sign", FAILED)):
        telling_.on_event(trial, Ended(status=status, env_steps=0, reason=reason))
    telling_.send("ended", "3 trials: 3 failed.")
    assert telling_.close() == ""
    assert [taken["title"] for taken in sink.taken] == [
        "lr_batch: a trial failed",
        "lr_batch: a trial stalled",
        "lr_batch: ended",
    ]
    assert "env broke" in sink.taken[0]["message"]


def test_addresses_come_from_a_file_too(sink: Sink, tmp_path: Path) -> None:
    file = tmp_path / "addresses"
    file.write_text(f"# mine\n{sink.address}\n\n{sink.address}\n")
    telling_ = telling(str(file))
    telling_.send("ended", "all is well")
    assert telling_.close() == ""
    assert len(sink.taken) == 2


def test_what_is_not_taken_is_said_without_the_address(sink: Sink) -> None:
    sink.status = 500
    telling_ = telling(sink.address)
    telling_.send("ended", "all is well")
    assert telling_.close() == f"1 of 1 messages to {VARIABLE} could not be sent"


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("nosuchscheme://user:secret@host", "address 1 is none of Apprise's"),
        ("/nowhere/addresses", "/nowhere/addresses: No such file"),
    ],
)
def test_what_is_no_address_is_refused_without_showing_it(value: str, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message) as refused:
        notifier("lr_batch", {VARIABLE: value})
    assert "secret" not in str(refused.value)
