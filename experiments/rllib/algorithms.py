"""Facts of an algorithm's settings before anything is built: its RLlib class, how it samples,
the size of its batches. Pure.
"""

import importlib
import math
from collections.abc import Mapping
from typing import Any, TypeVar

from ray.rllib.algorithms.algorithm_config import AlgorithmConfig
from ray.rllib.algorithms.impala import IMPALAConfig

from experiments.config.errors import ConfigurationError
from experiments.config.trial_config import TrialConfig
from experiments.rllib.old_samples import WaitingConfig

_Class = TypeVar("_Class")


def config_class(algorithm: Mapping[str, Any]) -> type[AlgorithmConfig]:
    """The RLlib class that `algorithm.config_class` names.

    Raises:
        ConfigurationError: It cannot be imported or is not an AlgorithmConfig.
    """
    return class_at("algorithm.config_class", algorithm.get("config_class"), AlgorithmConfig)


def class_at(key: str, path: Any, base: type[_Class]) -> type[_Class]:
    """The class of a kind that a dotted path names."""
    if not isinstance(path, str) or "." not in path:
        raise ConfigurationError(f"{key}={path!r}: must be the dotted path of an RLlib {base.__name__}.")
    module, _, name = path.rpartition(".")
    try:
        found = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError, TypeError, ValueError):  # the last two: a path such as "..Class"
        raise ConfigurationError(
            f"{key}={path!r}: there is no such class. One of a file of your own: modules=[my_file.py]."
        ) from None
    if not (isinstance(found, type) and issubclass(found, base) and found is not base):
        raise ConfigurationError(f"{key}={path!r}: is not an RLlib {base.__name__}.")
    return found


_defaults: dict[type[AlgorithmConfig], AlgorithmConfig] = {}


def defaults_of(algorithm: Mapping[str, Any]) -> AlgorithmConfig:
    """RLlib's own settings of an algorithm, to be read: made once for each class, for that takes a while."""
    kind = config_class(algorithm)
    if kind not in _defaults:
        _defaults[kind] = kind()
        _defaults[kind].freeze()
    return _defaults[kind]


def is_asynchronous(algorithm: Mapping[str, Any]) -> bool:
    """True if the algorithm samples while it learns (IMPALA, APPO), and so needs a runner actor."""
    return issubclass(config_class(algorithm), IMPALAConfig)


def updates_of_batch(algorithm: Mapping[str, Any]) -> int | None:
    """Updates from each training batch, of an algorithm whose batches can be made to wait (`old_samples.py`); None of
    others. APPO's learner takes a batch several times (`CircularBuffer` in RLlib's algorithms/appo/utils.py).

    Args:
        algorithm: The algorithm's settings.
    """
    training, defaults = algorithm["training"], defaults_of(algorithm)
    if not isinstance(defaults, WaitingConfig):
        return None

    def given(name: str, otherwise: Any) -> Any:
        return training.get(name, getattr(defaults, name, otherwise))

    return int(given("circular_buffer_iterations_per_batch", 1)) if given("use_circular_buffer", False) else 1


def promises_bits(trial: TrialConfig) -> bool:
    """True if the same trial comes out the same to the bit, run after run, unless something fails."""
    return not is_asynchronous(trial.algorithm) and trial.env.backend == "gymnasium"


def replays(algorithm: Mapping[str, Any]) -> bool:
    """True if the algorithm keeps what it samples in a replay buffer, and trains on it again."""
    return hasattr(defaults_of(algorithm), "replay_buffer_config")


def on_policy_batch(algorithm: Mapping[str, Any]) -> int:
    """Env steps of one training batch, which no report can be finer than; 0 for algorithms that replay.

    Args:
        algorithm: The algorithm's settings, with counts as numbers.
    """
    return 0 if replays(algorithm) else train_batch(algorithm)


def train_batch(algorithm: Mapping[str, Any]) -> int:
    """Rows of one training batch over all learners, RLlib's own number where none is given.

    Args:
        algorithm: The algorithm's settings, with counts as numbers.
    """
    per_learner = algorithm["training"].get(
        "train_batch_size_per_learner", defaults_of(algorithm).train_batch_size_per_learner
    )
    return int(per_learner) * max(1, int(algorithm["learners"]["num_learners"]))


def fragment_length(algorithm: Mapping[str, Any]) -> int | None:
    """Env steps of a fragment of an asynchronous algorithm; None where it follows the batch, as those of the others do.

    Args:
        algorithm: The algorithm's settings, with counts as numbers.
    """
    length = algorithm["env_runners"].get("rollout_fragment_length", defaults_of(algorithm).rollout_fragment_length)
    return length if is_asynchronous(algorithm) and isinstance(length, int) else None


def fragments_of_batch(algorithm: Mapping[str, Any]) -> int | None:
    """Fragments, each of one environment, in a training batch of an asynchronous algorithm;
    None where fragments follow the batch.

    Such an algorithm trains on whole samples of its runners, as many as make up a batch
    (`_pre_queue_episode_refs` in RLlib's impala.py): where a sample, of all a runner's environments, is longer
    than the batch, the sample is the batch.

    Args:
        algorithm: The algorithm's settings, with counts as numbers.
    """
    length = fragment_length(algorithm)
    return math.ceil(train_batch(algorithm) / length) if length else None


def batch_env_steps(config: AlgorithmConfig) -> int:
    """Env steps of one training batch over all learners as it comes about:
    an asynchronous algorithm's are whole samples.
    """
    batch: int = config.total_train_batch_size
    sample: int = config.get_rollout_fragment_length() * config.num_envs_per_env_runner
    return math.ceil(batch / sample) * sample if isinstance(config, IMPALAConfig) else batch


def rows_of_step(algorithm: Mapping[str, Any]) -> int:
    """Rows of one gradient step over all learners: a minibatch's, or a training batch's where an update is one step.

    Args:
        algorithm: The algorithm's settings, with counts as numbers.
    """
    minibatch = algorithm["training"].get("minibatch_size", defaults_of(algorithm).minibatch_size)
    whole = train_batch(algorithm)
    return (
        min(whole, minibatch * max(1, int(algorithm["learners"]["num_learners"])))
        if isinstance(minibatch, int)
        else whole
    )
