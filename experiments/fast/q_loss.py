"""DQN's loss (algorithms/dqn/torch/dqn_torch_learner.py: `compute_loss_for_module`), its gradient and what it logs, without autograd.

These are torch's own formulas on the same numbers in the same order, so the bits are the same. What is logged is computed for many updates
at once: it takes as long as the loss otherwise.
"""

from collections.abc import Mapping
from typing import Any

import torch
from ray.rllib.algorithms.dqn.dqn_learner import QF_LOSS_KEY, QF_MAX_KEY, QF_MEAN_KEY, QF_MIN_KEY, TD_ERROR_MEAN_KEY
from ray.rllib.core.columns import Columns

from experiments.fast.networks.q import QValues

Tensor = torch.Tensor

_NONE, _DELTA = 0, 1.0  # torch's reduction "none", and the delta of RLlib's Huber loss
_MOST_ROWS = 2**16
"""Rows to keep before what is logged of them is computed."""


class QLoss:
    """The loss of one module without a distribution of returns.

    Args:
        config: The module's.
    """

    def __init__(self, config: Any) -> None:
        self._gamma, self._huber = config.gamma, config.td_error_loss_fn == "huber"
        self._kept: list[tuple[Tensor, Tensor, Tensor]] = []
        self._values: dict[str, list[float]] = {}

    def __call__(self, q_values: QValues, batch: Mapping[str, Tensor]) -> tuple[Tensor, Tensor, Tensor]:
        """The loss of a batch, which is kept until `values`.

        Returns:
            The index of each action, [B, 1]; the loss's gradient with respect to the Q values of these actions, [B]; the TD errors, [B].
        """
        actions = batch[Columns.ACTIONS].unsqueeze(-1).long()
        selected = q_values.now.gather(-1, actions).squeeze(-1)
        best = (q_values.target if q_values.after is None else q_values.after).argmax(dim=-1, keepdim=True)
        after = (1.0 - batch[Columns.TERMINATEDS].float()) * q_values.target.gather(-1, best).squeeze(-1)
        target = batch[Columns.REWARDS] + (self._gamma ** batch["n_step"]) * after
        weights = batch["weights"]
        upstream = weights * (1.0 / len(weights))
        if self._huber:
            of_selected = torch.ops.aten.huber_loss_backward.default(upstream, selected, target, _NONE, _DELTA)
        else:
            of_selected = torch.ops.aten.mse_loss_backward.default(upstream, selected, target, _NONE)
        if self._kept and (len(self._kept) * len(weights) >= _MOST_ROWS or len(weights) != len(self._kept[0][0])):
            self._compute()
        self._kept.append((selected, target, weights))
        return actions, of_selected, torch.abs(selected - target)

    def values(self) -> dict[str, list[float]]:
        """What RLlib logs of each batch, by its names: of all since the last call."""
        self._compute()
        values, self._values = self._values, {}
        return values

    def _compute(self) -> None:
        if not self._kept:
            return
        selected, target, weights = (torch.stack(rows) for rows in zip(*self._kept, strict=True))
        self._kept = []
        loss = torch.nn.functional.huber_loss if self._huber else torch.nn.functional.mse_loss
        values = {
            QF_LOSS_KEY: (weights * loss(selected, target, reduction="none")).mean(dim=1),
            QF_MEAN_KEY: selected.mean(dim=1),
            QF_MAX_KEY: selected.amax(dim=1),
            QF_MIN_KEY: selected.amin(dim=1),
            TD_ERROR_MEAN_KEY: torch.abs(selected - target).mean(dim=1),
        }
        for name, column in values.items():
            self._values.setdefault(name, []).extend(column.tolist())
