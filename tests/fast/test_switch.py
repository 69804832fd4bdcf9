"""What `make_fast` changes in RLlib's configurations, and what it leaves."""

import logging
from typing import Any

import pytest
from ray.rllib.algorithms.appo import APPOConfig
from ray.rllib.algorithms.dqn import DQN, DQNConfig
from ray.rllib.algorithms.dqn.torch.dqn_torch_learner import DQNTorchLearner
from ray.rllib.algorithms.impala import IMPALAConfig
from ray.rllib.algorithms.ppo import PPOConfig
from ray.rllib.algorithms.ppo.torch.ppo_torch_learner import PPOTorchLearner
from ray.rllib.algorithms.sac import SACConfig
from ray.rllib.algorithms.tqc import TQCConfig
from ray.rllib.env.single_agent_env_runner import SingleAgentEnvRunner

from experiments.fast.env_runner import FastEnvRunner
from experiments.fast.learner import FastPPOTorchLearner
from experiments.fast.off_policy import FastDQN, FastSAC
from experiments.fast.q_learner import FastDQNTorchLearner
from experiments.fast.sac_learner import FastSACTorchLearner
from experiments.fast.switch import WAIT_S, make_fast
from experiments.fast.vtrace.learner import FastAPPOTorchLearner, FastIMPALATorchLearner
from experiments.rllib import sac, vtrace


@pytest.mark.parametrize(
    ("config_class", "algorithm", "learner"),
    [
        (PPOConfig, None, FastPPOTorchLearner),
        (DQNConfig, FastDQN, FastDQNTorchLearner),
        (SACConfig, FastSAC, FastSACTorchLearner),
        (sac.SACConfig, FastSAC, FastSACTorchLearner),
        (TQCConfig, None, None),
        (IMPALAConfig, None, FastIMPALATorchLearner),
        (APPOConfig, None, FastAPPOTorchLearner),
        (vtrace.IMPALAConfig, None, vtrace.FastBootstrappingIMPALALearner),
        (vtrace.APPOConfig, None, vtrace.FastBootstrappingAPPOLearner),
    ],
)
def test_each_algorithm_gets_the_fast_parts_that_there_are(config_class: Any, algorithm: Any, learner: Any) -> None:
    stock, config = config_class(), config_class()
    assert make_fast(config) is config
    assert config.env_runner_cls is FastEnvRunner
    assert config.algo_class is (algorithm or stock.algo_class)
    assert config.learner_class is (learner or stock.learner_class)


def test_what_someone_has_chosen_stays() -> None:
    class Runner(SingleAgentEnvRunner):
        pass

    class Learner(DQNTorchLearner):
        pass

    class Algorithm(DQN):
        pass

    config = DQNConfig(algo_class=Algorithm).env_runners(env_runner_cls=Runner).learners(learner_class=Learner)
    make_fast(config)
    assert (config.env_runner_cls, config.learner_class, config.algo_class) == (Runner, Learner, Algorithm)
    assert make_fast(APPOConfig().training(timeout_s_sampler_manager=0.5)).timeout_s_sampler_manager == 0.5


def test_asynchronous_algorithms_wait_for_samples_instead_of_asking_for_them() -> None:
    assert IMPALAConfig().timeout_s_sampler_manager == 0
    for config_class in (IMPALAConfig, APPOConfig):
        assert make_fast(config_class().env_runners(num_env_runners=1)).timeout_s_sampler_manager == WAIT_S > 0
        # Of several it would be the wait for the last one.
        assert make_fast(config_class().env_runners(num_env_runners=2)).timeout_s_sampler_manager == 0


def test_the_steps_of_an_algorithm_that_is_derived_from_another_one_are_rllibs_and_the_reason_is_said(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.INFO):
        config = make_fast(TQCConfig())
    assert config.learner_class is config.get_default_learner_class()
    assert [record.getMessage() for record in caplog.records] == [
        "make_fast: training steps are left to RLlib, since there is no fast TQC."
    ]


def test_several_agents_are_left_to_rllib() -> None:
    config = PPOConfig().multi_agent(policies={"one", "other"}, policy_mapping_fn=lambda *args, **kwargs: "one")
    make_fast(config)
    assert config.env_runner_cls is not FastEnvRunner
    assert config.learner_class is PPOTorchLearner
