"""RLlib's learners for DQN and SAC with updates that log nothing until they are asked.

`Learner.update` (ray/rllib/core/learner/learner.py) makes a batch through a pipeline of connectors, logs some forty values one by one,
reduces them to a result, and looks twice at every gradient for a NaN. `lean_update` takes ready columns and calls RLlib's own forward
pass and loss; what these log is kept, and reduced for many updates together (`lean_results`). Gradients are looked at once, by their norm,
and Adam's step and the target networks' average run over all weights at a time. The weights are the same as RLlib's, to the bit.
"""

import functools
import itertools
import math
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from ray.rllib.algorithms.dqn.dqn_learner import DQNLearner
from ray.rllib.algorithms.dqn.torch.dqn_torch_learner import DQNTorchLearner
from ray.rllib.algorithms.sac.torch.default_sac_torch_rl_module import DefaultSACTorchRLModule
from ray.rllib.algorithms.sac.torch.sac_torch_learner import SACTorchLearner
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
from ray.rllib.core.rl_module.torch.torch_rl_module import TorchRLModule
from ray.rllib.utils.metrics import LAST_TARGET_UPDATE_TS, NUM_ENV_STEPS_SAMPLED_LIFETIME, NUM_TARGET_UPDATES, TD_ERROR_KEY
from ray.rllib.utils.metrics.stats.mean import MeanStats
from ray.rllib.utils.torch_utils import convert_to_torch_tensor, update_target_network

from experiments.fast.q_networks import QNetworks

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
"""What RLlib's update calls and `lean_update` does not, so that a subclass of one's own cannot have it changed."""

_OVERALL: dict[str, Callable[[list[Any]], Any]] = {"sum": sum, "lifetime_sum": sum, "min": min, "max": max}
"""Reductions in which many values can be logged as one."""

_MODULE = DEFAULT_MODULE_ID
_ALIGNED = 16  # numbers of 4 bytes: a line of cache


class _Recorder:
    """Stands in for a learner's `MetricsLogger` and keeps what is logged."""

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
        # A tensor of its own would keep the graph of the whole update; one on a GPU is waited for once, at the end.
        self.values[key].append(
            value if not isinstance(value, torch.Tensor) else value.item() if value.device.type == "cpu" else value.detach()
        )

    def log_dict(self, value_dict: Mapping[Any, Any], *, key: Any = None, reduce: str = "mean", **how: Any) -> None:
        """As RLlib's, of a dict that is not nested."""
        prefix = () if key is None else key if isinstance(key, tuple) else (key,)
        for name, value in value_dict.items():
            self.log_value((*prefix, *(name if isinstance(name, tuple) else (name,))), value, reduce=reduce, **how)


class _Optimizer:
    """An optimizer and its weights, as they are for some updates in a row.

    Of an Adam without extras the step is taken here, with the moments and gradients of all weights in a row: `_single_tensor_adam`
    (torch/optim/adam.py), number by number, to the bit.
    """

    def __init__(self, name: str, optimizer: torch.optim.Optimizer) -> None:
        self.name = name
        self._optimizer = optimizer
        self._params = [param for group in optimizer.param_groups for param in group["params"]]
        self._grads: list[torch.Tensor] = []
        self._norm = torch.zeros(())
        self._adam = self._is_plain_adam()
        if self._adam:
            states = [optimizer.state[param] for param in self._params]
            self._average, self._averages = _in_a_row([state["exp_avg"] for state in states])
            self._square, squares = _in_a_row([state["exp_avg_sq"] for state in states])
            for state, average, square in zip(states, self._averages, squares, strict=True):
                state.update(exp_avg=average, exp_avg_sq=square)
            self._grad, self._grads_in_a_row = _in_a_row(self._params)
            self._root, self._roots = _in_a_row(self._params)
            self._weights = [param.data for param in self._params]
            self._steps = [state["step"] for state in states]
            self._step = float(self._steps[0])

    def _is_plain_adam(self) -> bool:
        optimizer, groups = self._optimizer, self._optimizer.param_groups
        if type(optimizer) is not torch.optim.Adam or len(groups) != 1:
            return False
        if any(groups[0].get(extra) for extra in ("weight_decay", "amsgrad", "maximize", "capturable", "differentiable", "fused")):
            return False
        if any(param not in optimizer.state for param in self._params):  # before its first step
            return False
        if any(param.dtype is not torch.float32 or not param.is_contiguous() for param in self._params):
            return False
        return len({float(optimizer.state[param]["step"]) for param in self._params}) == 1

    def forget_gradients(self) -> None:
        """Before a backward pass."""
        for param in self._params:
            param.grad = None

    def norm(self) -> float:
        """Of all gradients; NaN or infinite if any of them is."""
        self._grads = [param.grad for param in self._params]
        self._norm = torch.norm(torch.stack(torch._foreach_norm(self._grads, 2.0)), 2.0)
        return self._norm.item()

    def clip(self, limit: float) -> None:
        """`clip_gradients` (ray/rllib/utils/torch_utils.py) by the global norm, which is finite."""
        factor = torch.clamp(limit / torch.clamp(self._norm + 1e-6, min=limit), max=1.0)
        if factor.item() != 1.0:
            torch._foreach_mul_(self._grads, factor)

    def step(self) -> None:
        """Change the weights."""
        if not self._adam:
            self._optimizer.step()
            return
        (group,), grad, square, root = self._optimizer.param_groups, self._grad, self._square, self._root
        (beta1, beta2), self._step = group["betas"], self._step + 1
        torch._foreach_copy_(self._grads_in_a_row, self._grads)
        self._average.lerp_(grad, 1 - beta1)
        square.mul_(beta2).addcmul_(grad, grad, value=1 - beta2)
        torch.sqrt(square, out=root).div_((1 - beta2**self._step) ** 0.5).add_(group["eps"])
        torch._foreach_addcdiv_(self._weights, self._averages, self._roots, -(float(group["lr"]) / (1 - beta1**self._step)))

    def finish(self) -> None:
        """Tell the optimizer how many steps were taken here."""
        if self._adam:
            for step in self._steps:
                step.fill_(self._step)


def _in_a_row(tensors: Sequence[torch.Tensor]) -> tuple[torch.Tensor, list[torch.Tensor]]:
    """A vector of what is in some tensors, and its parts in their shapes; each part begins where memory is aligned."""
    ends = list(itertools.accumulate(-(-tensor.numel() // _ALIGNED) * _ALIGNED for tensor in tensors))
    vector = torch.zeros(ends[-1], dtype=tensors[0].dtype, device=tensors[0].device)
    parts = [vector[begin : begin + t.numel()].view(t.shape) for begin, t in zip([0, *ends], tensors, strict=False)]
    for part, tensor in zip(parts, tensors, strict=True):
        part.copy_(tensor.detach())
    return vector, parts


class LeanUpdates(TorchLearner):  # type: ignore[misc]  # RLlib ships no type information
    """What the two learners share. `update` is RLlib's own."""

    metrics: Any

    def build(self) -> None:
        """As RLlib's."""
        super().build()
        self._recorder = _Recorder()
        self._optimizers: list[_Optimizer] | None = None
        self._lean_rows = 0

    def why_stock(self) -> str | None:
        """Why updates have to be RLlib's own; None if they need not."""
        config, own = self.config, next(c for c in type(self).__mro__ if c in (FastDQNTorchLearner, FastSACTorchLearner))
        if changed := [name for name in _HOOKS if getattr(type(self), name) is not getattr(own, name)]:
            return f"a {changed[0]} of its own"
        if list(self.module.keys()) != [_MODULE] or config.policies_to_train is not None or config.is_multi_agent:
            return "more than one module"
        module = self.module[_MODULE]
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
        """Before the first `lean_update` since anything else was done with this learner."""
        self.module[_MODULE].train()
        self._optimizers = None

    def lean_update(self, columns: Mapping[str, Any], timesteps: dict[str, Any]) -> torch.Tensor:
        """One update, without its results.

        Args:
            columns: A training batch, see `sample_columns` of the replay buffers.
            timesteps: As of `update`.

        Returns:
            The TD errors, [B].
        """
        if self._optimizers is None:
            self._optimizers = [_Optimizer(*named) for named in self.get_optimizers_for_module(_MODULE)]
        self._weights_seq_no += 1
        metrics, self.metrics = self.metrics, self._recorder
        try:
            batch = {name: self._to_tensor(column) for name, column in columns.items()}
            config = self.config.get_config_for_module(_MODULE)
            fwd_out, backward = self._forward(batch)
            loss = self.compute_loss_for_module(module_id=_MODULE, config=config, batch=batch, fwd_out=fwd_out)
            self.metrics.log_value((_MODULE, self.TOTAL_LOSS_KEY), loss, window=1)
            for optimizer in self._optimizers:
                optimizer.forget_gradients()
            backward(loss)
            self._apply(config)
            rows = len(batch[Columns.REWARDS])
            self._log_steps_trained_metrics(_Rows(rows))
            self.after_gradient_based_update(timesteps=timesteps)
        finally:
            self.metrics = metrics
        self._lean_rows += rows
        return self._recorder.td_error

    def _forward(self, batch: dict[str, Any]) -> tuple[dict[str, Any], Callable[[torch.Tensor], None]]:
        """The module's outputs, and what sets the gradients of a loss made from them."""
        return self.module[_MODULE]._forward_train(batch), torch.autograd.backward

    def _to_tensor(self, column: Any) -> Any:
        """As RLlib's `NumpyToTensor`."""
        if not isinstance(column, np.ndarray) or self._device.type != "cpu":
            return convert_to_torch_tensor(column, device=self._device)
        tensor = torch.from_numpy(column)
        return tensor.float() if tensor.dtype is torch.float64 else tensor

    def _apply(self, config: Any) -> None:
        """Clip the gradients and take a step."""
        clips = config.grad_clip and config.grad_clip_by == "global_norm"
        optimizers = self._optimizers or []
        norms = [optimizer.norm() for optimizer in optimizers]
        if not all(map(math.isfinite, norms)) or (config.grad_clip and not clips):
            # RLlib's own way with NaN and infinity, which leave no norm finite, and with other kinds of clipping.
            for optimizer in optimizers:
                optimizer.finish()
            self.apply_gradients(self.postprocess_gradients({ref: param.grad for ref, param in self._params.items()}))
            self._optimizers = None
            return
        for optimizer, norm in zip(optimizers, norms, strict=True):
            if clips:
                optimizer.clip(config.grad_clip)
            if clips or config.log_gradients:
                self.metrics.log_value((_MODULE, f"gradients_{optimizer.name}_global_norm"), norm, window=1)
            optimizer.step()

    def after_gradient_based_update(self, *, timesteps: dict[str, Any]) -> None:
        """As `DQNLearner`'s, with all weights of a target network at a time."""
        super(DQNLearner, self).after_gradient_based_update(timesteps=timesteps)
        timestep = timesteps.get(NUM_ENV_STEPS_SAMPLED_LIFETIME, 0)
        for module_id, module in self.module._rl_modules.items():
            config, networks = self.config.get_config_for_module(module_id), module.unwrapped()
            due = timestep - self.last_update_ts_by_mid[module_id] >= config.target_network_update_freq
            if due and isinstance(networks, TargetNetworkAPI):
                for main, target in networks.get_target_network_pairs():
                    _average(main, target, config.tau)
                self.metrics.log_value((module_id, NUM_TARGET_UPDATES), 1, reduce="lifetime_sum")
                self.last_update_ts_by_mid[module_id] = timestep
                self.metrics.log_value((module_id, LAST_TARGET_UPDATE_TS), timestep, reduce="max")

    def give_up_lean(self) -> None:
        """After an error: forget what was not logged."""
        for optimizer in self._optimizers or ():
            optimizer.finish()
        self._recorder, self._lean_rows = _Recorder(), 0

    def lean_results(self) -> dict[str, Any]:
        """The results of all lean updates since the last call, as RLlib's `update` returns those of one."""
        for optimizer in self._optimizers or ():
            optimizer.finish()
        recorder, self._recorder = self._recorder, _Recorder()
        metrics = self.metrics
        wrapped = "log_value" in vars(metrics)  # by someone who wants to see every value
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
    """Drop-in for `DQNTorchLearner`; what makes use of it is `experiments.fast.off_policy.FastDQN`."""

    def begin_lean(self) -> None:
        """See `LeanUpdates`."""
        super().begin_lean()
        # A loss of one's own may hold more than Q values, such as the weights themselves.
        plain = type(self).compute_loss_for_module is DQNTorchLearner.compute_loss_for_module
        plain = plain and all(param.requires_grad for param in self._params.values())
        self._networks = QNetworks.of(self.module[_MODULE]) if plain else None

    def _forward(self, batch: dict[str, Any]) -> tuple[dict[str, Any], Callable[[torch.Tensor], None]]:
        return super()._forward(batch) if self._networks is None else self._networks.train(batch)


class FastSACTorchLearner(LeanUpdates, SACTorchLearner):  # type: ignore[misc]
    """Drop-in for `SACTorchLearner`; what makes use of it is `experiments.fast.off_policy.FastSAC`."""

    def begin_lean(self) -> None:
        """See `LeanUpdates`."""
        super().begin_lean()
        # In these no two of the losses have weights in common, so that RLlib's four backward passes can be one.
        names = ("compute_loss_for_module", "_compute_loss_for_module_continuous", "_compute_loss_for_module_discrete")
        plain = all(getattr(type(self), name) is getattr(SACTorchLearner, name) for name in names)
        self._backward = self._all_at_once if plain and type(self.module[_MODULE]) is DefaultSACTorchRLModule else self._one_by_one

    def _forward(self, batch: dict[str, Any]) -> tuple[dict[str, Any], Callable[[torch.Tensor], None]]:
        return self.module[_MODULE]._forward_train(batch), self._backward

    def _all_at_once(self, loss: torch.Tensor) -> None:
        torch.autograd.backward(list(self._temp_losses.values()))
        self._temp_losses.clear()

    def _one_by_one(self, loss: torch.Tensor) -> None:
        self.compute_gradients({_MODULE: loss})


class _Rows:
    """A batch for RLlib's counters: only its size."""

    def __init__(self, rows: int) -> None:
        self.policy_batches = {_MODULE: range(rows)}

    def env_steps(self) -> int:
        return len(self.policy_batches[_MODULE])


def _average(main: torch.nn.Module, target: torch.nn.Module, tau: float) -> None:
    """`update_target_network` (ray/rllib/utils/torch_utils.py): tau of the main network's weights, the rest of the target's."""
    mains, targets = main.state_dict(), target.state_dict()
    new, old = [mains[name] for name in targets], list(targets.values())
    if all(weights.is_floating_point() for weights in old):
        torch._foreach_mul_(old, 1 - tau)
        torch._foreach_add_(old, torch._foreach_mul(new, tau))
    else:
        update_target_network(main_net=main, target_net=target, tau=tau)
