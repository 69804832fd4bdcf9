"""An env runner's environments, and the episodes under way in them: as bytes, and from bytes again.

A trial goes on from its checkpoint with what these bytes hold, whether it was interrupted or not, so that no episode is
given up. Gymnasium has no call for an environment's state, and what it offers for pickling makes a new environment
(`gymnasium.utils.EzPickle`). So what is saved are the attributes of the environment, of its wrappers and of the vector
around it: MuJoCo's physics, generators and step counters alike. Environments that keep their state elsewhere (Box2D,
the Atari emulator, EnvPool, processes of their own) cannot be pickled, or show it by not going on as they did; they are
reset at checkpoints.
"""

import copy
import logging
import pickle
import zlib
from collections.abc import Callable, Iterator
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any

import gymnasium as gym
import numpy as np
import tree
from gymnasium.vector import SyncVectorEnv

from experiments.config.errors import reason_of
from experiments.envs.checked import Checked
from experiments.envs.masked import Masked

_STRUCTURE = {"env", "envs", "env_fns", "spec", "_cached_spec", "metadata"} | {
    f"{batched}{kind}_space" for batched in ("", "_", "single_", "_single_") for kind in ("observation", "action")
}
"""Attributes that are the same in every environment that is made alike."""
_CODE = (FunctionType, MethodType, BuiltinFunctionType, ModuleType, type)
_UNDER_WAY = ("_ongoing_episodes", "_ongoing_episodes_for_metrics", "_cached_to_module", "_shared_data", "gatherer")
"""Attributes of an env runner that belong to the state of its environments; the last is the suite's own."""
_TRIAL_STEPS = 32
"""Steps that an environment has to go on alike for, once it is restored."""

logger = logging.getLogger(__name__)


class _CannotSaveError(Exception):
    """The state of an environment is not in its attributes; the message says what was seen."""


def save_environments(runner: Any) -> bytes | None:
    """The state of a runner's environments and episodes; None where there is none, or none that can be saved.

    Args:
        runner: Between two samples. Whether its environments can be saved is tried once,
            on two others that are made alike.
    """
    if runner.env is None or runner._needs_initial_reset:
        return None
    reason = getattr(runner, "_why_reset", None)
    if reason is None:
        reason = runner._why_reset = why_reset(runner.env)
        if reason:
            logger.info("Environments are reset at checkpoints: %s.", reason)
    if reason:
        return None
    try:
        saved = _dumped((_state(runner.env), {name: vars(runner)[name] for name in _UNDER_WAY if name in vars(runner)}))
    except _CannotSaveError as error:  # what an episode's infos hold, for one
        logger.info("Environments are reset at a checkpoint: %s.", error)
        return None
    return zlib.compress(saved, level=1)  # 16 of MuJoCo's: 19 MiB, 1 MiB compressed


def load_environments(runner: Any, saved: bytes) -> None:
    """The inverse of `save_environments`, on a runner that was made alike. Pickles: load only your own."""
    state, under_way = pickle.loads(zlib.decompress(saved))
    _set_state(runner.env, state)
    vars(runner).update(under_way)
    runner._needs_initial_reset = False


def why_reset(env: gym.vector.VectorEnv[Any, Any, Any]) -> str:
    """The reason why environments like these cannot be saved; empty if they can.

    Args:
        env: Environments with a `spec` that Gymnasium makes others from.
    """
    others: list[Any] = []
    try:
        _dumped(_state(env))
        spec = copy.deepcopy(env.unwrapped.spec)
        assert spec is not None, "made by gymnasium.make_vec"
        spec.kwargs["num_envs"] = min(2, env.num_envs)
        others.extend(gym.make_vec(spec) for _ in range(2))
        _try(*others)
    except _CannotSaveError as error:
        return str(error)
    except Exception as error:  # noqa: BLE001  # whatever an environment raises
        return reason_of(error)
    finally:
        for other in others:
            other.close()
    return ""


def _try(env: Any, other: Any) -> None:
    """Make sure that what is restored goes on as what was saved."""
    drawn = _drawing(env)
    env.action_space.seed(0)
    observations, _ = env.reset(seed=0)
    for _ in range(_TRIAL_STEPS // 2):
        observations, *_ = env.step(drawn(observations))
    saved = _dumped(_state(env))
    actions, expected = list[Any](), list[Any]()
    for _ in range(_TRIAL_STEPS):
        actions.append(drawn(observations))
        expected.append(env.step(actions[-1]))
        observations = expected[-1][0]
    for _ in range(2):  # the second time without what the first left behind
        _set_state(other, pickle.loads(saved))
        for action, result in zip(actions, expected, strict=True):
            if not are_equal(other.step(action)[:4], result[:4]):  # infos may hold the time
                raise _CannotSaveError("one that was saved and restored went on otherwise")


def _drawing(env: Any) -> Callable[[np.ndarray], Any]:
    """From the observations of environments side by side to random actions, of those that they allow."""
    if not any(isinstance(layer, Masked) for layer in _layers(env)):
        return lambda observations: env.action_space.sample()
    choices = int(env.single_action_space.n)
    return lambda observations: env.action_space.sample(mask=tuple(observations[:, :choices].astype(np.int8)))


def are_equal(ours: Any, theirs: Any) -> bool:
    """True if two structures of arrays and numbers are the same."""
    try:
        tree.map_structure(np.testing.assert_array_equal, ours, theirs)
    except (AssertionError, TypeError, ValueError):
        return False
    return True


def _dumped(state: Any) -> bytes:
    try:
        return pickle.dumps(state, pickle.HIGHEST_PROTOCOL)
    except Exception as error:
        raise _CannotSaveError(reason_of(error)) from error


def _state(env: Any) -> list[dict[str, Any]]:
    """The attributes of each layer that change, from the outermost wrapper inwards."""
    return [{name: value for name, value in vars(layer).items() if _is_state(name, value)} for layer in _layers(env)]


def _set_state(env: Any, state: list[dict[str, Any]]) -> None:
    for layer, attributes in zip(_layers(env), state, strict=True):
        vars(layer).update(attributes)


def _is_state(name: str, value: Any) -> bool:
    return name not in _STRUCTURE and not isinstance(value, _CODE)


def _layers(env: Any) -> Iterator[Any]:
    """Wrappers, the vector, and the wrappers and environments in it.

    Raises:
        _CannotSaveError: A vector that runs its environments elsewhere.
    """
    while True:
        if not isinstance(env, Checked):  # which has no state
            yield env
        if isinstance(env, SyncVectorEnv):
            for inner in env.envs:
                yield from _layers(inner)
            return
        if isinstance(env, gym.vector.AsyncVectorEnv):
            raise _CannotSaveError("they run in processes of their own")
        if not isinstance(env, gym.Wrapper | gym.vector.VectorWrapper):
            return
        env = env.env
