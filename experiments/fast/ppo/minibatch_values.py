"""The values that RLlib logs at every minibatch of PPO, computed for many minibatches at once."""

import torch
from ray.rllib.algorithms.ppo.ppo import (
    LEARNER_RESULTS_KL_KEY,
    LEARNER_RESULTS_VF_EXPLAINED_VAR_KEY,
    LEARNER_RESULTS_VF_LOSS_UNCLIPPED_KEY,
)
from ray.rllib.core.columns import Columns
from ray.rllib.core.learner.learner import ENTROPY_KEY, POLICY_LOSS_KEY, VF_LOSS_KEY
from ray.rllib.evaluation.postprocessing import Postprocessing
from ray.rllib.utils.metrics import DIFF_NUM_GRAD_UPDATES_VS_SAMPLER_POLICY, WEIGHTS_SEQ_NO
from ray.rllib.utils.numpy import SMALL_NUMBER

from experiments.fast.ppo.gradient import Rows
from experiments.fast.ppo.loss import PPOLoss

_COLUMNS = (
    Columns.LOSS_MASK,
    Columns.ACTIONS,
    Columns.ACTION_LOGP,
    Columns.ACTION_DIST_INPUTS,
    WEIGHTS_SEQ_NO,
    Postprocessing.ADVANTAGES,
    Postprocessing.VALUE_TARGETS,
)
"""Of a minibatch, what the values are computed from."""

_MOST_ROWS = 2**18
"""Rows of minibatches to keep before their values are computed."""


class MinibatchValues:
    """Keeps what the networks put out for each minibatch, and computes the values from it.

    Args:
        loss: Loss of the module.
        size: Rows of a minibatch.
        weights_seq_no: Number of the present weights.
        norm_key: RLlib's name for the gradient's norm.
    """

    def __init__(self, loss: PPOLoss, size: int, weights_seq_no: int, norm_key: str) -> None:
        self._loss, self._size, self._weights_seq_no, self._norm_key = loss, size, weights_seq_no, norm_key
        self._computed: list[dict[str, torch.Tensor]] = []
        self._blocks: list[Rows] = []
        self._steps: list[tuple[torch.Tensor, torch.Tensor, torch.Tensor | None]] = []
        self._num_in_blocks = 0

    def add(self, dist_inputs: torch.Tensor, predictions: torch.Tensor, norm: torch.Tensor | None) -> None:
        """Keep a minibatch's outputs and the norm of its gradient."""
        self._steps.append((dist_inputs, predictions, norm))

    def end_block(self, block: Rows) -> None:
        """Keep the rows of the minibatches that were added since the last call: the first of this block."""
        num_rows = (len(self._steps) - self._num_in_blocks) * self._size
        self._num_in_blocks = len(self._steps)
        if num_rows:
            self._blocks.append({name: block[name][:num_rows] for name in _COLUMNS if name in block})
        if self._num_in_blocks * self._size > _MOST_ROWS:
            self._compute()

    def values(self) -> dict[str, torch.Tensor]:
        """The values by RLlib's names: [minibatches] each."""
        self._compute()
        return {name: torch.cat([values[name] for values in self._computed]) for name in self._computed[0]}

    @torch.no_grad()
    def _compute(self) -> None:
        if not self._steps:
            return
        dist_inputs, predictions, norms = zip(*self._steps, strict=True)
        rows = {name: torch.cat([block[name] for block in self._blocks]) for name in self._blocks[0]}
        values = self._values(rows, torch.cat(dist_inputs), torch.cat(predictions))
        if norms[0] is not None:
            values[self._norm_key] = torch.stack(norms)
        self._computed.append(values)
        self._blocks, self._steps, self._num_in_blocks = [], [], 0

    def _values(self, rows: Rows, dist_inputs: torch.Tensor, predictions: torch.Tensor) -> dict[str, torch.Tensor]:
        config, size = self._loss.config, self._size
        counts = rows[Columns.LOSS_MASK].view(-1, size)
        num_valid = counts.sum(dim=1)

        def means(of: torch.Tensor) -> torch.Tensor:
            return torch.where(counts, of.view(-1, size), 0.0).sum(dim=1) / num_valid

        now, ratio, kl = self._loss.compare(rows, dist_inputs)
        targets = rows[Postprocessing.VALUE_TARGETS]
        vf_loss = torch.pow(predictions - targets, 2.0)
        unexplained = torch.var((targets - predictions).view(-1, size), dim=1) / (
            torch.var(targets.view(-1, size), dim=1) + SMALL_NUMBER
        )
        values = {
            POLICY_LOSS_KEY: -means(self._loss.surrogate(rows, ratio)),
            VF_LOSS_KEY: means(torch.clamp(vf_loss, 0, config.vf_clip_param)),
            LEARNER_RESULTS_VF_LOSS_UNCLIPPED_KEY: means(vf_loss),
            LEARNER_RESULTS_VF_EXPLAINED_VAR_KEY: torch.clamp(1 - unexplained, min=-1.0),
            ENTROPY_KEY: means(now.entropy()),
            LEARNER_RESULTS_KL_KEY: torch.zeros(len(counts), device=counts.device) if kl is None else means(kl),
        }
        if WEIGHTS_SEQ_NO in rows:
            values[DIFF_NUM_GRAD_UPDATES_VS_SAMPLER_POLICY] = means(
                (self._weights_seq_no - rows[WEIGHTS_SEQ_NO]).float()
            )
        return values
