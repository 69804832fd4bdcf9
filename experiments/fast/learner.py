"""RLlib's PPO learner without what it does at every minibatch for no one.

`PPOTorchLearner` (ray/rllib/algorithms/ppo/torch/ppo_torch_learner.py) logs some twenty values at every minibatch, of which the last is
reported; looks twice, at every parameter, for gradients that are not finite; copies the whole batch at every shuffle; and runs Adam
parameter by parameter. Before that, eight connectors walk over the episodes one after the other, and append a step to each. Here the
batch is put together from the episodes' arrays, which stay as they are; shuffled rows are gathered a pass at a time; the gradient and
Adam's moments are one vector each; and only what is reported is logged. The loss of the last minibatch, whose values are the reported
ones, is RLlib's own code.

The operations are RLlib's and come in the same order, so the weights are the same as RLlib's, to the bit, wherever torch's element-wise
operations do not depend on where in a vector an element lies, and within rounding elsewhere.
"""

import itertools
import logging
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from ray.rllib.algorithms.ppo.ppo import (
    LEARNER_RESULTS_KL_KEY,
    LEARNER_RESULTS_VF_EXPLAINED_VAR_KEY,
    LEARNER_RESULTS_VF_LOSS_UNCLIPPED_KEY,
)
from ray.rllib.algorithms.ppo.torch.ppo_torch_learner import PPOTorchLearner
from ray.rllib.connectors.common import (
    AddObservationsFromEpisodesToBatch,
    AddStatesFromEpisodesToBatch,
    AddTimeDimToBatchAndZeroPad,
    BatchIndividualItems,
    NumpyToTensor,
)
from ray.rllib.connectors.learner import (
    AddColumnsFromEpisodesToTrainBatch,
    AddOneTsToEpisodesAndTruncate,
    GeneralAdvantageEstimation,
    LearnerConnectorPipeline,
)
from ray.rllib.core import DEFAULT_MODULE_ID
from ray.rllib.core.columns import Columns
from ray.rllib.core.learner.learner import ENTROPY_KEY, POLICY_LOSS_KEY, VF_LOSS_KEY
from ray.rllib.core.learner.training_data import TrainingData
from ray.rllib.core.rl_module.apis import SelfSupervisedLossAPI, ValueFunctionAPI
from ray.rllib.core.rl_module.multi_rl_module import MultiRLModule
from ray.rllib.core.rl_module.rl_module import RLModule
from ray.rllib.core.rl_module.torch.torch_rl_module import TorchRLModule
from ray.rllib.env.single_agent_episode import SingleAgentEpisode
from ray.rllib.env.utils.infinite_lookback_buffer import InfiniteLookbackBuffer
from ray.rllib.evaluation.postprocessing import Postprocessing
from ray.rllib.utils.metrics import (
    ALL_MODULES,
    CONNECTOR_PIPELINE_TIMER,
    CONNECTOR_TIMERS,
    DIFF_NUM_GRAD_UPDATES_VS_SAMPLER_POLICY,
    LEARNER_CONNECTOR,
    LEARNER_CONNECTOR_SUM_EPISODES_LENGTH_IN,
    LEARNER_CONNECTOR_SUM_EPISODES_LENGTH_OUT,
    MODULE_TRAIN_BATCH_SIZE_MEAN,
    NUM_ENV_STEPS_TRAINED,
    NUM_ENV_STEPS_TRAINED_LIFETIME,
    NUM_MODULE_STEPS_TRAINED,
    NUM_MODULE_STEPS_TRAINED_LIFETIME,
    TIMERS,
    WEIGHTS_SEQ_NO,
)
from ray.rllib.utils.metrics.utils import to_snake_case
from ray.rllib.utils.numpy import SMALL_NUMBER, convert_to_numpy
from ray.rllib.utils.spaces.space_utils import batch as batch_items
from ray.rllib.utils.torch_utils import clip_gradients, compute_global_norm, convert_to_torch_tensor

from experiments.fast.backprop import DefaultNetworks, PolicyGradient, Rows

_OWN_COLUMNS = {
    Columns.LOSS_MASK,
    Columns.TERMINATEDS,
    Columns.TRUNCATEDS,
    Columns.OBS,
    Columns.ACTIONS,
    Columns.REWARDS,
    Columns.STATE_IN,
    Columns.STATE_OUT,
    Columns.INFOS,
    Postprocessing.ADVANTAGES,
    Postprocessing.VALUE_TARGETS,
}
"""Columns of a batch that are not outputs of the module."""

_PIPELINE = (
    AddOneTsToEpisodesAndTruncate,
    AddObservationsFromEpisodesToBatch,
    AddColumnsFromEpisodesToTrainBatch,
    AddTimeDimToBatchAndZeroPad,
    AddStatesFromEpisodesToBatch,
    BatchIndividualItems,
    NumpyToTensor,
    GeneralAdvantageEstimation,
)
"""RLlib's default pipeline (algorithms/algorithm_config.py: `build_learner_connector`; algorithms/ppo/ppo_learner.py: `build`)."""

_TIMERS = [to_snake_case(connector.__name__) for connector in _PIPELINE]

_OF_RLLIB = (
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
"""Methods of a learner that a fast update replaces, or that say what it takes for granted."""

logger = logging.getLogger(__name__)


class FastPPOTorchLearner(PPOTorchLearner):  # type: ignore[misc]  # RLlib ships no type information
    """Drop-in for `PPOTorchLearner`: `config.learners(learner_class=FastPPOTorchLearner)`.

    Where something needs RLlib's way (see `why_stock`), an update is RLlib's own; the two can take turns.

    Episodes are left as they are. RLlib appends a step to each, which a local env runner then counts: its `episode_len_mean` is too
    large by one for every fragment that an episode spans, and here it is not.

    Attributes:
        minibatch_values: If set, it is called once per update of more than one minibatch with a module's id and with what RLlib would
            log with `window=1` at every minibatch but the last, by RLlib's name: [minibatches - 1]. The last one's are logged afterwards.
        last_minibatch: If set, it is called once per update with a module's id, the last minibatch and what the module made of it, before
            its step.
    """

    minibatch_values: Callable[[str, dict[str, torch.Tensor]], None] | None = None
    last_minibatch: Callable[[str, Rows, dict[str, Any]], None] | None = None

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._said: set[str] = set()
        self._adam: _Adam | None = None

    def why_stock(self, episodes: Sequence[SingleAgentEpisode]) -> str | None:
        """Why an update from these episodes has to be RLlib's own; None if it need not."""
        chunks = _Chunks.of(episodes)
        return self._why_stock() or (chunks if isinstance(chunks, str) else None)

    def _why_stock(self) -> str | None:
        own = next((n for n in _OF_RLLIB if n in vars(self) or getattr(type(self), n) is not getattr(PPOTorchLearner, n)), None)
        if own is not None:
            return f"a {own} of its own"
        if self.config.num_learners > 1:
            return "more than one learner"
        if list(self.module.keys()) != [DEFAULT_MODULE_ID] or self.config.policies_to_train is not None:
            return "more than one module, or a choice of which to train"
        module, config = self.module[DEFAULT_MODULE_ID], self.config.get_config_for_module(DEFAULT_MODULE_ID)
        if type(self.module)._forward_train is not MultiRLModule._forward_train:
            return "a MultiRLModule of its own"
        if not isinstance(module, TorchRLModule) or module.is_stateful() or type(module).forward_train is not TorchRLModule.forward_train:
            return "a module that is stateful, or not torch's"
        if not isinstance(module, ValueFunctionAPI) or isinstance(module, SelfSupervisedLossAPI) or not config.use_critic:
            return "a module without a value function, or with a loss of its own"
        if any(isinstance(space, gym.spaces.Dict | gym.spaces.Tuple) for space in (module.observation_space, module.action_space)):
            return "a nested observation or action space"
        if self._torch_compile_forward_train or self._torch_compile_complete_update:
            return "a compiled module"
        if self._grad_scalers is not None or self._lr_scheduler_classes is not None:
            return "a scaler of gradients, or a learning rate scheduler of torch's"
        pipeline = self._learner_connector
        if type(pipeline) is not LearnerConnectorPipeline or tuple(map(type, pipeline.connectors)) != _PIPELINE:
            return "a learner pipeline that is not the default one"
        optimizers = self.get_optimizers_for_module(DEFAULT_MODULE_ID)
        if len(optimizers) != 1 or not _Adam.suits(optimizers[0][1]):
            return "an optimizer that is not a plain Adam"
        return None

    def update(
        self,
        *args: Any,
        timesteps: dict[str, Any] | None = None,
        num_total_minibatches: int = 0,
        num_epochs: int = 1,
        minibatch_size: int | None = None,
        shuffle_batch_per_epoch: bool = False,
        **kwargs: Any,
    ) -> Any:
        """As RLlib's: the same weights, and the same keys and values in the results."""
        self._check_is_built()
        start = time.perf_counter()
        episodes = [] if args or kwargs.get("_no_metrics_reduce") else _episodes_of(kwargs)
        passes = _Passes.over(episodes, num_epochs, minibatch_size, shuffle_batch_per_epoch, num_total_minibatches)
        chunks: _Chunks | str = "something else to learn from than episodes"
        if passes.num_minibatches:
            chunks = self._why_stock() or _Chunks.of(episodes)
        if isinstance(chunks, str):
            if chunks not in self._said:
                self._said.add(chunks)
                logger.info("%s: updated as RLlib does, since there is %s.", type(self).__name__, chunks)
            return super().update(
                *args,
                timesteps=timesteps,
                num_total_minibatches=num_total_minibatches,
                num_epochs=num_epochs,
                minibatch_size=minibatch_size,
                shuffle_batch_per_epoch=shuffle_batch_per_epoch,
                **kwargs,
            )
        self.before_gradient_based_update(timesteps=timesteps or {})
        self._weights_seq_no += 1
        batch = self._batch_of(chunks, start)
        start = time.perf_counter()
        loss = self._descend(batch, passes)
        # RLlib observes every minibatch, which takes longer than clipping its gradient.
        self._metrics_learner_inner_update.observe((time.perf_counter() - start) / passes.num_minibatches)
        self._log_steps(passes)
        self.metrics.log_value((DEFAULT_MODULE_ID, self.TOTAL_LOSS_KEY), loss, window=1)
        self.after_gradient_based_update(timesteps=timesteps or {})
        return self.metrics.reduce()

    def _batch_of(self, chunks: "_Chunks", start: float) -> Rows:
        """What RLlib's learner pipeline makes of episodes, with its timers kept.

        Args:
            chunks: The episodes.
            start: When it was begun with.
        """
        new, module, connectors = _NewBatch(chunks), self.module[DEFAULT_MODULE_ID].unwrapped(), self._learner_connector.connectors
        stages: dict[type, Callable[[Any], None]] = {
            AddOneTsToEpisodesAndTruncate: lambda connector: new.add_flags(),
            AddObservationsFromEpisodesToBatch: lambda connector: new.add_observations(),
            AddColumnsFromEpisodesToTrainBatch: lambda connector: new.add_columns(),
            NumpyToTensor: lambda connector: new.to_tensors(connector, self.module),
            GeneralAdvantageEstimation: lambda connector: new.add_advantages(module, connector.gamma, connector.lambda_),
        }
        log, num_rows = self.metrics.log_value, chunks.num_rows
        log((ALL_MODULES, LEARNER_CONNECTOR_SUM_EPISODES_LENGTH_IN), num_rows - len(chunks.lengths))
        ends = [start]
        for connector in connectors:
            if type(connector) in stages:
                stages[type(connector)](connector)
            ends.append(time.perf_counter())
        log((ALL_MODULES, LEARNER_CONNECTOR, CONNECTOR_PIPELINE_TIMER), ends[-1] - start)
        for name, (begin, end) in zip(_TIMERS, itertools.pairwise(ends), strict=True):
            log((ALL_MODULES, LEARNER_CONNECTOR, TIMERS, CONNECTOR_TIMERS, name), end - begin)
        log((ALL_MODULES, LEARNER_CONNECTOR_SUM_EPISODES_LENGTH_OUT), num_rows)
        return new.columns

    def _descend(self, batch: Rows, passes: "_Passes") -> torch.Tensor:
        """Go a step down the gradient for every minibatch; returns the loss of the last one."""
        module, config = self.module[DEFAULT_MODULE_ID].unwrapped(), self.config.get_config_for_module(DEFAULT_MODULE_ID)
        ((name, optimizer),) = self.get_optimizers_for_module(DEFAULT_MODULE_ID)
        if self._adam is None or self._adam.optimizer is not optimizer:
            self._adam = _Adam(optimizer)
        adam, loss, size = self._adam, _Loss(self, module, config), passes.size
        adam.begin()
        networks = None
        if batch[Columns.OBS].dim() == 2 and DefaultNetworks.is_known(module, adam.parameters) and (gradients := adam.lay_out()):
            networks = DefaultNetworks(module, gradients)
        module.train()  # once: RLlib walks the whole module at every minibatch
        seen = _Seen(loss, size, f"gradients_{name}_global_norm")
        block, num_left = batch, passes.num_minibatches
        for index in passes.blocks():
            where = torch.from_numpy(index).to(batch[Columns.OBS].device)
            block = {key: rows.index_select(0, where) for key, rows in batch.items()}
            num_left -= len(index) // size
            for number, columns in enumerate(_split(loss.columns(block, size), size)[: None if num_left else -1]):
                step = self._step_by_hand(adam, config, loss, networks, columns) if networks else None
                step = step or self._step_by_autograd(adam, config, loss, _part(block, number, size), columns)
                if self.minibatch_values is not None:
                    seen.add(*step)
            seen.end(block)
        if self.minibatch_values is not None and passes.num_minibatches > 1:
            self.minibatch_values(DEFAULT_MODULE_ID, seen.values())
        # The values of the last minibatch are the reported ones: RLlib computes and logs them itself.
        last = _part(block, -1, size)
        self._compute_off_policyness({DEFAULT_MODULE_ID: last})
        outputs = module._forward_train(last)
        total: torch.Tensor = self.compute_loss_for_module(module_id=DEFAULT_MODULE_ID, config=config, batch=last, fwd_out=outputs)
        if self.last_minibatch is not None:
            self.last_minibatch(DEFAULT_MODULE_ID, last, outputs)
        adam.zero_grad()
        if total.grad_fn is not None:  # as RLlib: all parameters may be frozen
            torch.autograd.backward(total)
        norm = self._step(adam, config, last=True)
        if norm is not None:
            self.metrics.log_value((DEFAULT_MODULE_ID, f"gradients_{name}_global_norm"), norm, window=1)
        adam.end()
        return total

    @torch.no_grad()
    def _step_by_hand(
        self, adam: "_Adam", config: Any, loss: "_Loss", networks: DefaultNetworks, columns: Rows
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor | None] | None:
        """Make a step with a minibatch; None if its gradient is not finite, in which case nothing happened.

        Returns:
            The inputs of the action distribution, the predicted values, and the gradient's global norm if RLlib logs it.
        """
        dist_inputs, predictions = networks.forward(columns["observations"])
        networks.backward(loss.policy(dist_inputs, columns), loss.of_values(predictions, columns))
        return (dist_inputs, predictions, self._clip_and_step(adam, config)) if adam.is_finite() else None

    def _step_by_autograd(
        self, adam: "_Adam", config: Any, loss: "_Loss", rows: Rows, columns: Rows
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor | None]:
        """The same for any module and gradient."""
        outputs = loss.module._forward_train(rows)
        adam.zero_grad()
        predictions = loss.backward(rows, outputs, columns)
        return outputs[Columns.ACTION_DIST_INPUTS].detach(), predictions.detach(), self._step(adam, config)

    def _step(self, adam: "_Adam", config: Any, last: bool = False) -> torch.Tensor | None:
        """Make a step with the parameters' gradients; returns their global norm if RLlib logs it."""
        usual = adam.gather() and adam.is_finite() and config.grad_clip_by in ("value", "norm", "global_norm")
        return self._clip_and_step(adam, config, last) if usual else self._step_as_rllib(adam, config)

    @torch.no_grad()
    def _clip_and_step(self, adam: "_Adam", config: Any, last: bool = False) -> torch.Tensor | None:
        """Clip the gradient and let the optimizer make a step.

        Args:
            adam: The optimizer, with a finite gradient.
            config: The module's.
            last: Whether the parameters' gradients are looked at afterwards, and the norm has to be RLlib's to the bit.

        Returns:
            The global norm as RLlib logs it; None where it does not log it.
        """
        clip, by = config.grad_clip, config.grad_clip_by if config.grad_clip else None
        norm: torch.Tensor | None = adam.length
        if by == "global_norm":
            # RLlib's is a norm of norms, and rounds otherwise: it is needed where it decides.
            norm = adam.norm() if last or float(adam.length) * 1.001 + 1e-6 >= clip else adam.length
            adam.gradient.mul_(torch.clamp(clip / torch.clamp(norm + 1e-6, min=clip), max=1.0))
        else:
            if by == "norm":
                for gradient, its_norm in zip(adam.gradients, torch._foreach_norm(adam.gradients), strict=True):
                    if its_norm > clip:
                        gradient.mul_(clip / its_norm)
            elif by == "value":
                adam.gradient.clamp_(-clip, clip)
            wanted = config.log_gradients and (last or self.minibatch_values is not None)
            norm = None if not wanted else adam.norm() if last or by else adam.length
        adam.step()
        if last:
            adam.scatter()
        return norm

    def _step_as_rllib(self, adam: "_Adam", config: Any) -> torch.Tensor | None:
        """The same by RLlib's own code, which knows what to do about gradients that are not there, or not finite.

        But for the logging: `postprocess_gradients_for_module` (core/learner/learner.py) logs the norm that is returned here.
        """
        gradients = {ref: parameter.grad for ref, parameter in self._params.items()}
        of_optimizer = self.filter_param_dict_for_optimizer(gradients, adam.optimizer)
        norm = None
        if config.grad_clip:
            norm = clip_gradients(of_optimizer, grad_clip=config.grad_clip, grad_clip_by=config.grad_clip_by)
        if config.log_gradients and not (config.grad_clip and config.grad_clip_by == "global_norm"):
            norm = compute_global_norm(list(of_optimizer.values()))
        adam.end()
        # Sic: where RLlib logs gradients that it does not clip, it leaves them to the optimizer as they are.
        self.apply_gradients(of_optimizer if config.grad_clip or not (config.grad_clip is not None or config.log_gradients) else {})
        adam.begin()
        return norm

    def _log_steps(self, passes: "_Passes") -> None:
        """What RLlib logs of every minibatch's size (core/learner/learner.py: `_log_steps_trained_metrics`, `_log_metrics`), at once."""
        log, mid, size = self.metrics.log_value, DEFAULT_MODULE_ID, passes.size
        module_steps = passes.num_minibatches * size
        env_steps = passes.num_minibatches * passes.num_rows  # sic: the whole batch's at every minibatch
        log((mid, WEIGHTS_SEQ_NO), self._weights_seq_no, window=1)
        log((mid, MODULE_TRAIN_BATCH_SIZE_MEAN), size, reduce="mean")
        log((mid, NUM_MODULE_STEPS_TRAINED), module_steps, reduce="sum")
        log((mid, NUM_MODULE_STEPS_TRAINED_LIFETIME), module_steps, reduce="lifetime_sum", with_throughput=True)
        log((ALL_MODULES, NUM_MODULE_STEPS_TRAINED), module_steps, reduce="sum", with_throughput=True)
        log((ALL_MODULES, NUM_MODULE_STEPS_TRAINED_LIFETIME), module_steps, reduce="lifetime_sum", with_throughput=True)
        log((ALL_MODULES, NUM_ENV_STEPS_TRAINED), env_steps, reduce="sum", with_throughput=True)
        log((ALL_MODULES, NUM_ENV_STEPS_TRAINED_LIFETIME), env_steps, reduce="lifetime_sum", with_throughput=True)
        self._metrics_all_modules_num_env_steps_trained.inc(value=env_steps)
        self._metrics_all_modules_num_module_steps_trained.inc(value=module_steps)


def _episodes_of(given: Mapping[str, Any]) -> list[Any]:
    """Episodes among the arguments of an update; none if there is other data, or it is not as it should be."""
    data = given.get("training_data") or TrainingData(**{f.name: given.get(f.name) for f in fields(TrainingData)})
    if [f.name for f in fields(data) if getattr(data, f.name) is not None] == ["episodes_refs"]:
        data.solve_refs()
    only_episodes = all((getattr(data, f.name) is None) == (f.name != "episodes") for f in fields(data))
    return data.episodes if only_episodes else []


@dataclass(frozen=True)
class _Chunks:
    """The data of some episodes, or of as much of them as there is, without what they look back on: an array for each."""

    lengths: np.ndarray
    observations: list[np.ndarray]
    actions: list[np.ndarray]
    rewards: list[np.ndarray]
    outputs: dict[str, list[np.ndarray]]
    terminated: list[bool]
    truncated: list[bool]

    @property
    def num_rows(self) -> int:
        """Of the batch: a row for every step, and one more for every chunk."""
        return int(self.lengths.sum()) + len(self.lengths)

    @classmethod
    def of(cls, episodes: Sequence[Any]) -> "_Chunks | str":
        """Of RLlib's single-agent episodes; if their batch has to be made by RLlib's connectors, why."""
        if not episodes:
            return "nothing to learn from"
        names = getattr(episodes[0], "extra_model_outputs", {}).keys()
        if not names >= {Columns.ACTION_DIST_INPUTS, Columns.ACTION_LOGP} or names & _OWN_COLUMNS:
            return "an episode with other outputs of the module than PPO's"
        lengths: list[int] = []
        found = cls(np.empty(0), [], [], [], {name: [] for name in names}, [], [])
        for episode in episodes:
            if type(episode) is not SingleAgentEpisode or episode.module_id is not None or episode.agent_id is not None:
                return "an episode of several agents, or of another class"
            if (length := len(episode)) < 1:
                return "an episode without a step"
            if episode.extra_model_outputs.keys() != names:
                return "an episode with other outputs of the module than another's"
            lengths.append(length)
            try:
                found.observations.append(_items(episode.observations, length + 1))
                found.actions.append(_items(episode.actions, length))
                found.rewards.append(_items(episode.rewards, length))
                for name, items in found.outputs.items():
                    items.append(_items(episode.extra_model_outputs[name], length))
            except TypeError:
                return "an episode with data that is nested, or no number"
            found.terminated.append(episode.is_terminated)
            found.truncated.append(episode.is_truncated or not episode.is_terminated)
        return replace(found, lengths=np.array(lengths))


def _items(buffer: InfiniteLookbackBuffer, length: int) -> np.ndarray:
    """The first items of a buffer, without what it looks back on.

    Raises:
        TypeError: They are nested, or no numbers.
    """
    data = buffer.data
    if isinstance(data, list) and not isinstance(data[0], dict | tuple):
        data = batch_items(data)
    if not isinstance(data, np.ndarray) or data.dtype.kind in "OSU":
        raise TypeError
    items: np.ndarray = data[buffer.lookback : buffer.lookback + length]
    return items


class _NewBatch:
    """A batch in the making: the rows of all chunks, one after the other, and after each chunk's last one more.

    This row repeats the last one, but for its observation, which is what the last action led to: its value is the one to bootstrap with.
    It is not trained on.

    Attributes:
        columns: So far, [rows, ...] each: arrays, and tensors in the end.
    """

    def __init__(self, chunks: _Chunks) -> None:
        self._chunks, self._num_rows = chunks, chunks.num_rows
        self._added = np.cumsum(chunks.lengths + 1) - 1
        self.columns: dict[str, Any] = {}

    def add_flags(self) -> None:
        """Which rows count, and which end a chunk (AddOneTsToEpisodesAndTruncate)."""
        for column, value in ((Columns.LOSS_MASK, True), (Columns.TERMINATEDS, False), (Columns.TRUNCATEDS, False)):
            self.columns[column] = np.full(self._num_rows, value)
        self.columns[Columns.LOSS_MASK][self._added] = False
        self.columns[Columns.TERMINATEDS][self._added - 1] = self._chunks.terminated
        self.columns[Columns.TRUNCATEDS][self._added - 1] = self._chunks.truncated

    def add_observations(self) -> None:
        """AddObservationsFromEpisodesToBatch."""
        self.columns[Columns.OBS] = np.concatenate(self._chunks.observations)

    def add_columns(self) -> None:
        """Actions, rewards, and what the module put out when they were sampled (AddColumnsFromEpisodesToTrainBatch)."""
        chunks = self._chunks
        # The row of the joined chunks that a row of the batch is taken from.
        source = np.arange(self._num_rows) - np.repeat(np.arange(len(chunks.lengths)), chunks.lengths + 1)
        source[self._added] -= 1
        for name, items in {Columns.ACTIONS: chunks.actions, Columns.REWARDS: chunks.rewards, **chunks.outputs}.items():
            self.columns[name] = np.concatenate(items)[source]
        self.columns[Columns.REWARDS] = self.columns[Columns.REWARDS].astype(np.float64)
        self.columns[Columns.REWARDS][self._added] = 0.0

    def to_tensors(self, connector: NumpyToTensor, module: MultiRLModule) -> None:
        """NumpyToTensor, which knows the device."""
        self.columns = connector(rl_module=module, batch={DEFAULT_MODULE_ID: self.columns}, episodes=[])[DEFAULT_MODULE_ID]

    def add_advantages(self, module: RLModule, gamma: float, lambda_: float) -> None:
        """GeneralAdvantageEstimation, with its precision: values in 32 bits, the recursion over them in 64."""
        with torch.no_grad():
            predictions = module.compute_values(self.columns)
        values = convert_to_numpy(predictions)
        rewards, terminateds, truncateds = (
            self.columns[column].cpu().numpy() for column in (Columns.REWARDS, Columns.TERMINATEDS, Columns.TRUNCATEDS)
        )
        targets = value_targets(values, rewards, terminateds, truncateds, gamma, lambda_)
        advantages = targets - values
        advantages = (advantages - advantages.mean()) / max(1e-4, advantages.std())
        results = {Postprocessing.ADVANTAGES: advantages, Postprocessing.VALUE_TARGETS: targets}
        self.columns.update(convert_to_torch_tensor(results, device=predictions.device))


def value_targets(
    values: np.ndarray, rewards: np.ndarray, terminateds: np.ndarray, truncateds: np.ndarray, gamma: float, lambda_: float
) -> np.ndarray:
    """Generalised advantage estimates plus values, as `compute_value_targets` (utils/postprocessing/value_predictions.py), to the bit.

    The recursion is over Python's floats: as precise as NumPy's, and ten times as fast one by one.

    Args:
        values: [rows], float32, of all episodes one after the other.
        rewards: [rows], float32.
        terminateds: [rows]: No value comes after this row.
        truncateds: [rows]: The next row's value counts, but the next row is of another episode, or one to bootstrap with.
        gamma: Discount per step.
        lambda_: Decay of the estimates' weights with their length.

    Returns:
        [rows], float32.
    """
    non_terminal = 1.0 - terminateds
    residuals: np.ndarray = rewards + gamma * non_terminal * np.append(values[1:], 0.0) - values
    decays = gamma * lambda_ * (non_terminal * (1.0 - truncateds))
    later, backwards = 0.0, []
    for residual, decay in zip(residuals[::-1].tolist(), decays[::-1].tolist(), strict=True):
        later = residual + decay * later
        backwards.append(later)
    targets: np.ndarray = np.array(backwards[::-1]).astype(np.float32) + values
    return targets.astype(np.float32)


@dataclass(frozen=True)
class _Passes:
    """Which rows of a batch are in which minibatch (utils/minibatch_utils.py: `MiniBatchCyclicIterator`).

    The first pass is in the rows' own order, and each further one a shuffle of the one before; a minibatch can begin in one pass and end
    in the next. After the pass that is the last one the rows are shuffled as well, for the generator's sake.
    """

    num_rows: int
    size: int
    num_minibatches: int
    shuffle: bool

    @classmethod
    def over(
        cls, episodes: Sequence[Any], num_epochs: int, minibatch_size: int | None, shuffle: bool, num_total_minibatches: int
    ) -> "_Passes":
        """As `Learner.update` (core/learner/learner.py) understands its arguments."""
        num_rows = sum(map(len, episodes)) + len(episodes)
        size = minibatch_size or num_rows
        if not minibatch_size and num_epochs <= 1:
            return cls(num_rows, size, int(num_rows > 0), shuffle=False)
        num_minibatches = num_total_minibatches or (math.ceil(num_epochs * num_rows / size) if size else 0)
        return cls(num_rows, size, num_minibatches, shuffle and num_epochs > 1)

    def blocks(self) -> Iterator[np.ndarray]:
        """Rows of as many whole minibatches as fit into a pass, or of one: [minibatches * size]."""
        order = left = np.arange(self.num_rows)
        for first in range(0, self.num_minibatches, per_block := max(1, self.num_rows // self.size)):
            wanted, parts = self.size * min(per_block, self.num_minibatches - first), []
            while wanted >= len(left):
                parts.append(left)
                wanted -= len(left)
                if self.shuffle:
                    order = order[np.random.permutation(self.num_rows)]  # the generator that RLlib uses
                left = order
            yield np.concatenate([*parts, left[:wanted]])
            left = left[wanted:]


class _Loss:
    """PPO's loss, as `PPOTorchLearner.compute_loss_for_module` has it, without its logging.

    RLlib takes means over the rows that count. Their gradient is one over their number in these rows, and 0 in the others, which is
    where the way back begins here.
    """

    def __init__(self, learner: PPOTorchLearner, module: Any, config: Any) -> None:
        self.module, self._config, self._weights_seq_no = module, config, learner._weights_seq_no
        self._now, self._before = module.get_train_action_dist_cls(), module.get_exploration_action_dist_cls()
        self._entropy_coeff = learner.entropy_coeff_schedulers_per_module[DEFAULT_MODULE_ID].get_current_value()
        self._kl_coeff = learner.curr_kl_coeffs_per_module[DEFAULT_MODULE_ID] if config.use_kl_loss else None
        self.policy = PolicyGradient(self._now, self._before, config.clip_param, self._entropy_coeff)

    def columns(self, block: Rows, size: int) -> Rows:
        """What the way back begins with, and what else `policy` and `of_values` want.

        Args:
            block: Rows of some minibatches, one after the other.
            size: Rows of a minibatch.
        """
        counts = block[Columns.LOSS_MASK].view(-1, size)
        num_valid = counts.sum(dim=1, keepdim=True)

        def spread(top: Any) -> torch.Tensor:
            return torch.where(counts, torch.as_tensor(top, device=counts.device) / num_valid, 0.0).view(-1)

        weights = spread(1.0)
        columns = self.policy.columns(block, weights, None if self._kl_coeff is None else spread(self._kl_coeff))
        columns |= {"observations": block[Columns.OBS], "targets": block[Postprocessing.VALUE_TARGETS]}
        return columns | {"of_vf_loss": weights * self._config.vf_loss_coeff}

    def of_values(self, predictions: torch.Tensor, columns: Rows) -> torch.Tensor:
        """The loss's gradient with respect to the value predictions, [rows]."""
        off = predictions - columns["targets"]
        of_vf_loss = columns["of_vf_loss"]
        if self._config.vf_clip_param < math.inf:
            of_vf_loss = torch.where(torch.pow(off, 2.0) <= self._config.vf_clip_param, of_vf_loss, 0.0)
        return of_vf_loss * (2 * off)

    def backward(self, rows: Rows, outputs: dict[str, Any], columns: Rows) -> torch.Tensor:
        """Add the gradient of a minibatch's loss to the parameters'; returns the value predictions."""
        config = self._config
        now, ratio, kl = self._compare(rows, outputs[Columns.ACTION_DIST_INPUTS])
        entropy = now.entropy() if "of_entropy" in columns else None
        surrogate = self._surrogate(rows, ratio)
        predictions: torch.Tensor = self.module.compute_values(rows, embeddings=outputs.get(Columns.EMBEDDINGS))
        vf_loss = torch.pow(predictions - rows[Postprocessing.VALUE_TARGETS], 2.0)
        loss = -surrogate + config.vf_loss_coeff * torch.clamp(vf_loss, 0, config.vf_clip_param)
        if entropy is not None:
            loss = loss - self._entropy_coeff * entropy
        if loss.requires_grad:  # all parameters may be frozen
            if kl is not None and kl.requires_grad:
                torch.autograd.backward([loss, kl], [columns["of_loss"], columns["of_kl"]])
            else:
                torch.autograd.backward(loss, columns["of_loss"])
        return predictions

    def _compare(self, rows: Rows, dist_inputs: torch.Tensor) -> tuple[Any, torch.Tensor, torch.Tensor | None]:
        """The policy as it is now, and its ratio and divergence to the one that sampled."""
        now = self._now.from_logits(dist_inputs)
        before = self._before.from_logits(rows[Columns.ACTION_DIST_INPUTS]) if self._config.use_kl_loss else None
        ratio = torch.exp(now.logp(rows[Columns.ACTIONS]) - rows[Columns.ACTION_LOGP])
        return now, ratio, None if before is None else before.kl(now)

    def _surrogate(self, rows: Rows, ratio: torch.Tensor) -> torch.Tensor:
        clip, advantages = self._config.clip_param, rows[Postprocessing.ADVANTAGES]
        return torch.min(advantages * ratio, advantages * torch.clamp(ratio, 1 - clip, 1 + clip))

    @torch.no_grad()
    def values(self, rows: Rows, dist_inputs: torch.Tensor, predictions: torch.Tensor, size: int) -> dict[str, torch.Tensor]:
        """What RLlib logs at every minibatch, by its name.

        Args:
            rows: Of some minibatches, one after the other: [minibatches * size].
            dist_inputs: What the module made of them, each minibatch by its own weights.
            predictions: The value function's, likewise.
            size: Rows of a minibatch.

        Returns:
            [minibatches] each.
        """
        counts = rows[Columns.LOSS_MASK].view(-1, size)
        num_valid = counts.sum(dim=1)

        def means(of: torch.Tensor) -> torch.Tensor:
            return torch.where(counts, of.view(-1, size), 0.0).sum(dim=1) / num_valid

        now, ratio, kl = self._compare(rows, dist_inputs)
        targets = rows[Postprocessing.VALUE_TARGETS]
        vf_loss = torch.pow(predictions - targets, 2.0)
        unexplained = torch.var((targets - predictions).view(-1, size), dim=1) / (torch.var(targets.view(-1, size), dim=1) + SMALL_NUMBER)
        found = {
            POLICY_LOSS_KEY: -means(self._surrogate(rows, ratio)),
            VF_LOSS_KEY: means(torch.clamp(vf_loss, 0, self._config.vf_clip_param)),
            LEARNER_RESULTS_VF_LOSS_UNCLIPPED_KEY: means(vf_loss),
            LEARNER_RESULTS_VF_EXPLAINED_VAR_KEY: torch.clamp(1 - unexplained, min=-1.0),
            ENTROPY_KEY: means(now.entropy()),
            LEARNER_RESULTS_KL_KEY: torch.zeros(len(counts), device=counts.device) if kl is None else means(kl),
        }
        if WEIGHTS_SEQ_NO in rows:
            found[DIFF_NUM_GRAD_UPDATES_VS_SAMPLER_POLICY] = means((self._weights_seq_no - rows[WEIGHTS_SEQ_NO]).float())
        return found


class _Seen:
    """What minibatches showed, until it is asked for."""

    _COLUMNS = (
        Columns.LOSS_MASK,
        Columns.ACTIONS,
        Columns.ACTION_LOGP,
        Columns.ACTION_DIST_INPUTS,
        WEIGHTS_SEQ_NO,
        Postprocessing.ADVANTAGES,
        Postprocessing.VALUE_TARGETS,
    )
    _MOST_ROWS = 2**18
    """Of minibatches, to be kept before they are made numbers of."""

    def __init__(self, loss: _Loss, size: int, norm: str) -> None:
        self._loss, self._size, self._norm = loss, size, norm
        self._found: list[dict[str, torch.Tensor]] = []
        self._blocks: list[Rows] = []
        self._steps: list[tuple[torch.Tensor, torch.Tensor, torch.Tensor | None]] = []
        self._num_ended = 0

    def add(self, dist_inputs: torch.Tensor, predictions: torch.Tensor, norm: torch.Tensor | None) -> None:
        """A minibatch: what the networks put out, and the norm of its gradient."""
        self._steps.append((dist_inputs, predictions, norm))

    def end(self, block: Rows) -> None:
        """The minibatches since the last time were the first of this block."""
        num_rows = (len(self._steps) - self._num_ended) * self._size
        self._num_ended = len(self._steps)
        if num_rows:
            self._blocks.append({name: block[name][:num_rows] for name in self._COLUMNS if name in block})
        if self._num_ended * self._size > self._MOST_ROWS:
            self._make_numbers()

    def _make_numbers(self) -> None:
        if not self._steps:
            return
        dist_inputs, predictions, norms = zip(*self._steps, strict=True)
        rows = {name: torch.cat([block[name] for block in self._blocks]) for name in self._blocks[0]}
        found = self._loss.values(rows, torch.cat(dist_inputs), torch.cat(predictions), self._size)
        if norms[0] is not None:
            found[self._norm] = torch.stack(norms)
        self._found.append(found)
        self._blocks, self._steps, self._num_ended = [], [], 0

    def values(self) -> dict[str, torch.Tensor]:
        """By RLlib's name for it: [minibatches]."""
        self._make_numbers()
        return {name: torch.cat([found[name] for found in self._found]) for name in self._found[0]}


def _part(block: Rows, number: int, size: int) -> Rows:
    """A minibatch of a block."""
    first = number * size
    return {name: column[first : first + size or None] for name, column in block.items()}


def _split(columns: Rows, size: int) -> list[Rows]:
    """All minibatches of a block."""
    parts = [torch.split(column, size) for column in columns.values()]
    return [dict(zip(columns, minibatch, strict=True)) for minibatch in zip(*parts, strict=True)]


class _Adam:
    """`torch.optim.Adam` on one vector, and not parameter by parameter.

    The optimizer's state stays where it is and what it is: the moments are views of the vectors here. So its `state_dict` is anyone's,
    and `step()` can be called in between.

    Attributes:
        optimizer: Whose settings they are.
        parameters: Its.
        gradient: Of all parameters that have one.
        gradients: The same, by parameter.
        length: The gradient's norm, as `is_finite` found it.
    """

    _ALIGNED = 16
    """Numbers; the vectors' parts begin where torch would have begun a tensor."""

    def __init__(self, optimizer: Any) -> None:
        self.optimizer = optimizer
        self.gradient = self.length = torch.empty(0)
        self.gradients: list[torch.Tensor] = []
        self.parameters: list[torch.nn.Parameter] = optimizer.param_groups[0]["params"]
        self._params: list[torch.nn.Parameter] = []
        self._laid_out: list[bool] = []
        self._moments: list[list[torch.Tensor]] = [[], []]
        self._num_steps = self._num_steps_told = 0.0

    @staticmethod
    def suits(optimizer: Any) -> bool:
        """Whether an optimizer does what `step` does."""
        if type(optimizer) is not torch.optim.Adam or len(optimizer.param_groups) != 1:
            return False
        group = optimizer.param_groups[0]
        others = ("amsgrad", "maximize", "capturable", "differentiable", "fused", "weight_decay", "decoupled_weight_decay")
        hooks = optimizer._optimizer_step_pre_hooks or optimizer._optimizer_step_post_hooks
        return not hooks and not any(group.get(name) for name in others) and all(isinstance(beta, float) for beta in group["betas"])

    def begin(self) -> None:
        """Look at the optimizer's state: it may have been loaded, or gone on by itself."""
        states = [self.optimizer.state.get(p, {}) for p in self._params]
        steps = {float(state["step"]) for state in states if "step" in state}
        moments = zip(states, *self._moments, strict=True)
        if len(steps) != 1 or any(s.get("exp_avg") is not m or s.get("exp_avg_sq") is not v for s, m, v in moments):
            self._laid_out = []
        else:
            (self._num_steps,) = steps
            self._num_steps_told = self._num_steps

    def end(self) -> None:
        """Tell the optimizer's state how many steps it has made."""
        if more := self._num_steps - self._num_steps_told:
            for parameter in self._params:
                self.optimizer.state[parameter]["step"] += more
        self._num_steps_told = self._num_steps

    def lay_out(self, which: list[bool] | None = None) -> dict[torch.Tensor, torch.Tensor]:
        """Make vectors for some parameters, with the optimizer's state of them.

        Args:
            which: By parameter; all that are trained if not given.

        Returns:
            Where their gradients go; none if they are of several kinds, or ages.
        """
        which = [p.requires_grad for p in self.parameters] if which is None else which
        if which != self._laid_out:
            self.end()
            self._params, self._laid_out, self._moments = [], [], [[], []]
            parameters = [p for p, chosen in zip(self.parameters, which, strict=True) if chosen]
            states = [self.optimizer.state.get(p) or {} for p in parameters]
            ages = {float(state["step"]) if state else 0.0 for state in states}
            if len({(p.dtype, p.device) for p in parameters}) != 1 or len(ages) != 1:
                return {}
            rooms = [-(-p.numel() // self._ALIGNED) * self._ALIGNED for p in parameters]
            flat = [torch.zeros(sum(rooms), dtype=parameters[0].dtype, device=parameters[0].device) for _ in range(4)]
            self.gradient, self._mean, self._square, self._change = flat
            views = [[r[: p.numel()].view(p.shape) for r, p in zip(torch.split(v, rooms), parameters, strict=True)] for v in flat]
            self.gradients, *self._moments, self._changes = views
            for parameter, state, mean, square in zip(parameters, states, *self._moments, strict=True):
                if state:
                    mean.copy_(state["exp_avg"])
                    square.copy_(state["exp_avg_sq"])
                step = state.get("step", torch.zeros((), dtype=torch.float32))
                self.optimizer.state[parameter] = {**state, "step": step, "exp_avg": mean, "exp_avg_sq": square}
            self._params, self._laid_out = parameters, which
            (self._num_steps,) = ages
            self._num_steps_told = self._num_steps
        where: dict[torch.Tensor, torch.Tensor] = dict(zip(self._params, self.gradients, strict=True))
        return where

    def zero_grad(self) -> None:
        """As the optimizer's."""
        for parameter in self.parameters:
            parameter.grad = None

    def gather(self) -> bool:
        """Take the parameters' gradients; False if they do not make one vector."""
        gradients = [parameter.grad for parameter in self.parameters]
        if not self.lay_out([gradient is not None for gradient in gradients]):
            return False
        torch._foreach_copy_(self.gradients, [gradient for gradient in gradients if gradient is not None])
        return True

    def scatter(self) -> None:
        """Give the gradients back to the parameters, for whoever looks at them: they may have been clipped."""
        torch._foreach_copy_([parameter.grad for parameter in self._params if parameter.grad is not None], self.gradients)

    def is_finite(self) -> bool:
        """Whether all of the gradient is."""
        self.length = torch.linalg.vector_norm(self.gradient)
        return math.isfinite(float(self.length))

    def norm(self) -> torch.Tensor:
        """The gradient's norm, as RLlib computes it (utils/torch_utils.py: `compute_global_norm`)."""
        norm: torch.Tensor = torch.norm(torch.stack(torch._foreach_norm(self.gradients)), 2.0)
        return norm

    def step(self) -> None:
        """torch/optim/adam.py: `_single_tensor_adam`."""
        group = self.optimizer.param_groups[0]
        beta1, beta2 = group["betas"]
        self._num_steps += 1
        self._mean.lerp_(self.gradient, 1 - beta1)
        self._square.mul_(beta2).addcmul_(self.gradient, self.gradient, value=1 - beta2)
        step_size = group["lr"] / (1 - beta1**self._num_steps)
        torch.sqrt(self._square, out=self._change).div_((1 - beta2**self._num_steps) ** 0.5).add_(group["eps"])
        torch.div(self._mean * -float(step_size), self._change, out=self._change)
        torch._foreach_add_(tuple(self._params), self._changes)
