"""The environment whose load one can dial.

Times are compared with CPU clocks and lower bounds, which a loaded machine cannot break.
"""

import time
from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from experiments.config.errors import ConfigurationError
from experiments.envs.synthetic import ID, Synthetic
from tests.support.suite import PlanOf, RunSuite

REGISTERED = f"{Synthetic.__module__}:{ID}"


def spent(call: Callable[[], Any], clock: Callable[[], float]) -> float:
    start = clock()
    call()
    return clock() - start


def vector(vectorization_mode: str, num_envs: int, **settings: Any) -> Any:
    return gym.make_vec(REGISTERED, num_envs=num_envs, vectorization_mode=vectorization_mode, **settings)


def costs(seed: int, count: int = 200, **settings: Any) -> np.ndarray:
    """The costs that an environment sets out to spend, without spending them."""
    env = Synthetic(**settings)
    env.reset(seed=seed)
    return np.array([env._cost_s() for _ in range(count)])


def test_a_busy_step_costs_its_cpu_time() -> None:
    env = Synthetic(step_cost_ms=2, mode="busy")
    env.reset(seed=0)
    cpu_s = [spent(lambda: env.step(np.int64(0)), time.thread_time) for _ in range(50)]
    assert min(cpu_s) >= 0.002
    assert np.median(cpu_s) < 0.0022


def test_a_waiting_step_takes_its_time_and_no_cpu() -> None:
    env = Synthetic(step_cost_ms=5, mode="wait")
    env.reset(seed=0)
    assert min(spent(lambda: env.step(np.int64(0)), time.perf_counter) for _ in range(20)) >= 0.005
    assert spent(lambda: [env.step(np.int64(0)) for _ in range(20)], time.thread_time) < 0.1 * 20 * 0.005


@pytest.mark.parametrize(("mode", "clock"), [("busy", time.thread_time), ("wait", time.perf_counter)])
def test_a_reset_costs_what_is_set(mode: Any, clock: Callable[[], float]) -> None:
    dear, free = Synthetic(mode=mode, reset_cost_ms=20), Synthetic(mode=mode)
    assert spent(dear.reset, clock) >= 0.02
    assert min(spent(free.reset, time.thread_time) for _ in range(5)) < 0.002


def test_costs_are_even_unless_there_is_jitter() -> None:
    assert np.array_equal(costs(0, step_cost_ms=3), np.full(200, 0.003))


@pytest.mark.parametrize("jitter", [0.2, 1.0])
def test_jitter_is_the_costs_coefficient_of_variation(jitter: float) -> None:
    drawn = costs(0, 100_000, step_cost_ms=3, jitter=jitter)
    assert drawn.min() > 0
    assert drawn.mean() == pytest.approx(0.003, rel=0.02)
    assert drawn.std() / drawn.mean() == pytest.approx(jitter, rel=0.05)


def test_a_seed_gives_the_same_costs_and_observations() -> None:
    assert np.array_equal(costs(7, jitter=0.5), costs(7, jitter=0.5))
    assert not np.array_equal(costs(7, jitter=0.5), costs(8, jitter=0.5))
    one, other = (Synthetic(observation_size=5).reset(seed=seed)[0] for seed in (7, 8))
    assert np.array_equal(one, Synthetic(observation_size=5).reset(seed=7)[0])
    assert not np.array_equal(one, other)


@pytest.mark.filterwarnings("error")
def test_it_passes_gymnasiums_checks() -> None:
    made = gym.make(REGISTERED, step_cost_ms=0.01, jitter=0.5, observation_size=3, max_episode_steps=4, num_actions=3)
    check_env(made.unwrapped)


@pytest.mark.parametrize("num_actions", [1, 2, 5])
def test_the_right_action_has_the_best_return_and_can_be_seen(num_actions: int) -> None:
    env = gym.make(REGISTERED, step_cost_ms=0.001, max_episode_steps=6, num_actions=num_actions)
    right_ones = set()
    for seed in range(40):
        observation, _ = env.reset(seed=seed)
        right = sum(observation[0] >= bound for bound in np.linspace(-1, 1, num_actions + 1)[1:-1])
        right_ones.add(int(right))
        rewards, ends = zip(*(env.step(np.int64(right))[1:4:2] for _ in range(6)), strict=True)
        assert sum(rewards) == 6
        assert ends == (False,) * 5 + (True,)
        assert not any(env.step(np.int64(wrong))[1] for wrong in range(num_actions) if wrong != right)
    assert right_ones == set(range(num_actions))


@pytest.mark.parametrize("mode", ["sync", "async"])
def test_every_environment_of_a_vector_has_its_own_stream(mode: str) -> None:
    settings = {"step_cost_ms": 0.01, "mode": "wait", "observation_size": 3}
    env = vector(mode, 3, max_episode_steps=4, **settings)
    try:
        observations, _ = env.reset(seed=[1, 2, 3])
        for _ in range(3):
            _, rewards, _, truncated, _ = env.step(np.zeros(3, np.int64))
            assert np.array_equal(rewards, observations[:, 0] < 0)
            assert not truncated.any()
        assert env.step(np.zeros(3, np.int64))[3].all()
    finally:
        env.close()
    alone = [Synthetic(**settings).reset(seed=seed)[0] for seed in (1, 2, 3)]
    assert np.array_equal(observations, alone)


def test_sync_environments_add_their_costs_and_async_ones_wait_side_by_side() -> None:
    def fastest_step_s(mode: str) -> float:
        env = vector(mode, 4, step_cost_ms=25, mode="wait")
        try:
            env.reset(seed=0)
            return min(spent(lambda: env.step(np.zeros(4, np.int64)), time.perf_counter) for _ in range(8))
        finally:
            env.close()

    assert fastest_step_s("sync") >= 0.1
    assert 0.025 <= fastest_step_s("async") < 0.1


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"step_cost_ms": 0},
            "step_cost_ms=0: must be above 0; for an environment that costs next to nothing take env=cartpole",
        ),
        ({"step_cost_ms": -1.5}, "step_cost_ms=-1.5: must be above 0"),
        ({"step_cost_ms": float("nan")}, "step_cost_ms=nan: must be above 0"),
        ({"step_cost_ms": float("inf")}, "step_cost_ms=inf: must be above 0"),
        ({"mode": "lazy"}, r"mode='lazy': must be busy \(a step burns CPU time\) or wait"),
        ({"jitter": -0.1}, "jitter=-0.1: must be 0 .* or above"),
        ({"reset_cost_ms": -1}, "reset_cost_ms=-1: must be 0 .* or above"),
        ({"observation_size": 0}, "observation_size=0: must be between 1 and 10000000 floats"),
        ({"observation_size": 10**12}, "observation_size=1000000000000: must be between"),
        ({"num_actions": 0}, "num_actions=0: must be 1 or more"),
    ],
)
def test_wrong_settings_say_what_and_how_to_fix_it(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Synthetic(**settings)


def test_its_settings_compose(plan_of: PlanOf) -> None:
    load = {
        "step_cost_ms": 5,
        "mode": "wait",
        "jitter": 0.2,
        "reset_cost_ms": 3,
        "observation_size": 16,
        "num_actions": 4,
    }
    overrides = [f"env.env_config.{name}={value}" for name, value in load.items()]
    assert plan_of("env=synthetic", *overrides).trials[0].env.env_config == load


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("step_cost_ms=fast", "env.env_config.step_cost_ms='fast': must be a number"),
        ("mode=lazy", "env.env_config.mode='lazy': must be"),
    ],
)
def test_a_study_with_wrong_settings_is_refused(plan_of: PlanOf, override: str, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        plan_of("env=synthetic", f"env.env_config.{override}")


def test_a_step_cost_of_0_ends_the_command_with_one_line(suite_here: RunSuite) -> None:
    done = suite_here("dry_run=true", "env=synthetic", "env.env_config.step_cost_ms=0")
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1
    assert (
        "step_cost_ms=0: must be above 0; for an environment that costs next to nothing take env=cartpole"
        in done.stderr
    )
