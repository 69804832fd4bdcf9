"""`make_fast`: puts the fast parts into a configuration of RLlib."""

from typing import TypeVar

from ray.rllib.algorithms.algorithm_config import AlgorithmConfig
from ray.rllib.algorithms.dqn.dqn import DQN
from ray.rllib.algorithms.dqn.torch.dqn_torch_learner import DQNTorchLearner
from ray.rllib.algorithms.impala.impala import IMPALAConfig
from ray.rllib.algorithms.ppo.torch.ppo_torch_learner import PPOTorchLearner
from ray.rllib.algorithms.sac.sac import SAC
from ray.rllib.algorithms.sac.torch.sac_torch_learner import SACTorchLearner
from ray.rllib.env.single_agent_env_runner import SingleAgentEnvRunner

from experiments.fast.env_runner import FastEnvRunner
from experiments.fast.learner import FastPPOTorchLearner
from experiments.fast.off_policy import FastDQN, FastSAC
from experiments.fast.q_learner import FastDQNTorchLearner, FastSACTorchLearner

_LEARNERS: dict[object, type] = {
    PPOTorchLearner: FastPPOTorchLearner,
    DQNTorchLearner: FastDQNTorchLearner,
    SACTorchLearner: FastSACTorchLearner,
}
_ALGORITHMS: dict[object, type] = {DQN: FastDQN, SAC: FastSAC}

WAIT_S = 0.01
"""Seconds for which IMPALA and APPO wait for samples. RLlib's 0 asks without pause, which keeps a CPU busy."""

_Config = TypeVar("_Config", bound=AlgorithmConfig)


def make_fast(config: _Config) -> _Config:
    """Replace RLlib's own classes by the fast ones.

    Other classes, such as a learner that the user has set, stay; so does everything in a configuration with several agents.

    Args:
        config: Call this last: what is set later may replace a fast part again.

    Returns:
        The same object.
    """
    if config.is_multi_agent:
        return config
    if config.env_runner_cls in (None, SingleAgentEnvRunner):
        config.env_runners(env_runner_cls=FastEnvRunner)
    if config.learner_class in _LEARNERS:
        config.learners(learner_class=_LEARNERS[config.learner_class])
    if isinstance(config, IMPALAConfig):
        config.timeout_s_sampler_manager = config.timeout_s_sampler_manager or WAIT_S
    config.algo_class = _ALGORITHMS.get(config.algo_class, config.algo_class)
    return config
