"""Tune's manager of trials' processes, for the errors by which Ray tells of the end of one and which Tune
does not know.
"""

from typing import Any

from ray.air.execution._internal import RayActorManager
from ray.exceptions import RayActorError, RayError, RayTaskError
from ray.tune.execution import tune_controller


class LostProcessError(RayActorError):  # type: ignore[misc]  # Ray ships no type information
    """A trial's process is gone.

    Attributes:
        cause: What Ray says of it.
    """

    def __init__(self, cause: RayError) -> None:
        super().__init__(error_msg=str(cause))
        self.cause = cause


class ActorManager(RayActorManager):  # type: ignore[misc]  # likewise
    """Tune's, which knows RayActorError and RayTaskError, and ends the whole study at any other,
    such as Ray's OutOfMemoryError.
    """

    def _actor_start_failed(self, tracked_actor: Any, exception: Exception) -> None:
        super()._actor_start_failed(tracked_actor, _known(exception))

    def _actor_task_failed(self, tracked_actor_task: Any, exception: Exception) -> None:
        super()._actor_task_failed(tracked_actor_task, _known(exception))


def _known(error: Exception) -> Exception:
    return (
        LostProcessError(error)
        if isinstance(error, RayError) and not isinstance(error, RayActorError | RayTaskError)
        else error
    )


def use() -> None:
    """Let Tune use it: a Tuner takes none."""
    tune_controller.RayActorManager = ActorManager
