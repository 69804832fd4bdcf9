"""RLlib's default modules of torch, with preprocessing in front of their networks.

The statistics are a part of the module's state: they are in every checkpoint of RLlib's, go to the env runners with the
weights, do not change in an evaluation, and are exported with the networks. Batches, episodes and replay buffers hold
what the environments gave.

Each of RLlib's entry points that is given observations is preceded by the transform, and none that these call. Target
networks see the same transformed observations as the networks that they follow.
"""

from typing import Any

import torch
from ray.rllib.algorithms.appo.torch.default_appo_torch_rl_module import DefaultAPPOTorchRLModule
from ray.rllib.algorithms.dqn.torch.default_dqn_torch_rl_module import DefaultDQNTorchRLModule
from ray.rllib.algorithms.ppo.torch.default_ppo_torch_rl_module import DefaultPPOTorchRLModule
from ray.rllib.algorithms.sac.torch.default_sac_torch_rl_module import DefaultSACTorchRLModule
from ray.rllib.algorithms.tqc.torch.default_tqc_torch_rl_module import DefaultTQCTorchRLModule
from ray.rllib.core.columns import Columns
from ray.rllib.core.rl_module.rl_module import RLModule
from ray.rllib.core.rl_module.torch.torch_rl_module import TorchRLModule

from experiments.fast.preprocessing.transforms import Function, Preprocessing

SETTINGS = "preprocessing"
"""Key of a module's `model_config` under which the arguments of `Preprocessing` are."""

Batch = dict[str, Any]


class Preprocessed(TorchRLModule):  # type: ignore[misc]  # RLlib ships no type information
    """The common part of the modules.

    Attributes:
        preprocessing: The transforms.
    """

    preprocessing: Preprocessing

    def setup(self) -> None:
        """As RLlib's."""
        super().setup()
        self.preprocessing = Preprocessing(self.observation_space.shape, **self.model_config[SETTINGS])

    def observations_function(self) -> Function:
        """The function from observations to what the networks see of them; statistics may change, in place."""
        return self.preprocessing.observations_function()

    def seen(self, batch: Batch, *columns: str) -> Batch:
        """A batch with its observations transformed: those in these columns, or the present ones."""
        function = self.observations_function()
        transformed = {column: function(batch[column]) for column in columns or (Columns.OBS,)}
        return {**batch, **transformed}

    def get_state(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """As RLlib's, which rounds to single precision, with the statistics as they are:
        they go on from what is saved of them.
        """
        exact = {f"{SETTINGS}.{name}": value for name, value in self.preprocessing.statistics().items()}
        return {**super().get_state(*args, **kwargs), **exact}

    def set_state(self, state: dict[str, Any]) -> None:
        """The inverse of `get_state`."""
        super().set_state(state)
        prefix = f"{SETTINGS}."
        self.preprocessing.set_statistics(
            {
                name.removeprefix(prefix): state[name]
                for name in (prefix + own for own in self.preprocessing.statistics())
                if name in state
            }
        )


class _OnPolicy(Preprocessed):
    def _forward(self, batch: Batch, **kwargs: Any) -> Batch:
        found: Batch = super()._forward(self.seen(batch), **kwargs)
        return found

    def _forward_train(self, batch: Batch, **kwargs: Any) -> Batch:
        found: Batch = super()._forward_train(self.seen(batch), **kwargs)
        return found

    def compute_values(self, batch: Batch, embeddings: Any = None) -> torch.Tensor:
        """As RLlib's, which looks at no observation if it is given embeddings."""
        values: torch.Tensor = super().compute_values(self.seen(batch) if embeddings is None else batch, embeddings)
        return values


class PreprocessedPPOModule(_OnPolicy, DefaultPPOTorchRLModule):  # type: ignore[misc]
    """PPO's and IMPALA's."""


class PreprocessedAPPOModule(_OnPolicy, DefaultAPPOTorchRLModule):  # type: ignore[misc]
    """APPO's."""

    def forward_target(self, batch: Batch) -> Batch:
        """As RLlib's."""
        found: Batch = super().forward_target(self.seen(batch))
        return found


class _OffPolicy(Preprocessed):
    def _forward_inference(self, batch: Batch) -> Batch:
        found: Batch = super()._forward_inference(self.seen(batch))
        return found

    def _forward_train(self, batch: Batch) -> Batch:
        found: Batch = super()._forward_train(self.seen(batch, Columns.OBS, Columns.NEXT_OBS))
        return found


class PreprocessedDQNModule(_OffPolicy, DefaultDQNTorchRLModule):  # type: ignore[misc]
    """DQN's."""

    def _forward_exploration(self, batch: Batch, t: int) -> Batch:
        found: Batch = super()._forward_exploration(self.seen(batch), t)
        return found


class PreprocessedSACModule(_OffPolicy, DefaultSACTorchRLModule):  # type: ignore[misc]
    """SAC's, whose exploration is its inference."""


class PreprocessedTQCModule(_OffPolicy, DefaultTQCTorchRLModule):  # type: ignore[misc]
    """TQC's, of which the same holds."""


_MODULES: dict[type[RLModule], type[RLModule]] = {
    DefaultPPOTorchRLModule: PreprocessedPPOModule,
    DefaultAPPOTorchRLModule: PreprocessedAPPOModule,
    DefaultDQNTorchRLModule: PreprocessedDQNModule,
    DefaultSACTorchRLModule: PreprocessedSACModule,
    DefaultTQCTorchRLModule: PreprocessedTQCModule,
}


def preprocessed(module_class: type[RLModule]) -> type[RLModule] | None:
    """One of RLlib's default classes with preprocessing; None if it is no default class."""
    return _MODULES.get(module_class)
