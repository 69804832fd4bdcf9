from dataclasses import replace
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import tiny_envs  # noqa: F401  # registers the environments
import torch
from gymnasium.envs.classic_control.cartpole import CartPoleEnv
from ray.rllib.core.rl_module.torch import TorchRLModule

from experiments.config.schema import EnvSettings
from experiments.rllib.results import NonFiniteError
from experiments.rllib.seeding import Role, stream_seeds
from experiments.trial.evaluation import KeptEnvironments, Playing, evaluate

STRETCHED = Playing(normalize_actions=True, clip_actions=False)
"""RLlib's default for actions."""


class Policy(torch.nn.Module):
    """Stands where an RLModule does: a fixed function from observations to actions."""

    def __init__(self, actions: Any) -> None:
        super().__init__()
        self.scale = torch.nn.Parameter(torch.ones(1))
        self.actions, self.seen = actions, []

    def _forward_inference(self, batch: dict[str, Any]) -> dict[str, Any]:
        self.seen.append(batch["obs"].numpy().copy())
        return {"actions": self.actions(batch["obs"])}

    def is_stateful(self) -> bool:
        return False


class Counting(Policy):
    """Counts its steps in a state, as a recurrent module of RLlib's, and acts by it."""

    def is_stateful(self) -> bool:
        return True

    def get_initial_state(self) -> dict[str, Any]:
        return {"steps": torch.zeros(1)}

    def _forward_inference(self, batch: dict[str, Any]) -> dict[str, Any]:
        assert batch["obs"].shape[1] == 1  # time
        steps = batch["state_in"]["steps"]
        self.seen.append(steps[:, 0].tolist())
        return {"actions": steps.unsqueeze(1) / 10, "state_out": {"steps": steps + 1}}


def env(id: str, mode: Any = "sync", **env_config: Any) -> EnvSettings:
    return EnvSettings("tiny", id, env_config, mode, 1000, 100, None, (None, None))


def first_action(observations: torch.Tensor) -> torch.Tensor:
    return torch.zeros(len(observations), dtype=torch.int64)


def test_each_env_seed_contributes_exactly_one_episode() -> None:
    policy = Policy(first_action)
    result = evaluate(policy, env("tiny_envs:tiny/Count-v0", length=7), [11, 12, 13], STRETCHED)
    assert result.returns.tolist() == [7, 7, 7]
    assert result.lengths.tolist() == [7, 7, 7]
    assert len(policy.seen) == 7


def test_episodes_start_from_their_own_seeds() -> None:
    policy = Policy(first_action)
    evaluate(policy, env("tiny_envs:tiny/Count-v0"), [11, 12, 13], STRETCHED)
    expected = [np.float32(gym.make("tiny_envs:tiny/Count-v0").reset(seed=s)[0][0]) for s in (11, 12, 13)]
    assert policy.seen[0][:, 0].tolist() == expected


def test_what_a_policy_remembers_begins_anew_with_each_episode_and_goes_on_in_it() -> None:
    policy = Counting(first_action)
    result = evaluate(policy, env("Pendulum-v1"), [1, 2, 3], Playing(True, False, max_env_steps=4))
    assert result.lengths.tolist() == [4, 4, 4]
    assert policy.seen == [[step] * 3 for step in (0.0, 1.0, 2.0, 3.0)]
    evaluate(policy, env("Pendulum-v1"), [1], Playing(True, False, max_env_steps=1))
    assert policy.seen[-1] == [0.0]


def test_more_episodes_than_envs_come_in_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("experiments.trial.evaluation.MAX_ENVS", 2)
    result = evaluate(Policy(first_action), env("tiny_envs:tiny/Count-v0"), [1, 2, 3, 4, 5], STRETCHED)
    assert result.returns.shape == (5,)


def test_actions_in_minus_one_to_one_are_stretched_to_the_box_or_clipped_as_rllib_would() -> None:
    half = Policy(lambda obs: torch.full((len(obs), 1), 0.5))
    assert evaluate(half, env("tiny_envs:tiny/Reach-v0", high=3.0), [1], STRETCHED).returns.tolist() == [1.5]
    beyond = Policy(lambda obs: torch.full((len(obs), 1), 9.0))
    clipped = Playing(normalize_actions=False, clip_actions=True)
    assert evaluate(beyond, env("tiny_envs:tiny/Reach-v0", high=3.0), [1], clipped).returns.tolist() == [3.0]


def test_short_episodes_are_not_favoured() -> None:
    # The pole falls sooner in some episodes than in others; each counts once, whichever ends first.
    result = evaluate(
        Policy(first_action),
        env("CartPole-v1", "vector_entry_point"),
        stream_seeds(0, Role.EVALUATION, 30),
        STRETCHED,
    )
    assert len(result.returns) == 30
    assert len(set(result.lengths.tolist())) > 1
    assert result.metrics()["eval/return_mean"] == pytest.approx(result.returns.mean())


def test_the_same_seeds_give_the_same_returns_and_the_module_keeps_its_mode() -> None:
    policy = Policy(lambda obs: (obs[:, 2] > 0).long())
    policy.train()
    settings = env("CartPole-v1", "vector_entry_point")
    first, second = (evaluate(policy, settings, [5, 6, 7], STRETCHED) for _ in range(2))
    assert first.returns.tolist() == second.returns.tolist()
    assert policy.training


@pytest.mark.parametrize(
    ("name", "mode", "actions"), [("CartPole-v1", "vector_entry_point", 2), ("Acrobot-v1", "sync", 3)]
)
def test_environments_that_are_kept_give_the_returns_of_new_ones(name: str, mode: str, actions: int) -> None:
    policy = Policy(lambda obs: (obs.sum(dim=1) * 1000).long() % actions)
    settings, kept, made = env(name, mode), KeptEnvironments(), []
    for seed in range(3):
        seeds = [seed, seed + 10, seed + 20]
        ours = evaluate(policy, settings, seeds, Playing(True, False, max_env_steps=40), kept=kept)
        theirs = evaluate(policy, settings, seeds, Playing(True, False, max_env_steps=40))
        assert ours.returns.tolist() == theirs.returns.tolist()
        assert ours.lengths.tolist() == theirs.lengths.tolist()
        made += list(kept._kept.values())
    assert len({id(envs) for envs in made}) == 1
    kept.close()
    assert not kept._kept


def test_environments_that_may_remember_or_that_failed_are_not_kept() -> None:
    kept = KeptEnvironments()
    evaluate(Policy(first_action), env("tiny_envs:tiny/Count-v0", length=3), [1, 2], STRETCHED, kept=kept)
    assert not kept._kept  # a person's own
    cartpole = env("CartPole-v1", "vector_entry_point")
    evaluate(Policy(first_action), cartpole, [1, 2], STRETCHED, kept=kept)
    assert kept._kept
    with pytest.raises(AssertionError):  # CartPole has no such action
        evaluate(Policy(lambda obs: first_action(obs) + 7), cartpole, [1, 2], STRETCHED, kept=kept)
    assert not kept._kept


def test_an_episode_without_end_is_cut() -> None:
    endless = env("tiny_envs:tiny/Count-v0", length=10**9)
    result = evaluate(Policy(first_action), endless, [1, 2], Playing(True, False, max_env_steps=30))
    assert result.lengths.tolist() == [30, 30]
    assert result.returns.tolist() == [30, 30]


def test_a_policy_that_is_not_finite_has_no_score() -> None:
    policy = Policy(first_action)
    with torch.no_grad():
        policy.scale.fill_(float("nan"))
    with pytest.raises(NonFiniteError, match="weights scale"):
        evaluate(policy, env("tiny_envs:tiny/Count-v0"), [1], STRETCHED)
    policy = Policy(first_action)
    policy._forward_inference = lambda batch: {"action_dist_inputs": torch.tensor([[0.0, float("inf")]])}
    with pytest.raises(NonFiniteError, match="outputs of the policy"):
        evaluate(policy, env("tiny_envs:tiny/Count-v0"), [1], STRETCHED)


def test_a_forward_pass_of_ones_own_acts_as_rllib_would_let_it() -> None:
    class Own(TorchRLModule):
        def setup(self) -> None:
            self.scale = torch.nn.Parameter(torch.ones(1))

        def _forward_inference(self, batch: dict[str, Any], **how: Any) -> dict[str, Any]:
            return {"actions": torch.full((len(batch["obs"]), 1), 0.5)}

        def forward_inference(self, batch: dict[str, Any], **how: Any) -> dict[str, Any]:
            return {name: -values for name, values in super().forward_inference(batch, **how).items()}

    made = gym.make("tiny_envs:tiny/Reach-v0")
    module = Own(observation_space=made.observation_space, action_space=made.action_space)
    assert evaluate(module, env("tiny_envs:tiny/Reach-v0"), [1], STRETCHED).returns.tolist() == [-1.5]


def test_environments_whose_episode_is_over_are_stepped_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    steps, step = [0], CartPoleEnv.step

    def counted(self: CartPoleEnv, action: Any) -> Any:
        steps[0] += 1
        return step(self, action)

    monkeypatch.setattr(CartPoleEnv, "step", counted)
    cartpole, seeds = env("CartPole-v1"), list(range(30))
    found = evaluate(Policy(first_action), cartpole, seeds, STRETCHED)
    assert found.lengths.max() > found.lengths.min()
    assert steps[0] == found.lengths.sum()
    beside = evaluate(Policy(first_action), cartpole, seeds, replace(STRETCHED, on_actions=lambda *_: None))
    np.testing.assert_array_equal(found.returns, beside.returns)
    np.testing.assert_array_equal(found.lengths, beside.lengths)
