"""From a module's outputs to a step of the environments: what RLlib's default module-to-env pipeline does, on whole batches."""

from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from gymnasium.wrappers.vector import DictInfoToList
from ray.rllib.connectors.common import TensorToNumpy
from ray.rllib.connectors.module_to_env import (
    GetActions,
    ListifyDataForVectorEnv,
    NormalizeAndClipActions,
    RemoveSingleTsTimeRankFromBatch,
    UnBatchToIndividualItems,
)
from ray.rllib.core.columns import Columns
from ray.rllib.core.distribution.torch.torch_distribution import TorchCategorical
from ray.rllib.utils.spaces.space_utils import clip_action, unsquash_action

MODULE_TO_ENV = (
    GetActions,
    TensorToNumpy,
    UnBatchToIndividualItems,
    RemoveSingleTsTimeRankFromBatch,
    NormalizeAndClipActions,
    ListifyDataForVectorEnv,
)
"""RLlib's default pipeline (algorithms/algorithm_config.py: `build_module_to_env_connector`)."""


class ActionSampler:
    """Samples actions as the default pipeline of an env runner.

    Args:
        runner: An env runner with that pipeline.
        explore: Whether actions are sampled; otherwise the most probable ones are taken.
    """

    def __init__(self, runner: Any, explore: bool) -> None:
        self._dtype = np.float32 if np.issubdtype(runner.env.single_action_space.dtype, np.floating) else np.int32
        self._sample = runner._module_to_env.connectors[0]._get_actions
        self._module, self._explore = runner.module, explore
        self._categorical = explore and runner.module.get_exploration_action_dist_cls() is TorchCategorical
        scaling = runner._module_to_env.connectors[MODULE_TO_ENV.index(NormalizeAndClipActions)]
        is_box = isinstance(runner.env.single_action_space, gym.spaces.Box)
        self._space = runner.env.single_action_space if is_box and (scaling.normalize_actions or scaling.clip_actions) else None
        self._scale = unsquash_action if scaling.normalize_actions else clip_action

    def __call__(self, outputs: dict[str, Any]) -> tuple[np.ndarray, np.ndarray]:
        """Actions, and the same as the environments take them; removes them from the outputs, which an episode keeps."""
        if self._categorical and Columns.ACTIONS not in outputs:
            # The operations of torch.distributions.Categorical.
            logits = outputs[Columns.ACTION_DIST_INPUTS]
            logits = logits - logits.logsumexp(dim=-1, keepdim=True)
            chosen = torch.multinomial(torch.nn.functional.softmax(logits, dim=-1), 1, True)
            outputs[Columns.ACTION_LOGP] = logits.gather(-1, chosen).squeeze(-1)
            actions = chosen.squeeze(-1)
        else:
            self._sample(outputs, self._module, self._explore)
            actions = outputs.pop(Columns.ACTIONS)
        taken = actions.cpu().numpy().astype(self._dtype, copy=False)  # 32 bits, as RLlib converts it
        return taken, taken if self._space is None else self._scale(taken, self._space)


def step_function(env: Any) -> tuple[Callable[[Any], Any], Callable[[Any], list[dict[str, Any]] | None]]:
    """The step of vectorised environments, and a function that makes a list of its infos; None if they are all empty."""
    if type(env) is not DictInfoToList:
        return env.step, lambda infos: infos
    # Without the list of empty infos that the wrapper makes at every step.
    return env.env.step, lambda infos: env._convert_info_to_list(infos) if infos else None
