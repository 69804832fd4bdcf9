"""What Tune is told where Ray says that a process is gone."""

import os
import signal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ray import cloudpickle, exceptions, tune
from ray.air.execution._internal import TrackedActor
from ray.air.execution._internal.tracked_actor_task import TrackedActorTask
from ray.exceptions import RayActorError, RayTaskError
from ray.tune import CheckpointConfig, FailureConfig, RunConfig, Trainable, TuneConfig

from experiments.study.tune.actor_manager import ActorManager, LostProcessError
from experiments.study.tune.callbacks import StudyScheduler
from experiments.trial.tune_keys import EVENTS, RECYCLE_PROCESS
from tests.support.tune_callbacks import OfErrors

KILLED = exceptions.OutOfMemoryError("1 worker(s) were killed due to the node running low on memory.")


@pytest.mark.parametrize(
    ("error", "is_lost"),
    [
        (KILLED, True),
        (exceptions.NodeDiedError("gone"), True),
        (exceptions.LocalRayletDiedError(), True),
        (RayActorError(), False),
        (RayTaskError("step", "", ValueError("")), False),
    ],
)
def test_an_error_that_tune_does_not_know_is_the_end_of_a_process_and_not_of_the_study(
    error: Exception, is_lost: bool
) -> None:
    freed: list[Any] = []
    manager = ActorManager(SimpleNamespace(free_resources=lambda acquired_resource: freed.append(acquired_resource)))
    of_actor: list[Exception] = []
    of_task: list[Exception] = []
    actor = TrackedActor(1, on_error=lambda tracked, told: of_actor.append(told))
    manager._live_actors_to_ray_actors_resources[actor] = ("handle", "acquired")
    manager._actor_task_failed(TrackedActorTask(actor, on_error=lambda tracked, told: of_task.append(told)), error)
    (told,) = of_task
    if is_lost:
        assert (
            isinstance(told, LostProcessError) and told.cause is error and of_actor == [told] and freed == ["acquired"]
        )
        kept = cloudpickle.loads(cloudpickle.dumps(told))  # as Tune keeps it
        assert type(kept.cause) is type(error) and str(kept) == str(error)
    else:
        assert told is error


def test_what_is_no_error_of_rays_still_ends_the_study() -> None:
    with pytest.raises(RuntimeError, match="unexpected"):
        ActorManager(SimpleNamespace())._actor_task_failed(TrackedActorTask(TrackedActor(1)), ValueError("a mistake"))


class Killed(Trainable):
    """The trial 1 dies once, as it steps or as its process is handed on to it;
    each leaves its name when it begins and when it ends.
    """

    def setup(self, config: dict[str, Any]) -> None:
        self._note = Path(config["note"])
        self._begun = False

    def step(self) -> dict[str, Any]:
        if not self._begun:
            self._begun = True
            self._add(f"begin {self.config['number']}")
            return self._result(done=False)
        self._die("steps")
        self._add(f"end {self.config['number']}")
        return self._result(done=True)

    def reset_config(self, new_config: dict[str, Any]) -> bool:
        self.setup(new_config)
        self.config = new_config
        self._die("is handed on")
        return True

    def _add(self, line: str) -> None:
        with self._note.open("a") as file:
            file.write(line + "\n")

    def _die(self, when: str) -> None:
        died = self._note.with_name("died")
        if self.config["number"] == 1 and self.config["when"] == when and not died.exists():
            died.touch()
            os.kill(os.getpid(), signal.SIGKILL)

    def _result(self, done: bool) -> dict[str, Any]:
        return {EVENTS: [], RECYCLE_PROCESS: False, "done": done}


class OutOfMemory(ActorManager):
    """Ray says of each process that dies that it was killed for want of memory."""

    def _actor_start_failed(self, tracked_actor: Any, exception: Exception) -> None:
        super()._actor_start_failed(tracked_actor, KILLED if isinstance(exception, RayActorError) else exception)

    def _actor_task_failed(self, tracked_actor_task: Any, exception: Exception) -> None:
        super()._actor_task_failed(tracked_actor_task, KILLED if isinstance(exception, RayActorError) else exception)


class Attempts:
    """Attempts at trials that nobody ends."""

    def __init__(self) -> None:
        self.lost_trials: list[Any] = []

    def has_ended(self, trial: Any) -> bool:
        return False

    def begin(self, trial: Any) -> None:
        pass

    def lost(self, trial: Any) -> None:
        self.lost_trials.append(trial)

    def goes_on_alone(self, trial: Any) -> bool:
        return trial in self.lost_trials


@pytest.mark.slow
@pytest.mark.ray
@pytest.mark.usefixtures("ray_instance")
@pytest.mark.parametrize("when", ["steps", pytest.param("is handed on", marks=pytest.mark.nightly)])
def test_a_trial_that_is_killed_for_want_of_memory_is_run_again_after_all_others(
    when: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ray.tune.execution.tune_controller.RayActorManager", OutOfMemory)
    note, attempts, stream = tmp_path / "note", Attempts(), SimpleNamespace()
    scheduler = StudyScheduler(stream, attempts)  # type: ignore[arg-type]
    at_once = 1 if when == "is handed on" else 2
    tuner = tune.Tuner(
        Killed,
        param_space={"number": tune.grid_search([0, 1, 2, 3]), "note": str(note), "when": when},
        tune_config=TuneConfig(reuse_actors=True, scheduler=scheduler, max_concurrent_trials=at_once),
        run_config=RunConfig(
            storage_path=str(tmp_path / "tune"),
            verbose=0,
            callbacks=[OfErrors(stream, attempts, scheduler)],  # type: ignore[arg-type]
            failure_config=FailureConfig(max_failures=-1),
            checkpoint_config=CheckpointConfig(checkpoint_at_end=False),
        ),
    )
    tuner.fit()
    assert note.with_name("died").exists()
    assert [trial.config["number"] for trial in attempts.lost_trials] == [1]
    lines = note.read_text().splitlines()
    assert lines[-2:] == ["begin 1", "end 1"]
    assert sorted(lines[:-2]) == sorted(
        [f"{what} {n}" for n in (0, 2, 3) for what in ("begin", "end")] + ["begin 1"] * (when == "steps")
    )
