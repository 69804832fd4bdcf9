"""Drawing without a screen, where libraries for it are missing as well."""

import subprocess
import sys

import pytest

from experiments.policies import headless
from tests.support.suite import ROOT

pytest.importorskip("mujoco")

TRAIN = """
import os, sys
from experiments.policies import headless
headless._loads = lambda library: False
headless.draw_without_screen()
import gymnasium as gym
env = gym.make("InvertedPendulum-v5")
env.reset(seed=0)
print(os.environ.get("MUJOCO_GL"), headless.why_not(env), sep="|")
"""


def test_without_a_library_to_draw_with_mujoco_trains_and_says_what_to_install() -> None:
    environment = {"PATH": "/usr/bin"}
    ran = subprocess.run(
        [sys.executable, "-c", TRAIN],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    said = "MuJoCo draws without a screen by EGL or OSMesa, and neither is installed: apt install libegl1"
    assert (ran.returncode, ran.stdout.strip()) == (0, f"None|{said}"), ran.stderr


def test_the_first_library_that_loads_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    for loads, expected in (({"libEGL.so.1", "libOSMesa.so.8"}, "egl"), ({"libOSMesa.so.6"}, "osmesa"), (set(), None)):
        monkeypatch.setattr(headless, "_loads", loads.__contains__)
        assert headless._found() == expected
