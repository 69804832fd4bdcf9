"""Measures the gradient noise scale of a learner's batches, and leaves what is learned as it is (README.md).

Before the first step of an update the gradient of its batch is computed part by part, by RLlib's own loss, on the
weights as they are: without the optimizer, without the parameters' `grad`, with random numbers that are put back, and
with nothing logged but the estimates.
"""

import copy
import math
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
import tree
from ray.rllib.algorithms.algorithm_config import AlgorithmConfig
from ray.rllib.algorithms.impala.impala_learner import IMPALALearner
from ray.rllib.core import DEFAULT_MODULE_ID
from ray.rllib.core.columns import Columns

from experiments.config.extension import Measured
from experiments.fast.preprocessing.rewards import LossOfScaledRewards
from science.noise_scale.estimates import estimates
from science.noise_scale.names import NOISE, SCALE, SQUARE, SUFFIXES

LOGGED = "suite_noise_scale"
"""Key of a module's results of RLlib's that holds sums over an iteration's measurements, and their `count`."""
PARTS = 4
"""Of a batch. More tell the noise more precisely, not |G|^2, and take longer where batches are small."""

_SHARE = 0.02
"""Of a trial's time that measurements take at most."""

# CPU seconds on 2 cores of an AMD EPYC, with the networks in conf/algorithm (README.md):
# what the share is reckoned from.
_MEASUREMENT_S, _MEASURED_ROW_S = 6e-3, 3.5e-6
_ENV_STEP_S, _STEP_S = 60e-6, 1e-3

_POLICY = ("pi.", "pi_encoder.", "encoder.actor_encoder.")
_VALUE = (
    *("vf.", "encoder.critic_encoder.", "qf.", "qf_encoder.", "qf_twin.", "qf_twin_encoder."),
    *("qf_heads.", "qf_encoders."),
)
"""Where the names of parameters of RLlib's own networks begin, of policy and of value function or critics."""


class NoiseSums(Measured):
    """Estimates of |G|^2 and S, summed over a trial's measurements, and over those since its last report.

    Attributes:
        state: Sums over the whole trial, by name, with `count`: how many measurements they are of. Empty without one.
    """

    key = "noise"

    def __init__(self) -> None:
        self.state: dict[str, float] = {}
        self._since_report: dict[str, float] = {}

    def add(self, result: Mapping[str, Any]) -> None:
        """Add an iteration's; RLlib reports NaN, or nothing, where nothing was measured."""
        _add(self._since_report, result.get("learners", {}).get(DEFAULT_MODULE_ID, {}).get(LOGGED, {}))

    def report(self) -> dict[str, float]:
        """The averages since the last report."""
        since, self._since_report = self._since_report, {}
        _add(self.state, since)
        return averages(since, "learner")

    def final(self) -> dict[str, float]:
        """The averages over the whole trial."""
        return averages(self.state, "final")


def _add(into: dict[str, float], sums: Mapping[str, Any]) -> None:
    if float(sums.get("count", 0.0)) > 0:  # not NaN
        for name, value in sums.items():
            into[name] = into.get(name, 0.0) + float(value)


def averages(sums: Mapping[str, float], group: str) -> dict[str, float]:
    """The averages of sums, and the noise scales that are their ratios:
    absent where the average of |G|^2 is not positive.

    Args:
        sums: By name, with `count`.
        group: Which the metrics' names begin with.
    """
    found: dict[str, float] = {}
    count = sums.get("count", 0.0)
    for suffix in SUFFIXES if count else ():
        if f"{SQUARE}{suffix}" in sums:
            square, noise = sums[f"{SQUARE}{suffix}"] / count, sums[f"{NOISE}{suffix}"] / count
            found |= {f"{group}/{SQUARE}{suffix}": square, f"{group}/{NOISE}{suffix}": noise}
            if square > 0:
                found[f"{group}/{SCALE}{suffix}"] = noise / square
    return found


def updates_between(config: AlgorithmConfig) -> int:
    """Updates from one measurement to the next, so many that they take 2% of a trial's time at most:
    reckoned, and so the same everywhere.

    Args:
        config: RLlib's, of a trial. An update is a training batch, of however many minibatches.
    """
    rows, minibatch = int(config.train_batch_size_per_learner), config.minibatch_size
    steps = (config.num_epochs or 1) * (math.ceil(rows / minibatch) if minibatch else 1)
    circular = getattr(config, "use_circular_buffer", False)
    sampled = (
        1.0
        if hasattr(config, "replay_buffer_config")
        else rows / (config.circular_buffer_iterations_per_batch if circular else 1)
    )
    update_s = _ENV_STEP_S * sampled + _STEP_S * steps
    return math.ceil((_MEASUREMENT_S + _MEASURED_ROW_S * rows) / (_SHARE * update_s))


def measure_noise_scale(learner: Any, every_updates: int) -> None:
    """Make an RLlib learner log estimates of |G|^2 and S at every so many updates, the first one included,
    as sums under `LOGGED`.

    Args:
        learner: In its own process, through `learner_group.foreach_learner`.
        every_updates: Counted over the learner's lifetime, restarts included.
    """
    measured = partial(_measure, learner, every_updates)
    if hasattr(learner, "whole_batch"):  # a learner of experiments.fast, where it does not update as RLlib does
        learner.whole_batch = measured
    # RLlib's own update calls it once with the whole batch, in the thread that learns, before the first step.
    set_slicing = learner._set_slicing_by_batch_id

    def with_measurement(batch: Any, *, value: bool) -> Any:
        if value and DEFAULT_MODULE_ID in batch.policy_batches:
            measured(DEFAULT_MODULE_ID, batch.policy_batches[DEFAULT_MODULE_ID])
        return set_slicing(batch, value=value)

    learner._set_slicing_by_batch_id = with_measurement


def _measure(learner: Any, every_updates: int, module_id: str, batch: Mapping[str, Any]) -> None:
    if (learner._weights_seq_no - 1) % every_updates:
        return
    # A generator of its own for every update: whoever goes on from a checkpoint makes the same parts.
    found = noise_of(learner, module_id, batch, np.random.default_rng(learner._weights_seq_no))
    if found:
        for name, value in {"count": 1.0, **found}.items():
            learner.metrics.log_value((module_id, LOGGED, name), value, reduce="sum")


def noise_of(
    learner: Any, module_id: str, batch: Mapping[str, Any], rng: np.random.Generator, num_parts: int = PARTS
) -> dict[str, float]:
    """Estimates of |G|^2 and S from one batch: of all weights, and of policy and value by themselves
    where they share none.

    Args:
        learner: RLlib's, which stays as it is.
        module_id: The batch's.
        batch: Columns of tensors, [rows, ...] each.
        rng: Deals the rows, or the fragments of IMPALA and APPO, out to the parts.
        num_parts: At most.

    Returns:
        `gradient_square`, `gradient_noise`, and both with `_policy` and `_value`; empty where the batch has no two
        parts, or its gradient is not finite.
    """
    gradients, rows = part_gradients(learner, module_id, batch, rng, num_parts)
    found: dict[str, float] = {}
    for suffix, names in (_networks(list(gradients)) if len(rows) > 1 else {}).items():
        square, noise = estimates(torch.cat([gradients[name] for name in names], dim=1).cpu().numpy(), np.array(rows))
        found |= {f"{SQUARE}{suffix}": square, f"{NOISE}{suffix}": noise}
    return found if all(map(math.isfinite, found.values())) else {}


def part_gradients(
    learner: Any, module_id: str, batch: Mapping[str, Any], rng: np.random.Generator, num_parts: int = PARTS
) -> tuple[dict[str, torch.Tensor], list[int]]:
    """The gradient of the mean loss of each part of a batch, as `noise_of` takes them.

    Returns:
        Name of a parameter to its gradients, [parts, weights], and the rows of each part that count.
    """
    module = learner.module[module_id].unwrapped()
    named = {name: weights for name, weights in module.named_parameters() if weights.requires_grad}
    parts, rows = [], []
    cuda = [learner._device] if learner._device.type == "cuda" else []
    with torch.random.fork_rng(devices=cuda), torch.enable_grad():
        for loss, num_rows in _losses(_silent(learner), module, module_id, dict(batch), rng, num_parts):
            parts.append(torch.autograd.grad(loss, list(named.values()), retain_graph=True, allow_unused=True))
            rows.append(num_rows)
    found = {}
    for i, (name, weights) in enumerate(named.items()):
        if any(gradients[i] is not None for gradients in parts):
            flat = [torch.zeros_like(weights) if gradients[i] is None else gradients[i] for gradients in parts]
            found[name] = torch.stack([gradient.reshape(-1) for gradient in flat])
    return found, rows


def _losses(
    learner: Any, module: Any, module_id: str, batch: dict[str, Any], rng: np.random.Generator, num_parts: int
) -> Iterator[tuple[torch.Tensor, int]]:
    """The mean loss of each part of a batch, and the part's rows."""
    config = learner.config.get_config_for_module(module_id)
    if isinstance(learner, IMPALALearner):
        # V-trace needs fragments whole, and what it computes of one does not depend on the others:
        # each part masks them.
        outputs, mask = module.forward_train(batch), batch[Columns.LOSS_MASK]
        for members in fragments(mask.cpu().numpy(), rng, num_parts):
            masked = mask & torch.from_numpy(members).to(mask.device)
            part = {**batch, Columns.LOSS_MASK: masked}
            yield (
                learner.compute_loss_for_module(module_id=module_id, config=config, batch=part, fwd_out=outputs),
                int(masked.sum()),
            )
        return
    num_rows = len(tree.flatten(batch[Columns.OBS])[0])
    for index in np.array_split(rng.permutation(num_rows), num_parts):
        where = torch.from_numpy(index)
        part = {
            name: tree.map_structure(lambda rows, where=where: rows[where.to(rows.device)], column)
            for name, column in batch.items()
        }
        counted = int(part[Columns.LOSS_MASK].sum()) if Columns.LOSS_MASK in part else len(index)
        if counted:
            outputs = module.forward_train(part)
            yield (
                learner.compute_loss_for_module(module_id=module_id, config=config, batch=part, fwd_out=outputs),
                counted,
            )


def fragments(mask: npt.NDArray[np.bool_], rng: np.random.Generator, num_parts: int) -> list[npt.NDArray[np.bool_]]:
    """Which rows are in which part, [rows] each: whole fragments, dealt out at random, with about
    as many rows in each part.

    Args:
        mask: [rows] that count. Each fragment ends with a row that does not, the observation after its last step.
        rng: Draws their order.
        num_parts: At most.
    """
    fragment = np.concatenate([[0], np.cumsum(~mask)[:-1]])
    lengths = np.bincount(fragment, weights=mask)
    order = rng.permutation(np.flatnonzero(lengths))
    ends = np.cumsum(lengths[order])
    part_of = np.full(len(lengths), -1)
    part_of[order] = ((ends - lengths[order] / 2) / max(1.0, ends[-1] if len(ends) else 0.0) * num_parts).astype(int)
    return [members for part in range(num_parts) if (members := part_of[fragment] == part).any()]


def _networks(names: list[str]) -> dict[str, list[str]]:
    """Suffix of the estimates to the parameters that they are of: all, and each of two networks
    that have no weight in common.
    """
    policy = [name for name in names if name.startswith(_POLICY)]
    value = [name for name in names if name.startswith(_VALUE)]
    apart = policy and value and len(policy) + len(value) == len(names)
    return {"": names, **({"_policy": policy, "_value": value} if apart else {})}


def _silent(learner: Any) -> Any:
    """A learner with the same module and coefficients, whose losses are logged nowhere and kept nowhere."""
    silent = copy.copy(learner)
    silent.metrics, silent._temp_losses = _NoMetrics(), {}
    own = vars(silent).pop("compute_loss_for_module", None)  # bound to the other one
    if isinstance(own, LossOfScaledRewards):
        silent.compute_loss_for_module = LossOfScaledRewards(silent)
    return silent


class _NoMetrics:
    """Stands in for RLlib's `MetricsLogger`."""

    def log_value(self, *args: Any, **kwargs: Any) -> None:
        """As RLlib's, of which nothing is kept."""

    log_dict = log_value
