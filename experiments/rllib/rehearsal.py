"""An environment tried before a study starts: two side by side are made, reset and stepped for a moment,
as trials do with it.

They are in an empty folder meanwhile: trials have working directories of their own, and what is found only in the
command's is not found there.
"""

import contextlib
import copy
import functools
import json
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any

import gymnasium as gym
import numpy as np
import psutil
from gymnasium.wrappers.vector import DictInfoToList

from experiments.config import own_modules
from experiments.config.errors import ConfigurationError, reason_of
from experiments.config.schema import EnvSettings
from experiments.envs import checked, masked
from experiments.rllib.environments import are_equal

STEPS = 32
"""Of an environment, at most."""
_SECONDS = 0.25
"""After which an environment is stepped no more."""
_SECONDS_IN_ALL = 4.0
"""After which no further environment of a study is tried."""


@dataclass(frozen=True)
class Rehearsal:
    """What trying an environment has shown.

    Attributes:
        notes: Remarks for a person, a line each.
        memory: Bytes that one environment takes when it is made and stepped for a moment.
    """

    notes: tuple[str, ...] = ()
    memory: int = 0


def rehearse_each(envs: Sequence[tuple[EnvSettings, bool]]) -> tuple[tuple[str, ...], list[int]]:
    """Try the environments of a study, for some seconds in all.

    Args:
        envs: Each with whether any action may be taken, as `rehearse` has it.

    Returns:
        Remarks on them for a person, each once; and the bytes that one of each takes, of those that were not tried as
        many as the largest of the others.

    Raises:
        ConfigurationError: As `rehearse`.
    """
    notes, memory, started = list[str](), list[int](), time.monotonic()
    for tried, (env, any_actions) in enumerate(envs):
        if time.monotonic() - started > _SECONDS_IN_ALL:
            notes.append(f"{env.name}: slow to make, so {tried} of {len(envs)} configurations were tried beforehand")
            memory += [max(memory, default=0)] * (len(envs) - tried)
            break
        found = rehearse(env, any_actions)
        notes += found.notes
        memory.append(found.memory)
    return tuple(dict.fromkeys(notes)), memory


def rehearse(env: EnvSettings, any_actions: bool = True) -> Rehearsal:
    """Try an environment.

    Args:
        env: The environment; of EnvPool, Gymnasium's of the same id.
        any_actions: Whether its policy may take any action that it allows; networks of a person's own may leave out
            some, and what the environment then raises says nothing.

    Raises:
        ConfigurationError: It raises, or gives what it must not. Names what it gave and what is expected.
    """
    arguments = json.dumps(env.make_arguments, sort_keys=True)
    return _rehearsed(env.name, env.id, arguments, env.vectorize_mode == "vector_entry_point", any_actions)


@functools.lru_cache(maxsize=64)
def _rehearsed(name: str, gym_id: str, arguments: str, together: bool, any_actions: bool) -> Rehearsal:
    settings, others = json.loads(arguments), _children()
    envs: list[Any] = []
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder, contextlib.chdir(folder):
        try:
            if together:
                before = _resident_bytes(others)
                envs.append(_made(name, settings, lambda: _vector(gym_id, settings)))
                _try_vector(gym_id, envs[0])
                return Rehearsal(memory=(_resident_bytes(others) - before) // envs[0].num_envs)
            for number in range(2):
                before = _resident_bytes(others)  # before the second one: the first brings modules with it
                make = functools.partial(gym.make, gym_id, disable_env_checker=True, **settings)
                envs.append(checked.own(_made(name, settings, make, is_first=not number)))
            made = _resident_bytes(others)
            notes = _differences(name, gym_id, *(_played(gym_id, env, any_actions) for env in envs))
            return Rehearsal(tuple(notes), made - before + (_resident_bytes(others) - made) // len(envs))
        finally:
            for env in envs:
                with contextlib.suppress(Exception):
                    env.close()


def _children() -> set[psutil.Process]:
    """The processes that this one has started."""
    return set(psutil.Process().children())


def _resident_bytes(others: Set[psutil.Process]) -> int:
    """Resident memory of this process, and of those that environments started: not of Ray's, which are there before."""
    resident = psutil.Process().memory_info().rss
    for child in _children() - others:
        with contextlib.suppress(psutil.Error):  # it has ended
            resident += sum(process.memory_info().rss for process in (child, *child.children(recursive=True)))
    return int(resident)


def _made(name: str, settings: Mapping[str, Any], make: Callable[[], Any], is_first: bool = True) -> Any:
    try:
        return make()
    except (Exception, SystemExit) as error:  # environments raise what they like
        where = (
            (
                "It can be made in the folder where the command is typed, but not in another one, as trials have: "
                "give files by absolute paths."
            )
            if is_first
            else "One can be made, but not two in one process, which training and evaluation need."
        )
        said = f"{reason_of(error)}. {where}{own_modules.left_behind(error)} It is {dict(settings)}."
        raise ConfigurationError(f"env.env_config of env={name}: {said}") from error


def _called(gym_id: str, what: str, call: Callable[[], Any]) -> Any:
    try:
        return call()
    except (Exception, SystemExit) as error:  # environments raise what they like
        hint = own_modules.left_behind(error)
        if not hint and isinstance(error, FileNotFoundError):
            hint = " Trials have working directories of their own: give files by absolute paths."
        raise ConfigurationError(f"env.id={gym_id}: its {what} raises {reason_of(error)}.{hint}") from error


def _played(gym_id: str, env: Any, any_actions: bool) -> tuple[list[Any], bool]:
    """The outputs of an environment from a seed on, and whether an observation left its space."""
    space, given, started = env.observation_space, list[Any](), time.perf_counter()

    def reset(**how: Any) -> None:
        result = _called(gym_id, f"reset({', '.join(how)})", lambda: env.reset(**how))
        check(checked.why_wrong_reset(result, space) or no_action(result[0]), "reset")
        given.append(copy.deepcopy(result[:1]))

    def check(wrong: str, what: str) -> None:
        if wrong:
            raise ConfigurationError(f"env.id={gym_id}: its {what} {wrong}.")

    def no_action(observation: Any) -> str:
        return masked.NO_ACTION if masked.allows_nothing(observation, space, env.action_space) else ""

    reset(seed=0)
    env.action_space.seed(0)
    for _ in range(STEPS):
        action = masked.sampled_action(env.action_space, space, given[-1][0])
        try:
            result = _called(gym_id, "step", functools.partial(env.step, action))
        except ConfigurationError:
            if any_actions:
                raise
            break
        wrong = checked.why_wrong_step(result, space) or _not_finite(result)
        check(wrong or ("" if result[2] else no_action(result[0])), "step")
        given.append(copy.deepcopy(result[:4]))
        if result[2] or result[3]:
            reset()
        if time.perf_counter() - started > _SECONDS:
            break
    reset()  # in the midst of an episode, as trials do
    return given, any(checked.is_outside(result[0], space) for result in given)


def _not_finite(result: Any) -> str:
    for what, value in (("observation", result[0]), ("reward", result[1])):
        if isinstance(value, Mapping | tuple):
            continue
        array = np.asarray(value)
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            return f"gave the {what} {' '.join(repr(value).split())}, which is not finite"
    return ""


def _differences(name: str, gym_id: str, one: tuple[list[Any], bool], other: tuple[list[Any], bool]) -> list[str]:
    """Notes on the unusual that need not be changed."""
    notes = []
    shared = min(len(one[0]), len(other[0])) - 1  # the clock may have ended one earlier
    if not are_equal(one[0][:shared], other[0][:shared]):
        notes.append(
            f"{name}: reset(seed=) does not determine what {gym_id} does: the same seed gave "
            "different observations or rewards"
        )
    if one[1] or other[1]:
        notes.append(f"{name}: observations leave the bounds of the space that {gym_id} declares")
    return notes


def _vector(gym_id: str, settings: Mapping[str, Any]) -> Any:
    return DictInfoToList(gym.make_vec(gym_id, num_envs=2, vectorization_mode="vector_entry_point", **settings))


def _try_vector(gym_id: str, envs: Any) -> None:
    """Try a vector implementation of the environment's own."""
    envs.action_space.seed(0)
    observations, _ = _called(gym_id, "vectorised reset(seed)", lambda: envs.reset(seed=0))
    for _ in range(STEPS):
        if wrong := checked.why_wrong_observation(observations, envs.observation_space):
            raise ConfigurationError(f"env.id={gym_id}: its vector implementation {wrong}.")
        observations, *others, _ = _called(gym_id, "vectorised step", lambda: envs.step(envs.action_space.sample()))
        for what, values in zip(("rewards", "terminated", "truncated"), others, strict=True):
            if (shape := np.shape(values)) != (envs.num_envs,):
                raise ConfigurationError(
                    f"env.id={gym_id}: the {what} of {envs.num_envs} environments of its vector implementation "
                    f"have shape {shape}, where ({envs.num_envs},) is expected."
                )
