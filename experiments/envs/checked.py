"""Checks of an environment's outputs at every reset and step, so that a mistake is reported where it is made.

Gymnasium's vector environments put what single ones give into arrays. What does not fit raises there, without the
environment's name, or is made to fit: a flag "no" is true, a reward of None is a NaN. Infos that do not fit together,
such as arrays that grow, raise as well; nobody reads them in training or evaluation, so they are left out.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.wrappers import OrderEnforcing, PassiveEnvChecker, TimeLimit

from experiments.envs.staggered import CUT

_FLAGS = (bool, np.bool_)


class EnvironmentFaultError(RuntimeError):
    """An environment did what none may do, and would do it again; the message says which environment, what it did,
    and what is expected.
    """


class Checked(gym.Wrapper[Any, Any, Any, Any]):
    """Passes on what the environment gives, and raises `EnvironmentFaultError` where that is no observation,
    reward or flag.
    """

    def __init__(self, env: gym.Env[Any, Any], keep_infos: bool = False) -> None:
        """Wrap an environment.

        Args:
            env: The environment.
            keep_infos: Whether its infos are passed on; else no more than that an episode
                was cut short (`experiments.envs.staggered`).
        """
        super().__init__(env)
        self._keep_infos, self._space = keep_infos, env.observation_space
        is_array = isinstance(self._space, gym.spaces.Box)
        self._usual = (self._space.dtype, self._space.shape) if is_array else None

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """As the environment's."""
        with named_exit(name_of(self.env)):
            result = self.env.reset(seed=seed, options=options)
        if wrong := why_wrong_reset(result, self._space):
            raise EnvironmentFaultError(f"{name_of(self.env)}: reset {wrong}")
        observation, info = result
        return observation, info if self._keep_infos else {}

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """As the environment's."""
        try:
            result = self.env.step(action)
        except SystemExit as error:  # named_exit would cost a microsecond
            raise ended(name_of(self.env), error) from error
        if not self._is_usual(result) and (wrong := why_wrong_step(result, self._space)):
            raise EnvironmentFaultError(f"{name_of(self.env)}: step {wrong}")
        observation, reward, terminated, truncated, info = result
        if info and not self._keep_infos:
            info = {CUT: True} if info.get(CUT) else {}
        return observation, reward, terminated, truncated, info

    def _is_usual(self, result: Any) -> bool:
        """True if a step gave the usual types, which takes half a microsecond to see."""
        if not isinstance(result, tuple) or len(result) != 5:
            return False
        observation, reward, terminated, truncated, info = result
        return (
            type(observation) is np.ndarray
            and (observation.dtype, observation.shape) == self._usual
            and isinstance(reward, float)
            and type(terminated) in _FLAGS
            and type(truncated) in _FLAGS
            and type(info) is dict
        )


def ended(name: str, error: SystemExit) -> BaseException:
    """The error to raise where an environment raised SystemExit; of Ray, which ends a process so, the error itself.

    Args:
        name: Id of the environment, as messages call it.
        error: The error that was raised.
    """
    if hasattr(error, "ray_terminate_msg"):
        return error
    return EnvironmentFaultError(
        f"{name}: ended its process with sys.exit" + ("" if error.code is None else f": {error.code}")
    )


@contextmanager
def named_exit(name: str) -> Iterator[None]:
    """Within it an environment that raises SystemExit raises `EnvironmentFaultError`:
    one that gives up is no process that was lost.

    Args:
        name: Id of the environment, as messages call it.
    """
    try:
        yield
    except SystemExit as error:
        raise ended(name, error) from error


def name_of(env: Any) -> str:
    """An environment's id, else its class."""
    return env.spec.id if env.spec is not None else type(env.unwrapped).__name__


def own(env: Any) -> Any:
    """An environment without what `gymnasium.make` and the suite put around it."""
    while type(env) in (Checked, TimeLimit, OrderEnforcing, PassiveEnvChecker):
        env = env.env
    return env


def why_wrong_reset(result: Any, space: gym.Space[Any]) -> str:
    """The mistake in what `reset` gave, as a clause without its subject; "" if there is none."""
    if not isinstance(result, tuple) or len(result) != 2:
        return f"gave {_shown(result)}, where Gymnasium expects two values: observation and info"
    return why_wrong_observation(result[0], space) or _wrong_info(result[1])


def why_wrong_step(result: Any, space: gym.Space[Any]) -> str:
    """The mistake in what `step` gave, as a clause without its subject; "" if there is none."""
    if not isinstance(result, tuple) or len(result) != 5:
        values = f"{len(result)} values" if isinstance(result, tuple) else _shown(result)
        return f"gave {values}, where Gymnasium expects five: observation, reward, terminated, truncated and info"
    observation, reward, terminated, truncated, info = result
    if not _is_number(reward):
        return f"gave the reward {_shown(reward)}, which is not a number"
    for what, flag in (("terminated", terminated), ("truncated", truncated)):
        if not _is_flag(flag):
            return f"gave {what}={_shown(flag)}, which is neither True nor False"
    return why_wrong_observation(observation, space) or _wrong_info(info)


def is_outside(observation: Any, space: gym.Space[Any]) -> bool:
    """True if an observation that is none of the wrong ones leaves the bounds of its space."""
    if isinstance(space, gym.spaces.Box):
        return bool(np.any(np.asarray(observation) < space.low) or np.any(np.asarray(observation) > space.high))
    if isinstance(space, gym.spaces.Dict):
        return any(is_outside(observation[name], part) for name, part in space.items())
    if isinstance(space, gym.spaces.Tuple):
        return any(is_outside(value, part) for value, part in zip(observation, space, strict=True))
    return False


def why_wrong_observation(value: Any, space: gym.Space[Any]) -> str:
    """The mistake in an observation, as a clause without its subject; "" if there is none.

    Bounds of a Box are not looked at.
    """
    if isinstance(space, gym.spaces.Dict):
        if not isinstance(value, Mapping) or set(value) != set(space):
            return f"gave the observation {_shown(value)}, where its space has {', '.join(map(str, space))}"
        return next(filter(None, (why_wrong_observation(value[name], part) for name, part in space.items())), "")
    if isinstance(space, gym.spaces.Tuple):
        if not isinstance(value, tuple | list) or len(value) != len(space):
            return f"gave the observation {_shown(value)}, where its space has {len(space)} parts"
        return next(filter(None, map(why_wrong_observation, value, space)), "")
    if not isinstance(space, gym.spaces.Box):
        return (
            "" if space.contains(value) else f"gave the observation {_shown(value)}, which is not in its space {space}"
        )
    array = _array(value)
    if array is None or array.dtype.kind not in "biuf":
        return f"gave the observation {_shown(value)}, which is not an array of numbers"
    if array.shape != space.shape:
        return f"gave an observation of shape {array.shape}, where its space has {space.shape}"
    if not np.can_cast(array.dtype, np.dtype(space.dtype), "same_kind"):
        return f"gave an observation of {array.dtype}, where its space has {space.dtype}"
    return ""


def _wrong_info(info: Any) -> str:
    return "" if isinstance(info, dict) else f"gave the info {_shown(info)}, which is not a dict"


def _is_number(value: Any) -> bool:
    array = _array(value)
    return array is not None and array.shape == () and (array.dtype.kind in "biuf" or hasattr(value, "__float__"))


def _is_flag(value: Any) -> bool:
    return _is_number(value) and value in (0, 1)


def _array(value: Any) -> np.ndarray | None:
    """As an array; None if it cannot be one: of parts of several lengths, or a tensor that gradients go through."""
    try:
        return np.asarray(value)
    except Exception:  # noqa: BLE001  # whatever a library's numbers raise
        return None


def _shown(value: Any) -> str:
    """A value in a few words."""
    text = " ".join(repr(value).split())
    return text if len(text) <= 60 else f"{text[:57]}..."
