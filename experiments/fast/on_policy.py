"""What the fast learners of PPO and of V-trace (IMPALA, APPO) share: which learners they know, a step of the optimizer,
and the numbers of steps that RLlib logs.
"""

import logging
from collections.abc import Sequence
from typing import Any

import gymnasium as gym
import torch
from ray.rllib.core import DEFAULT_MODULE_ID
from ray.rllib.core.rl_module.apis import SelfSupervisedLossAPI, ValueFunctionAPI
from ray.rllib.core.rl_module.multi_rl_module import MultiRLModule
from ray.rllib.core.rl_module.torch.torch_rl_module import TorchRLModule
from ray.rllib.utils.metrics import (
    ALL_MODULES,
    MODULE_TRAIN_BATCH_SIZE_MEAN,
    NUM_ENV_STEPS_TRAINED,
    NUM_ENV_STEPS_TRAINED_LIFETIME,
    NUM_MODULE_STEPS_TRAINED,
    NUM_MODULE_STEPS_TRAINED_LIFETIME,
    WEIGHTS_SEQ_NO,
)

from experiments.fast import devices
from experiments.fast.networks.adam import FlatAdam
from experiments.fast.networks.perceptrons import is_overridden

METHODS = (
    "_compute_off_policyness",
    "_create_iterator_if_necessary",
    "_get_clip_function",
    "_get_global_norm_function",
    "_log_metrics",
    "_log_steps_trained_metrics",
    "_make_batch_if_necessary",
    "_uncompiled_update",
    "_update",
    "apply_gradients",
    "compute_gradients",
    "compute_loss_for_module",
    "compute_losses",
    "configure_optimizers",
    "configure_optimizers_for_module",
    "filter_param_dict_for_optimizer",
    "postprocess_gradients",
    "postprocess_gradients_for_module",
    "should_module_be_updated",
)
"""Methods of a learner that a fast update replaces, or relies on as RLlib has them."""

logger = logging.getLogger(__name__)


def why_stock(learner: Any, stock: type, methods: Sequence[str]) -> str | None:
    """The reason why a learner's updates are left to RLlib, whatever the batch; None if there is none.

    Args:
        learner: Derived from `stock`, RLlib's, whose updates a fast one is the same as.
        stock: That class.
        methods: Of the learner, that must be those of `stock`.
    """
    own = next((name for name in methods if is_overridden(learner, stock, name)), None)
    if own is not None:
        return f"a {own} of its own"
    if reason := devices.why_stock(learner._device):
        return reason
    if learner.config.num_learners > 1:
        return "more than one learner"
    if list(learner.module.keys()) != [DEFAULT_MODULE_ID] or learner.config.policies_to_train is not None:
        return "more than one module, or a choice of which to train"
    module, config = learner.module[DEFAULT_MODULE_ID], learner.config.get_config_for_module(DEFAULT_MODULE_ID)
    if is_overridden(learner.module, MultiRLModule, "forward_train", "_forward_train"):
        return "a MultiRLModule of its own"
    if not isinstance(module, TorchRLModule) or module.is_stateful():
        return "a module that is stateful, or not torch's"
    if is_overridden(module, TorchRLModule, "forward_train"):
        return "a forward_train of the module's own"
    if (
        not isinstance(module, ValueFunctionAPI)
        or isinstance(module, SelfSupervisedLossAPI)
        or not getattr(config, "use_critic", True)
    ):
        return "a module without a value function, or with a loss of its own"
    if any(
        isinstance(space, gym.spaces.Dict | gym.spaces.Tuple)
        for space in (module.observation_space, module.action_space)
    ):
        return "a nested observation or action space"
    if learner._torch_compile_forward_train or learner._torch_compile_complete_update:
        return "a compiled module"
    if learner._grad_scalers is not None or learner._lr_scheduler_classes is not None:
        return "a scaler of gradients, or a learning rate scheduler of torch's"
    optimizers = learner.get_optimizers_for_module(DEFAULT_MODULE_ID)
    if len(optimizers) != 1 or not FlatAdam.suits(optimizers[0][1]):
        return "an optimizer that is not a plain Adam"
    return None


def say_once(learner: Any, reason: str) -> None:
    """Log why a learner's update is RLlib's, the first time."""
    if reason not in learner._logged_reasons:
        learner._logged_reasons.add(reason)
        logger.info("%s: updated as RLlib does, since there is %s.", type(learner).__name__, reason)


def adam_of(learner: Any) -> FlatAdam:
    """The optimizer of a learner of which `why_stock` is None, with its state as it is now."""
    ((_, optimizer),) = learner.get_optimizers_for_module(DEFAULT_MODULE_ID)
    if learner._adam is None or learner._adam.optimizer is not optimizer:
        learner._adam = FlatAdam(optimizer)
    adam: FlatAdam = learner._adam
    adam.begin()
    return adam


@torch.no_grad()
def clip_and_step(adam: FlatAdam, config: Any, is_last: bool, log_norm: bool) -> torch.Tensor | None:
    """Clip the gradient and take a step of the optimizer.

    Args:
        adam: The optimizer, with a finite gradient.
        config: The module's configuration.
        is_last: Whether no step of the update follows: its norm is reported, and its gradients stay with the
            parameters.
        log_norm: Whether RLlib's value of the norm is wanted, if it logs one.

    Returns:
        The global norm as RLlib logs it; None where it does not log it.
    """
    clip, by = config.grad_clip, config.grad_clip_by if config.grad_clip else None
    norm: torch.Tensor | None = adam.length
    if by == "global_norm":
        # RLlib's is a norm of norms, and rounds otherwise: it is needed where it decides.
        norm = adam.norm() if is_last or float(adam.length) * 1.001 + 1e-6 >= clip else adam.length
        adam.clip(clip, norm)
    else:
        if by == "norm":
            for gradient, its_norm in zip(adam.gradients, torch._foreach_norm(adam.gradients), strict=True):
                if its_norm > clip:
                    gradient.mul_(clip / its_norm)
        elif by == "value":
            adam.gradient.clamp_(-clip, clip)
        wanted = config.log_gradients and (is_last or log_norm)
        norm = None if not wanted else adam.norm() if is_last or by else adam.length
    adam.step()
    if is_last:
        adam.scatter()
    return norm


def log_steps(learner: Any, num_minibatches: int, size: int, num_env_steps: int) -> None:
    """Log at once what RLlib logs of every minibatch's size (core/learner/learner.py: `_log_steps_trained_metrics`,
    `_log_metrics`).

    Args:
        learner: The learner.
        num_minibatches: How many were learned from.
        size: Rows of each.
        num_env_steps: As RLlib counts them: the whole batch's at every minibatch.
    """
    log, mid = learner.metrics.log_value, DEFAULT_MODULE_ID
    module_steps, env_steps = num_minibatches * size, num_minibatches * num_env_steps
    log((mid, WEIGHTS_SEQ_NO), learner._weights_seq_no, window=1)
    log((mid, MODULE_TRAIN_BATCH_SIZE_MEAN), size, reduce="mean")
    log((mid, NUM_MODULE_STEPS_TRAINED), module_steps, reduce="sum")
    log((mid, NUM_MODULE_STEPS_TRAINED_LIFETIME), module_steps, reduce="lifetime_sum", with_throughput=True)
    log((ALL_MODULES, NUM_MODULE_STEPS_TRAINED), module_steps, reduce="sum", with_throughput=True)
    log((ALL_MODULES, NUM_MODULE_STEPS_TRAINED_LIFETIME), module_steps, reduce="lifetime_sum", with_throughput=True)
    log((ALL_MODULES, NUM_ENV_STEPS_TRAINED), env_steps, reduce="sum", with_throughput=True)
    log((ALL_MODULES, NUM_ENV_STEPS_TRAINED_LIFETIME), env_steps, reduce="lifetime_sum", with_throughput=True)
    learner._metrics_all_modules_num_env_steps_trained.inc(value=env_steps)
    learner._metrics_all_modules_num_module_steps_trained.inc(value=module_steps)
