"""RLlib's PPO learner without the work at every minibatch whose result is never reported.

`PPOTorchLearner` (ray/rllib/algorithms/ppo/torch/ppo_torch_learner.py) logs some twenty values at every minibatch, of
which the last is reported; checks every parameter twice for gradients that are not finite; copies the whole batch at
every shuffle; and runs Adam parameter by parameter. Before that, eight connectors walk over the episodes one after the
other, and append a step to each. Here the batch is built from the episodes' arrays, which stay as they are; shuffled
rows are gathered a pass at a time; the gradient and Adam's moments are one vector each; and only what is reported is
logged. The loss of the last minibatch, whose values are the reported ones, is RLlib's own code.

The operations are RLlib's and come in the same order, so the weights are the same as RLlib's, to the bit, wherever
torch's element-wise operations do not depend on where in a vector an element lies, and within rounding elsewhere.
"""

import functools
import itertools
import logging
import time
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import torch
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
from ray.rllib.env.single_agent_episode import SingleAgentEpisode
from ray.rllib.utils.metrics import (
    ALL_MODULES,
    CONNECTOR_PIPELINE_TIMER,
    CONNECTOR_TIMERS,
    LEARNER_CONNECTOR,
    LEARNER_CONNECTOR_SUM_EPISODES_LENGTH_IN,
    LEARNER_CONNECTOR_SUM_EPISODES_LENGTH_OUT,
    TIMERS,
)
from ray.rllib.utils.metrics.utils import to_snake_case
from ray.rllib.utils.torch_utils import clip_gradients, compute_global_norm

from experiments.fast.masks import Masked, ruled_out
from experiments.fast.networks.adam import FlatAdam
from experiments.fast.networks.ppo import DefaultNetworks
from experiments.fast.on_policy import METHODS, adam_of, clip_and_step, log_steps, say_once, why_stock
from experiments.fast.ppo.batch import BatchBuilder, EpisodeArrays, episodes_of
from experiments.fast.ppo.gradient import Rows
from experiments.fast.ppo.loss import RULED_OUT, SEEN, PPOLoss
from experiments.fast.ppo.minibatch_values import MinibatchValues
from experiments.fast.ppo.minibatches import Passes, minibatch_of, split
from experiments.fast.preprocessing.modules import Preprocessed
from experiments.fast.preprocessing.rewards import ScaleRewards

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
"""RLlib's default pipeline (algorithms/algorithm_config.py:
`build_learner_connector`; algorithms/ppo/ppo_learner.py: `build`)."""

_SCALING_PIPELINE = (*_PIPELINE[:-1], ScaleRewards, _PIPELINE[-1])
"""The same with preprocessing of rewards."""

logger = logging.getLogger(__name__)


class FastPPOTorchLearner(PPOTorchLearner):  # type: ignore[misc]  # RLlib ships no type information
    """Drop-in for `PPOTorchLearner`: `config.learners(learner_class=FastPPOTorchLearner)`.

    Where something is not supported (see `why_stock`), an update is RLlib's own; the two can alternate.

    Episodes are not changed. RLlib appends a step to each, which a local env runner then counts: its `episode_len_mean`
    is too large by one for every fragment that an episode spans, and with this learner it is not.

    Attributes:
        minibatch_values: If set, it is called once per update of more than one minibatch with a module's id and with
            the values that RLlib would log with `window=1` at every minibatch but the last, by RLlib's name:
            [minibatches - 1]. Those of the last one are logged afterwards.
        last_minibatch: If set, it is called once per update with a module's id, the last minibatch and the module's
            outputs for it, before its step.
        on_minibatch: If set, it is called at every minibatch of a fast update.
        whole_batch: If set, it is called once per fast update with a module's id and the batch, before the first step.
        stock: RLlib's learner whose updates these are. Of a subclass for a learner that has a loss of its own, say:
            that learner, which it inherits from as well.
    """

    stock: ClassVar[type] = PPOTorchLearner
    minibatch_values: Callable[[str, dict[str, torch.Tensor]], None] | None = None
    last_minibatch: Callable[[str, Rows, dict[str, Any]], None] | None = None
    whole_batch: Callable[[str, Rows], None] | None = None
    on_minibatch: Callable[[], None] | None = None

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._logged_reasons: set[str] = set()
        self._adam: FlatAdam | None = None

    def why_stock(self, episodes: Sequence[SingleAgentEpisode]) -> str | None:
        """The reason why RLlib's own code has to update from these episodes; None if there is none."""
        chunks = EpisodeArrays.of(episodes)
        return self._why_stock() or (chunks if isinstance(chunks, str) else None)

    def _why_stock(self) -> str | None:
        if reason := why_stock(self, self.stock, METHODS):
            return reason
        pipeline = self._learner_connector
        if type(pipeline) is not LearnerConnectorPipeline or tuple(map(type, pipeline.connectors)) not in (
            _PIPELINE,
            _SCALING_PIPELINE,
        ):
            return "a learner pipeline that is not the default one"
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
        episodes = [] if args or kwargs.get("_no_metrics_reduce") else episodes_of(kwargs)
        passes = Passes.over(episodes, num_epochs, minibatch_size, shuffle_batch_per_epoch, num_total_minibatches)
        chunks: EpisodeArrays | str = "something else to learn from than episodes"
        if passes.num_minibatches:
            chunks = self._why_stock() or EpisodeArrays.of(episodes)
        if isinstance(chunks, str):
            say_once(self, chunks)
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
        if self.whole_batch is not None:
            self.whole_batch(DEFAULT_MODULE_ID, batch)
        start = time.perf_counter()
        loss = self._train_minibatches(batch, passes)
        # RLlib observes every minibatch, which takes longer than clipping its gradient.
        self._metrics_learner_inner_update.observe((time.perf_counter() - start) / passes.num_minibatches)
        log_steps(self, passes.num_minibatches, passes.size, passes.num_rows)
        self.metrics.log_value((DEFAULT_MODULE_ID, self.TOTAL_LOSS_KEY), loss, window=1)
        self.after_gradient_based_update(timesteps=timesteps or {})
        return self.metrics.reduce()

    def _batch_of(self, chunks: EpisodeArrays, start: float) -> Rows:
        """The batch that RLlib's learner pipeline makes of episodes; logs its timers.

        Args:
            chunks: The episodes.
            start: Time of `time.perf_counter` at which the update began.
        """
        builder, module, connectors = (
            BatchBuilder(chunks),
            self.module[DEFAULT_MODULE_ID].unwrapped(),
            self._learner_connector.connectors,
        )
        stages: dict[type, Callable[[Any], None]] = {
            AddOneTsToEpisodesAndTruncate: lambda connector: builder.add_flags(),
            AddObservationsFromEpisodesToBatch: lambda connector: builder.add_observations(),
            AddColumnsFromEpisodesToTrainBatch: lambda connector: builder.add_columns(),
            NumpyToTensor: lambda connector: builder.to_tensors(connector, self.module),
            ScaleRewards: lambda connector: builder.transform_rewards(connector, self.module),
            GeneralAdvantageEstimation: lambda connector: builder.add_advantages(
                module, connector.gamma, connector.lambda_
            ),
        }
        log, num_rows = self.metrics.log_value, chunks.num_rows
        log((ALL_MODULES, LEARNER_CONNECTOR_SUM_EPISODES_LENGTH_IN), num_rows - len(chunks.lengths))
        ends = [start]
        for connector in connectors:
            if type(connector) in stages:
                stages[type(connector)](connector)
            ends.append(time.perf_counter())
        log((ALL_MODULES, LEARNER_CONNECTOR, CONNECTOR_PIPELINE_TIMER), ends[-1] - start)
        for connector, (begin, end) in zip(connectors, itertools.pairwise(ends), strict=True):
            log(
                (ALL_MODULES, LEARNER_CONNECTOR, TIMERS, CONNECTOR_TIMERS, to_snake_case(type(connector).__name__)),
                end - begin,
            )
        log((ALL_MODULES, LEARNER_CONNECTOR_SUM_EPISODES_LENGTH_OUT), num_rows)
        return builder.columns

    def _train_minibatches(self, batch: Rows, passes: Passes) -> torch.Tensor:
        """Take a gradient step for every minibatch; returns the loss of the last one."""
        module, config = (
            self.module[DEFAULT_MODULE_ID].unwrapped(),
            self.config.get_config_for_module(DEFAULT_MODULE_ID),
        )
        ((name, _),) = self.get_optimizers_for_module(DEFAULT_MODULE_ID)
        adam, loss, size = adam_of(self), PPOLoss(self, module, config), passes.size
        networks = None
        if (
            batch[Columns.OBS].dim() == 2
            and DefaultNetworks.is_known(module, adam.parameters)
            and (gradients := adam.lay_out())
        ):
            networks = DefaultNetworks(module, gradients)
            if isinstance(module, Preprocessed):  # once, element by element: the same as in each minibatch
                batch = {**batch, SEEN: module.observations_function()(batch[Columns.OBS])}
            if isinstance(module, Masked):
                batch = {**batch, RULED_OUT: ruled_out(batch[Columns.OBS], module.num_actions)}
        module.train()  # once: RLlib walks the whole module at every minibatch
        values = MinibatchValues(loss, size, self._weights_seq_no, f"gradients_{name}_global_norm")
        block, num_left = batch, passes.num_minibatches
        for index in passes.blocks():
            where = torch.from_numpy(index).to(batch[Columns.OBS].device)
            block = {key: rows.index_select(0, where) for key, rows in batch.items()}
            num_left -= len(index) // size
            for number, columns in enumerate(split(loss.columns(block, size), size)[: None if num_left else -1]):
                if self.on_minibatch is not None:
                    self.on_minibatch()
                rows = functools.partial(minibatch_of, block, number, size)
                step = self._step_without_autograd(adam, config, loss, networks, rows, columns) if networks else None
                step = step or self._step_with_autograd(adam, config, loss, rows, columns)
                if self.minibatch_values is not None:
                    values.add(*step)
            values.end_block(block)
        if self.minibatch_values is not None and passes.num_minibatches > 1:
            self.minibatch_values(DEFAULT_MODULE_ID, values.values())
        # The values of the last minibatch are the reported ones: RLlib computes and logs them itself.
        last = minibatch_of(block, -1, size)
        self._compute_off_policyness({DEFAULT_MODULE_ID: last})
        outputs = module._forward_train(last)
        total: torch.Tensor = self.compute_loss_for_module(
            module_id=DEFAULT_MODULE_ID, config=config, batch=last, fwd_out=outputs
        )
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
    def _step_without_autograd(
        self,
        adam: FlatAdam,
        config: Any,
        loss: PPOLoss,
        networks: DefaultNetworks,
        rows: Callable[[], Rows],
        columns: Rows,
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor | None] | None:
        """Take a step with a minibatch; None, and no step, if its gradient is not finite.

        Returns:
            The inputs of the action distribution, the predicted values, and the gradient's global norm
            if RLlib logs it.
        """
        dist_inputs, predictions = networks.forward(columns["observations"], columns.get(RULED_OUT))
        self.weigh(rows, columns, dist_inputs)
        networks.backward(loss.policy(dist_inputs, columns), loss.of_values(predictions, columns))
        return (dist_inputs, predictions, self._clip_and_step(adam, config)) if adam.is_finite() else None

    def _step_with_autograd(
        self, adam: FlatAdam, config: Any, loss: PPOLoss, rows: Callable[[], Rows], columns: Rows
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor | None]:
        """Take a step with a minibatch, whatever module and gradient."""
        own = rows()
        outputs = loss.module._forward_train(own)
        self.weigh(rows, columns, outputs[Columns.ACTION_DIST_INPUTS])
        adam.zero_grad()
        predictions = loss.backward(own, outputs, columns)
        return outputs[Columns.ACTION_DIST_INPUTS].detach(), predictions.detach(), self._step(adam, config)

    def weigh(self, rows: Callable[[], Rows], columns: Rows, dist_inputs: torch.Tensor) -> None:
        """Hook for subclasses: called before the gradient of each minibatch but the last one of an update,
        whose loss is RLlib's own code.

        Args:
            rows: The minibatch. Log-probabilities and advantages may be changed in place.
            columns: As `PPOLoss.columns` makes them of it; may be changed.
            dist_inputs: Distribution inputs of the present policy, [rows, inputs].
        """

    def _step(self, adam: FlatAdam, config: Any, last: bool = False) -> torch.Tensor | None:
        """Take a step with the parameters' gradients; returns their global norm if RLlib logs it."""
        usual = adam.gather() and adam.is_finite() and config.grad_clip_by in ("value", "norm", "global_norm")
        return self._clip_and_step(adam, config, last) if usual else self._step_as_rllib(adam, config)

    def _clip_and_step(self, adam: FlatAdam, config: Any, last: bool = False) -> torch.Tensor | None:
        """As `clip_and_step`."""
        return clip_and_step(adam, config, last, log_norm=self.minibatch_values is not None)

    def _step_as_rllib(self, adam: FlatAdam, config: Any) -> torch.Tensor | None:
        """Clip and step by RLlib's own code, which handles gradients that are missing or not finite.

        The norm is returned and not logged, as it is in `postprocess_gradients_for_module` (core/learner/learner.py).
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
        self.apply_gradients(
            of_optimizer if config.grad_clip or not (config.grad_clip is not None or config.log_gradients) else {}
        )
        adam.begin()
        return norm
