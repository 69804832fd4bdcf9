"""Environments that are saved go on as they would have; those that cannot be saved are found out."""

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils import EzPickle
from gymnasium.wrappers import FrameStackObservation, NormalizeObservation, RecordEpisodeStatistics

from experiments.rllib.environments import _set_state, _state, why_reset
from tests.support.suite import PlanOf

_hidden = {"position": 0.0}


class Walk(gym.Env[Any, Any]):
    """Adds up draws of its generator; episodes of 7 steps."""

    observation_space = gym.spaces.Box(-1e9, 1e9, (1,), np.float64)
    action_space = gym.spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.steps, self.position = 0, 0.0
        return self.observation(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.steps += 1
        self.position += self.np_random.normal() * (action + 1)
        return self.observation(), 1.0, False, self.steps >= 7, {}

    def observation(self) -> np.ndarray:
        return np.array([self.position])


class Simulator(Walk, EzPickle):
    """Of which a pickle holds the arguments alone."""

    def __init__(self, start: float = 3.0) -> None:
        EzPickle.__init__(self, start)
        self.start = start

    def observation(self) -> np.ndarray:
        return np.array([self.start + self.position])


class Elsewhere(Walk):
    """Keeps where it is outside of itself."""

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        _hidden["position"] += 1.0
        return super().step(action)

    def observation(self) -> np.ndarray:
        return np.array([_hidden["position"]])


class _Forgets:
    """An engine that a pickle makes anew."""

    def __init__(self) -> None:
        self.position = 0.0

    def __reduce__(self) -> tuple[Any, ...]:
        return _Forgets, ()


class Forgetful(Walk):
    """Has such an engine."""

    def __init__(self) -> None:
        self.engine = _Forgets()

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.engine.position += 1.0
        return super().step(action)

    def observation(self) -> np.ndarray:
        return np.array([self.engine.position])


class Native(Walk):
    """Holds what cannot be pickled."""

    def __init__(self) -> None:
        self.handle = memoryview(b"")


@pytest.fixture
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gym.envs.registration, "registry", dict(gym.registry))
    for made in (Walk, Simulator, Elsewhere, Forgetful, Native):
        gym.register(f"state/{made.__name__}-v0", entry_point=made)


def vector(
    name: str,
    mode: str = "sync",
    wrapper: Callable[[gym.Env[Any, Any]], gym.Env[Any, Any]] | None = None,
    **kwargs: Any,
) -> Any:
    wrappers = {"wrappers": (wrapper,)} if wrapper else {}
    return gym.make_vec(name, num_envs=3, vectorization_mode=mode, **wrappers, **kwargs)


@pytest.mark.usefixtures("registered")
@pytest.mark.parametrize(
    ("name", "mode", "wrapper"),
    [
        ("CartPole-v1", "vector_entry_point", None),
        ("CartPole-v1", "sync", None),
        ("Acrobot-v1", "sync", None),
        ("MountainCarContinuous-v0", "sync", None),
        ("Pendulum-v1", "sync", None),
        ("Pendulum-v1", "sync", NormalizeObservation),
        ("CartPole-v1", "sync", RecordEpisodeStatistics),
        ("CartPole-v1", "sync", lambda env: FrameStackObservation(env, 3)),
        ("state/Simulator-v0", "sync", None),
        ("HalfCheetah-v5", "sync", None),
    ],
)
def test_a_saved_environment_goes_on_as_it_would_have(name: str, mode: str, wrapper: Any) -> None:
    if name == "HalfCheetah-v5":
        pytest.importorskip("mujoco")
    kwargs = {"max_episode_steps": 45} if mode == "sync" else {}
    one, other = vector(name, mode, wrapper, **kwargs), vector(name, mode, wrapper, **kwargs)
    try:
        assert why_reset(one) == ""
        one.reset(seed=[4, 5, 6] if mode == "sync" else 4)
        one.action_space.seed(7)
        for _ in range(30):
            one.step(one.action_space.sample())
        saved = pickle.dumps(_state(one))
        other.reset(seed=9)
        _set_state(other, pickle.loads(saved))
        for _ in range(60):  # beyond the end of an episode
            action = one.action_space.sample()
            for ours, theirs in zip(one.step(action)[:4], other.step(action)[:4], strict=True):
                np.testing.assert_array_equal(ours, theirs)
    finally:
        one.close()
        other.close()


@pytest.mark.usefixtures("registered")
@pytest.mark.parametrize(
    ("name", "mode", "reason"),
    [
        ("state/Elsewhere-v0", "sync", "went on otherwise"),
        ("state/Forgetful-v0", "sync", "went on otherwise"),
        ("state/Native-v0", "sync", "cannot pickle memoryview"),
        ("LunarLander-v3", "sync", "Swig"),
        ("state/Walk-v0", "async", "processes of their own"),
    ],
)
def test_one_that_cannot_be_saved_is_found_out(name: str, mode: str, reason: str) -> None:
    if name == "LunarLander-v3":
        pytest.importorskip("Box2D")
    env = vector(name, mode)
    try:
        env.reset(seed=1)
        assert reason in why_reset(env)
    finally:
        env.close()


def test_mujocos_warnings_are_no_file_in_the_working_directory(
    plan_of: PlanOf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.chdir(tmp_path)
    caplog.set_level("WARNING", "mujoco")
    plan_of("study=single", "env=halfcheetah", "env.env_config={ctrl_cost_weight: 0.2}")  # which no other test has made
    assert not list(tmp_path.iterdir())
    assert any("is deprecated" in record.message for record in caplog.records if record.name == "mujoco")
