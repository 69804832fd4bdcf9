"""Why an attempt came to nothing, and whether its trial is taken up again, without Ray."""

from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ray import cloudpickle
from ray.core.generated.common_pb2 import ActorDiedErrorContext
from ray.exceptions import ActorDiedError, ActorUnavailableError, RayTaskError

from experiments.config.trial_config import TrialConfig
from experiments.metrics import FAILED, FINISHED
from experiments.study.attempts import Attempts
from experiments.study.event_stream import EventStream
from experiments.study.folder import StudyFolder
from experiments.study.outcomes import Outcomes
from experiments.study.recovery import NODE, Loss
from experiments.study.tune import StudyScheduler
from experiments.trial.attempt import Attempt, LostNodeError, UnfitNodeError
from experiments.trial.events import Ended
from tests.support.suite import PlanOf

NODE_ID = "3f" * 28


def died(what: str) -> ActorDiedError:
    return ActorDiedError(cause=ActorDiedErrorContext(error_message=what, actor_id=b"0" * 16))


def raised(cause: Exception) -> RayTaskError:
    return RayTaskError("Trial.train", f"Traceback\n{cause}", cause)


@dataclass(eq=False)
class TunesTrial:
    """What the suite asks of a trial of Tune's."""

    _suite_config: TrialConfig
    pickled_error_file: str
    temporary_state: Any


@dataclass
class Nodes:
    """One node."""

    refused: list[tuple[str, str]] = field(default_factory=list)

    def name(self, node: str) -> str:
        return {NODE_ID: "second (192.0.2.2)"}.get(node, "?")

    def refuse(self, node: str, why: str) -> None:
        self.refused.append((node, why))


@dataclass
class Case:
    """One of Tune's trials, whose process is on the node."""

    trial: Any
    config: TrialConfig
    attempts: Attempts
    scheduler: StudyScheduler
    nodes: Nodes
    outcomes: Outcomes
    folder: StudyFolder
    begun: list[Attempt]
    stopped: list[Any]

    def fails(self, error: Exception) -> Attempt | None:
        """The attempt after one that failed with an error; None if there is none."""
        Path(self.trial.pickled_error_file).write_bytes(cloudpickle.dumps(error))
        self.scheduler.choose_trial_to_run(self)  # as in each of Tune's steps
        self.scheduler.on_trial_error(self, self.trial)
        self.scheduler.on_trial_add(self, self.trial)
        if self.stopped:
            return None
        self.attempts.begin(self.trial)
        self.attempts._nodes[self.trial] = (NODE_ID,)
        return self.begun[-1]

    def get_trials(self) -> list[Any]:
        return []

    def stop_trial(self, trial: Any) -> None:
        self.stopped.append(trial)


@pytest.fixture
def case(plan_of: PlanOf, tmp_path: Path) -> Case:
    config = plan_of("study=smoke", "faults.max_restarts=1", "faults.max_node_losses=2").trials[0]
    folder, outcomes, nodes, begun = StudyFolder(tmp_path), Outcomes(), Nodes(), list[Attempt]()
    stream = EventStream(folder, [outcomes])
    attempts = Attempts(stream, "heartbeats", nodes)
    actor = SimpleNamespace(begin=SimpleNamespace(remote=begun.append))
    trial = TunesTrial(config, str(tmp_path / "error.pkl"), SimpleNamespace(ray_actor=actor))
    made = Case(trial, config, attempts, StudyScheduler(stream, attempts), nodes, outcomes, folder, begun, [])
    attempts.begin(trial)
    attempts._nodes[trial] = (NODE_ID,)
    return made


@pytest.mark.parametrize(
    ("error", "cause", "reason"),
    [
        (died(f"The actor died because its node has died. Node Id: {NODE_ID}\n\tthe actor's node was terminated"), "node", "was lost"),
        (raised(LostNodeError(f"its node has died. Node Id: {NODE_ID}")), "node", "was lost"),  # of a runner
        (ActorUnavailableError("Socket closed", b"0" * 16), "node", "was lost"),
        (raised(UnfitNodeError("the files are not there")), "node", "was not used: the files are not there"),
        (died("The actor is dead because its worker process has died."), "process", "died"),
    ],
)
def test_the_next_attempt_has_the_next_number_and_is_told_why_the_last_one_ended(
    case: Case, error: Exception, cause: str, reason: str
) -> None:
    assert case.begun == [Attempt(1, "the study was interrupted", "study", "heartbeats")]
    again = case.fails(error)
    assert again is not None
    assert (again.number, again.cause, again.heartbeats) == (2, cause, "heartbeats")
    assert reason in again.reason and ("second (192.0.2.2)" in again.reason) == (cause == "node")
    assert case.nodes.refused == ([(NODE_ID, "the files are not there")] if "not used" in reason else [])


def test_a_process_that_is_ended_since_its_node_is_lost_did_not_die_by_itself(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    killed: list[Any] = []
    monkeypatch.setattr("ray.kill", killed.append)
    for _ in range(2):
        case.attempts.end(case.trial, Loss(NODE, "second was lost"))
        assert case.attempts.is_ended(case.trial)
        again = case.fails(died("killed by `ray.kill`"))
        assert again is not None and (again.cause, again.reason) == ("node", "second was lost")
    assert len(killed) == 2 and not case.attempts.is_ended(case.trial)


def test_a_trial_beyond_its_limit_fails_and_is_not_started_again(case: Case) -> None:
    dead = died("The actor is dead because its worker process has died.")
    assert case.fails(dead) is not None
    assert case.fails(dead) is None
    outcome = case.outcomes.of(case.config)
    assert outcome.status == FAILED and "died" in outcome.failure


def test_a_trial_that_ended_and_whose_message_was_lost_with_its_node_is_not_started_again(case: Case) -> None:
    case.folder.trial(case.config).log.add(Ended(status=FINISHED, env_steps=1))
    assert case.fails(died(f"The actor died because its node has died. Node Id: {NODE_ID}")) is None
    assert case.outcomes.of(case.config).status == FINISHED
