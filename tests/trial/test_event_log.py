"""The log of a trial's events: what comes back, what is refused, what a kill or a full disk leaves."""

import json
import resource
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from experiments.contract import FAILED, FINISHED, PRUNED
from experiments.trial.event_log import DamagedFileError, EventLog, JsonLines, RefusedEventError
from experiments.trial.events import SCHEMA, Ended, Event, Reported, Restarted, Started, event_of


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "trial" / "events.jsonl"


def log_at(path: Path) -> EventLog:
    return EventLog(JsonLines(path))


def reported(env_steps: int, **metrics: float) -> Reported:
    return Reported(env_steps=env_steps, metrics=metrics)


def kinds(events: list[Event]) -> list[str]:
    return [event.kind for event in events]


def test_events_come_back_to_the_bit_numbered_and_with_their_attempt(path: Path) -> None:
    log = log_at(path)
    made = [
        Started(),
        reported(1000, x=0.1 + 0.2, y=1e-300),
        Restarted(env_steps=1000, reason="why", cause="fault", count=1),
        Started(),
        Ended(status=FINISHED, env_steps=2000, metrics={"final/score": -0.0}, weights="ab"),
    ]
    kept = [log.add(event)[-1] for event in made]
    assert [(event.number, event.attempt) for event in kept] == [(1, 1), (2, 1), (3, 1), (4, 2), (5, 2)]
    assert log_at(path).all() == kept
    assert str(kept[-1].metrics) == "{'final/score': -0.0}"  # type: ignore[attr-defined]


def test_a_reader_is_given_what_is_new_once(path: Path) -> None:
    writer, reader = log_at(path), log_at(path)
    assert reader.new() == []
    writer.add(Started())
    assert kinds(reader.new()) == ["started"]
    writer.add(reported(1000))
    assert kinds(writer.add(reported(2000))) == ["reported"]
    assert [event.number for event in reader.new()] == [2, 3]
    assert reader.new() == []
    assert len(reader.all()) == 3
    assert reader.new() == []


@pytest.mark.parametrize("status", [FINISHED, PRUNED, FAILED])
def test_a_trial_that_has_ended_does_nothing_more(path: Path, status: str) -> None:
    log = log_at(path)
    log.add(Started())
    log.add(Ended(status=status, env_steps=1000))
    for event in (
        reported(2000),
        Restarted(env_steps=0, reason="", cause="fault", count=1),
        Ended(status=FINISHED, env_steps=2000),
    ):
        with pytest.raises(RefusedEventError, match=f"the trial has {status}"):
            log_at(path).add(event)


def test_only_what_failed_can_be_started_again_and_has_then_not_ended(path: Path) -> None:
    log = log_at(path)
    log.add(Started())
    log.add(Ended(status=FAILED, env_steps=1000, reason="no"))
    log.add(Started())
    assert log.end is None
    assert kinds(log_at(path).all()) == ["started", "started"]
    log.add(Ended(status=FINISHED, env_steps=1000))
    with pytest.raises(RefusedEventError):
        log.add(Started())


def test_what_a_process_of_an_earlier_attempt_still_writes_is_refused(path: Path) -> None:
    early, late = log_at(path), log_at(path)
    early.add(Started())
    late.new()
    late.add(Started())
    with pytest.raises(RefusedEventError, match="attempt 1 is over, attempt 2 has begun"):
        early.add(reported(1000), attempt=1)
    late.add(reported(1000), attempt=2)
    assert [event.attempt for event in log_at(path).all()] == [1, 2, 2]


def test_processes_that_write_at_the_same_time_number_their_events_in_one_row(path: Path) -> None:
    def write() -> None:
        log = log_at(path)
        for env_steps in range(100):
            log.add(reported(env_steps))

    threads = [threading.Thread(target=write) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [event.number for event in log_at(path).all()] == list(range(1, 401))


def test_a_line_that_a_kill_cut_short_is_no_event_and_spoils_none(path: Path) -> None:
    log_at(path).add(Started())
    with path.open("a") as file:
        file.write('{"kind": "reported", "env')
    log = log_at(path)
    assert kinds(log.new()) == ["started"]
    log.add(reported(2000))
    assert kinds(log_at(path).all()) == ["started", "reported"]


@pytest.fixture
def small_files() -> Iterator[None]:
    """The system lets no file of this process grow beyond 1000 bytes: a write is cut short there, as on a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, hard))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.usefixtures("small_files")
def test_what_a_disk_does_not_take_leaves_the_log_as_it_was(path: Path) -> None:
    log = log_at(path)
    log.add(Started())
    with pytest.raises(OSError, match=r"events\.jsonl"):
        log.add(reported(1000, **{f"metric-{i}": 0.5 for i in range(100)}))
    log.add(reported(2000))
    assert kinds(log_at(path).all()) == ["started", "reported"]


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda lines: ["nonsense", *lines], r"events\.jsonl: cannot be read"),
        (lambda lines: lines[1:], r"events\.jsonl: lacks the event 1"),
        (lambda lines: [lines[0], *lines[2:]], r"events\.jsonl: lacks the event 2"),
        (
            lambda lines: [lines[0].replace(f'"schema": {SCHEMA}', f'"schema": {SCHEMA + 1}')],
            "written by a later version of the suite",
        ),
    ],
)
def test_a_damaged_log_is_named_with_the_fix(path: Path, damage: object, said: str) -> None:
    log = log_at(path)
    for event in (Started(), reported(1000), reported(2000)):
        log.add(event)
    path.write_text("".join(line + "\n" for line in damage(path.read_text().splitlines())))  # type: ignore[operator]
    with pytest.raises(DamagedFileError, match=said) as error:
        log_at(path).all()
    assert f"Remove the folder {path.parent}" in str(error.value)


def test_a_record_of_an_earlier_schema_with_fewer_fields_is_read(path: Path) -> None:
    path.parent.mkdir()
    record = {
        "schema": SCHEMA,
        "kind": "ended",
        "number": 1,
        "attempt": 1,
        "at_ms": 5,
        "status": "finished",
        "env_steps": 9,
    }
    path.write_text(json.dumps(record) + "\n")
    (end,) = log_at(path).all()
    assert end == Ended(number=1, attempt=1, at_ms=5, status="finished", env_steps=9)


def test_an_end_of_before_divergence_was_recorded_is_read_by_its_reason() -> None:
    record = {"schema": 1, "kind": "ended", "number": 3, "attempt": 1, "at": 0.0, "status": "failed", "env_steps": 0}
    ends = [
        event_of({**record, "reason": reason}) for reason in ("NonFiniteError: a NaN", "RuntimeError: an infinite loop")
    ]
    assert [end.diverged for end in ends if isinstance(end, Ended)] == [True, False]
