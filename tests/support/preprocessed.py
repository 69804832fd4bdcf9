"""RLlib's configurations with preprocessing, and statistics to begin with."""

from typing import Any

import numpy as np
from ray.rllib.core import DEFAULT_MODULE_ID

from experiments.fast.preprocessing.moments import Moments, Sampled
from experiments.fast.preprocessing.rewards import scale_rewards
from experiments.rllib.preprocessing import put_into_modules

NORMALIZE = {"normalize_observations": True, "clip_observations": 1.0, "normalize_rewards": True, "clip_rewards": 1.5}
SYMLOG = {"symlog_observations": True, "clip_rewards": 1.0}


def with_preprocessing(config: Any, settings: dict[str, Any]) -> Any:
    """The same object."""
    assert put_into_modules(config, settings)
    return config


def seen(size: int) -> Sampled:
    """Statistics of observations of this size that are no round numbers."""
    random = np.random.default_rng(0)
    return Sampled(Moments.of(random.normal(0.1, 0.5, (7, size))), Moments.of(random.normal(3, 2, 9)))


def begin(learner: Any) -> None:
    """Give a learner rewards that are scaled and, with its module, statistics."""
    scale_rewards(learner)
    module = learner.module[DEFAULT_MODULE_ID]
    module.preprocessing.merge([seen(module.observation_space.shape[0])])
