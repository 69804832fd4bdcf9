"""No action is taken that an environment rules out: the environments here raise if one is."""

import importlib.util
from dataclasses import replace
from typing import Any

import masked_envs
import numpy as np
import pytest

from experiments.config.trial_config import TrialConfig
from experiments.fast.masks import Masked
from experiments.fast.stepping import DirectSampler
from experiments.fast.stepping import why_stock as why_stock_steps
from experiments.rllib.building import build_algorithm_config, environment_of
from experiments.rllib.made_environments import spaces
from tests.support.exported import SMALL, policy_of
from tests.support.policies import play, play_together
from tests.support.suite import ROOT, PlanOf

RULED = ("env=gym", "env.id=masked_envs:masked/Ruled-v0")
ALGORITHMS = ["ppo", "ppo_ewma", "appo", "impala", "dqn"]

pytestmark = pytest.mark.filterwarnings("ignore")


def trial_of(plan_of: PlanOf, *overrides: str) -> TrialConfig:
    return plan_of(*SMALL, *RULED, *overrides).trials[0]


def runner_of(trial: TrialConfig, envs: int) -> Any:
    """An env runner with a trial's untrained networks, in this process."""
    config = build_algorithm_config(trial).copy(copy_frozen=False)
    config.env_runners(num_env_runners=0, num_envs_per_env_runner=envs)
    return config.env_runner_cls(config=config, worker_index=0)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_in_training_nothing_is_chosen_that_is_ruled_out(plan_of: PlanOf, algorithm: str) -> None:
    runner = runner_of(trial_of(plan_of, f"algorithm={algorithm}"), 20)
    assert isinstance(runner.module, Masked)
    assert (runner.why_stock(explore=True, random_actions=False), why_stock_steps(runner)) == (None, None)
    sampled = DirectSampler(runner).sample(4000) if algorithm == "dqn" else runner.sample(num_timesteps=4000)
    assert sum(len(chunk.rewards) for chunk in sampled) >= 4000


@pytest.mark.parametrize("explore", [True, False], ids=["exploring", "deterministic"])
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_rllibs_own_runner_chooses_nothing_that_is_ruled_out(plan_of: PlanOf, algorithm: str, explore: bool) -> None:
    runner = runner_of(replace(trial_of(plan_of, f"algorithm={algorithm}"), fast=False), 10)
    assert sum(len(episode) for episode in runner.sample(num_timesteps=1000, explore=explore)) >= 1000


LSTM = ("++algorithm.rl_module.use_lstm=true", "++algorithm.rl_module.lstm_cell_size=8")
SEQUENCES = (
    "++algorithm.training.replay_buffer_config={type: EpisodeReplayBuffer, capacity: 1000}",
    "++algorithm.training.n_step=1",
)


@pytest.mark.parametrize(
    "overrides",
    [*((f"algorithm={name}",) for name in ALGORITHMS), ("algorithm=ppo", *LSTM), ("algorithm=dqn", *LSTM, *SEQUENCES)],
    ids=[*ALGORITHMS, "ppo, recurrent", "dqn, recurrent"],
)
def test_evaluations_and_calls_choose_nothing_that_is_ruled_out(plan_of: PlanOf, overrides: tuple[str, ...]) -> None:
    policy = policy_of(trial_of(plan_of, *overrides))
    seeds = policy.held_out_seeds()
    found = policy.evaluate(seeds)
    assert found.lengths.tolist() == policy.evaluate(seeds, explore=True).lengths.tolist() == [7] * 4
    assert play_together(policy, seeds) == found.returns.tolist()
    assert len(play(policy, seeds)) == 4


def test_statistics_are_of_what_is_behind_the_mask(plan_of: PlanOf) -> None:
    runner = runner_of(trial_of(plan_of, "algorithm=ppo", "preprocessing=normalize"), 4)
    observations = [episode.get_observations() for episode in runner.sample(num_timesteps=200)]
    gathered = runner.gatherer.take().observations
    assert (gathered.mean.shape, runner.module.preprocessing.of_observations.mean.shape) == ((3,), (3,))
    np.testing.assert_allclose(gathered.mean, np.concatenate(observations)[:, 5:].mean(axis=0), atol=0.05)
    state = runner.module.get_state()
    assert {tuple(state[f"preprocessing.of_observations.{name}"].shape) for name in ("mean", "variance")} == {(3,)}


def example() -> Any:
    """The environment that docs/own_files.md says to copy."""
    spec = importlib.util.spec_from_file_location("knapsack", ROOT / "docs/examples/knapsack.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("algorithm", ["ppo", "dqn"])
def test_the_example_packs_what_fits_alone(plan_of: PlanOf, algorithm: str) -> None:
    things = example().THINGS
    trial = plan_of(*SMALL, "env=gym", "env.id=Knapsack-v0", f"algorithm={algorithm}").trials[0]
    assert spaces(environment_of(trial))[0].shape == (things + 2 * things + 1,)
    returns = policy_of(trial).evaluate(range(50)).returns
    assert returns.min() > 0.1  # a thing at least, and
    assert returns.max() < things
    runner = runner_of(trial, 8)
    assert {bool(episode.is_terminated) for episode in runner.sample(num_timesteps=400)[:20]} == {True}


def test_the_environments_raise_where_an_action_is_ruled_out() -> None:
    env: Any = masked_envs.Ruled(choices=20)
    observation, _ = env.reset(seed=0)
    ruled_out = np.flatnonzero(observation["action_mask"] == 0)
    assert len(ruled_out)
    with pytest.raises(ValueError, match="is ruled out"):
        env.step(3 + ruled_out[0])
    knapsack = example().Knapsack()
    knapsack.reset(seed=0)
    knapsack.step(0)
    with pytest.raises(ValueError, match="packed, or too heavy"):
        knapsack.step(0)
