"""V-trace (Espeholt et al. 1802.01561, section 4.1) on the CPU, as RLlib computes it
(algorithms/impala/torch/vtrace_torch_v2.py), to the bit.

RLlib's loop over time is of six small operations of torch a step, which take longer than an update's networks;
here it is two of NumPy.
"""

import numpy as np
import torch


def cut(rows: torch.Tensor, length: int) -> torch.Tensor:
    """Rows as RLlib cuts them into pieces of equal length, zeros behind the last (`make_time_major`).

    Args:
        rows: [rows].
        length: Of a piece.

    Returns:
        [pieces, length], where RLlib has [length, pieces]: in memory the two are the same.
    """
    if missing := -len(rows) % length:
        rows = torch.cat([rows, rows.new_zeros(missing)])
    return rows.view(-1, length)


class Returns:
    """The targets of values and the advantages of actions, of the steps of one batch.

    Args:
        rewards: [pieces, length].
        discounts: Of what follows each step, [pieces, length].
        rho_limit: At which the ratios of the two policies' probabilities are cut in targets; None: nowhere.
        pg_rho_limit: Likewise in advantages.
    """

    def __init__(
        self, rewards: torch.Tensor, discounts: torch.Tensor, rho_limit: float | None, pg_rho_limit: float | None
    ) -> None:
        self._rewards, self._discounts = rewards, discounts
        self._rho_limit, self._pg_rho_limit = rho_limit, pg_rho_limit

    def weigh(self, target_logp: torch.Tensor, behaviour_logp: torch.Tensor) -> None:
        """Set the ratios of the probabilities that the policy which learns and the one that sampled give the actions.

        Args:
            target_logp: Logarithms of the former, [pieces, length].
            behaviour_logp: Of the latter.
        """
        rhos = torch.exp(target_logp - behaviour_logp)
        self._rhos = rhos if self._rho_limit is None else torch.clamp(rhos, max=self._rho_limit)
        self._pg_rhos = rhos if self._pg_rho_limit is None else torch.clamp(rhos, max=self._pg_rho_limit)
        self._decays = _by_time(self._discounts * torch.clamp(rhos, max=1.0))

    def of(self, values: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """The targets and the advantages, [pieces, length] each.

        Args:
            values: Of the steps' observations, [pieces, length].
        """
        # The value after a piece's last step is the next piece's first; RLlib takes any where there is none.
        after = torch.cat([values[1:, :1], values[:1, :1]])
        deltas = self._rhos * (self._rewards + self._discounts * _next(values, after) - values)
        targets = torch.from_numpy(_accumulated(_by_time(deltas), self._decays).T) + values
        return targets, self._pg_rhos * (self._rewards + self._discounts * _next(targets, after) - values)


def _next(values: torch.Tensor, after: torch.Tensor) -> torch.Tensor:
    return torch.cat([values[:, 1:], after], dim=1)


def _by_time(rows: torch.Tensor) -> np.ndarray:
    return np.ascontiguousarray(rows.numpy().T)


def _accumulated(deltas: np.ndarray, decays: np.ndarray) -> np.ndarray:
    """Each step's delta, and what comes after it, decayed: [length, pieces]."""
    sums = np.empty_like(deltas)
    later = np.zeros_like(deltas[0])
    for delta, decay, here in zip(deltas[::-1], decays[::-1], sums[::-1], strict=True):
        np.multiply(decay, later, out=here)
        np.add(delta, here, out=here)
        later = here
    return sums
