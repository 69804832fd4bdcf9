"""The settings, and what they do to a trial."""

from functools import partial
from typing import TYPE_CHECKING, Literal

from pydantic.dataclasses import dataclass

from experiments.config.errors import ConfigurationError
from experiments.config.extension import Training
from experiments.config.fields import STRICT, Positive

if TYPE_CHECKING:
    from ray.rllib.algorithms.algorithm_config import AlgorithmConfig
    from ray.rllib.core.rl_module import RLModule

    from experiments.config.trial_config import TrialConfig

_KEY = "extension.network_width.parametrization=mup"
_INITIALIZER = "fcnet_kernel_initializer"


@dataclass(frozen=True, config=STRICT)
class NetworkWidth(Training):
    """Settings by which initial weights and learning rates follow the width of the networks.

    Attributes:
        parametrization: `standard`, as RLlib and torch have it; `mup`: the maximal update parametrization
            (`parametrization.py`).
        base_width: Units of each hidden layer at which both are the same.
    """

    parametrization: Literal["standard", "mup"] = "standard"
    base_width: Positive = 64

    def configure(self, config: "AlgorithmConfig", trial: "TrialConfig") -> None:
        """Scale weights and learning rates once an algorithm is built.

        Raises:
            ConfigurationError: It is not known how its networks or its initial weights depend on the width.
        """
        if self.parametrization == "standard":
            return
        from ray.rllib.algorithms import ppo, sac

        from experiments.config.rllib_settings import MODULE_CLASS
        from experiments.rllib.ppo import PPOConfig
        from experiments.rllib.sac import SACConfig
        from science.network_width.parametrization import INITIALIZERS, parametrise_algorithm

        known = (PPOConfig, SACConfig, ppo.PPOConfig, sac.SACConfig)
        networks = trial.algorithm["rl_module"]
        if type(config) not in known or networks.get(MODULE_CLASS) is not None:
            raise ConfigurationError(
                f"{_KEY}: algorithm={trial.algorithm['name']} has networks or weights that it does not know. "
                "Try algorithm=ppo or algorithm=sac without networks of your own, "
                "or extension.network_width.parametrization=standard."
            )
        if (initializer := networks.get(_INITIALIZER)) not in INITIALIZERS:
            raise ConfigurationError(
                f"{_KEY}: algorithm.rl_module.{_INITIALIZER}={initializer} draws weights of which it does not know how "
                f"they depend on the width. Try algorithm.rl_module.{_INITIALIZER}=orthogonal_ or null."
            )
        before = config.callbacks_on_algorithm_init
        scale = partial(parametrise_algorithm, base_width=self.base_width)
        config.callbacks(on_algorithm_init=[*(before if isinstance(before, list) else [before]), scale])

    def check_networks(self, module: "RLModule") -> None:
        """Perceptrons are scaled.

        Raises:
            ConfigurationError: The policy is recurrent.
        """
        if self.parametrization != "standard" and module.is_stateful():
            raise ConfigurationError(
                f"{_KEY} scales perceptrons, and the policy is recurrent. Try algorithm.rl_module.use_lstm=false, "
                "or extension.network_width.parametrization=standard."
            )
