"""Why an attempt came to nothing, and whether its trial is taken up again, without Ray."""

from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ray import cloudpickle, exceptions
from ray.core.generated.common_pb2 import ActorDiedErrorContext
from ray.exceptions import ActorDiedError, ActorUnavailableError, RayTaskError
from ray.tune.experiment import Trial

from experiments.config.trial_config import TrialConfig
from experiments.contract import FAILED, FINISHED
from experiments.study.files.folder import StudyFolder
from experiments.study.outcomes import Outcomes
from experiments.study.stream import EventStream
from experiments.study.tune.actor_manager import LostProcessError
from experiments.study.tune.attempts import Attempts
from experiments.study.tune.callbacks import StudyScheduler
from experiments.study.tune.recovery import MEMORY, NODE, Loss
from experiments.trial.attempt import Attempt, LostNodeError, OutOfMemoryError, UnfitNodeError
from experiments.trial.events import Ended
from experiments.trial.usage.memory_use import leave
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
    status: str = Trial.RUNNING
    trial_id: str = "0"

    @property
    def storage(self) -> Any:
        return SimpleNamespace(trial_working_directory=str(Path(self.pickled_error_file).parent))

    def is_finished(self) -> bool:
        return self.status == Trial.TERMINATED


@dataclass
class Nodes:
    """One node."""

    refused: list[tuple[str, str]] = field(default_factory=list)

    def name(self, node: str) -> str:
        return {NODE_ID: "second (192.0.2.2)"}.get(node, "?")

    def is_here(self, node: str) -> bool:
        return node == NODE_ID

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
    said: list[str]
    stopped: list[Any] = field(default_factory=list)
    others: list[Any] = field(default_factory=list)
    search_alg: Any = field(default_factory=lambda: SimpleNamespace(on_trial_complete=lambda trial_id: None))
    _resetting_trials: set[Any] = field(default_factory=set)

    def fails(self, error: Exception) -> Attempt | None:
        """The attempt after one that failed with an error; None if there is none."""
        Path(self.trial.pickled_error_file).write_bytes(cloudpickle.dumps(error))
        self.scheduler.choose_trial_to_run(self)  # as in each of Tune's steps
        self.scheduler.on_trial_error(self, self.trial)
        self.trial.status = Trial.PENDING
        self.scheduler.on_trial_add(self, self.trial)
        if self.stopped:
            return None
        for other in self.others if self.trial.status == Trial.PAUSED else []:
            assert self.scheduler.waits and self.scheduler.choose_trial_to_run(self) is not self.trial
            other.status = Trial.TERMINATED
        assert self.scheduler.choose_trial_to_run(self) is self.trial
        self.trial.status = Trial.RUNNING
        self.attempts.begin(self.trial)
        self.attempts._nodes[self.trial] = (NODE_ID,)
        return self.begun[-1]

    def get_trials(self) -> list[Any]:
        return [*self.others, self.trial]

    def stop_trial(self, trial: Any) -> None:
        trial.status = Trial.TERMINATED
        self.stopped.append(trial)

    def _set_trial_status(self, trial: Any, status: str) -> None:
        trial.status = status


@pytest.fixture
def case(plan_of: PlanOf, tmp_path: Path) -> Case:
    config = plan_of("study=smoke", "faults.max_restarts=1", "faults.max_node_losses=2").trials[0]
    folder, outcomes, nodes, begun = StudyFolder(tmp_path), Outcomes(), Nodes(), list[Attempt]()
    stream = EventStream(folder, [outcomes])
    said: list[str] = []
    attempts = Attempts(stream, "heartbeats", nodes, said.append)
    actor = SimpleNamespace(begin=SimpleNamespace(remote=begun.append))
    trial = TunesTrial(config, str(tmp_path / "error.pkl"), SimpleNamespace(ray_actor=actor))
    made = Case(trial, config, attempts, StudyScheduler(stream, attempts), nodes, outcomes, folder, begun, said)
    attempts.begin(trial)
    attempts._nodes[trial] = (NODE_ID,)
    return made


@pytest.mark.parametrize(
    ("error", "cause", "reason"),
    [
        (
            died(f"The actor died because its node has died. Node Id: {NODE_ID}\n\tthe actor's node was terminated"),
            "node",
            "was lost",
        ),
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


def test_a_process_that_is_ended_since_its_node_is_lost_did_not_die_by_itself(
    case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
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


class Receiver:
    """The actor that takes signs of life, killed as well: what it says now is nothing."""

    class memory:  # noqa: N801
        @staticmethod
        def remote(attempts: Any) -> Any:
            raise exceptions.OutOfMemoryError("killed")


KILLED = exceptions.OutOfMemoryError("1 worker(s) were killed due to the node running low on memory.")


@pytest.mark.parametrize("error", [LostProcessError(KILLED), raised(OutOfMemoryError("of a runner"))])
def test_a_trial_that_ran_out_of_memory_is_run_again_once_with_no_other_trial_under_way(
    case: Case, plan_of: PlanOf, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, error: Exception
) -> None:
    monkeypatch.setattr(case.attempts, "_heartbeats", Receiver)
    (tmp_path / "other").mkdir()
    other = TunesTrial(plan_of("study=smoke").trials[1], str(tmp_path / "other/error.pkl"), case.trial.temporary_state)
    case.attempts.begin(other)
    case.others.append(other)
    leave(Path(case.trial.storage.trial_working_directory), 1, 11 * 2**30)
    leave(Path(other.storage.trial_working_directory), 1, 10 * 2**30)
    again = case.fails(error)
    beside = "out of memory: it had 11.0 GiB, 10.0 GiB beside it"
    assert again is not None and (again.cause, again.reason) == ("memory", beside)
    (line,) = case.said
    assert line.endswith(
        f"seed 0 is run again with no other trial under way: {beside}. Fewer trials at once: "
        "hardware.max_concurrent_trials=1"
    )
    assert case.scheduler.waits  # a search asks for nothing while it runs
    leave(Path(case.trial.storage.trial_working_directory), 2, 21 * 2**30)
    assert case.fails(error) is None
    outcome = case.outcomes.of(case.config)
    assert outcome.status == FAILED and not case.scheduler.waits
    assert outcome.failure.startswith(f"{beside}; run again: it had 21.0 GiB, no other trial beside it. ")
    assert "hardware.num_envs_per_env_runner=" in outcome.failure


@pytest.mark.parametrize(
    "first",
    [died("The actor is dead because its worker process has died."), ActorUnavailableError("Socket closed", b"0" * 16)],
)
def test_a_process_that_the_kernel_killed_for_want_of_memory_is_told_from_one_that_died(
    case: Case, monkeypatch: pytest.MonkeyPatch, first: Exception
) -> None:
    monkeypatch.setattr(case.attempts, "_heartbeats", Receiver)
    kills: list[int | None] = [7]
    monkeypatch.setattr("experiments.study.tune.attempts.oom_kills", lambda: kills[0])
    dead = died("The actor is dead because its worker process has died.")
    case.attempts.begin(case.trial)
    case.attempts._nodes[case.trial] = (NODE_ID,)
    kills[0] = 8
    again = case.fails(first)
    assert again is not None and again.cause == "memory"
    again = case.fails(dead)  # the count is what it was: it died of something else
    assert again is not None and again.cause == "process"
    kills[0] = 9
    case.attempts._nodes[case.trial] = ("another",)  # whose kernel nobody asks
    assert case.fails(dead) is None
    assert "died" in case.outcomes.of(case.config).failure
    assert "out of memory" not in case.outcomes.of(case.config).failure


def killed_by_kernel(case: Case, monkeypatch: pytest.MonkeyPatch, *, kills: int, trials: int) -> list[TunesTrial]:
    """Trials that began before the kernel killed so many processes."""
    counted = [0]
    monkeypatch.setattr("experiments.study.tune.attempts.oom_kills", lambda: counted[0])
    begun = [TunesTrial(case.config, "", case.trial.temporary_state) for _ in range(trials)]
    for trial in begun:
        case.attempts.begin(trial)
        case.attempts._nodes[trial] = (NODE_ID,)
    counted[0] = kills
    return begun


def test_one_kill_of_the_kernels_explains_one_loss(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    trials = killed_by_kernel(case, monkeypatch, kills=2, trials=3)
    assert [case.attempts._is_killed_by_kernel(trial) for trial in trials] == [True, True, False]


def test_a_kill_that_a_trial_tells_itself_explains_no_other_loss(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    told, other = killed_by_kernel(case, monkeypatch, kills=1, trials=2)
    monkeypatch.setattr(
        "experiments.study.tune.attempts._newest_error", lambda trial: OutOfMemoryError("its runner was killed")
    )
    monkeypatch.setattr(case.attempts, "_out_of_memory", lambda trial: Loss(MEMORY, ""))
    assert case.attempts._loss(told).cause == MEMORY
    assert not case.attempts._is_killed_by_kernel(other)
