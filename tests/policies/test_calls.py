"""A policy that is called with observations, in loops as anybody writes them."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from experiments.config.errors import ConfigurationError
from experiments.policies.policy import Policy
from tests.support.exported import LSTM, policy_of
from tests.support.policies import play, play_together
from tests.support.suite import PlanOf

SMALL = ("study=single", "seeds=[0]", "evaluation.final_episodes=16")
STACKED = ("env=pendulum", "preprocessing=normalize", "preprocessing.frame_stack=2")
POLICIES = {
    "discrete": ("algorithm=dqn", "env=acrobot", "preprocessing=normalize"),
    "continuous": ("algorithm=ppo", "env=pendulum", "preprocessing=normalize"),
    "squashed": ("algorithm=sac", "env=pendulum"),
    "recurrent": ("algorithm=ppo", "env=pendulum", *LSTM),
    "frames stacked": STACKED,
}


def policy(plan_of: PlanOf, *overrides: str) -> Policy:
    return policy_of(plan_of(*SMALL, *overrides).trials[0])


@pytest.mark.parametrize("which", POLICIES)
def test_one_observation_after_the_other_plays_the_episodes_of_the_evaluation_to_the_bit(
    plan_of: PlanOf, which: str
) -> None:
    acts = policy(plan_of, *POLICIES[which])
    env_seeds = acts.held_out_seeds()
    expected = acts.evaluate(env_seeds).returns.tolist()
    assert play_together(acts, env_seeds) == expected
    alone = play(acts, env_seeds[:3])
    assert alone == (pytest.approx(expected[:3], rel=1e-3) if place_matters(acts) else expected[:3])


def place_matters(acts: Policy) -> bool:
    """Whether this machine's matrix products round a row by its place in the batch."""
    space, rng = acts.environment().observation_space, np.random.default_rng(0)
    batches = [np.repeat(rng.uniform(-1, 1, (1, *space.shape)), 16, axis=0) for _ in range(50)]
    acts.reset()
    found = [acts(batch.astype(space.dtype)) for batch in batches]
    acts.reset()
    return any((actions != actions[0]).any() for actions in found)


def test_the_episodes_of_an_environments_own_vector_implementation_are_played_side_by_side(plan_of: PlanOf) -> None:
    acts = policy(plan_of, "env=cartpole")
    expected = acts.evaluate(acts.held_out_seeds()).returns.tolist()
    assert len(set(expected)) > 1
    assert play_together(acts, acts.held_out_seeds()) == expected


def test_actions_are_as_the_environment_takes_them(plan_of: PlanOf) -> None:
    chosen = policy(plan_of, "env=cartpole")
    assert isinstance(chosen([0, 0, 0, 0]), np.integer)
    assert chosen(np.zeros((3, 4))).shape == (3,)
    assert chosen(np.zeros((200, 4))).shape == (200,)  # more than an evaluation steps side by side
    pushed = policy(plan_of, "env=pendulum")
    assert pushed.environment().action_space.contains(pushed(np.zeros(3)))
    assert pushed(np.zeros((1, 3))).shape == (1, 1)


def test_a_recurrent_policy_remembers_until_it_is_reset(plan_of: PlanOf) -> None:
    acts, observation = policy(plan_of, *POLICIES["recurrent"]), np.array([1.0, 0.5, -0.3])
    first, second = acts(observation), acts(observation)
    assert first != second
    acts.reset()
    assert acts(observation) == first
    with pytest.raises(
        ConfigurationError, match=r"remembers 1 episodes, and is given 2 observations. Call its reset\(\)"
    ):
        acts(np.stack([observation, observation]))
    acts.reset()
    assert acts(np.stack([observation, observation])).tolist() == [first.tolist()] * 2


@pytest.mark.parametrize(
    ("observation", "message"),
    [
        (np.zeros(3), r"has the shape \(3,\). The policy takes \(6,\), the last 2 frames of Pendulum-v1 side by side"),
        (np.zeros((0, 6)), r"has the shape \(0, 6\)"),
        ({"angle": 1.0}, "is no array of float32"),
    ],
)
def test_another_observation_is_refused_with_what_the_policy_takes(
    plan_of: PlanOf, observation: Any, message: str
) -> None:
    with pytest.raises(ConfigurationError, match=message) as refused:
        policy(plan_of, *STACKED)(observation)
    assert "policy.environment() gives such observations" in str(refused.value)


def test_the_environment_stacks_frames_and_draws_itself(plan_of: PlanOf) -> None:
    env = policy(plan_of, *STACKED).environment("rgb_array")
    observation, _ = env.reset(seed=0)
    assert observation.shape == (6,)
    frame = env.render()
    assert isinstance(frame, np.ndarray)
    assert frame.ndim == 3 and frame.std() > 0


def test_weights_that_are_not_finite_give_no_action(plan_of: PlanOf) -> None:
    acts = policy(plan_of, "env=cartpole")
    next(acts.module.parameters()).data[0] = float("nan")
    with pytest.raises(ConfigurationError, match="the policy has no action: non-finite weights"):
        acts(np.zeros(4))


def test_connectors_of_ones_own_see_episodes_and_not_an_observation(plan_of: PlanOf) -> None:
    acts = replace(policy(plan_of, "env=cartpole"), pipelines=(object(), object()))
    with pytest.raises(ConfigurationError, match=r"connectors of its own .* policy.evaluate\(env_seeds\)"):
        acts(np.zeros(4))
