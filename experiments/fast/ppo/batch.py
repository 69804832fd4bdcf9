"""PPO's training batch from the arrays of episodes: what RLlib's default learner connectors make,
without changing the episodes.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import torch
from ray.rllib.connectors.common import NumpyToTensor
from ray.rllib.core import DEFAULT_MODULE_ID
from ray.rllib.core.columns import Columns
from ray.rllib.core.learner.training_data import TrainingData
from ray.rllib.core.rl_module.multi_rl_module import MultiRLModule
from ray.rllib.core.rl_module.rl_module import RLModule
from ray.rllib.env.single_agent_episode import SingleAgentEpisode
from ray.rllib.env.utils.infinite_lookback_buffer import InfiniteLookbackBuffer
from ray.rllib.evaluation.postprocessing import Postprocessing
from ray.rllib.utils.numpy import convert_to_numpy
from ray.rllib.utils.spaces.space_utils import batch as batch_items
from ray.rllib.utils.torch_utils import convert_to_torch_tensor

from experiments.fast.preprocessing.rewards import ScaleRewards

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


def episodes_of(given: Mapping[str, Any]) -> list[Any]:
    """Episodes among the arguments of `Learner.update`; none if other data is given."""
    data = given.get("training_data") or TrainingData(**{f.name: given.get(f.name) for f in fields(TrainingData)})
    if [f.name for f in fields(data) if getattr(data, f.name) is not None] == ["episodes_refs"]:
        data.solve_refs()
    only_episodes = all((getattr(data, f.name) is None) == (f.name != "episodes") for f in fields(data))
    return data.episodes if only_episodes else []


@dataclass(frozen=True)
class EpisodeArrays:
    """The data of episodes, or of chunks of such, without their lookback: an array for each."""

    lengths: np.ndarray
    observations: list[np.ndarray]
    actions: list[np.ndarray]
    rewards: list[np.ndarray]
    outputs: dict[str, list[np.ndarray]]
    terminated: list[bool]
    truncated: list[bool]

    @property
    def num_rows(self) -> int:
        """Rows of the batch: one for every step, and one more for every chunk."""
        return int(self.lengths.sum()) + len(self.lengths)

    @classmethod
    def of(cls, episodes: Sequence[Any]) -> "EpisodeArrays | str":
        """Those of RLlib's single-agent episodes; if RLlib's connectors have to make the batch, the reason."""
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
    """The first items of a buffer behind its lookback.

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


class BatchBuilder:
    """Builds a batch, one method per connector of RLlib: the rows of all chunks, one after the other,
    each chunk with one row more.

    This row repeats the chunk's last one, but with the observation that the last action led to: its value is the one to
    bootstrap with. It is not trained on.

    Attributes:
        columns: Columns built so far, [rows, ...] each: arrays, and tensors in the end.
    """

    def __init__(self, chunks: EpisodeArrays) -> None:
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
        self.columns = connector(rl_module=module, batch={DEFAULT_MODULE_ID: self.columns}, episodes=[])[
            DEFAULT_MODULE_ID
        ]

    def transform_rewards(self, connector: ScaleRewards, module: MultiRLModule) -> None:
        """ScaleRewards."""
        self.columns = connector(rl_module=module, batch={DEFAULT_MODULE_ID: self.columns})[DEFAULT_MODULE_ID]

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
    values: np.ndarray,
    rewards: np.ndarray,
    terminateds: np.ndarray,
    truncateds: np.ndarray,
    gamma: float,
    lambda_: float,
) -> np.ndarray:
    """Generalised advantage estimates plus values, as `compute_value_targets`
    (utils/postprocessing/value_predictions.py), to the bit.

    The recursion is over Python's floats: as precise as NumPy's, and ten times as fast one by one.

    Args:
        values: [rows], float32, of all episodes one after the other.
        rewards: [rows], float32.
        terminateds: [rows]: No value comes after this row.
        truncateds: [rows]: The next row's value counts, but the next row is of another episode,
            or one to bootstrap with.
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
