from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from experiments.fast.actions import known_actions
from tests.support.fast_off_policy import dqn, sac


def cartpole() -> Any:
    return gym.make_vec("CartPole-v1", num_envs=3, vectorization_mode="vector_entry_point")


def module_of(config: Any) -> Any:
    return config.get_rl_module_spec(env=gym.make(config.env)).build()


def test_cartpole_does_not_look_at_actions_that_are_known_and_does_afterwards() -> None:
    envs, module = cartpole(), module_of(dqn(False))
    envs.reset(seed=1)
    space, wrong = envs.action_space, np.full(3, 7)
    with known_actions(envs, module):
        assert envs.action_space == space
        envs.step(wrong)
    assert envs.action_space is space
    with pytest.raises(AssertionError, match="invalid"):
        envs.step(wrong)


def test_environments_of_other_actions_than_the_module_s_go_on_looking() -> None:
    envs, module = cartpole(), module_of(sac(False))
    envs.reset(seed=1)
    with known_actions(envs, module), pytest.raises(AssertionError, match="invalid"):
        envs.step(np.full(3, 7))


def test_the_space_is_its_own_again_after_an_error() -> None:
    envs, module = cartpole(), module_of(dqn(False))
    space = envs.action_space
    with pytest.raises(RuntimeError), known_actions(envs, module):
        raise RuntimeError
    assert envs.action_space is space
