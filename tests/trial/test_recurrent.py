"""Recurrent networks: trained, evaluated with what they remember, or refused."""

import dataclasses
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from ray.rllib import core
from ray.rllib.algorithms.sac import SACConfig
from ray.rllib.algorithms.tqc import TQCConfig
from ray.rllib.core import DEFAULT_MODULE_ID
from ray.rllib.core.rl_module.default_model_config import DefaultModelConfig

from experiments.config.errors import ConfigurationError
from experiments.rllib.building import build_algorithm_config, environment_of
from experiments.rllib.made_environments import spaces
from experiments.rllib.recurrent import RecurrentDQNModule
from tests.support.own_files import own_rl_module
from tests.support.policies import assert_acts_as_evaluated
from tests.support.suite import PlanOf
from tests.support.trials import FAILURE, REPLAY, SEQUENCES, Make, run, step

LSTM = (
    "++algorithm.rl_module.use_lstm=true",
    "++algorithm.rl_module.lstm_cell_size=8",
    "++algorithm.rl_module.max_seq_len=6",
)
SMALL = (
    "study=smoke",
    "study.space={}",
    "seeds=[0]",
    "budget_env_steps=1024",
    "report_every_env_steps=512",
    "evaluation.episodes=2",
    "evaluation.final_episodes=2",
    "hardware.num_envs_per_env_runner=4",
)
BATCH = "algorithm.training.train_batch_size_per_learner=256"
REPLAYING = (*REPLAY, *SEQUENCES, "study.space={}", "seeds=[0]", "algorithm=dqn", "hardware.num_envs_per_env_runner=3")


@pytest.mark.ray
@pytest.mark.usefixtures("ray_instance")
@pytest.mark.parametrize(
    "settings",
    [
        pytest.param((*SMALL, BATCH, "env=pendulum"), marks=pytest.mark.nightly),
        (*SMALL, BATCH, "env=pendulum", "preprocessing=normalize"),
        pytest.param((*REPLAYING, "env=cartpole"), marks=pytest.mark.slow),
        pytest.param((*REPLAYING, "env=cartpole", "preprocessing=symlog"), marks=pytest.mark.nightly),
    ],
    ids=["ppo", "ppo, normalised", "dqn", "dqn, symlog"],
)
def test_it_is_evaluated_with_what_it_remembers(plan_of: PlanOf, make: Make, settings: tuple[str, ...]) -> None:
    trial = make(plan_of(*settings, *LSTM, "hardware.num_env_runners=0").trials[0])
    said = run(trial)
    assert FAILURE not in said[-1]
    assert said[-1]["progress/updates"] > 0
    assert_acts_as_evaluated(trial._training, trial._training.algorithm.env_runner)


@pytest.mark.ray
@pytest.mark.nightly
@pytest.mark.usefixtures("ray_instance")
@pytest.mark.parametrize("algorithm", ["impala", "appo"])
def test_asynchronous_algorithms_train_it(plan_of: PlanOf, make: Make, algorithm: str) -> None:
    trial = make(
        plan_of(*SMALL, BATCH, f"algorithm={algorithm}", "env=cartpole", "preprocessing=normalize", *LSTM).trials[0]
    )
    assert FAILURE not in step(trial)


def test_each_environment_of_dqn_gets_an_action_of_its_own(plan_of: PlanOf) -> None:
    trial = plan_of(*REPLAYING, "env=cartpole", *LSTM).trials[0]
    config = build_algorithm_config(trial)
    module = config.get_rl_module_spec(spaces={"default_policy": spaces(environment_of(trial))}).build()
    assert isinstance(module, RecurrentDQNModule)
    torch.manual_seed(0)
    observations = 5 * torch.randn(64, 1, 4)
    state = {name: 5 * torch.randn(64, *first.shape) for name, first in module.get_initial_state().items()}
    batch = {"obs": observations, "state_in": state}
    greedy = module._forward_inference(batch)["actions"]
    module.epsilon_schedule._curr_value = torch.tensor(0.0)
    module.epsilon_schedule.update = lambda timestep: None
    found = module._forward_exploration(batch, t=0)["actions"]
    assert found.shape == greedy.shape == (64, 1)
    assert torch.equal(found, greedy)
    assert len(np.unique(greedy)) > 1


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        *(
            (
                (f"algorithm={name}", "env=pendulum"),
                f"RLlib has no recurrent networks for algorithm={name}. "
                "Try algorithm=ppo, or preprocessing.frame_stack=4 in its place, which shows the last 4 observations.",
            )
            for name in ("sac", "tqc")
        ),
        (
            (
                "algorithm=dqn",
                "env=acrobot",
                "++algorithm.training.replay_buffer_config={type: PrioritizedEpisodeReplayBuffer, capacity: 500}",
            ),
            "PrioritizedEpisodeReplayBuffer samples no sequences. "
            "Try '++algorithm.training.replay_buffer_config={type: EpisodeReplayBuffer, capacity: 500}'.",
        ),
        (("algorithm=dqn", "env=acrobot", "++algorithm.training.n_step=3"), "Try ++algorithm.training.n_step=1."),
        (
            ("algorithm=dqn", "env=acrobot", "++algorithm.training.num_atoms=5"),
            "Try ++algorithm.training.num_atoms=1.",
        ),
    ],
)
def test_what_rllib_cannot_train_is_refused_with_the_fix(
    plan_of: PlanOf, overrides: tuple[str, ...], message: str
) -> None:
    with pytest.raises(ConfigurationError) as error:
        plan_of("study=smoke", "study.space={}", "seeds=[0]", *overrides, *LSTM)
    assert message in str(error.value)


@pytest.mark.parametrize("config_class", [SACConfig, TQCConfig])
def test_rllibs_networks_of_sac_have_no_states_with_which_the_refusal_falls(config_class: Any) -> None:
    env = gym.make("Pendulum-v1")
    config = config_class().environment("Pendulum-v1").rl_module(model_config=DefaultModelConfig(use_lstm=True))
    spec = config.get_rl_module_spec(spaces={DEFAULT_MODULE_ID: (env.observation_space, env.action_space)})
    assert not spec.build().is_stateful()


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        (
            "use_attention=true",
            "use_attention: RLlib's new API stack has no attention networks. Try algorithm.rl_module.",
        ),
        (
            "attention_dim=32",
            "attention_dim: RLlib's new API stack has no attention networks. Try algorithm.rl_module.",
        ),
        (
            "lstm_use_prev_action=true",
            "none of the networks of RLlib's new API stack reads it. Try algorithm.rl_module.",
        ),
        (
            "lstm_use_prev_reward=true",
            "none of the networks of RLlib's new API stack reads it. Try algorithm.rl_module.",
        ),
    ],
)
def test_what_none_of_rllibs_networks_has_is_refused_with_the_fix(plan_of: PlanOf, setting: str, message: str) -> None:
    with pytest.raises(ConfigurationError) as error:
        plan_of("study=single", "env=recall", f"++algorithm.rl_module.{setting}", *LSTM)
    assert message in str(error.value)


def test_rllib_has_none_of_it() -> None:
    assert not any("attention" in field.name for field in dataclasses.fields(DefaultModelConfig))
    sources = Path(core.__file__).parent.rglob("*.py")
    assert [file.name for file in sources if "lstm_use_prev" in file.read_text()] == ["default_model_config.py"]


def test_networks_of_ones_own_may_read_it(plan_of: PlanOf, tmp_path: Path) -> None:
    words = own_rl_module(tmp_path, "reads_previous_action")
    assert plan_of("study=single", *words, "++algorithm.rl_module.lstm_use_prev_action=true").trials
