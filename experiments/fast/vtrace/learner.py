"""RLlib's learners of IMPALA and APPO with the updates of `FastPPOTorchLearner`: without autograd through the networks,
with one vector for the gradient and one for each of Adam's moments, and with one entry in the logs where RLlib makes
one at every pass over a batch.

These learn in a thread of their own, from batches of tensors that another one made of episodes. Only the thread's
updates are replaced; the weights are the same as RLlib's as far as those of `FastPPOTorchLearner` are.
"""

import time
from collections.abc import Callable
from typing import Any, ClassVar

import torch
from ray.rllib.algorithms.appo.torch.appo_torch_learner import APPOTorchLearner
from ray.rllib.algorithms.impala.torch.impala_torch_learner import IMPALATorchLearner
from ray.rllib.core import DEFAULT_MODULE_ID
from ray.rllib.core.columns import Columns
from ray.rllib.core.learner.learner import Learner
from ray.rllib.core.learner.torch.torch_learner import TorchLearner
from ray.rllib.policy.sample_batch import MultiAgentBatch

from experiments.fast.masks import Masked, ruled_out
from experiments.fast.networks.adam import FlatAdam
from experiments.fast.networks.known import observations_function
from experiments.fast.networks.ppo import DefaultNetworks
from experiments.fast.on_policy import METHODS, adam_of, clip_and_step, log_steps, say_once, why_stock
from experiments.fast.ppo.gradient import Rows
from experiments.fast.preprocessing.rewards import LossOfScaledRewards
from experiments.fast.vtrace.loss import APPOLoss, IMPALALoss

_METHODS = tuple(name for name in METHODS if name != "compute_loss_for_module")


class _FastVTrace(TorchLearner):  # type: ignore[misc]  # RLlib ships no type information
    """The updates of both.

    Attributes:
        minibatch_values: As `FastPPOTorchLearner`'s, of the passes over a batch but the last.
        whole_batch: As `FastPPOTorchLearner`'s, but with rewards as they were sampled.
        stock: RLlib's learner whose updates these are. Of a subclass for a learner that has a loss of its own: that
            learner, which it inherits from as well.
        loss: The loss of `stock`.
    """

    stock: ClassVar[type]
    loss: ClassVar[type[IMPALALoss]]
    minibatch_values: Callable[[str, dict[str, torch.Tensor]], None] | None = None
    whole_batch: Callable[[str, Rows], None] | None = None
    _learner_thread: Any

    def build(self) -> None:
        """As RLlib's."""
        self._logged_reasons: set[str] = set()
        self._adam: FlatAdam | None = None
        super().build()
        # RLlib's thread calls `Learner.update` itself, of whatever learner. It waits for its first batch.
        self._learner_thread._update_method = _update

    def behaviour_logp(self, rows: Rows) -> torch.Tensor:
        """Logarithms of the probabilities that the policy which sampled gave the actions, for V-trace: [rows].

        A subclass whose loss sees others returns those.
        """
        return rows[Columns.ACTION_LOGP]

    def why_stock(self, batch: Any, num_epochs: int, minibatch_size: int | None) -> str | None:
        """The reason why RLlib's own code has to learn from this batch; None if there is none."""
        if reason := why_stock(self, self.stock, _METHODS):
            return reason
        if not isinstance(vars(self).get("compute_loss_for_module"), LossOfScaledRewards | None):
            return "a compute_loss_for_module of its own"
        if type(self).compute_loss_for_module is not self.stock.compute_loss_for_module:  # type: ignore[attr-defined]
            return "a loss of its own"
        if not isinstance(batch, MultiAgentBatch) or list(batch.policy_batches) != [DEFAULT_MODULE_ID]:
            return "something else to learn from than a batch of the module"
        rows, module = batch.policy_batches[DEFAULT_MODULE_ID], self.module[DEFAULT_MODULE_ID].unwrapped()
        # Of several passes each is of as many rows as RLlib counts env steps: where batches are made in processes of
        # their own, fewer than there are.
        if minibatch_size is not None or (num_epochs > 1 and len(rows) != batch.count):
            return "a batch to be cut into minibatches"
        observations = rows[Columns.OBS]
        if not isinstance(observations, torch.Tensor) or observations.device != self._device:
            return "a batch that is elsewhere than the learner"
        adam = adam_of(self)
        if observations.dim() != 2 or not DefaultNetworks.is_known(module, adam.parameters) or not adam.lay_out():
            return "a network that is not RLlib's default perceptron"
        return None

    def update_from(self, batch: MultiAgentBatch, timesteps: dict[str, Any], num_epochs: int) -> None:
        """Take a gradient step per pass over a batch of which `why_stock` is None; RLlib's metrics are logged,
        not reduced.
        """
        self.before_gradient_based_update(timesteps=timesteps)
        self._weights_seq_no += 1
        rows = batch.policy_batches[DEFAULT_MODULE_ID]
        if self.whole_batch is not None:
            self.whole_batch(DEFAULT_MODULE_ID, rows)
        start = time.perf_counter()
        total = self._passes(rows, num_epochs)
        self._metrics_learner_inner_update.observe((time.perf_counter() - start) / num_epochs)
        log_steps(self, num_epochs, len(rows), batch.count)
        self.metrics.log_value((DEFAULT_MODULE_ID, self.TOTAL_LOSS_KEY), total, window=1)
        self.after_gradient_based_update(timesteps=timesteps)

    @torch.no_grad()
    def _passes(self, rows: Any, num_passes: int) -> torch.Tensor:
        """Learn from a batch; returns the last pass' loss."""
        module = self.module[DEFAULT_MODULE_ID].unwrapped()
        config = self.config.get_config_for_module(DEFAULT_MODULE_ID)
        ((name, _),) = self.get_optimizers_for_module(DEFAULT_MODULE_ID)
        norm_key, adam = f"gradients_{name}_global_norm", adam_of(self)
        networks = DefaultNetworks(module, adam.lay_out())
        scaled = vars(self).get("compute_loss_for_module")
        loss = self.loss(self, module, config, rows if scaled is None else scaled.scaled(DEFAULT_MODULE_ID, rows))
        observations = rows[Columns.OBS]
        forbidden = ruled_out(observations, module.num_actions) if isinstance(module, Masked) else None
        seen = observations_function(module)(observations)
        module.train()
        self._compute_off_policyness({DEFAULT_MODULE_ID: rows})  # the same in each pass
        others: list[dict[str, Any]] = []
        for left in reversed(range(num_passes)):
            networks.backward(*loss.gradients(*networks.forward(seen, forbidden)))
            if not adam.is_finite():
                self._show(others)
                return self._passes_of_rllib(rows, left + 1)
            norm = clip_and_step(adam, config, is_last=False, log_norm=True)
            adam.end()  # each time: another thread may save the state
            others.append(loss.logged if norm is None else {**loss.logged, norm_key: norm})
        *others, last = others
        self._show(others)
        norm = last.pop(norm_key, None)
        self.metrics.log_dict(last, key=DEFAULT_MODULE_ID, window=1)
        if norm is not None:
            self.metrics.log_value((DEFAULT_MODULE_ID, norm_key), norm, window=1)
        return loss.total

    def _show(self, passes: list[dict[str, Any]]) -> None:
        """Give what RLlib would log of some passes to who wants it."""
        if self.minibatch_values is not None and passes:
            values = {key: torch.stack([torch.as_tensor(of[key]) for of in passes]) for key in passes[0]}
            self.minibatch_values(DEFAULT_MODULE_ID, values)

    def _passes_of_rllib(self, rows: Any, num_passes: int) -> torch.Tensor:
        """The rest of the passes by RLlib's code, which handles gradients that are not finite."""
        total = torch.zeros(())
        for _ in range(num_passes):
            with torch.enable_grad():
                _, losses, _ = self._uncompiled_update({DEFAULT_MODULE_ID: rows})
            total = losses[DEFAULT_MODULE_ID]
        return total


class FastIMPALATorchLearner(_FastVTrace, IMPALATorchLearner):  # type: ignore[misc]
    """Drop-in for `IMPALATorchLearner`: `config.learners(learner_class=FastIMPALATorchLearner)`."""

    stock, loss = IMPALATorchLearner, IMPALALoss


class FastAPPOTorchLearner(_FastVTrace, APPOTorchLearner):  # type: ignore[misc]
    """Drop-in for `APPOTorchLearner`."""

    stock, loss = APPOTorchLearner, APPOLoss


def _update(
    self: Any,
    training_data: Any,
    *,
    timesteps: dict[str, Any] | None = None,
    num_epochs: int = 1,
    minibatch_size: int | None = None,
    **kwargs: Any,
) -> Any:
    """`Learner.update` of a learner's thread."""
    reason = self.why_stock(training_data.batch, num_epochs, minibatch_size)
    if reason is None:
        return self.update_from(training_data.batch, timesteps or {}, num_epochs)
    say_once(self, reason)
    how = {"num_epochs": num_epochs, "minibatch_size": minibatch_size, **kwargs}
    return Learner.update(self, training_data=training_data, timesteps=timesteps, **how)
