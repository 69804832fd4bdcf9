"""An environment whose observations begin with its mask of actions, in one vector of
floats: `experiments.envs.masked:scaling/Masked-v0`.

Which actions are allowed stands under `action_mask` in a Dict, by the convention of RLlib's example
(rllib/examples/rl_modules/classes/action_masking_rlm.py, beside `observations`) and of PettingZoo (beside
`observation`). A vector with the mask in front goes wherever other vectors go: through env runners, replay buffers and
files. The networks that take it apart again are in `experiments.fast.masks`.
"""

from collections.abc import Mapping
from typing import Any

import gymnasium as gym
import numpy as np
import numpy.typing as npt

from experiments.envs.checked import EnvironmentFaultError, name_of
from experiments.envs.flattened import is_needed

ID = "scaling/Masked-v0"
MASK = "action_mask"
NO_ACTION = "gave an action_mask that allows no action. Allow one, or end the episode: terminated=True"
"""The mistake in a mask, as a clause without its subject."""


def has_action_mask(space: gym.Space[Any]) -> bool:
    """True if observations say which actions are allowed."""
    # a space's `in` asks for an element
    return isinstance(space, gym.spaces.Dict) and MASK in space.keys()  # noqa: SIM118


def beside_mask(space: gym.Space[Any]) -> gym.Space[Any]:
    """The part of observations beside a mask of actions, or a Dict of the parts if there are several;
    the space itself where there is no mask.
    """
    if not (isinstance(space, gym.spaces.Dict) and has_action_mask(space)):
        return space
    parts = {name: part for name, part in space.items() if name != MASK}
    return next(iter(parts.values())) if len(parts) == 1 else gym.spaces.Dict(parts)


def seen_space(space: gym.Space[Any]) -> gym.spaces.Box:
    """The part of observations that networks see: a picture, or a vector to which all else is flattened.

    Args:
        space: Observations with a mask that can be applied (`why_not`).
    """
    beside, flat = beside_mask(space), gym.spaces.flatten_space(beside_mask(space))
    assert isinstance(flat, gym.spaces.Box), "as `why_not` lets pass"
    shape = beside.shape if _is_floats(beside, 3) else flat.shape
    with np.errstate(over="ignore"):
        low, high = (end.astype(np.float32).reshape(shape) for end in (flat.low, flat.high))
    return gym.spaces.Box(low, high, dtype=np.float32)


def why_not(observations: gym.Space[Any], actions: gym.Space[Any]) -> str:
    """The reason why a mask of actions cannot be applied, as a clause without its subject; "" if it can.

    Args:
        observations: Observations of an environment, with a mask.
        actions: Its actions.
    """
    assert isinstance(observations, gym.spaces.Dict), "with a mask"
    mask, beside = observations[MASK], beside_mask(observations)
    bits = isinstance(mask, gym.spaces.MultiBinary) or (
        isinstance(mask, gym.spaces.Box) and bool(np.all(mask.low >= 0) and np.all(mask.high <= 1))
    )
    if not (isinstance(actions, gym.spaces.Discrete) and bits and mask.shape == (int(actions.n),)):
        return (
            f"has the action_mask {mask} for the actions {actions}. A mask has a 0 or 1 for each choice of a Discrete: "
            "gymnasium.spaces.MultiBinary(n). What is no mask needs another name in the Dict"
        )
    if not (_is_floats(beside, 1) or _is_floats(beside, 3) or is_needed(beside)) or gym.spaces.flatdim(beside) == 0:
        return (
            f"observes {beside} beside its action_mask, and networks take floats in a Box of 1 dimension, or of 3: "
            "height, width, channels"
        )
    return ""


def _is_floats(space: gym.Space[Any], dimensions: int) -> bool:
    return (
        isinstance(space, gym.spaces.Box) and len(space.shape) == dimensions and np.issubdtype(space.dtype, np.floating)
    )


def sampled_action(actions: gym.Space[Any], space: gym.Space[Any], observation: Any) -> Any:
    """A random action of an environment: one that it allows, where a mask says so.

    Args:
        actions: Its actions, with the generator.
        space: Space of its observations.
        observation: The present one.
    """
    if not _is_applied(space, actions):
        return actions.sample()
    return actions.sample(mask=_allowed(observation).astype(np.int8))


def allows_nothing(observation: Any, space: gym.Space[Any], actions: gym.Space[Any]) -> bool:
    """True if a mask of actions, where there is one, allows none of them.

    Args:
        observation: As an environment gave it.
        space: Space of its observations.
        actions: Its actions.
    """
    return _is_applied(space, actions) and not _allowed(observation).any()


def _is_applied(space: gym.Space[Any], actions: gym.Space[Any]) -> bool:
    return has_action_mask(space) and not why_not(space, actions)


def _allowed(observation: Mapping[str, Any]) -> npt.NDArray[np.bool_]:
    return np.asarray(observation[MASK]) > 0


class Masked(gym.Wrapper[Any, Any, Any, Any]):
    """Observes in single precision, for each action, 1 if it is allowed and 0 if not; behind that all else
    that is observed, flattened.
    """

    def __init__(self, env: gym.Env[Any, Any]) -> None:
        """Wrap an environment.

        Args:
            env: The environment, with a mask that can be applied (`why_not`).
        """
        super().__init__(env)
        space: Any = env.observation_space
        self._name, self._beside = name_of(env), beside_mask(space)
        parts = [name for name in space.keys() if name != MASK]  # noqa: SIM118  # no dict
        self._part = parts[0] if len(parts) == 1 else None
        seen, choices = seen_space(space), space[MASK].shape
        self.observation_space = gym.spaces.Box(
            np.append(np.zeros(choices, np.float32), seen.low), np.append(np.ones(choices, np.float32), seen.high)
        )

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """As the environment's.

        Raises:
            EnvironmentFaultError: No action is allowed.
        """
        observation, info = self.env.reset(seed=seed, options=options)
        return self._vector(observation, "reset", ended=False), info

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """As the environment's.

        Raises:
            EnvironmentFaultError: No action is allowed, and the episode is not terminated.
        """
        observation, reward, terminated, truncated, info = self.env.step(action)
        return self._vector(observation, "step", bool(terminated)), reward, terminated, truncated, info

    def _vector(self, observation: Mapping[str, Any], what: str, ended: bool) -> npt.NDArray[np.float32]:
        allowed = _allowed(observation)
        if not (ended or allowed.any()):
            raise EnvironmentFaultError(f"{self._name}: {what} {NO_ACTION}.")
        beside: Any = observation if self._part is None else observation[self._part]
        flat: Any = gym.spaces.flatten(self._beside, beside)
        return np.concatenate([allowed, flat], dtype=np.float32)


def masked(gym_id: str, env_config: Mapping[str, Any]) -> gym.Env[Any, Any]:
    """Make an environment with its mask of actions in front of its observations.

    Args:
        gym_id: Gymnasium id of the environment itself.
        env_config: Keyword arguments of `gymnasium.make`.
    """
    return Masked(gym.make(gym_id, **env_config))


gym.register(ID, entry_point=f"{__name__}:masked", order_enforce=False, disable_env_checker=True)
