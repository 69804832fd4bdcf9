"""Exploration whose continuous actions depart from the policy's means by noise that lasts over env steps.

Each departure by itself has the policy's own distribution, so that the log-probability of an action, the losses and the
deterministic policy stay RLlib's. That a departure depends on those before it is left out of account, as in the papers
of both kinds (`coloured_noise`, `state_dependent_noise`).

What was drawn is in no checkpoint: it begins anew where a trial derives its random streams anew
(`checkpoints.begin_segment`).
"""

from abc import abstractmethod
from typing import Any

import torch
from ray.rllib.core.columns import Columns
from ray.rllib.core.distribution.torch.torch_distribution import TorchSquashedGaussian
from ray.rllib.core.rl_module.torch.torch_rl_module import TorchRLModule


class NoisyModule(TorchRLModule):  # type: ignore[misc]  # RLlib ships no type information
    """The common part of the modules that explore so."""

    def _forward_exploration(self, batch: dict[str, Any], **kwargs: Any) -> dict[str, Any]:
        """As RLlib's, with the actions and their log-probabilities."""
        with torch.no_grad():
            found: dict[str, Any] = super()._forward_exploration(batch, **kwargs)
            gaussian = self.get_exploration_action_dist_cls().from_logits(found[Columns.ACTION_DIST_INPUTS])
            actions = gaussian.loc + self.next_departures(gaussian)
            if isinstance(gaussian, TorchSquashedGaussian):
                actions = gaussian._squash(actions)
            return {**found, Columns.ACTIONS: actions, Columns.ACTION_LOGP: gaussian.logp(actions)}

    @abstractmethod
    def next_departures(self, gaussian: Any) -> torch.Tensor:
        """What the next step adds to the means.

        Args:
            gaussian: The policy's distribution, of RLlib's two Gaussians.

        Returns:
            Of the shape of the means, [environments, ..., actions], before they are squashed.
        """

    @abstractmethod
    def restart_noise(self) -> None:
        """Draw anew with the next step."""


def restart_noise(module: Any) -> None:
    """Let the noise of a module begin anew, if it has any: after the generators were seeded."""
    if isinstance(module, NoisyModule):
        module.restart_noise()
