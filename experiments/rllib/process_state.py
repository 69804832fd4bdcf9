"""State that code which is not the suite's may keep in a process, beside environments and networks:
on its classes, in its modules.

A trial is a function of its configuration and seed only in a process that has not run such code before: it gets one of
its own. No checkpoint holds what the code keeps there, so that a trial that goes on from one in another process may
differ. Whether there is anything of the kind is looked for in what Python shows of the code's modules; what a library
of C keeps, a generator or a file is not seen.
"""

import functools
import hashlib
import pickle
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Any

import gymnasium as gym

from experiments.config.gym_registry import spec_of
from experiments.config.rllib_settings import MODULE_CLASS
from experiments.config.trial_config import TrialConfig

_FORGETTING = ("experiments.", "ray.rllib.", "gymnasium.envs.", "gymnasium.wrappers.", "ale_py.")
"""Where environments, networks and algorithms are from that leave nothing in a process:
trials of these share processes."""


def packages_of(trial: TrialConfig) -> frozenset[str]:
    """The packages and files that a trial runs and that may keep something in its process.

    Args:
        trial: The trial; its modules of a person's own are imported, or can be.

    Raises:
        ConfigurationError: Gymnasium does not know its environment.
    """
    named = [trial.algorithm["config_class"], trial.algorithm["rl_module"].get(MODULE_CLASS)]
    if trial.env.backend == "gymnasium":
        named += modules_of(trial.env.id)
    return frozenset(trial.modules) | {
        name.partition(".")[0] for name in named if name and not name.startswith(_FORGETTING)
    }


def modules_of(gym_id: str) -> list[str]:
    """The modules of an environment of Gymnasium's and of its wrappers, and the one that registers it, with a dot at
    the end of each.

    Raises:
        ConfigurationError: Gymnasium does not know it.
    """
    spec, registers = spec_of(gym_id), gym_id.rpartition(":")[0]
    made_by = [spec.entry_point, spec.vector_entry_point, *(w.entry_point for w in spec.additional_wrappers)]
    return [*([f"{registers}."] if registers else []), *filter(None, map(_where, made_by))]


def _where(entry_point: Any) -> str | None:
    """The module of an entry point as Gymnasium takes it, with a dot at its end."""
    while isinstance(entry_point, functools.partial):
        entry_point = entry_point.func
    if entry_point is None:
        return None
    return (entry_point.partition(":")[0] if isinstance(entry_point, str) else entry_point.__module__) + "."


class ProcessState:
    """The state that some packages keep in this process, from now on.

    Attributes:
        packages: As `packages_of` gives them.
    """

    def __init__(self, packages: frozenset[str]) -> None:
        """Note what there is.

        Args:
            packages: As `packages_of` gives them. What is imported later is compared with how it was first seen.
        """
        self.packages = packages
        self._first: dict[str, Mapping[str, bytes]] = {}
        self.changed()

    def changed(self) -> list[str]:
        """Names of what is not as it was: `my_env.MyEnv.episodes`."""
        found = []
        for module in [
            m
            for name, m in sys.modules.items()
            if name.partition(".")[0] in self.packages and isinstance(m, ModuleType)
        ]:
            now = {name: self._digest(value) for name, value in _held(module)}
            first = self._first.setdefault(module.__name__, now)
            found += [name for name in sorted({*first, *now}) if first.get(name) != now.get(name)]
        return found

    def _digest(self, value: Any) -> bytes:
        digest = _Digest(self.packages)
        with suppress(Exception):  # what cannot be pickled is compared as far as that goes
            digest.dump(value)
        return digest.read()


def _held(module: ModuleType) -> Iterator[tuple[str, Any]]:
    """The names of a module and of its classes, with what they hold."""
    for name, value in list(vars(module).items()):
        if isinstance(value, type):
            if value.__module__ == module.__name__:
                yield from _held_by(value, f"{module.__name__}.{name}")
        elif not isinstance(value, ModuleType) and not (name.startswith("__") and name.endswith("__")):
            # Python's: __warningregistry__
            yield f"{module.__name__}.{name}", value


def _held_by(kind: type, path: str) -> Iterator[tuple[str, Any]]:
    for name, value in list(vars(kind).items()):
        if not isinstance(value, type) and name != "__slotnames__":  # which pickle leaves behind
            yield f"{path}.{name}", value
        elif isinstance(value, type) and value.__qualname__ == f"{kind.__qualname__}.{name}":  # its own
            yield from _held_by(value, f"{path}.{name}")


class _Digest(pickle.Pickler):
    """A hash of whatever an object leads to.

    Of code itself that is its name, and of the packages' functions what they remember.
    """

    def __init__(self, packages: frozenset[str]) -> None:
        self._packages, self._hash = packages, hashlib.blake2b(digest_size=8)
        self._seen: set[int] = set()
        super().__init__(self, pickle.HIGHEST_PROTOCOL)

    def write(self, data: Any) -> None:
        """Hash a part of the pickle."""
        self._hash.update(data)

    def read(self) -> bytes:
        """The hash so far."""
        return self._hash.digest()

    def reducer_override(self, value: Any) -> Any:
        """The value that is pickled in place of an object."""
        if value is str or value is tuple:
            return NotImplemented
        if isinstance(value, classmethod | staticmethod):
            return tuple, ([value.__func__],)
        if isinstance(value, functools._lru_cache_wrapper):
            return tuple, ([value.__wrapped__, value.cache_info().misses],)
        if (
            isinstance(value, FunctionType)
            and value.__module__.partition(".")[0] in self._packages
            and id(value) not in self._seen
        ):
            self._seen.add(id(value))
            return tuple, (
                [value.__qualname__, value.__defaults__, value.__kwdefaults__, vars(value), _closure(value)],
            )
        if isinstance(value, type | FunctionType | BuiltinFunctionType | ModuleType):
            return str, (f"{getattr(value, '__module__', '')}.{getattr(value, '__qualname__', value.__name__)}",)
        # whose generator is made when it is first asked for, by whoever batches the space
        if isinstance(value, gym.Space):
            return str, (repr(value),)
        try:
            return value.__reduce_ex__(pickle.HIGHEST_PROTOCOL)
        except Exception:  # noqa: BLE001  # a lock, a window: whatever an object raises that cannot be pickled
            return str, (type(value).__qualname__,)


def _closure(function: FunctionType) -> list[Any]:
    """The values of the variables that a function has from around it."""
    found = []
    for cell in function.__closure__ or ():
        with suppress(ValueError):  # not set yet
            found.append(cell.cell_contents)
    return found
