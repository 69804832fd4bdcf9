"""Drawing without a screen."""

import os


def draw_without_screen() -> None:
    """Set what pygame and MuJoCo read before they are first used, unless a person has."""
    for kind in ("VIDEO", "AUDIO"):
        os.environ.setdefault(f"SDL_{kind}DRIVER", "dummy")
    if "DISPLAY" not in os.environ:
        os.environ.setdefault("MUJOCO_GL", "egl")
