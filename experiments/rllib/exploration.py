"""The settings of exploration by noise that lasts over env steps, and the modules that explore so."""

from typing import Any, Self

import gymnasium as gym
from ray.rllib.algorithms.algorithm_config import AlgorithmConfig
from ray.rllib.core.rl_module.rl_module import RLModule, RLModuleSpec
from ray.rllib.utils.from_config import NotProvided

from experiments.config.errors import ConfigurationError
from experiments.rllib import coloured_noise as coloured
from experiments.rllib import state_dependent_noise as state_dependent
from experiments.rllib.coloured_noise import EXPONENT
from experiments.rllib.state_dependent_noise import HELD, LOG_STD, RANDOM_STEPS


class NoiseConfig(AlgorithmConfig):  # type: ignore[misc]  # RLlib ships no type information
    """The settings, in front of one of RLlib's classes.

    Attributes:
        action_noise_exponent: The power of the noise of continuous actions falls as the frequency to the minus this;
            0: white, RLlib's.
        state_dependent_noise_steps: For how many env steps of an environment a random function of what the policy sees
            is added to its actions, until another is drawn; 0: none is.
        state_dependent_log_std: Natural logarithm of the standard deviations of this function's weights at the start,
            as Stable-Baselines3's `log_std_init`.
    """

    def __init__(self, algo_class: Any = None) -> None:
        super().__init__(algo_class=algo_class)
        self.action_noise_exponent = 0.0
        self.state_dependent_noise_steps = 0
        self.state_dependent_log_std = -3.0

    def training(
        self,
        *,
        action_noise_exponent: float = NotProvided,
        state_dependent_noise_steps: int = NotProvided,
        state_dependent_log_std: float = NotProvided,
        **kwargs: Any,
    ) -> Self:
        """As RLlib's, with the settings above."""
        super().training(**kwargs)
        if action_noise_exponent is not NotProvided:
            self.action_noise_exponent = action_noise_exponent
        if state_dependent_noise_steps is not NotProvided:
            self.state_dependent_noise_steps = state_dependent_noise_steps
        if state_dependent_log_std is not NotProvided:
            self.state_dependent_log_std = state_dependent_log_std
        return self


_COLOURED: tuple[type[RLModule], ...] = (
    coloured.NoisyPPOModule,
    coloured.NoisyPreprocessedPPOModule,
    coloured.NoisySACModule,
    coloured.NoisyPreprocessedSACModule,
    coloured.NoisyTQCModule,
    coloured.NoisyPreprocessedTQCModule,
)
_STATE_DEPENDENT: tuple[type[RLModule], ...] = (
    state_dependent.StateDependentPPOModule,
    state_dependent.StateDependentPreprocessedPPOModule,
    state_dependent.StateDependentSACModule,
    state_dependent.StateDependentPreprocessedSACModule,
    state_dependent.StateDependentTQCModule,
    state_dependent.StateDependentPreprocessedTQCModule,
)


def put_noise_into_modules(config: AlgorithmConfig, env: str, actions: gym.Space[Any]) -> None:
    """Give an algorithm that has these settings the module class that explores with its noise, if it is to have any.

    Args:
        config: The algorithm's configuration with its model config, after preprocessing.
        env: Name of the environment, for messages.
        actions: Space of its actions.

    Raises:
        ConfigurationError: There is noise of both kinds, actions are not continuous, or the module class is no default
            one.
    """
    given = {name: getattr(config, name, 0) for name in (EXPONENT, HELD)}
    given = {name: value for name, value in given.items() if value}
    if not given:
        return
    name, value = next(iter(given.items()))
    key, fix = f"algorithm.training.{name}={value:g}", f"Try algorithm.training.{name}=0."
    if len(given) > 1:
        raise ConfigurationError(f"{key}: actions have one kind of noise, and {HELD} gives them another. {fix}")
    if not isinstance(actions, gym.spaces.Box):
        raise ConfigurationError(f"{key}: env={env} has actions {actions}, and only continuous ones have noise. {fix}")
    default = config.rl_module_spec.module_class
    noisy = _COLOURED if name == EXPONENT else _STATE_DEPENDENT
    found = [one for one in noisy if default in one.__bases__]
    if not found:
        raise ConfigurationError(
            f"{key}: the module class is {default.__name__}, "
            f"and only RLlib's default ones draw their actions with such noise. {fix}"
        )
    if name == HELD:
        given[LOG_STD] = config.state_dependent_log_std
        given[RANDOM_STEPS] = getattr(config, "num_steps_sampled_before_learning_starts", 0)  # PPO has none
    config.rl_module(model_config={**config.model_config, **given}, rl_module_spec=RLModuleSpec(module_class=found[0]))
