"""Recurrent networks: trained, evaluated with what they remember, or refused."""

import numpy as np
import pytest
import torch

from experiments.config.errors import ConfigurationError
from experiments.rllib.building import build_algorithm_config, environment_of
from experiments.rllib.made_environments import spaces
from experiments.rllib.recurrent import RecurrentDQNModule
from tests.support.policies import assert_acts_as_evaluated
from tests.support.suite import PlanOf
from tests.support.trials import FAILURE, REPLAY, Make, run, step

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
REPLAYING = (*REPLAY, "study.space={}", "seeds=[0]", "algorithm=dqn", "hardware.num_envs_per_env_runner=3")


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
@pytest.mark.slow
@pytest.mark.usefixtures("ray_instance")
@pytest.mark.parametrize("algorithm", [pytest.param("impala", marks=pytest.mark.nightly), "appo"])
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
            ((f"algorithm={name}", "env=pendulum"), f"RLlib has no recurrent networks for algorithm={name}")
            for name in ("sac", "tqc")
        ),
        (
            (
                "algorithm=dqn",
                "env=acrobot",
                "++algorithm.training.replay_buffer_config={type: PrioritizedEpisodeReplayBuffer, capacity: 500}",
            ),
            "RLlib's PrioritizedEpisodeReplayBuffer samples no sequences. "
            "Try '++algorithm.training.replay_buffer_config={type: EpisodeReplayBuffer, capacity: 500}'.",
        ),
        (("algorithm=dqn", "env=cartpole", "++algorithm.training.n_step=3"), "Try ++algorithm.training.n_step=1."),
        (
            ("algorithm=dqn", "env=cartpole", "++algorithm.training.num_atoms=5"),
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
