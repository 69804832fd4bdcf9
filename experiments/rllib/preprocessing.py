"""Running statistics of what the env runners sample: gathered on each, merged into the modules of learners and runners.

A batch of PPO is learned with the statistics that it was sampled with: new ones come after each training step. DQN and
SAC, whose steps are as short as an env step, get them every `UPDATE_EVERY_ENV_STEPS`. IMPALA and APPO sample while they
learn: what has arrived from the runners is merged into the learners, and goes to the runners with the weights.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from ray.rllib.algorithms.algorithm_config import AlgorithmConfig
from ray.rllib.algorithms.impala import IMPALA
from ray.rllib.core import DEFAULT_MODULE_ID
from ray.rllib.core.rl_module.rl_module import RLModuleSpec

from experiments.fast.masks import Masked
from experiments.fast.preprocessing.modules import SETTINGS, Preprocessed, preprocessed
from experiments.fast.preprocessing.moments import Gatherer, Sampled
from experiments.fast.preprocessing.rewards import scale_rewards
from experiments.rllib.training_steps import call_after_training_steps

UPDATE_EVERY_ENV_STEPS = 256
"""Of algorithms that replay: few enough that statistics are there before learning starts,
so many that their cost does not count."""

_TAG = "statistics"


def put_into_modules(config: AlgorithmConfig, settings: Mapping[str, Any]) -> bool:
    """Put preprocessing in front of an algorithm's networks; False, and nothing, if they are of another class
    than RLlib's default ones.

    Args:
        config: The algorithm's configuration with its model config.
        settings: Arguments of `Preprocessing`.
    """
    found = preprocessed(config.rl_module_spec.module_class)
    if found is not None:
        config.rl_module(
            model_config={**config.model_config, SETTINGS: dict(settings)},
            rl_module_spec=RLModuleSpec(module_class=found),
        )
    return found is not None


def gatherer_of(runner: Any) -> Gatherer | None:
    """The collector of a runner's samples; None if its module has no statistics."""
    if not isinstance(runner.module, Preprocessed):
        return None
    preprocessing = runner.module.preprocessing
    observations, returns = preprocessing.of_observations is not None, preprocessing.of_returns is not None
    first = runner.module.num_actions if isinstance(runner.module, Masked) else 0
    return Gatherer(runner.config.gamma, observations, returns, first) if observations or returns else None


def keep_statistics(*, algorithm: Any, **kwargs: Any) -> None:
    """`on_algorithm_init`: scale rewards, and keep the statistics up to date.

    Args:
        algorithm: The algorithm that has just been built, with preprocessing in its modules.
        **kwargs: Other arguments of RLlib's.
    """
    algorithm.learner_group.foreach_learner(scale_rewards)
    statistics = algorithm.statistics = Statistics(algorithm)
    call_after_training_steps(algorithm, statistics.on_training_step)


class Statistics:
    """Keeps the statistics of an algorithm's modules.

    Attributes:
        updated_at: Env steps sampled at the last update.
    """

    def __init__(self, algorithm: Any) -> None:
        self.updated_at = 0.0
        self._algorithm, config = algorithm, algorithm.config
        self._asynchronous = isinstance(algorithm, IMPALA)
        self._every = UPDATE_EVERY_ENV_STEPS if hasattr(config, "replay_buffer_config") else 0

    def on_training_step(self, env_steps: float) -> None:
        """Update them if it is time.

        Args:
            env_steps: Sampled in the algorithm's lifetime.
        """
        if env_steps - self.updated_at < self._every:
            return
        self.updated_at = env_steps
        if self._asynchronous:
            self._update_from_arrived()
        else:
            self.update()

    def update(self) -> None:
        """Merge all that was sampled, runner by runner, into all modules."""
        group = self._algorithm.env_runner_group
        sampled = in_order(group.foreach_env_runner(take))
        if sampled:
            self._algorithm.learner_group.foreach_learner(partial(merge_into_learner, sampled=sampled))
            group.foreach_env_runner(partial(_merge_into_runner, sampled=sampled))

    def _update_from_arrived(self) -> None:
        """Merge what has arrived into the learners, and ask the runners for more, without waiting for any."""
        group = self._algorithm.env_runner_group
        arrived = in_order([sampled for _, sampled in group.fetch_ready_async_reqs(tags=_TAG)])
        group.foreach_env_runner_async(take, tag=_TAG)
        if arrived:
            self._algorithm.learner_group.foreach_learner(partial(merge_into_learner, sampled=arrived))


def take(runner: Any) -> tuple[int, Sampled | None]:
    """A runner's index, and what it sampled since the last call."""
    return runner.worker_index, None if runner.gatherer is None else runner.gatherer.take()


def in_order(taken: Sequence[tuple[int, Sampled | None]]) -> list[Sampled]:
    """The samples of runners, in the order of their indices; without those that sampled nothing."""
    ordered = sorted((one for one in taken if one[1] is not None), key=lambda one: one[0])
    return [sampled for _, sampled in ordered if sampled is not None and (sampled.observations or sampled.returns)]


def merge_into_learner(learner: Any, sampled: Sequence[Sampled]) -> None:
    """Merge moments into a learner's module."""
    learner.module[DEFAULT_MODULE_ID].unwrapped().preprocessing.merge(sampled)


def _merge_into_runner(runner: Any, sampled: Sequence[Sampled]) -> None:
    if runner.module is not None:
        runner.module.preprocessing.merge(sampled)
