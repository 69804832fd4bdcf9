"""Why a trial cannot go on: what an exception tells of the process in which it was raised."""

from ray import exceptions
from ray.exceptions import ActorDiedError, RayTaskError

from experiments.config.errors import reason_of
from experiments.envs.checked import EnvironmentFaultError
from experiments.limits.memory import oom_kills
from experiments.rllib.env_runner import EnvRunner, EnvRunnerError, FastRunner

_PROCESSES = {EnvRunner.__name__: "runner", FastRunner.__name__: "runner", "_WrappedExecutable": "learner"}
"""Class of an RLlib actor to what it is."""

_PIPE_ENDED = ("EOFError", "BrokenPipeError", "ConnectionResetError")
"""Names of the errors of vectorised environments when the process of one is gone."""


def is_out_of_memory(error: Exception, reason: str, kills: int | None) -> bool:
    """True if an error came of a process that was killed for want of memory: by Ray, which says so,
    or by the kernel, which counts.

    Args:
        error: Error of the trial's process, or of another that it has.
        reason: The same, as `reason_for` has it.
        kills: As `oom_kills`, before it.
    """
    if isinstance(error, exceptions.OutOfMemoryError):
        return True
    may_be = isinstance(error, ActorDiedError) or reason.startswith(_PIPE_ENDED)
    return may_be and kills is not None and (now := oom_kills()) is not None and now > kills


def reason_for(error: BaseException) -> str:
    """Why a trial cannot go on, in a line: what went wrong where it went wrong, in whatever process."""
    if isinstance(error, RayTaskError):
        return reason_for(error.cause)
    if isinstance(error, EnvRunnerError | EnvironmentFaultError):
        return str(error)
    if isinstance(error, ActorDiedError):
        text = str(error).strip()
        what = next((process for actor, process in _PROCESSES.items() if actor in text), "process")
        return f"a {what} of the trial died: {text.splitlines()[-1].partition('. ')[0].strip()}"
    return reason_of(error)
