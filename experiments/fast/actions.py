"""From a module's outputs to a step of the environments: what RLlib's default module-to-env pipeline does,
on whole batches.
"""

import copy
import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import gymnasium as gym
import numpy as np
import torch
import tree
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
from ray.rllib.core.distribution.torch.torch_distribution import TorchCategorical, TorchSquashedGaussian
from ray.rllib.utils.numpy import convert_to_numpy
from ray.rllib.utils.spaces.space_utils import clip_action, unsquash_action

from experiments.fast import cartpole
from experiments.fast.masks import Masked
from experiments.fast.networks import squashed

MODULE_TO_ENV = (
    GetActions,
    TensorToNumpy,
    UnBatchToIndividualItems,
    RemoveSingleTsTimeRankFromBatch,
    NormalizeAndClipActions,
    ListifyDataForVectorEnv,
)
"""RLlib's default pipeline (algorithms/algorithm_config.py: `build_module_to_env_connector`)."""

_REDUCED = {torch.float16: np.float32, torch.float64: np.float32, torch.int64: np.int32}
"""The types that `convert_to_numpy` gives numbers of other sizes than 32 bits."""


def as_numpy(value: Any) -> Any:
    """RLlib's `convert_to_numpy`, without its walk over the structure where there is none;
    of a tensor always a copy.
    """
    if not isinstance(value, torch.Tensor) or not value.dim():
        return convert_to_numpy(value)
    array = value.detach().cpu().numpy()
    return array.astype(_REDUCED.get(value.dtype, array.dtype))


def item_of(columns: Any, index: int) -> Any:
    """An environment's item of arrays [N, ...], or of a structure of such."""
    return (
        columns[index] if isinstance(columns, np.ndarray) else tree.map_structure(lambda column: column[index], columns)
    )


class ActionSampler:
    """Samples actions as the default pipeline of an env runner, and turns what else the module put out into arrays.

    Args:
        runner: An env runner with that pipeline.
        explore: Whether actions are sampled; otherwise the most probable ones are taken.
    """

    def __init__(self, runner: Any, explore: bool) -> None:
        self._sample = runner._module_to_env.connectors[0]._get_actions
        self._module, self._explore = runner.module, explore
        scaling = runner._module_to_env.connectors[MODULE_TO_ENV.index(NormalizeAndClipActions)]
        self._scales = scaling.normalize_actions or scaling.clip_actions
        is_box = isinstance(runner.env.single_action_space, gym.spaces.Box)
        self._space = runner.env.single_action_space if is_box else None
        self._scale = unsquash_action if scaling.normalize_actions else clip_action
        self._drawn: list[tuple[torch.Tensor, torch.Tensor]] = []  # logits [N, actions] and actions [N, 1]

    @functools.cached_property
    def _distribution(self) -> Any:
        # Not before it is needed: a module that puts out actions may have none.
        return self._module.get_exploration_action_dist_cls() if self._explore else None

    def for_env(self, actions: np.ndarray) -> np.ndarray:
        """Actions [N, ...] as the environments take them; a copy, as in RLlib, since an environment may change it."""
        if not self._scales:
            return actions
        scaled: np.ndarray = actions if self._space is None else self._scale(actions, self._space)
        return scaled.copy() if scaled is actions else scaled

    def __call__(self, outputs: dict[str, Any]) -> tuple[np.ndarray, Any, dict[str, Any]]:
        """Sample actions.

        Args:
            outputs: A module's for N environments.

        Returns:
            The actions [N, ...]; the same as the environments take them; the module's other outputs, which an episode
            keeps, as arrays [N, ...] or structures of such, without what `log_probabilities` returns.
        """
        if Columns.ACTIONS not in outputs and self._distribution is TorchCategorical:
            # The operations of torch.distributions.Categorical, and of `torch.multinomial` without its checks.
            logits = outputs[Columns.ACTION_DIST_INPUTS]
            logits = logits - logits.logsumexp(dim=-1, keepdim=True)
            probs = torch.nn.functional.softmax(logits, dim=-1)
            chosen = (probs / torch.empty_like(probs).exponential_(1)).argmax(dim=-1, keepdim=True)
            self._drawn.append((logits, chosen))
            if isinstance(self._module, Masked):  # at once: of NaN any action comes, be it ruled out
                _check(logits)
            outputs[Columns.ACTIONS] = chosen.squeeze(-1)
        elif Columns.ACTIONS not in outputs and self._distribution is TorchSquashedGaussian:
            actions, logp = squashed.sample(outputs[Columns.ACTION_DIST_INPUTS])
            outputs[Columns.ACTIONS] = actions
            outputs.setdefault(Columns.ACTION_LOGP, logp)
        else:
            self._sample(outputs, self._module, self._explore)
        # At once: a module may change its tensors at the next step.
        arrays = {name: as_numpy(value) for name, value in outputs.items()}
        actions, own = arrays.pop(Columns.ACTIONS), arrays.pop(Columns.ACTIONS_FOR_ENV, None)
        return actions, self.for_env(actions) if own is None or self._scales else own, arrays

    def log_probabilities(self) -> np.ndarray | None:
        """Of the actions of all calls since this was called last, [calls, N]; None if RLlib's own code samples.

        Raises:
            RuntimeError: There was a NaN among their probabilities: the error of `torch.multinomial`,
                which RLlib calls.
        """
        if not self._drawn:
            return None
        logits, chosen = map(torch.stack, zip(*self._drawn, strict=True))
        self._drawn.clear()
        _check(logits.flatten(0, 1))
        found: np.ndarray = as_numpy(logits.gather(-1, chosen).squeeze(-1))
        return found


def _check(logits: torch.Tensor) -> None:
    """Raise what `torch.multinomial` does where there is a NaN among logits [rows, actions]."""
    if logits.isnan().any():
        torch.multinomial(logits.exp(), 1)


class _KnownActions(gym.spaces.MultiDiscrete):
    """A space of which is known that the actions are in it."""

    def contains(self, x: Any) -> bool:
        """True, unchecked."""
        return True


@contextmanager
def known_actions(env: Any, module: Any) -> Iterator[None]:
    """Let vectorised environments step without a look whether the actions are in their space,
    which takes CartPole a seventh of its step.

    Args:
        env: Vectorised environments; others, and those that look at each one's action, stay as they are.
        module: A default one, of which is known that it puts out a number for each action, or acts by such numbers.
    """
    inner = env.unwrapped
    space, single = inner.action_space, inner.single_action_space
    discrete = (
        type(space) is gym.spaces.MultiDiscrete
        and type(single) is gym.spaces.Discrete
        and single == module.action_space
    )
    if not discrete:
        yield
        return
    inner.action_space = copy.copy(space)
    inner.action_space.__class__ = _KnownActions
    try:
        yield
    finally:
        inner.action_space = space


def step_function(env: Any) -> tuple[Callable[[Any], Any], Callable[[Any], list[dict[str, Any]] | None]]:
    """The step of vectorised environments, and a function that makes a list of its infos;
    None if they are all empty.
    """
    if type(env) is not DictInfoToList:
        return env.step, lambda infos: infos
    # Without the list of empty infos that the wrapper makes at every step.
    return cartpole.step_of(env.env) or env.env.step, lambda infos: env._convert_info_to_list(infos) if infos else None
