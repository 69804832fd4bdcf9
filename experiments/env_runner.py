"""RLlib's env runner, with the reason where it fails."""

from collections.abc import Callable
from typing import Any

from ray.rllib.env.single_agent_env_runner import SingleAgentEnvRunner

from experiments.errors import reason_of


class EnvRunnerError(RuntimeError):
    """A runner in a process of its own failed; the message is the error's class and first line, whatever class it was."""


class EnvRunner(SingleAgentEnvRunner):  # type: ignore[misc]  # RLlib ships no type information
    """Says why it failed. RLlib's ends its process without a word, and hides an environment's error behind an empty one."""

    def __init__(self, **kwargs: Any) -> None:
        try:
            super().__init__(**kwargs)
        except Exception as error:
            raise EnvRunnerError(reason_of(error)) from error

    def apply(self, func: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Call `func` on this runner, for the trial's process.

        Raises:
            EnvRunnerError: It failed. The runner's state cannot be relied on any more.
        """
        try:
            return func(self, *args, **kwargs)
        except Exception as error:
            # Not the error itself: it may be of a class that does not survive the way to another process.
            raise EnvRunnerError(reason_of(error)) from error

    def _try_env_step(self, actions: Any) -> Any:
        try:
            return super()._try_env_step(actions)
        except RuntimeError as error:
            raise (error.__cause__ or error) from None
