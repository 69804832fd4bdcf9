"""SAC with the critics of the paper: their shape and their loss.

Observation and action go side by side through the hidden layers of `fcnet_hiddens`, as in Stable-Baselines3. RLlib's
own critics encode them by a perceptron each, and join them by a third one (`fusionnet_hiddens`): with two hidden layers
of 256 on Pendulum that is 658,433 weights a critic in place of 67,329.

Critics learn from the squared error (Haarnoja et al. 1801.01290, equation 7). RLlib takes a Huber loss
(algorithms/sac/torch/sac_torch_learner.py), whose gradient is the same for every error above 1: critics then come to a
median of their targets in place of the mean. Where few transitions end an episode, the median knows nothing of the end.
Policy, temperature and everything else are RLlib's.
"""

from dataclasses import replace
from typing import Any, Literal, Self

import torch
from ray.rllib.algorithms import sac
from ray.rllib.algorithms.dqn.dqn_learner import QF_LOSS_KEY, QF_MAX_KEY, QF_MEAN_KEY, QF_MIN_KEY, TD_ERROR_MEAN_KEY
from ray.rllib.algorithms.sac.sac_catalog import SACCatalog
from ray.rllib.algorithms.sac.sac_learner import LOGPS_KEY, QF_PREDS, QF_TWIN_LOSS_KEY, QF_TWIN_PREDS
from ray.rllib.algorithms.sac.torch.default_sac_torch_rl_module import DefaultSACTorchRLModule
from ray.rllib.algorithms.sac.torch.sac_torch_learner import SACTorchLearner
from ray.rllib.core.columns import Columns
from ray.rllib.core.learner.learner import POLICY_LOSS_KEY
from ray.rllib.core.models.base import Encoder
from ray.rllib.core.models.configs import MLPEncoderConfig
from ray.rllib.core.rl_module.rl_module import RLModuleSpec
from ray.rllib.utils.from_config import NotProvided
from ray.rllib.utils.metrics import TD_ERROR_KEY

from experiments.fast.networks.sac import ConcatenatingEncoder
from experiments.fast.sac_learner import FastSACTorchLearner
from experiments.rllib.exploration import NoiseConfig


class ConcatenatingCatalog(SACCatalog):  # type: ignore[misc]  # RLlib ships no type information
    """RLlib's networks of SAC, but for the critics of continuous actions where observations are vectors."""

    def _build_qf_encoder_continuous(self, framework: str) -> Encoder:
        if not isinstance(self._encoder_config, MLPEncoderConfig):
            return super()._build_qf_encoder_continuous(framework)
        inputs = self._encoder_config.input_dims[0] + self.action_space.shape[0]
        return ConcatenatingEncoder(replace(self._encoder_config, input_dims=[inputs]))


class SquaredErrorSACLearner(SACTorchLearner):  # type: ignore[misc]
    """RLlib's, but for the critics' loss of continuous actions: the mean of squared errors."""

    def _compute_loss_for_module_continuous(
        self, *, module_id: str, config: Any, batch: dict[str, Any], fwd_out: dict[str, Any]
    ) -> torch.Tensor:
        log_alpha, logp = self.curr_log_alpha[module_id], fwd_out["logp_resampled"]
        alpha = torch.exp(log_alpha.detach())
        after = fwd_out["q_target_next"] - alpha * fwd_out["logp_next_resampled"]
        after = (1.0 - batch[Columns.TERMINATEDS].float()) * after
        target = (batch[Columns.REWARDS] + (config.gamma ** batch["n_step"]) * after).detach()
        critics = [fwd_out[QF_PREDS], fwd_out[QF_TWIN_PREDS]] if config.twin_q else [fwd_out[QF_PREDS]]
        squared = [torch.nn.functional.mse_loss(q, target, reduction="none") for q in critics]
        td_errors = torch.stack([torch.abs(q - target) for q in critics]).mean(dim=0)
        losses = {
            POLICY_LOSS_KEY: torch.mean(alpha * logp - fwd_out["q_curr"]),
            QF_LOSS_KEY: torch.mean(batch["weights"] * squared[0]),
            "alpha_loss": -torch.mean(log_alpha * (logp.detach() + self.target_entropy[module_id])),
        }
        if config.twin_q:
            losses[QF_TWIN_LOSS_KEY] = torch.mean(batch["weights"] * squared[1])
        self._temp_losses.update({(module_id, name): loss for name, loss in losses.items()})
        self.metrics.log_value((module_id, TD_ERROR_KEY), td_errors.detach(), reduce="item_series")
        values = {
            "alpha_value": alpha[0],
            "log_alpha_value": torch.log(alpha)[0],
            "target_entropy": self.target_entropy[module_id],
            LOGPS_KEY: logp.mean(),
            QF_MEAN_KEY: fwd_out["q_curr"].mean(),
            QF_MAX_KEY: fwd_out["q_curr"].max(),
            QF_MIN_KEY: fwd_out["q_curr"].min(),
            TD_ERROR_MEAN_KEY: td_errors.mean(),
        }
        self.metrics.log_dict({**losses, **values}, key=module_id, window=1)
        return sum(losses.values(), torch.zeros(()))


class FastSquaredErrorSACLearner(SquaredErrorSACLearner, FastSACTorchLearner):
    """The same with lean updates."""

    loss_class = SquaredErrorSACLearner


class SACConfig(NoiseConfig, sac.SACConfig):  # type: ignore[misc]
    """RLlib's, with the critics above; `fusionnet_*` settings mean nothing to it.

    Attributes:
        td_error_loss_fn: The critics' loss of continuous actions: `mse`, the paper's, or `huber`, RLlib's.
    """

    def __init__(self, algo_class: Any = None) -> None:
        super().__init__(algo_class=algo_class)
        self.td_error_loss_fn = "huber"

    def training(self, *, td_error_loss_fn: Literal["huber", "mse"] = NotProvided, **kwargs: Any) -> Self:
        """As RLlib's, with the setting above."""
        super().training(**kwargs)
        if td_error_loss_fn is not NotProvided:
            self.td_error_loss_fn = td_error_loss_fn
        return self

    def validate(self) -> None:
        """As RLlib's."""
        super().validate()
        if self.td_error_loss_fn not in ("huber", "mse"):
            self._value_error(f"td_error_loss_fn is huber or mse, not {self.td_error_loss_fn!r}.")

    def get_default_learner_class(self) -> type:
        """The one with the loss that is set."""
        return SACTorchLearner if self.td_error_loss_fn == "huber" else SquaredErrorSACLearner

    def get_fast_learner_class(self) -> type:
        """The same with fast parts."""
        return FastSACTorchLearner if self.td_error_loss_fn == "huber" else FastSquaredErrorSACLearner

    def get_default_rl_module_spec(self) -> RLModuleSpec:
        """As RLlib's, with another catalog."""
        return RLModuleSpec(module_class=DefaultSACTorchRLModule, catalog_class=ConcatenatingCatalog)
