"""DQN's loss (algorithms/dqn/torch/dqn_torch_learner.py: `compute_loss_for_module`),
its gradient and what it logs, without autograd.

These are torch's own formulas on the same numbers in the same order, so the bits are the same. What is logged is
computed for many updates at once: it takes as long as the loss otherwise.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

import torch
from ray.rllib.algorithms.dqn.dqn_learner import QF_LOSS_KEY, QF_MAX_KEY, QF_MEAN_KEY, QF_MIN_KEY, TD_ERROR_MEAN_KEY
from ray.rllib.core.columns import Columns
from ray.rllib.core.learner.learner import Learner

from experiments.fast.networks.q import QValues

Tensor = torch.Tensor

_NONE, _DELTA = 0, 1.0  # torch's reduction "none", and the delta of RLlib's Huber loss
_MOST_ROWS = 2**16
"""Rows to keep before what is logged of them is computed."""


class ErrorLoss:
    """The loss of errors of values, by RLlib's name for it (`td_error_loss_fn`).

    Args:
        name: `huber` or `mse`.
    """

    def __init__(self, name: str) -> None:
        self._huber = name == "huber"

    def __call__(self, values: Tensor, target: Tensor) -> Tensor:
        """The loss of each value."""
        of = torch.nn.functional.huber_loss if self._huber else torch.nn.functional.mse_loss
        found: Tensor = of(values, target, reduction="none")
        return found

    def gradient(self, upstream: Tensor, values: Tensor, target: Tensor) -> Tensor:
        """The gradient of the loss of values [B] with respect to them."""
        aten = torch.ops.aten
        if self._huber:
            found: Tensor = aten.huber_loss_backward.default(upstream, values, target, _NONE, _DELTA)
        else:
            found = aten.mse_loss_backward.default(upstream, values, target, _NONE)
        return found


class KeptLosses(ABC):
    """Losses whose values are computed for many batches at once."""

    def __init__(self) -> None:
        self._kept: list[tuple[Tensor, ...]] = []
        self._values: dict[str, list[float]] = {}

    def keep(self, *columns: Tensor) -> None:
        """Keep of a batch what its losses are made of, [B] or [1] each, the first one [B]."""
        rows = len(columns[0])
        if self._kept and (len(self._kept) * rows >= _MOST_ROWS or rows != len(self._kept[0][0])):
            self._compute()
        self._kept.append(columns)

    def values(self) -> dict[str, list[float]]:
        """The values that RLlib logs of each batch, by its names: all since the last call."""
        self._compute()
        values, self._values = self._values, {}
        return values

    def _compute(self) -> None:
        if not self._kept:
            return
        columns = [torch.stack(rows) for rows in zip(*self._kept, strict=True)]
        self._kept = []
        for name, column in self._logged(*columns).items():
            self._values.setdefault(name, []).extend(column.tolist())

    @abstractmethod
    def _logged(self, *columns: Tensor) -> dict[str, Tensor]:
        """The values that RLlib logs, [batches], from those that were kept, [batches, B] or [batches, 1]."""


class QLoss(KeptLosses):
    """The loss of one module without a distribution of returns.

    Args:
        config: The module's configuration.
    """

    def __init__(self, config: Any) -> None:
        super().__init__()
        self._gamma, self._error_loss = config.gamma, ErrorLoss(config.td_error_loss_fn)

    def __call__(self, q_values: QValues, batch: Mapping[str, Tensor]) -> tuple[Tensor, Tensor, Tensor]:
        """The loss of a batch, which is kept until `values`.

        Returns:
            The index of each action, [B, 1]; the loss's gradient with respect to the Q values of these actions, [B];
            the TD errors, [B].
        """
        actions = batch[Columns.ACTIONS].unsqueeze(-1).long()
        selected = q_values.now.gather(-1, actions).squeeze(-1)
        best = (q_values.target if q_values.after is None else q_values.after).argmax(dim=-1, keepdim=True)
        after = (1.0 - batch[Columns.TERMINATEDS].float()) * q_values.target.gather(-1, best).squeeze(-1)
        target = batch[Columns.REWARDS] + (self._gamma ** batch["n_step"]) * after
        weights = batch["weights"]
        upstream = weights * (1.0 / len(weights))
        of_selected = self._error_loss.gradient(upstream, selected, target)
        self.keep(selected, target, weights)
        return actions, of_selected, torch.abs(selected - target)

    def _logged(self, *columns: Tensor) -> dict[str, Tensor]:
        selected, target, weights = columns
        mean_loss = (weights * self._error_loss(selected, target)).mean(dim=1)
        return {
            QF_LOSS_KEY: mean_loss,
            Learner.TOTAL_LOSS_KEY: mean_loss,
            QF_MEAN_KEY: selected.mean(dim=1),
            QF_MAX_KEY: selected.amax(dim=1),
            QF_MIN_KEY: selected.amin(dim=1),
            TD_ERROR_MEAN_KEY: torch.abs(selected - target).mean(dim=1),
        }
