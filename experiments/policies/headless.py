"""Drawing without a screen."""

import ctypes
import os
from collections.abc import Mapping

import gymnasium as gym

_DRAWS_WITH: Mapping[str, tuple[str, ...]] = {
    "egl": ("libEGL.so.1",),
    "osmesa": ("libOSMesa.so.8", "libOSMesa.so.6", "libOSMesa.so"),
}
"""What MuJoCo draws with where there is no screen, by its own name: libraries, of which it takes the first."""
_OF_MUJOCO = "gymnasium.envs.mujoco."


def draw_without_screen() -> None:
    """Set what pygame and MuJoCo read before they are first used, unless a person has.

    MuJoCo cannot be imported any more, even to train, once it is told to draw with a library that is not there.
    """
    for kind in ("VIDEO", "AUDIO"):
        os.environ.setdefault(f"SDL_{kind}DRIVER", "dummy")
    if "DISPLAY" not in os.environ and (found := _found()) is not None:
        os.environ.setdefault("MUJOCO_GL", found)


def why_not(env: gym.Env[object, object]) -> str:
    """The reason why an environment cannot draw on this machine, and the fix; "" if none is known."""
    drawn_by_mujoco = any(cls.__module__.startswith(_OF_MUJOCO) for cls in type(env.unwrapped).__mro__)
    if not drawn_by_mujoco or "DISPLAY" in os.environ or "MUJOCO_GL" in os.environ or _found() is not None:
        return ""
    return "MuJoCo draws without a screen by EGL or OSMesa, and neither is installed: apt install libegl1"


def _found() -> str | None:
    return next((name for name, libraries in _DRAWS_WITH.items() if any(map(_loads, libraries))), None)


def _loads(library: str) -> bool:
    try:
        ctypes.CDLL(library)
    except OSError:
        return False
    return True
