"""IMPALA and APPO for which a return goes on where a fragment, or a time limit, ends, and whose runners are sent the
newest weights.

RLlib appends a row to each fragment, for the value of the observation that the last step led to, with no reward and no
discount (connectors/learner/add_one_ts_to_episodes_and_truncate.py). V-trace takes that row for a step after which
nothing comes: its temporal difference, minus its value, goes into the return of the step before and cancels the value
that was to be bootstrapped there (`discounts_time_major` in algorithms/impala/torch/impala_torch_learner.py and
algorithms/appo/torch/appo_torch_learner.py, RLlib 2.60). So with RLlib's own learners most returns end with their
fragment. V-trace weighs a temporal difference by the ratio of the probabilities that the two policies give the action
(Espeholt et al. 1802.01561, section 4.1): here that of an appended row is zero, and its target its value.

RLlib asks its learner for weights in every second training step, with the first of the batches that arrived together,
and is given those before it: with 4 runners, each of whose fragments fills a batch, samples are 12 updates old when
they are learned from. Here weights come with each batch, and samples are 6 updates old (APPO on LunarLander, 2 cores,
`learner/staleness_updates`). With `broadcast_interval` above 1 it is as in RLlib.
"""

import contextlib
import queue
from typing import Any

import torch
from ray.rllib.algorithms import appo, impala
from ray.rllib.algorithms.appo.torch.appo_torch_learner import APPOTorchLearner
from ray.rllib.algorithms.impala.torch.impala_torch_learner import IMPALATorchLearner
from ray.rllib.core.columns import Columns

from experiments.fast.vtrace.learner import FastAPPOTorchLearner, FastIMPALATorchLearner
from experiments.rllib.old_samples import WaitingAPPO, WaitingConfig, WaitingIMPALA

_STATE = "_rl_module_state_after_update"
"""Of an update's results, under which RLlib looks for weights."""
_CERTAIN = 1e3
"""Logarithm of a behaviour policy's probability that makes every ratio to it zero."""


class _Bootstrapping:
    """A learner of RLlib's with V-trace."""

    config: Any
    _learner_state_queue: Any

    def update(self, training_data: Any, *, return_state: bool = False, **how: Any) -> Any:
        """As RLlib's, but for the weights that runners are sent: the newest, with each batch."""
        if self.config.broadcast_interval > 1:
            return super().update(training_data, return_state=return_state, **how)  # type: ignore[misc]
        results = super().update(training_data, return_state=False, **how)  # type: ignore[misc]
        with contextlib.suppress(queue.Empty):
            results[_STATE] = self._learner_state_queue.get_nowait()
        return results

    def behaviour_logp(self, rows: dict[str, Any]) -> torch.Tensor:
        """Logarithms of the probabilities that the policy which sampled gave the actions, for V-trace: [rows]."""
        logp: torch.Tensor = rows[Columns.ACTION_LOGP]
        return logp.masked_fill(~rows[Columns.LOSS_MASK].bool(), _CERTAIN)

    def compute_loss_for_module(
        self, *, module_id: str, config: Any, batch: dict[str, Any], fwd_out: dict[str, Any]
    ) -> Any:
        """As RLlib's."""
        rows = {**batch, Columns.ACTION_LOGP: self.behaviour_logp(batch)}
        return super().compute_loss_for_module(module_id=module_id, config=config, batch=rows, fwd_out=fwd_out)  # type: ignore[misc]


# RLlib ships no type information
class BootstrappingIMPALALearner(_Bootstrapping, IMPALATorchLearner):  # type: ignore[misc]
    """IMPALA's."""


class BootstrappingAPPOLearner(_Bootstrapping, APPOTorchLearner):  # type: ignore[misc]
    """APPO's."""


class FastBootstrappingIMPALALearner(BootstrappingIMPALALearner, FastIMPALATorchLearner):
    """The same, fast."""

    stock = BootstrappingIMPALALearner


class FastBootstrappingAPPOLearner(BootstrappingAPPOLearner, FastAPPOTorchLearner):
    """The same, fast."""

    stock = BootstrappingAPPOLearner


class IMPALAConfig(WaitingConfig, impala.IMPALAConfig):  # type: ignore[misc]
    """RLlib's, with the learner above, and samples that may wait."""

    def __init__(self, algo_class: Any = None) -> None:
        super().__init__(algo_class=algo_class or WaitingIMPALA)

    def get_default_learner_class(self) -> type:
        """As RLlib's, for torch."""
        return BootstrappingIMPALALearner

    def get_fast_learner_class(self) -> type:
        """That of `experiments.fast.switch.make_fast`."""
        return FastBootstrappingIMPALALearner


class APPOConfig(WaitingConfig, appo.APPOConfig):  # type: ignore[misc]
    """RLlib's, with the learner above, and samples that may wait."""

    def __init__(self, algo_class: Any = None) -> None:
        super().__init__(algo_class=algo_class or WaitingAPPO)

    def get_default_learner_class(self) -> type:
        """As RLlib's, for torch."""
        return BootstrappingAPPOLearner

    def get_fast_learner_class(self) -> type:
        """That of `experiments.fast.switch.make_fast`."""
        return FastBootstrappingAPPOLearner
