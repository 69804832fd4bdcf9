"""Networks that leave out the actions that an environment rules out."""

from collections.abc import Sequence

from ray.rllib.algorithms.algorithm_config import AlgorithmConfig
from ray.rllib.core.rl_module.rl_module import RLModuleSpec

from experiments.fast.masks import SEEN_SHAPE, masked
from experiments.fast.preprocessing.modules import SETTINGS


def put_masks_into_modules(config: AlgorithmConfig, seen_shape: Sequence[int]) -> bool:
    """Put masks of actions behind an algorithm's networks; False, and nothing, if they are of another class than
    RLlib's default ones of PPO, IMPALA, APPO and DQN.

    Args:
        config: The algorithm's configuration with its model config, after preprocessing.
        seen_shape: Shape of what the networks see of an observation behind its mask.
    """
    found = masked(config.rl_module_spec.module_class)
    if found is not None:
        config.rl_module(
            model_config={SETTINGS: {}, **config.model_config, SEEN_SHAPE: list(seen_shape)},
            rl_module_spec=RLModuleSpec(module_class=found),
        )
    return found is not None
