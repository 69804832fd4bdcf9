"""`make_fast`: puts the fast parts into a configuration of RLlib."""

import logging
from typing import TypeVar

from ray.rllib.algorithms.algorithm_config import AlgorithmConfig
from ray.rllib.algorithms.appo.torch.appo_torch_learner import APPOTorchLearner
from ray.rllib.algorithms.dqn.dqn import DQN
from ray.rllib.algorithms.dqn.torch.dqn_torch_learner import DQNTorchLearner
from ray.rllib.algorithms.impala.impala import IMPALAConfig
from ray.rllib.algorithms.impala.torch.impala_torch_learner import IMPALATorchLearner
from ray.rllib.algorithms.ppo.torch.ppo_torch_learner import PPOTorchLearner
from ray.rllib.algorithms.sac.sac import SAC
from ray.rllib.algorithms.sac.torch.sac_torch_learner import SACTorchLearner
from ray.rllib.env.single_agent_env_runner import SingleAgentEnvRunner

from experiments.fast.env_runner import FastEnvRunner
from experiments.fast.learner import FastPPOTorchLearner
from experiments.fast.off_policy import FastDQN, FastOffPolicy, FastSAC
from experiments.fast.q_learner import FastDQNTorchLearner
from experiments.fast.sac_learner import FastSACTorchLearner
from experiments.fast.vtrace.learner import FastAPPOTorchLearner, FastIMPALATorchLearner

_LEARNERS: dict[object, type] = {
    PPOTorchLearner: FastPPOTorchLearner,
    DQNTorchLearner: FastDQNTorchLearner,
    SACTorchLearner: FastSACTorchLearner,
    IMPALATorchLearner: FastIMPALATorchLearner,
    APPOTorchLearner: FastAPPOTorchLearner,
}
_ALGORITHMS: dict[object, type] = {DQN: FastDQN, SAC: FastSAC}

WAIT_S = 0.01
"""Seconds for which IMPALA and APPO wait for the samples of their env runner. RLlib's 0 asks without pause,
which keeps a CPU busy."""

_Config = TypeVar("_Config", bound=AlgorithmConfig)

logger = logging.getLogger(__name__)


def why_stock(config: AlgorithmConfig) -> str | None:
    """The reason why `make_fast` leaves a whole configuration to RLlib; None if there is none."""
    if not (config.enable_env_runner_and_connector_v2 and config.enable_rl_module_and_learner):
        return "the old API stack"
    if config.is_multi_agent:
        return "more than one agent"
    if config.output:
        return "an output that records samples"  # RLlib's runner records them if no other class is set
    return None


def why_stock_steps(config: AlgorithmConfig) -> str | None:
    """The reason why `make_fast` leaves the training steps of an algorithm with a replay buffer to RLlib,
    and with them the buffer and the updates: it is derived from DQN or SAC, and neither. None if there is none.
    """
    if not hasattr(config, "replay_buffer_config"):
        return None
    if config.algo_class in _ALGORITHMS or issubclass(config.algo_class, FastOffPolicy):
        return None
    return f"no fast {config.algo_class.__name__}"


def _fast_learner(config: AlgorithmConfig) -> type | None:
    """The fast learner in place of a configuration's: of RLlib's, or the one that a class of configurations names
    for its own default.
    """
    own = getattr(config, "get_fast_learner_class", None)
    if own is not None and config.learner_class is config.get_default_learner_class():
        fast: type = own()
        return fast
    return _LEARNERS.get(config.learner_class)


def make_fast(config: _Config) -> _Config:
    """Replace RLlib's own classes by the fast ones.

    Other classes, such as a learner that the user has set, stay. A fast part checks before every fragment and every
    update whether it supports what it is given (experiments/fast/README.md lists what it does not). If not, RLlib's
    own code runs, and the reason is logged once, at level INFO.

    Args:
        config: Call this last: what is set later may replace a fast part again.

    Returns:
        The same object.
    """
    if reason := why_stock(config):
        logger.info("make_fast: left to RLlib, since there is %s.", reason)
        return config
    if config.env_runner_cls in (None, SingleAgentEnvRunner):
        config.env_runners(env_runner_cls=FastEnvRunner)
    if (learner := _fast_learner(config)) is not None:
        config.learners(learner_class=learner)
    # Of several runners RLlib would wait for the last one, while the others idle. On 2 cores that pays as well
    # (`python -m benchmarks fast_waiting`); with a core for each it was not measured.
    if isinstance(config, IMPALAConfig) and config.num_env_runners == 1:
        config.timeout_s_sampler_manager = config.timeout_s_sampler_manager or WAIT_S
    if reason := why_stock_steps(config):
        logger.info("make_fast: training steps are left to RLlib, since there is %s.", reason)
    config.algo_class = _ALGORITHMS.get(config.algo_class, config.algo_class)
    return config
