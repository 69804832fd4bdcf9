"""RLlib's learners for DQN and SAC with lean updates: without a pipeline of connectors,
and with results for many updates at once.

`Learner.update` (ray/rllib/core/learner/learner.py) makes a batch through a pipeline of connectors, logs some forty
values one by one, reduces them to a result, and checks every gradient twice for a NaN. `lean_update` takes columns of a
batch and calls RLlib's own forward pass and loss, or writes their gradient out (`networks.q`, `q_loss`); the values
that these log are kept, and reduced for many updates together (`lean_results`). Gradients are checked once, by their
norm, and Adam's step and the target networks' average run over all weights at a time. The weights are the same as
RLlib's, to the bit.
"""

import functools
import math
import operator
from collections.abc import Callable, Collection, Mapping
from typing import Any

import numpy as np
import torch
from ray.rllib.algorithms.dqn.dqn_learner import DQNLearner
from ray.rllib.algorithms.dqn.torch.dqn_torch_learner import DQNTorchLearner
from ray.rllib.connectors.common import (
    AddObservationsFromEpisodesToBatch,
    AddStatesFromEpisodesToBatch,
    AddTimeDimToBatchAndZeroPad,
    BatchIndividualItems,
    NumpyToTensor,
)
from ray.rllib.connectors.learner import AddColumnsFromEpisodesToTrainBatch, AddNextObservationsFromEpisodesToTrainBatch
from ray.rllib.core import DEFAULT_MODULE_ID
from ray.rllib.core.columns import Columns
from ray.rllib.core.learner.torch.torch_learner import TorchLearner
from ray.rllib.core.rl_module.apis import SelfSupervisedLossAPI, TargetNetworkAPI
from ray.rllib.core.rl_module.multi_rl_module import MultiRLModule
from ray.rllib.core.rl_module.torch.torch_rl_module import TorchRLModule
from ray.rllib.utils.metrics import (
    LAST_TARGET_UPDATE_TS,
    NUM_ENV_STEPS_SAMPLED_LIFETIME,
    NUM_TARGET_UPDATES,
    TD_ERROR_KEY,
)
from ray.rllib.utils.metrics.stats.mean import MeanStats
from ray.rllib.utils.torch_utils import convert_to_torch_tensor, update_target_network

from experiments.fast import devices
from experiments.fast.networks.adam import FlatAdam
from experiments.fast.networks.perceptrons import is_overridden
from experiments.fast.networks.q import QNetworks
from experiments.fast.preprocessing.rewards import LossOfScaledRewards
from experiments.fast.q_loss import KeptLosses, QLoss

_CONNECTORS = {
    AddObservationsFromEpisodesToBatch,
    AddNextObservationsFromEpisodesToTrainBatch,
    AddColumnsFromEpisodesToTrainBatch,
    AddTimeDimToBatchAndZeroPad,
    AddStatesFromEpisodesToBatch,
    BatchIndividualItems,
    NumpyToTensor,
}
"""RLlib's default pipeline (`AlgorithmConfig.build_learner_connector`), with what DQN and SAC add."""

_HOOKS = (
    "update",
    "_update",
    "_uncompiled_update",
    "before_gradient_based_update",
    "after_gradient_based_update",
    "compute_losses",
    "compute_gradients",
    "postprocess_gradients",
    "postprocess_gradients_for_module",
    "apply_gradients",
    "_make_batch_if_necessary",
    "should_module_be_updated",
)
"""Methods that RLlib's update calls and `lean_update` does not: a subclass that overrides one of them
is updated by RLlib's code."""

_OVERALL: dict[str, Callable[[list[Any]], Any]] = {"sum": sum, "lifetime_sum": sum, "min": min, "max": max}
"""Reductions in which many values can be logged as one."""

_MODULE = DEFAULT_MODULE_ID


class _Recorder:
    """Replaces a learner's `MetricsLogger` and keeps the values that are logged."""

    def __init__(self) -> None:
        self.values: dict[tuple[str, ...], list[Any]] = {}
        self.how: dict[tuple[str, ...], dict[str, Any]] = {}
        self.td_error = torch.zeros(0)

    def log_value(self, key: Any, value: Any, **how: Any) -> None:
        """As RLlib's."""
        if key[-1] == TD_ERROR_KEY:
            self.td_error = value.detach()
            return
        if key not in self.values:
            self.values[key], self.how[key] = [], how
        # The tensor itself would keep the graph of the whole update. One on a GPU is copied at the end, all at once.
        self.values[key].append(
            value
            if not isinstance(value, torch.Tensor)
            else value.item()
            if value.device.type == "cpu"
            else value.detach()
        )

    def extend(self, key: tuple[str, ...], values: list[float], **how: Any) -> None:
        """As `log_value`, of each of `values`."""
        self.values.setdefault(key, []).extend(values)
        self.how.setdefault(key, how)

    def log_dict(self, value_dict: Mapping[Any, Any], *, key: Any = None, reduce: str = "mean", **how: Any) -> None:
        """As RLlib's, of a dict that is not nested."""
        prefix = () if key is None else key if isinstance(key, tuple) else (key,)
        for name, value in value_dict.items():
            self.log_value((*prefix, *(name if isinstance(name, tuple) else (name,))), value, reduce=reduce, **how)


class LeanUpdates(TorchLearner):  # type: ignore[misc]  # RLlib ships no type information
    """The lean updates of both learners; `update` is RLlib's own.

    Attributes:
        whole_batch: If set, it is called once per lean update with a module's id and the batch, before its step.
    """

    metrics: Any
    whole_batch: Callable[[str, dict[str, Any]], None] | None = None
    _networks: Any
    """Networks that are trained without autograd; None if there are none."""
    _loss: KeptLosses

    def build(self) -> None:
        """As RLlib's."""
        super().build()
        self._recorder = _Recorder()
        self._known_adams: list[FlatAdam] = []
        self._scaled: Callable[[str, Any], Any] | None = None
        self._adams: dict[str, FlatAdam] | None = None  # by the optimizer's name; None until the first lean update
        self._targets: _Targets | None = None  # likewise
        self._lean_rows = 0

    def why_stock(self) -> str | None:
        """The reason why updates have to be RLlib's own; None if there is none."""
        config, own = self.config, next(c for c in type(self).__mro__ if LeanUpdates in c.__bases__)
        if changed := [name for name in _HOOKS if getattr(type(self), name) is not getattr(own, name)]:
            return f"a {changed[0]} of its own"
        if reason := devices.why_stock(self._device):
            return reason
        if list(self.module.keys()) != [_MODULE] or config.policies_to_train is not None or config.is_multi_agent:
            return "more than one module"
        module = self.module[_MODULE]
        if is_overridden(self.module, MultiRLModule, "forward_train", "_forward_train"):
            return "a MultiRLModule of its own"
        if isinstance(module, TorchRLModule) and is_overridden(module, TorchRLModule, "forward_train"):
            return "a forward_train of the module's own"
        if not isinstance(module, TorchRLModule) or module.is_stateful() or isinstance(module, SelfSupervisedLossAPI):
            return "a module that is stateful, not torch's, or has a loss of its own"
        if self._learner_connector is None or not {type(c) for c in self._learner_connector.connectors} <= _CONNECTORS:
            return "a learner connector that is not a default one"
        if self._grad_scalers is not None or self._lr_scheduler_classes is not None or config.torch_skip_nan_gradients:
            return "a gradient scaler, a torch scheduler or torch_skip_nan_gradients"
        if config.torch_compile_learner or config.num_learners > 1:
            return "a compiled learner, or several"
        return None

    def begin_lean(self) -> None:
        """Prepare for lean updates, after anything else was done with this learner."""
        self.module[_MODULE].train()
        self._adams, self._targets = None, None

    def lean_update(self, columns: Mapping[str, Any], timesteps: dict[str, Any]) -> torch.Tensor:
        """One update, without its results.

        Args:
            columns: A training batch, see `sample_columns` of the replay buffers.
            timesteps: Timesteps as of `update`.

        Returns:
            The TD errors, [B].
        """
        if self._adams is None:
            self._adams = self._begin_adams()
        self._weights_seq_no += 1
        metrics, self.metrics = self.metrics, self._recorder
        try:
            batch = {name: self._to_tensor(column) for name, column in columns.items()}
            if self.whole_batch is not None:
                self.whole_batch(_MODULE, batch)
            config = self.config.get_config_for_module(_MODULE)
            td_errors = self._step_without_autograd(batch, config)
            if td_errors is None:
                td_errors = self._step_with_autograd(batch, config)
            rows = len(batch[Columns.REWARDS])
            self._log_steps_trained_metrics(_Rows(rows))
            self.after_gradient_based_update(timesteps=timesteps)
        finally:
            self.metrics = metrics
        self._lean_rows += rows
        return td_errors

    def _has_plain_loss(self, base: type, *names: str) -> bool:
        """True if the loss is that of a class of RLlib's, of rewards that may be scaled.

        A loss of one's own may contain more than Q values, such as the weights themselves.
        """
        own = vars(self).get("compute_loss_for_module")
        self._scaled = own.scaled if isinstance(own, LossOfScaledRewards) else None
        return all(getattr(type(self), name) is getattr(base, name) for name in names) and (
            own is None or self._scaled is not None
        )

    def _with_scaled_rewards(self, batch: dict[str, Any]) -> dict[str, Any]:
        return batch if self._scaled is None else self._scaled(_MODULE, batch)

    def _lay_out(
        self, adams: Mapping[str, FlatAdam], trained: Collection[torch.Tensor]
    ) -> dict[torch.Tensor, torch.Tensor]:
        """The gradients of trained parameters, as parts of the vectors of their optimizers;
        empty if others are trained as well.
        """
        if not adams or not all(param.requires_grad for param in self._params.values()):
            return {}
        for param in self._params.values():
            param.grad = None
        found = [adam.lay_out([param in trained for param in adam.parameters]) for adam in adams.values()]
        gradients = {param: gradient for of_one in found for param, gradient in of_one.items()}
        if not all(found) or len(gradients) != len(trained):
            return {}
        # RLlib's own code for gradients that are not finite finds them here.
        for param, gradient in gradients.items():
            param.grad = gradient
        return gradients

    def _step_without_autograd(self, batch: dict[str, Any], config: Any) -> torch.Tensor | None:
        """Take a step; returns the TD errors, or None, and no step, where autograd is needed."""
        return None

    def _step_with_autograd(self, batch: dict[str, Any], config: Any) -> torch.Tensor:
        """Take a step, whatever module and loss; returns the TD errors."""
        self._record_losses()
        fwd_out = self.module[_MODULE]._forward_train(batch)
        loss = self.compute_loss_for_module(module_id=_MODULE, config=config, batch=batch, fwd_out=fwd_out)
        self.metrics.log_value((_MODULE, self.TOTAL_LOSS_KEY), loss, window=1)
        for param in self._params.values():
            param.grad = None
        if loss.grad_fn is not None:  # as RLlib: all parameters may be frozen
            self._backward(loss)
        adams = (self._adams or {}).values()
        self._apply(config, [adam.norm() for adam in adams if adam.gather()])
        if self._networks is not None:
            self._end_adams()
            self._adams = None  # the gradients are others now
        return self._recorder.td_error

    def _record_losses(self) -> None:
        """Log the losses of the updates without autograd."""
        for name, values in self._loss.values().items():
            self._recorder.extend((_MODULE, name), values, window=1)

    def _backward(self, loss: torch.Tensor) -> None:
        torch.autograd.backward(loss)

    def _to_tensor(self, column: Any) -> Any:
        """As RLlib's `NumpyToTensor`."""
        if not isinstance(column, np.ndarray) or self._device.type != "cpu":
            return convert_to_torch_tensor(column, device=self._device)
        tensor = torch.from_numpy(column)
        return tensor.float() if tensor.dtype is torch.float64 else tensor

    def _begin_adams(self) -> dict[str, FlatAdam]:
        """The module's optimizers by name; empty if one of them is not a plain Adam."""
        optimizers = self.get_optimizers_for_module(_MODULE)
        if not all(FlatAdam.suits(optimizer) for _, optimizer in optimizers):
            return {}
        known = {adam.optimizer: adam for adam in self._known_adams}
        adams = {name: known.get(optimizer) or FlatAdam(optimizer) for name, optimizer in optimizers}
        self._known_adams = list(adams.values())
        for adam in self._known_adams:
            adam.begin()
        return adams

    def _end_adams(self) -> None:
        for adam in (self._adams or {}).values():
            adam.end()

    def _apply(self, config: Any, norms: list[torch.Tensor]) -> None:
        """Clip the gradients and take a step.

        Args:
            config: The module's configuration.
            norms: Gradient norms of those optimizers that have theirs as a vector.
        """
        clips, adams = config.grad_clip and config.grad_clip_by == "global_norm", self._adams or {}
        finite = len(norms) == len(adams) and all(math.isfinite(norm.item()) for norm in norms)
        if not adams or not finite or (config.grad_clip and not clips):
            # RLlib's own code, for NaN and infinity (no norm is finite with them), other optimizers,
            # and other kinds of clipping.
            self._end_adams()
            self.apply_gradients(self.postprocess_gradients({ref: param.grad for ref, param in self._params.items()}))
            self._adams = None
            return
        with torch.no_grad():
            for (name, adam), norm in zip(adams.items(), norms, strict=True):
                if clips:
                    adam.clip(config.grad_clip, norm)
                if clips or config.log_gradients:
                    self.metrics.log_value((_MODULE, f"gradients_{name}_global_norm"), norm.item(), window=1)
                adam.step()

    def after_gradient_based_update(self, *, timesteps: dict[str, Any]) -> None:
        """As `DQNLearner`'s, with all weights of a target network at a time."""
        super(DQNLearner, self).after_gradient_based_update(timesteps=timesteps)
        timestep = timesteps.get(NUM_ENV_STEPS_SAMPLED_LIFETIME, 0)
        for module_id, module in self.module._rl_modules.items():
            config, networks = self.config.get_config_for_module(module_id), module.unwrapped()
            due = timestep - self.last_update_ts_by_mid[module_id] >= config.target_network_update_freq
            if due and isinstance(networks, TargetNetworkAPI):
                targets = self._targets or _Targets(networks)
                targets.move(config.tau)
                if self.metrics is self._recorder:  # of the lean updates that follow
                    self._targets = targets
                self.metrics.log_value((module_id, NUM_TARGET_UPDATES), 1, reduce="lifetime_sum")
                self.last_update_ts_by_mid[module_id] = timestep
                self.metrics.log_value((module_id, LAST_TARGET_UPDATE_TS), timestep, reduce="max")

    def abort_lean(self) -> None:
        """Discard the values that were not logged, after an error."""
        self._end_adams()
        self._targets = None
        self._loss.values()
        self._recorder, self._lean_rows = _Recorder(), 0

    def lean_results(self) -> dict[str, Any]:
        """The results of all lean updates since the last call, as RLlib's `update` returns those of one."""
        self._end_adams()
        self._targets = None
        self._record_losses()
        recorder, self._recorder = self._recorder, _Recorder()
        metrics = self.metrics
        wrapped = "log_value" in vars(metrics)  # and the wrapper gets every value
        for key, values in recorder.values.items():
            how = recorder.how[key]
            if how.get("reduce") in _OVERALL:
                metrics.log_value(key, _OVERALL[how["reduce"]](values), **how)
            else:
                for value in values if wrapped else values[-1:]:
                    metrics.log_value(key, value, **how)
        results: dict[str, Any] = metrics.reduce()
        for key, values in recorder.values.items():
            stats = functools.reduce(operator.getitem, key, results)
            if isinstance(stats, MeanStats):  # of whose values RLlib's algorithm takes the mean over the iteration
                stats.values = torch.stack(values).tolist() if isinstance(values[0], torch.Tensor) else list(values)
        results.get(_MODULE, {}).pop(TD_ERROR_KEY, None)  # RLlib's algorithm takes them out
        if self._lean_rows:
            self._log_metrics(_Rows(self._lean_rows))
            self._lean_rows = 0
        return results


class FastDQNTorchLearner(LeanUpdates, DQNTorchLearner):  # type: ignore[misc]
    """Drop-in for `DQNTorchLearner`, whose lean updates `experiments.fast.off_policy.FastDQN` uses."""

    _loss: QLoss

    def build(self) -> None:
        """As RLlib's."""
        super().build()
        self._networks: QNetworks | None = None
        self._loss = QLoss(self.config.get_config_for_module(_MODULE))

    def _begin_adams(self) -> dict[str, FlatAdam]:
        adams = super()._begin_adams()
        self._networks = None
        plain = self._has_plain_loss(DQNTorchLearner, "compute_loss_for_module")
        if (
            plain
            and (networks := QNetworks.of(self.module[_MODULE]))
            and (gradients := self._lay_out(adams, networks.parameters()))
        ):
            networks.train_into(gradients)
            self._networks = networks
        return adams

    def _step_without_autograd(self, batch: dict[str, Any], config: Any) -> torch.Tensor | None:
        if self._networks is None:
            return None
        with torch.no_grad():
            if (q_values := self._networks.forward(batch)) is None:
                return None
            actions, gradient, td_errors = self._loss(q_values, self._with_scaled_rewards(batch))
            self._networks.backward(actions, gradient)
            self._apply(config, [adam.norm() for adam in (self._adams or {}).values()])
        return td_errors


class _Rows:
    """Stands in for a batch where RLlib only counts its rows."""

    def __init__(self, rows: int) -> None:
        self.policy_batches = {_MODULE: range(rows)}

    def env_steps(self) -> int:
        return len(self.policy_batches[_MODULE])


class _Targets:
    """The target networks of a module; weights of these and of its own networks may change, not be replaced."""

    def __init__(self, networks: TargetNetworkAPI) -> None:
        self._pairs = networks.get_target_network_pairs()
        states = [(main.state_dict(), target.state_dict()) for main, target in self._pairs]
        self._new = [mains[name] for mains, targets in states for name in targets]
        self._old = [weights for _, targets in states for weights in targets.values()]
        self._plain = all(weights.is_floating_point() for weights in self._old)

    def move(self, tau: float) -> None:
        """`update_target_network` (ray/rllib/utils/torch_utils.py): tau of the main network's weights,
        the rest of the target's.
        """
        if self._plain:
            torch._foreach_mul_(self._old, 1 - tau)
            torch._foreach_add_(self._old, torch._foreach_mul(self._new, tau))
            return
        for main, target in self._pairs:
            update_target_network(main_net=main, target_net=target, tau=tau)
