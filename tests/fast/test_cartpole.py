"""CartPole's step written out: Gymnasium's to the bit."""

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.envs.classic_control.cartpole import CartPoleVectorEnv
from gymnasium.wrappers.vector import DictInfoToList

from experiments.fast.actions import step_function
from experiments.fast.cartpole import step_of


def _envs(num_envs: int, **settings: int) -> Any:
    return CartPoleVectorEnv(num_envs, **settings)


@pytest.mark.parametrize("num_envs", [1, 4, 16, 20, 100])
@pytest.mark.parametrize("random", [0.02, 1.0])
def test_same_as_gymnasiums_to_the_bit(num_envs: int, random: float) -> None:
    """Over episodes that end by themselves and at the limit of 60 env steps, with every output and the state."""
    theirs, ours = (_envs(num_envs, max_episode_steps=60) for _ in range(2))
    step = step_of(ours)
    assert step is not None
    rng, ended = np.random.default_rng(0), np.zeros(2)
    for seed in (3, None):
        observations = theirs.reset(seed=seed)[0]
        np.testing.assert_array_equal(observations, ours.reset(seed=seed)[0])
        for _ in range(300):
            balancing = (observations[:, 2] + observations[:, 3] > 0).astype(np.int64)
            actions = np.where(rng.random(num_envs) < random, rng.integers(2, size=num_envs), balancing)
            expected, got = theirs.step(actions), step(actions)
            for one, other in zip(expected[:4], got[:4], strict=True):
                assert one.dtype == other.dtype and one.strides == other.strides
                np.testing.assert_array_equal(one, other)
            for name in ("state", "steps", "prev_done"):
                np.testing.assert_array_equal(getattr(theirs, name), getattr(ours, name))
            observations = expected[0]
            ended += expected[2].sum(), expected[3].sum()
    assert ended[0 if random == 1.0 else 1] > 0
    assert theirs.np_random.random() == ours.np_random.random()


def test_what_is_set_later_has_its_effect() -> None:
    """Another force, threshold or limit, and random bounds of a reset."""
    theirs, ours = (_envs(8) for _ in range(2))
    step = step_of(ours)
    assert step is not None
    for env in (theirs, ours):
        env.force_mag, env.x_threshold, env.max_episode_steps = 25.0, 0.3, 12
        env.reset(seed=1, options={"low": -0.2, "high": 0.2})
    for i in range(60):
        actions = np.arange(8) % 2 if i % 2 else np.ones(8, dtype=np.int64)
        for one, other in zip(theirs.step(actions)[:4], step(actions)[:4], strict=True):
            np.testing.assert_array_equal(one, other)


def test_an_action_outside_of_the_space_is_refused_as_by_gymnasium() -> None:
    """Where actions are looked at."""
    env = CartPoleVectorEnv(2)
    step = step_of(env)
    assert step is not None
    env.reset(seed=0)
    with pytest.raises(AssertionError, match="invalid"):
        step(np.array([0, 2]))


@pytest.mark.parametrize("changed", ["subclass", "integrator", "reward", "another"])
def test_other_environments_step_by_themselves(changed: str) -> None:
    """What is not known is left to its own code."""

    class Own(CartPoleVectorEnv):
        pass

    env: Any = Own(2) if changed == "subclass" else CartPoleVectorEnv(2)
    if changed == "integrator":
        env.kinematics_integrator = "semi-implicit"
    elif changed == "reward":
        env = CartPoleVectorEnv(2, sutton_barto_reward=True)
    elif changed == "another":
        env = gym.make_vec("Acrobot-v1", 2, vectorization_mode="sync")
    assert step_of(env) is None
    assert step_function(DictInfoToList(env))[0] == env.step


def test_it_is_what_environments_are_stepped_by() -> None:
    """As the suite makes them."""
    env = DictInfoToList(gym.make_vec("CartPole-v1", 2, vectorization_mode="vector_entry_point"))
    assert step_function(env)[0] != env.env.step
