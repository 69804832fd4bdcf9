"""RLlib's env runner, and the fast one, with the reason where they fail."""

import traceback
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tree
from gymnasium.vector import VectorEnv
from ray.rllib.env.single_agent_env_runner import SingleAgentEnvRunner

from experiments.config.errors import reason_of
from experiments.envs.checked import EnvironmentFaultError, named_exit
from experiments.fast.env_runner import FastEnvRunner, deferrable
from experiments.fast.transitions.rows import Chunk
from experiments.rllib.no_compiler import leave_out_compiler
from experiments.rllib.preprocessing import gatherer_of
from experiments.rllib.results import SPANS, NonFiniteError
from experiments.rllib.runner_clock import RunnerClock


class EnvRunnerError(RuntimeError):
    """A runner failed; the message is the error's class and first line."""


class _Observed:
    """Says why it failed, and what it did with its time.

    RLlib's ends its process without a word, and hides an environment's error behind an empty one.

    Observations and rewards must be finite: a network's tanh, for one, turns an infinite observation into a number
    that looks well.

    Attributes:
        gatherer: Gathers what is sampled; None if no statistics of it are wanted.
    """

    config: Any
    worker_index: int
    num_env_steps_sampled_lifetime: int
    metrics: Any

    def __init__(self, **kwargs: Any) -> None:
        leave_out_compiler()
        try:
            with named_exit(str(kwargs["config"].env)):
                super().__init__(**kwargs)
        except EnvironmentFaultError:
            raise
        except Exception as error:
            raise EnvRunnerError(reason_of(error)) from error
        self.gatherer = gatherer_of(self)
        self._is_replayed = hasattr(self.config, "replay_buffer_config")
        self._clock = RunnerClock()
        self._clock.attach(self.metrics)

    def renew(self, **kwargs: Any) -> None:
        """Become another runner in the same process.

        Args:
            **kwargs: As the constructor takes them.

        Raises:
            EnvRunnerError: The environment cannot be made, for one.
        """
        self.stop()  # type: ignore[attr-defined]  # RLlib's, beside this class
        vars(self).clear()
        type(self).__init__(self, **kwargs)

    def sample(self, **kwargs: Any) -> Any:
        """Sample, and measure it."""
        with self._clock.sampling():
            episodes = super().sample(**kwargs)  # type: ignore[misc]  # RLlib's, beside this class
            if episodes and not self._is_replayed:
                spans = np.array([(episode.t_started, episode.t) for episode in episodes])
                self.metrics.log_value((SPANS, str(self.worker_index)), spans, reduce="item_series")
            if self.gatherer is not None:
                for episode in episodes:
                    observations, rewards = episode.observations, episode.rewards
                    self.gatherer.add(
                        episode.id_,
                        episode.t_started == 0,
                        observations.data[observations.lookback :],
                        rewards.data[rewards.lookback :],
                        episode.is_done,
                    )
            return episodes

    def on_step(self) -> None:
        """Called at every step of all environments; `signs_of_life` puts its own in its place."""

    def on_chunks(self, chunks: Sequence[Chunk]) -> None:
        """Gather what the fast runner sampled without `sample`."""
        if self.gatherer is not None:
            for chunk in chunks:
                self.gatherer.add(
                    chunk.id_, chunk.t_started == 0, chunk.observations[0], chunk.rewards, chunk.ended > 0
                )

    def get_metrics(self) -> Any:
        """RLlib's, and the seconds since the last call."""
        self._clock.log(self.metrics, self.worker_index)
        return super().get_metrics()  # type: ignore[misc]

    def on_step_seconds(self, env_step_s: float, inference_s: float) -> None:
        """Count what the fast runner's steps took."""
        self._clock.add(env_step_s, inference_s)

    def apply(self, func: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Call `func` on this runner, for the trial's process.

        Raises:
            NonFiniteError: An environment gave a NaN or an infinity.
            EnvironmentFaultError: It gave what none may give, or ended the process.
            EnvRunnerError: Anything else failed. The runner's state cannot be relied on any more.
        """
        try:
            with named_exit(str(self.config.env)):
                return func(self, *args, **kwargs)
        except (NonFiniteError, EnvironmentFaultError):
            raise
        except Exception as error:
            # Not the error itself: it may be of a class that does not survive the way to another process.
            raise EnvRunnerError(reason_of(error)) from error

    def _reset_envs_and_episodes(self, explore: bool) -> None:
        if self.gatherer is not None:
            self.gatherer.episodes.clear()  # they will not go on
        super()._reset_envs_and_episodes(explore)  # type: ignore[misc]

    def _try_env_reset(self, **kwargs: Any) -> Any:
        try:
            observations, infos = super()._try_env_reset(**kwargs)  # type: ignore[misc]
        except Exception as error:
            if named := self._of_info(error):
                raise named from error
            raise
        self._check_finite("observation", observations)
        return observations, infos

    @deferrable  # the fast runner calls `on_step` and `on_steps`
    def _try_env_step(self, actions: Any) -> Any:
        self.on_step()
        try:
            results = super()._try_env_step(actions)  # type: ignore[misc]
        except RuntimeError as error:
            cause = error.__cause__ or error
            raise (self._of_info(cause) or cause) from None
        self._check_finite("observation", results[0])
        self._check_finite("reward", results[1])
        return results

    def _of_info(self, error: BaseException) -> EnvironmentFaultError | None:
        """The error to raise if infos of environments side by side did not fit together; None if it was another."""
        frames = [
            frame for frame, _ in traceback.walk_tb(error.__traceback__) if frame.f_code is VectorEnv._add_info.__code__
        ]
        if not frames:
            return None
        key = frames[-1].f_locals.get("key")
        return EnvironmentFaultError(
            f"{self.config.env}: the infos of parallel environments cannot be batched at the key {key!r} "
            f"({reason_of(error)}). Give its values one type and one shape, or leave it out."
        )

    def on_steps(self, observations: np.ndarray, rewards: np.ndarray) -> None:
        """Check the steps of a fast fragment, [T, N, ...] and [T, N]."""
        for what, values in (("observation", observations), ("reward", rewards)):
            if values.dtype.kind == "f" and not np.isfinite(values).all():
                first_step = values[np.argwhere(~np.isfinite(values))[0][0]]
                self._check_finite(what, first_step)

    def _check_finite(self, what: str, values: Any) -> None:
        """Make sure that an array, or each of a structure's, is finite; its first dimension is the environment."""
        for array in (values,) if isinstance(values, np.ndarray) else tree.flatten(values):
            if isinstance(array, np.ndarray) and array.dtype.kind == "f" and not np.isfinite(array).all():
                environment, *_ = np.argwhere(~np.isfinite(array))[0]
                raise NonFiniteError(
                    f"non-finite {what} of environment {environment} of runner {self.worker_index}, "
                    f"after {self.num_env_steps_sampled_lifetime} env steps"
                )


class EnvRunner(_Observed, SingleAgentEnvRunner):  # type: ignore[misc]  # RLlib ships no type information
    """RLlib's own."""


class FastRunner(_Observed, FastEnvRunner):
    """The fast one: the same episodes."""
