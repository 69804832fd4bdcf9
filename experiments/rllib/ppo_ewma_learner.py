"""The learner of PPO-EWMA: its loss, the average of weights that is its proximal policy,
moments of advantages over several batches.

The decoupled clipped objective (Hilton et al. 2022, arXiv 2110.00641) is, with r = pi / pi_prox,

    pi_prox / pi_behav * min(r * A, clip(r, 1 - clip_param, 1 + clip_param) * A).

The first factor is positive and has no gradient, so this is PPO's objective with pi_prox in place of the policy that
sampled, pi_behav, and with each advantage A times that factor: RLlib's loss, of other columns.
"""

import math
from collections.abc import Callable
from typing import Any

import torch
from ray.rllib.algorithms.ppo.torch.default_ppo_torch_rl_module import DefaultPPOTorchRLModule
from ray.rllib.algorithms.ppo.torch.ppo_torch_learner import PPOTorchLearner
from ray.rllib.core import DEFAULT_MODULE_ID
from ray.rllib.core.columns import Columns
from ray.rllib.evaluation.postprocessing import Postprocessing

from experiments.fast.learner import FastPPOTorchLearner
from experiments.fast.networks.known import base_of
from experiments.fast.networks.perceptrons import is_overridden
from experiments.fast.networks.ppo import plain_policy
from experiments.fast.ppo.batch import EpisodeArrays
from experiments.fast.ppo.gradient import Rows
from experiments.rllib.moving_averages import AverageModule, scaled_decay, standardised

_LARGEST_RATIO = 100.0
"""Of pi to pi_behav, at which the paper's code (github.com/openai/ppo-ewma, `imp_samp_max`) cuts it:
samples of an old policy can be all but impossible for the present one, and the other way round."""
_BETAS = (0.9, 0.999)
"""Of Adam, torch's own."""
_LEAST_STD = 1e-4
"""RLlib's (connectors/learner/general_advantage_estimation.py)."""


class PPOEWMATorchLearner(PPOTorchLearner):  # type: ignore[misc]  # RLlib ships no type information
    """As RLlib's learner of PPO, but for what `PPOEWMAConfig` says.

    Attributes:
        averages: By module, the proximal policy; empty where the policy that sampled is.
        proximal_weights_per_module: Its weights, one vector, which a checkpoint saves.
        proximal_total_per_module: Likewise, the sum of the weights in the average.
        advantage_sums_per_module: Likewise, of `standardised`; zeros where each batch has moments of its own.
    """

    def build(self) -> None:
        """As RLlib's."""
        super().build()
        modules = {
            module_id: self.module[module_id].unwrapped()
            for module_id in self.module.keys()  # noqa: SIM118  # no dict
        }
        self.averages = {m: AverageModule(module) for m, module in modules.items() if self.config.averages_weights}
        self.proximal_weights_per_module = {m: average.weights for m, average in self.averages.items()}
        self.proximal_total_per_module = {m: average.total for m, average in self.averages.items()}
        self.advantage_sums_per_module = {m: torch.zeros(3, dtype=torch.float64) for m in modules}
        self._proximal: dict[str, Callable[[Rows], Rows]] = {}

    def configure_optimizers_for_module(self, module_id: str, config: Any = None) -> None:
        """As RLlib's, with rate and betas for these minibatches."""
        parameters, factor = self.get_parameters(self.module[module_id]), self.config.batch_factor
        mean, square = (scaled_decay(beta, factor) for beta in _BETAS)
        optimizer = torch.optim.Adam(parameters, betas=(mean, square))
        self.register_optimizer(
            module_id=module_id, optimizer=optimizer, params=parameters, lr_or_lr_schedule=self.config.adjusted_lr
        )

    def before_gradient_based_update(self, *, timesteps: dict[str, Any]) -> None:
        """As RLlib's."""
        super().before_gradient_based_update(timesteps=timesteps)
        for average in self.averages.values():
            average.begin()
        self._proximal = {module_id: _policy(average.module) for module_id, average in self.averages.items()}

    def apply_gradients(self, gradients_dict: Any) -> None:
        """As RLlib's; the averages take in the new weights."""
        super().apply_gradients(gradients_dict)
        self.add_to_averages()

    def add_to_averages(self) -> None:
        """Take the present weights into the averages, after each gradient step."""
        for average in self.averages.values():
            average.add(self.config.proximal_decay)

    def _make_batch_if_necessary(self, training_data: Any) -> Any:
        batch = super()._make_batch_if_necessary(training_data)
        if training_data.episodes is not None:
            for module_id, rows in batch.policy_batches.items():
                self.standardise_advantages(module_id, rows)
        return batch

    @torch.no_grad()
    def standardise_advantages(self, module_id: str, rows: Any) -> None:
        """Put advantages into a batch that are standardised over several batches, in place of RLlib's,
        which are over this one.
        """
        if not self.config.advantage_decay:
            return
        advantages = rows[Postprocessing.VALUE_TARGETS] - self.module[module_id].unwrapped().compute_values(rows)
        sums = self.advantage_sums_per_module[module_id]
        rows[Postprocessing.ADVANTAGES] = standardised(advantages, sums, self.config.advantage_decay, _LEAST_STD)

    @torch.no_grad()
    def against_proximal(
        self, module_id: str, rows: Rows, dist_inputs: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """The terms of the decoupled objective that the proximal policy gives.

        Args:
            module_id: Id of the module.
            rows: Rows of a minibatch.
            dist_inputs: Distribution inputs of the present policy, [rows, inputs].

        Returns:
            The log-probabilities of the actions, and the factor of the advantages: [rows] each.
        """
        distribution = self.module[module_id].unwrapped().get_train_action_dist_cls()
        actions = rows[Columns.ACTIONS]
        of_proximal = distribution.from_logits(self._proximal[module_id](rows)[Columns.ACTION_DIST_INPUTS]).logp(
            actions
        )
        now = distribution.from_logits(dist_inputs.detach()).logp(actions)
        of_behaviour = torch.maximum(rows[Columns.ACTION_LOGP], now - math.log(_LARGEST_RATIO))
        return of_proximal, torch.exp(of_proximal - of_behaviour)

    def compute_loss_for_module(self, *, module_id: str, config: Any, batch: Any, fwd_out: Any) -> Any:
        """RLlib's, against the proximal policy."""
        if module_id in self.averages:
            logp, factor = self.against_proximal(module_id, batch, fwd_out[Columns.ACTION_DIST_INPUTS])
            advantages = batch[Postprocessing.ADVANTAGES] * factor
            batch = {**batch, Columns.ACTION_LOGP: logp, Postprocessing.ADVANTAGES: advantages}
        return super().compute_loss_for_module(module_id=module_id, config=config, batch=batch, fwd_out=fwd_out)


class FastPPOEWMATorchLearner(FastPPOTorchLearner, PPOEWMATorchLearner):
    """The same, fast."""

    stock = PPOEWMATorchLearner

    def weigh(self, rows: Callable[[], Rows], columns: Rows, dist_inputs: torch.Tensor) -> None:
        """Put the proximal policy in the place of the one that sampled."""
        if not self.averages:
            return
        own = rows()
        logp, factor = self.against_proximal(DEFAULT_MODULE_ID, own, dist_inputs)
        own[Columns.ACTION_LOGP].copy_(logp)  # in place: the columns share these two
        own[Postprocessing.ADVANTAGES].mul_(factor)
        columns["of_surrogate"] = -columns["of_loss"] * columns["advantages"]

    def _batch_of(self, chunks: EpisodeArrays, start: float) -> Rows:
        rows = super()._batch_of(chunks, start)
        self.standardise_advantages(DEFAULT_MODULE_ID, rows)
        return rows

    def _clip_and_step(self, *args: Any, **kwargs: Any) -> torch.Tensor | None:
        norm = super()._clip_and_step(*args, **kwargs)
        self.add_to_averages()
        return norm


def _policy(module: Any) -> Callable[[Rows], Rows]:
    """From a batch to the inputs of the action distribution: without the value function,
    where that is known to be the same.
    """
    default = isinstance(module, DefaultPPOTorchRLModule)
    plain = (
        plain_policy(module)
        if default and not is_overridden(module, base_of(module, DefaultPPOTorchRLModule), "_forward_train")
        else None
    )
    return plain or module._forward_train
