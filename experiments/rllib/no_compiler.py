"""Torch without its compiler, where nothing is compiled.

An optimizer's first use and `torch.use_deterministic_algorithms`, which RLlib calls to seed a process, import
`torch._dynamo` and `torch._inductor` to tell them to stay out: 800 modules, a quarter of the CPU time that a trial's
process spends on imports. What is told stands in for them here; whatever else is asked of them, `torch.compile` for
one, loads them.
"""

import importlib
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

import torch

_DYNAMO, _INDUCTOR, _INDUCTOR_CONFIG = _PACKAGES = ("torch._dynamo", "torch._inductor", "torch._inductor.config")

_not_disabled: list[Any] = []  # functions that torch._dynamo shall not compile, once it is there


def leave_out_compiler() -> None:
    """Put something in the compiler's place, if it isn't loaded."""
    if any(name in sys.modules for name in _PACKAGES):
        return
    dynamo, inductor, config = (_Absent(name) for name in _PACKAGES)
    vars(dynamo).update(disable=_disable, graph_break=lambda: None)
    vars(config).update(deterministic=False)
    vars(inductor).update(config=config)
    sys.modules.update(zip(_PACKAGES, (dynamo, inductor, config), strict=True))


class _Absent(ModuleType):
    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name != "__path__":  # asked of every module, by `inspect` for one
            raise AttributeError(name)
        _load()
        return getattr(sys.modules[self.__name__], name)


def _load() -> None:
    for name in _PACKAGES:
        if isinstance(sys.modules.get(name), _Absent):
            del sys.modules[name]
            vars(torch).pop(name.removeprefix("torch."), None)
    for name in _PACKAGES:
        importlib.import_module(name)
    sys.modules[_INDUCTOR_CONFIG].deterministic = torch.are_deterministic_algorithms_enabled()  # type: ignore[attr-defined]
    while _not_disabled:
        del _not_disabled.pop().__dynamo_disable  # torch/_compile.py asks anew


def _disable(fn: Callable[..., Any], recursive: bool = True, wrapping: bool = True) -> Callable[..., Any]:
    if wrapping:  # not called by torch/_compile.py
        _load()
        disabled: Callable[..., Any] = sys.modules[_DYNAMO].disable(fn, recursive, wrapping=wrapping)
        return disabled
    _not_disabled.append(fn)
    return fn
