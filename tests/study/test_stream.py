"""What listeners hear, whatever gets lost on the way."""

from dataclasses import dataclass, field
from pathlib import Path

import pytest

from experiments.config.trial_config import TrialConfig
from experiments.contract import FAILED, FINISHED, PRUNED
from experiments.study.files.folder import StudyFolder
from experiments.study.outcomes import Outcomes
from experiments.study.stream import EventStream
from experiments.trial.event_log import EventLog
from experiments.trial.events import Ended, Event, Reported, Restarted, Started
from tests.support.suite import PlanOf


@dataclass
class Heard:
    """A listener that keeps what it hears."""

    events: list[tuple[str, Event]] = field(default_factory=list)

    def on_event(self, trial: TrialConfig, event: Event) -> None:
        self.events.append((trial.folder_name, event))

    @property
    def numbers(self) -> list[int]:
        return [event.number for _, event in self.events]


@dataclass
class Case:
    """Two trials, their logs as their processes write them, and a stream."""

    folder: StudyFolder
    trials: list[TrialConfig]
    heard: Heard
    outcomes: Outcomes
    stream: EventStream

    def log(self, trial: int = 0) -> EventLog:
        return self.folder.trial(self.trials[trial]).log


@pytest.fixture
def case(plan_of: PlanOf, tmp_path: Path) -> Case:
    folder, heard, outcomes = StudyFolder(tmp_path), Heard(), Outcomes()
    return Case(folder, plan_of("study=smoke").trials[:2], heard, outcomes, EventStream(folder, [heard, outcomes]))


def finished() -> Ended:
    return Ended(status=FINISHED, env_steps=2000, metrics={"final/score": 7.0}, weights="ab")


def reported(env_steps: int, at_ms: int = 0) -> Reported:
    return Reported(env_steps=env_steps, metrics={"eval/return_mean": 1.0}, at_ms=at_ms)


def test_what_a_trial_says_is_heard_once_and_in_order(case: Case) -> None:
    (trial, _), log = case.trials, case.log()
    case.stream.start(trial)
    first, second, end = (log.add(event)[-1] for event in (reported(1000), reported(2000), finished()))
    for events in ([first], [first, second], [second], [end], [end]):
        case.stream.tell(trial, events)
    assert case.heard.numbers == [1, 2, 3, 4]
    assert case.outcomes.of(trial).status == "finished"
    assert case.outcomes.of(trial).final == {"final/score": 7.0}


def test_a_message_that_was_lost_is_read_from_the_log(case: Case) -> None:
    (trial, _), log = case.trials, case.log()
    case.stream.start(trial)
    log.add(reported(1000))  # its message is lost, with its process
    log.add(Restarted(env_steps=1000, reason="a process of the trial died", cause="process", count=1))
    case.stream.tell(trial, [log.add(reported(2000))[-1]])
    assert case.heard.numbers == [1, 2, 3, 4]
    log.add(finished())  # and so is this one
    case.stream.start(trial)
    assert case.heard.numbers == [1, 2, 3, 4, 5]
    assert case.outcomes.of(trial).restarts == 1
    assert case.log().all()[-1].kind == "ended"  # nobody starts what has ended


def test_a_new_process_of_a_trial_begins_an_attempt(case: Case) -> None:
    (trial, _), log = case.trials, case.log()
    case.stream.start(trial)
    case.stream.start(trial)
    log.new()
    assert log.attempt == 2


@pytest.mark.parametrize(("status", "reason"), [(PRUNED, ""), (FAILED, "the process is gone")])
def test_the_driver_ends_a_trial_once_and_none_that_has_ended_by_itself(case: Case, status: str, reason: str) -> None:
    first, second = case.trials
    case.stream.start(first)
    case.stream.tell(first, case.log().add(reported(1000)))
    case.stream.end(first, status, reason)
    case.stream.end(first, FAILED, "again")
    outcome = case.outcomes.of(first)
    assert (outcome.status, outcome.failure) == (status, reason)
    (end,) = [event for event in case.log().all() if isinstance(event, Ended)]
    assert end.env_steps == 1000
    case.stream.start(second)
    case.log(1).add(finished())  # nobody has heard of it yet
    case.stream.end(second, status, reason)
    assert case.outcomes.of(second).status == FINISHED


def test_a_replay_tells_new_listeners_the_same_in_the_order_in_which_it_happened(case: Case) -> None:
    for number in range(2):
        log = case.log(number)
        log.add(Started(at_ms=number))
        log.add(reported(1000, at_ms=10 - number))
        log.add(
            Ended(
                status=FAILED if number else FINISHED, env_steps=1000, at_ms=20 + number, reason="no" if number else ""
            )
        )
    for _ in range(2):
        case.stream.replay(case.trials)
    first, second = (trial.folder_name for trial in case.trials)
    assert [(name, event.kind) for name, event in case.heard.events] == [
        (first, "started"),
        (second, "started"),
        (second, "reported"),
        (first, "reported"),
        (first, "ended"),
        (second, "ended"),
    ]
    assert [case.outcomes.of(trial).status for trial in case.trials] == [FINISHED, FAILED]


def test_a_listener_that_hears_everything_twice_comes_to_the_same(case: Case) -> None:
    events = [
        reported(1000),
        Restarted(env_steps=1000, reason="", cause="fault", count=1, reproducible=False),
        finished(),
    ]
    for event in [*events, *events]:
        case.outcomes.on_event(case.trials[0], event)
    outcome = case.outcomes.of(case.trials[0])
    assert (outcome.status, outcome.restarts, outcome.weights) == (FINISHED, 1, "ab")


def test_an_end_that_a_full_disk_does_not_take_is_told_all_the_same(
    case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    trial = case.trials[0]
    case.stream.start(trial)

    def full(*args: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("experiments.trial.event_log.add_line", full)
    case.stream.end(trial, FAILED, "no")
    case.stream.end(trial, FAILED, "again")
    assert (case.outcomes.of(trial).status, case.outcomes.of(trial).failure) == (FAILED, "no")
