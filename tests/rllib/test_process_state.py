"""Whose code shares processes, and what other code is found to keep there."""

import functools
import importlib
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import gymnasium as gym
import pytest
from gymnasium.envs.classic_control import CartPoleEnv
from gymnasium.envs.registration import WrapperSpec

from experiments.config.trial_config import TrialConfig
from experiments.planning.terminal import plan_lines
from experiments.rllib.process_state import ProcessState, packages_of
from tests.support.own_files import own_rl_module
from tests.support.suite import PAIRS, PlanOf

CART_POLE = "gymnasium.envs.classic_control:CartPoleEnv"


@pytest.fixture
def trial(plan_of: PlanOf) -> TrialConfig:
    return plan_of("study=single").trials[0]


@pytest.fixture
def registry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gym.envs.registration, "registry", dict(gym.registry))
    monkeypatch.setattr(gym, "registry", gym.envs.registration.registry)


def of_env(trial: TrialConfig, gym_id: str, **settings: Any) -> frozenset[str]:
    return packages_of(replace(trial, env=replace(trial.env, id=gym_id, **settings)))


@pytest.mark.parametrize("env", sorted({env for _, env in PAIRS}))
def test_trials_on_the_environments_that_come_with_the_suite_share_processes(plan_of: PlanOf, env: str) -> None:
    if env == "pong":
        pytest.importorskip("ale_py")
    elif env.startswith("lunarlander"):
        pytest.importorskip("Box2D")
    elif env in ("halfcheetah", "hopper", "inverted_pendulum", "walker2d"):
        pytest.importorskip("mujoco")
    plan = plan_of("study=single", f"env={env}", *(["algorithm=sac"] if env in ("pendulum", "halfcheetah") else []))
    assert packages_of(plan.trials[0]) == frozenset()
    assert not any(line.startswith("processes") for line in plan_lines(plan))


@pytest.mark.usefixtures("registry")
def test_so_do_trials_on_gymnasiums_own_and_the_emulators(trial: TrialConfig) -> None:
    assert of_env(trial, "FrozenLake-v1") == of_env(trial, "phys2d/CartPole-v1") == frozenset()
    if importlib.util.find_spec("ale_py"):
        assert of_env(trial, "ale_py:ALE/Breakout-v5") == frozenset()


class Mine(gym.Env[Any, Any]):
    pass


@pytest.mark.usefixtures("registry")
@pytest.mark.parametrize(
    ("registered", "package"),
    [
        ({"entry_point": "a_package.envs:ItsEnv"}, "a_package"),
        ({"entry_point": Mine}, "tests"),
        ({"entry_point": lambda: gym.make("CartPole-v1")}, "tests"),
        ({"entry_point": functools.partial(Mine)}, "tests"),
        ({"entry_point": functools.partial(CartPoleEnv)}, None),
        ({"entry_point": CART_POLE, "vector_entry_point": "a_package:ItsVector"}, "a_package"),
        (
            {"entry_point": CART_POLE, "additional_wrappers": (WrapperSpec("Its", "a_package.wrappers:Its", None),)},
            "a_package",
        ),
    ],
    ids=("a package", "a class", "a lambda", "a partial", "one of Gymnasium's", "its vector", "its wrapper"),
)
def test_what_makes_or_wraps_an_environment_counts_wherever_it_is_registered(
    trial: TrialConfig, registered: dict[str, Any], package: str | None
) -> None:
    gym.register("Registered-v0", **registered)
    assert of_env(trial, "Registered-v0") == ({package} if package else frozenset())


@pytest.mark.usefixtures("registry")
def test_so_does_the_package_that_is_imported_for_an_id(
    trial: TrialConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "registers_cart_pole.py").write_text(
        f'import gymnasium\ngymnasium.register("Third-v0", entry_point="{CART_POLE}")'
    )
    monkeypatch.syspath_prepend(tmp_path)
    assert of_env(trial, "registers_cart_pole:Third-v0") == {"registers_cart_pole"}


def test_so_do_files_networks_and_algorithms_of_ones_own_and_the_plan_says_it(
    plan_of: PlanOf, trial: TrialConfig, tmp_path: Path
) -> None:
    plan = plan_of(*own_rl_module(tmp_path, "of_ones_own"), "study=single")
    assert packages_of(plan.trials[0]) == {"of_ones_own"}
    (said,) = (line for line in plan_lines(plan) if line.startswith("processes"))
    assert "each trial with of_ones_own gets one of its own" in said
    modules, algorithm = {"only_imported": "0"}, trial.algorithm
    assert packages_of(replace(trial, modules=modules)) == {"only_imported"}
    assert packages_of(replace(trial, algorithm={**algorithm, "config_class": "a_package.algorithms.ItsConfig"})) == {
        "a_package"
    }
    network = {**algorithm["rl_module"], "module_class": "a_package.Net"}
    assert packages_of(replace(trial, algorithm={**algorithm, "rl_module": network})) == {"a_package"}


KEEPS = """
import functools, itertools, logging, random, threading, warnings
import gymnasium, numpy

LOCK, LOG, SPACE = threading.Lock(), logging.getLogger("keeps"), gymnasium.spaces.Discrete(2)
COUNT, TABLE, NUMBERS, IDS = 0, {}, numpy.random.default_rng(0), itertools.count()
DOUBLE = lambda number: 2 * number


class Curriculum:
    def __init__(self):
        self.level, self.lock = 0, threading.Lock()


class Env(gymnasium.Env):
    resets = 0
    observation_space = gymnasium.spaces.Box(-1, 1, (2,))

    class Task:
        seen = []

    def remember(self, what, seen=[]):
        seen.append(what)

    @classmethod
    def count(cls):
        cls.resets += 1

    @property
    def doubled(self):
        return DOUBLE(self.resets)


@functools.cache
def maze(size):
    return random.random()


def counted():
    counted.calls += 1


counted.calls = 0


def counter():
    count = 0

    def add():
        nonlocal count
        count += 1

    return add


ADD, CURRICULUM = counter(), Curriculum()


def countdown(number):
    return countdown(number - 1) if number else 0
"""


@pytest.fixture
def keeps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    (tmp_path / "keeps.py").write_text(KEEPS)
    monkeypatch.syspath_prepend(tmp_path)
    yield importlib.import_module("keeps")
    del sys.modules["keeps"]


@pytest.mark.parametrize(
    ("code", "found"),
    [
        ("Env.count()", "keeps.Env.resets"),
        ("Env.Task.seen.append(1)", "keeps.Env.Task.seen"),
        ("Env.Task.other = 1", "keeps.Env.Task.other"),
        ("Env().remember(1)", "keeps.Env.remember"),
        ("globals().update(COUNT=1)", "keeps.COUNT"),
        ("globals().update(new=1)", "keeps.new"),
        ("TABLE['a'] = 1", "keeps.TABLE"),
        ("NUMBERS.random()", "keeps.NUMBERS"),
        ("next(IDS)", "keeps.IDS"),
        ("CURRICULUM.level = 1", "keeps.CURRICULUM"),
        ("maze(3)", "keeps.maze"),
        ("counted()", "keeps.counted"),
        ("ADD()", "keeps.ADD"),
    ],
)
def test_what_code_keeps_in_its_modules_and_classes_is_found_by_its_name(
    keeps: ModuleType, code: str, found: str
) -> None:
    state = ProcessState(frozenset({"keeps"}))
    assert state.changed() == []
    exec(code, vars(keeps))  # as the module itself would
    assert state.changed() == [found]
    assert ProcessState(frozenset({"another"})).changed() == ProcessState(frozenset()).changed() == []


@pytest.mark.parametrize(
    "code",
    [
        "Env().doubled, DOUBLE(2), countdown(3)",
        "LOCK.acquire(), LOG.setLevel(10), CURRICULUM.lock.acquire()",
        (
            "Env.observation_space.sample(), gymnasium.vector.SyncVectorEnv([lambda: "
            "gymnasium.make('CartPole-v1')]).close()"
        ),
        "SPACE.seed(1), warnings.warn('a registry of warnings')",
    ],
)
@pytest.mark.filterwarnings("ignore:a registry of warnings")
def test_what_cannot_reach_another_trial_is_not_taken_for_state(keeps: ModuleType, code: str) -> None:
    state = ProcessState(frozenset({"keeps"}))
    exec(code, vars(keeps))
    assert state.changed() == []


def test_a_module_that_is_imported_later_counts_from_then_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    state = ProcessState(frozenset({"later"}))
    (tmp_path / "later.py").write_text("x = []")
    later: Any = importlib.import_module("later")
    try:
        assert state.changed() == []
        later.x.append(1)
        assert state.changed() == ["later.x"]
    finally:
        del sys.modules["later"]
