"""Masks of actions stand in front of observations, whatever else these are, and nothing that they rule out is tried."""

from dataclasses import replace
from typing import Any

import gymnasium as gym
import masked_envs
import numpy as np
import pytest
from gymnasium import spaces

from experiments.config.errors import ConfigurationError
from experiments.config.schema import EnvSettings
from experiments.envs.checked import EnvironmentFaultError
from experiments.envs.masked import Masked, sampled_action, seen_space, why_not
from experiments.planning.plan import Plan
from experiments.planning.record import plan_record
from experiments.planning.terminal import plan_lines
from experiments.planning.trials import StudyTrials
from experiments.rllib.building import build_algorithm_config, environment_of, is_masked
from experiments.rllib.building import seen_space as seen_by
from experiments.rllib.environments import why_reset
from experiments.rllib.made_environments import spaces as spaces_of
from experiments.rllib.probe import env_step_s
from experiments.rllib.rehearsal import rehearse
from tests.support.drawn_spaces import trial_with
from tests.support.own_files import own_rl_module
from tests.support.suite import PlanOf

VECTOR, FOUR = spaces.Box(-1, 1, (3,), np.float64), spaces.Discrete(4)
MASK = spaces.MultiBinary(4)
RULED = ("study=single", "env=gym", "env.id=masked_envs:masked/Ruled-v0")


class Given(gym.Env[Any, Any]):
    """Observes what it is given, in turn, and is over with the last one."""

    action_space = FOUR

    def __init__(self, space: spaces.Dict, *observations: Any) -> None:
        self.observation_space, self._observations = space, observations

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self._left = list(self._observations)
        return self._left.pop(0), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        return self._left.pop(0), 0.0, not self._left, False, {}


def settings_of(**env_config: Any) -> EnvSettings:
    return EnvSettings("ruled", "masked_envs:masked/Ruled-v0", env_config, "sync", 1000, 100, None, (None, None))


@pytest.mark.parametrize(
    ("beside", "value", "expected"),
    [
        ({"observations": VECTOR}, {"observations": [0.5, -1, 1]}, [0.5, -1, 1]),
        ({"observation": VECTOR}, {"observation": np.array([0.5, -1, 1])}, [0.5, -1, 1]),
        ({"at": spaces.Discrete(3)}, {"at": 2}, [0, 0, 1]),
        ({"b": spaces.Discrete(2), "a": spaces.Box(0, 9, (2,), np.int64)}, {"a": [7, 8], "b": 1}, [7, 8, 0, 1]),
        ({"seen": spaces.Box(0, 1, (1, 2, 2), np.float32)}, {"seen": np.full((1, 2, 2), 0.5)}, [0.5] * 4),
    ],
    ids=["observations", "observation", "a choice", "several parts", "a picture"],
)
def test_the_mask_comes_first_and_all_else_behind_it(beside: Any, value: Any, expected: list[float]) -> None:
    space = spaces.Dict({**beside, "action_mask": MASK})
    env = Masked(Given(space, {**value, "action_mask": np.array([0, 1, 1, 0], np.int8)}))
    observation, _ = env.reset(seed=0)
    assert (observation.dtype, observation.tolist()) == (np.float32, [0, 1, 1, 0, *expected])
    assert env.observation_space.contains(observation)
    low = env.observation_space.low
    assert low[4:].tolist() == seen_space(space).low.reshape(-1).tolist()


def test_what_networks_see_of_pictures_is_a_picture() -> None:
    picture = spaces.Box(0, 1, (8, 9, 2), np.float64)
    assert seen_space(spaces.Dict({"action_mask": MASK, "board": picture})) == spaces.Box(0, 1, (8, 9, 2), np.float32)


def test_a_state_without_an_allowed_action_is_an_error_of_the_environment_unless_it_is_terminal() -> None:
    for step in (0, 2):
        env = Masked(gym.make("masked/Ruled-v0", nothing_at=step))
        said = rf"^masked/Ruled-v0: {'step' if step else 'reset'} gave an action_mask that allows no action\. Allow one"
        with pytest.raises(EnvironmentFaultError, match=said):
            played(env, 7)
        with pytest.raises(ConfigurationError, match="gave an action_mask that allows no action"):
            rehearse(settings_of(nothing_at=step))
    last, *_ = played(Masked(gym.make("masked/Ruled-v0")), 7)
    assert last[:5].tolist() == [0] * 5


def played(env: gym.Env[Any, Any], steps: int) -> Any:
    """What the last of so many steps gives, of actions that are allowed."""
    observation, _ = env.reset(seed=0)
    result: Any = ()
    for _ in range(steps):
        result = env.step(3 + int(np.flatnonzero(observation[:5])[0]))
        observation = result[0]
    return result


MASKED = spaces.Dict({"observations": VECTOR, "action_mask": MASK})
NO_BITS = "A mask has a 0 or 1 for each choice of a Discrete"


@pytest.mark.parametrize(
    ("observations", "actions", "said"),
    [
        (MASKED, spaces.Discrete(5), NO_BITS),
        (MASKED, spaces.MultiDiscrete([2, 2]), NO_BITS),
        (MASKED, spaces.Box(-1, 1, (4,), np.float32), NO_BITS),
        (spaces.Dict({"a": VECTOR, "action_mask": spaces.Box(-1, 1, (4,), np.int8)}), FOUR, NO_BITS),
        (spaces.Dict({"a": VECTOR, "action_mask": spaces.Discrete(4)}), FOUR, NO_BITS),
        (spaces.Dict({"action_mask": MASK}), FOUR, "observes Dict.* beside its action_mask"),
        (spaces.Dict({"a": spaces.Box(0, 255, (8, 8, 3), np.uint8), "action_mask": MASK}), FOUR, "observes Box"),
        (spaces.Dict({"a": spaces.Text(3), "action_mask": MASK}), FOUR, "observes Text"),
    ],
    ids=str,
)
def test_a_mask_that_cannot_be_applied_is_refused_by_every_algorithm(
    observations: spaces.Dict, actions: gym.Space[Any], said: str
) -> None:
    assert why_not(observations, actions)
    for algorithm in ("ppo", "dqn", "sac"):
        with pytest.raises(ConfigurationError, match=rf"^env=drawn .*{said}"):
            build_algorithm_config(trial_with(algorithm, actions, observations))


def test_sac_is_refused_with_the_algorithms_that_choose() -> None:
    with pytest.raises(
        ConfigurationError, match=r"algorithm=sac needs continuous actions.* Try algorithm=ppo or algorithm=dqn"
    ):
        build_algorithm_config(trial_with("sac", FOUR, MASKED))


gym.register(
    "masked/Vector-v0",
    entry_point=masked_envs.Ruled,
    vector_entry_point=masked_envs.Ruled,
    max_episode_steps=9,
    disable_env_checker=True,
)


def test_a_vector_implementation_and_stacked_frames_are_refused(plan_of: PlanOf) -> None:
    with pytest.raises(ConfigurationError, match=r"vector_entry_point: mine has an action_mask.*sync"):
        plan_of(*RULED[:2], "env.id=masked/Vector-v0", "env.name=mine", "env.vectorize_mode=vector_entry_point")
    with pytest.raises(ConfigurationError, match=r"preprocessing.frame_stack=4: observations Dict"):
        plan_of(*RULED, "preprocessing=frame_stack")


def said_of(plan: Plan) -> list[str]:
    return [line for line in plan_lines(plan) if line.startswith("env ")]


@pytest.mark.parametrize("algorithm", ["ppo", "ppo_ewma", "appo", "impala", "dqn"])
def test_the_plan_says_that_a_mask_is_applied(plan_of: PlanOf, algorithm: str) -> None:
    plan = plan_of(*RULED, f"algorithm={algorithm}")
    assert any("its action_mask is applied" in line for line in said_of(plan))
    assert "unmasked" not in plan_record(StudyTrials(plan))
    trial = plan.trials[0]
    assert (is_masked(trial), seen_by(trial).shape) == (True, (3,))
    assert spaces_of(environment_of(trial))[1] == spaces.Discrete(5)


def test_to_networks_of_ones_own_a_mask_is_left_and_that_is_said(plan_of: PlanOf, tmp_path: Any) -> None:
    own = [word for word in own_rl_module(tmp_path, "heeds_masks") if not word.startswith("env")]
    plan = plan_of(*RULED, *own)
    assert any("its action_mask is not applied: your networks observe it" in line for line in said_of(plan))
    assert len(plan_record(StudyTrials(plan))["unmasked"]) == 1
    assert spaces_of(environment_of(plan.trials[0]))[0].shape == (5 + 3,)


def test_only_allowed_actions_are_tried_before_a_study_and_at_checkpoints() -> None:
    env = settings_of(start=0)
    assert rehearse(env).notes == ()
    assert env_step_s(env, 2) > 0
    trial = trial_with("ppo", FOUR, MASKED)
    of_trial = environment_of(replace(trial, env=env))
    envs = gym.make_vec(of_trial.id, num_envs=2, vectorization_mode="sync", **of_trial.make_arguments)
    assert why_reset(envs) == ""


def test_a_drawn_action_is_one_that_is_allowed_and_each_of_these_is_drawn() -> None:
    space, actions = MASKED, spaces.Discrete(4, start=-1, seed=0)
    observation = {"observations": np.zeros(3), "action_mask": np.array([0, 1, 0, 1])}
    assert {int(sampled_action(actions, space, observation)) for _ in range(50)} == {0, 2}
    assert {int(sampled_action(actions, VECTOR, np.zeros(3))) for _ in range(80)} == {-1, 0, 1, 2}
