"""A policy on held-out env seeds: deterministic, or as it explores."""

import functools
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

import gymnasium as gym
import numpy as np
import numpy.typing as npt
import torch
import tree
from gymnasium.vector import SyncVectorEnv
from gymnasium.vector.utils import iterate
from gymnasium.wrappers.vector import DictInfoToList
from ray.rllib.core.columns import Columns
from ray.rllib.core.distribution.torch.torch_distribution import TorchCategorical
from ray.rllib.core.rl_module.rl_module import RLModule
from ray.rllib.core.rl_module.torch import TorchRLModule
from ray.rllib.utils.spaces.space_utils import clip_action, unsquash_action

from experiments.config.schema import EnvSettings
from experiments.contract import MAX_ENVS
from experiments.envs import checked
from experiments.fast.actions import known_actions, step_function
from experiments.fast.networks.certain import certain_choices
from experiments.fast.networks.inference import chooses_by_number, deterministic_actions, inference_function
from experiments.fast.networks.perceptrons import is_overridden
from experiments.rllib.pipelines import PipelinePolicy
from experiments.rllib.results import NonFiniteError

_FORGETTING = ("gymnasium.envs.classic_control.", "gymnasium.envs.mujoco.")

Watch = Callable[[Any, npt.NDArray[np.bool_]], None]
"""Is given the environments side by side, before every step, and which of them are in their episode, (envs,)."""
OnActions = Callable[[npt.NDArray[Any], npt.NDArray[Any]], None]
"""Is given the observations (envs, ...) and the actions (envs, ...) of each step."""
Act = Callable[[npt.NDArray[Any]], npt.NDArray[Any]]
"""Observations (envs, ...) to actions (envs, ...) for the environment."""
Stepped = tuple[Any, npt.NDArray[Any], npt.NDArray[np.bool_], npt.NDArray[np.bool_]]
"""Observations, rewards, and whether episodes are terminated and truncated, (envs, ...) each."""
Step = Callable[[npt.NDArray[Any], npt.NDArray[np.bool_]], Stepped]
"""Actions (envs, ...) and which environments are in their episode (envs,) to what follows."""


@dataclass(frozen=True)
class Evaluation:
    """Episodes of one evaluation.

    Attributes:
        returns: (episodes,) undiscounted.
        lengths: (episodes,) env steps.
    """

    returns: npt.NDArray[np.float64]
    lengths: npt.NDArray[np.int64]

    def metrics(self) -> dict[str, float]:
        """The `eval/` metrics."""
        return {
            "eval/return_mean": float(self.returns.mean()),
            "eval/return_std": float(self.returns.std()),
            "eval/episode_len_mean": float(self.lengths.mean()),
        }


@dataclass(frozen=True)
class Playing:
    """How a policy plays episodes.

    Attributes:
        normalize_actions: RLlib's setting: the module's actions are in [-1, 1] and are stretched to the Box.
        clip_actions: RLlib's setting: the module's actions are clipped to the Box.
        max_env_steps: Env steps after which an episode is cut.
        pipelines: RLlib's connectors from environments to module and back; None: the default ones,
            whose work is done here.
        explore_at: Env steps sampled by which the module explores as in training; None: its deterministic policy.
        alive: Called before every step.
        watch: Sees the episodes.
        on_actions: Sees what the policy is given, and what it does.
    """

    normalize_actions: bool
    clip_actions: bool
    max_env_steps: int | None = None
    pipelines: tuple[Any, Any] | None = None
    explore_at: int | None = None
    alive: Callable[[], None] = lambda: None
    watch: Watch | None = None
    on_actions: OnActions | None = None


def evaluate(
    module: RLModule,
    env: EnvSettings,
    env_seeds: Sequence[int],
    how: Playing,
    kept: "KeptEnvironments | None" = None,
) -> Evaluation:
    """Run one episode of the policy per env seed.

    RLlib's own evaluation takes the first episodes that finish among parallel environments, which favours short ones;
    here each environment contributes exactly one.

    Args:
        module: The trained module, not in training mode.
        env: The environment.
        env_seeds: A seed per episode. An environment with a vector entry point has one generator:
            it takes the first of each turn.
        how: Cut where, with which actions, seen by whom.
        kept: Environments of earlier calls; None: they are made anew.

    Returns:
        The episodes in the order of the seeds.

    Raises:
        NonFiniteError: The module's weights or outputs are not finite: it would take some action or other all the same.
    """
    check_weights(module)
    turns = [env_seeds[i : i + MAX_ENVS] for i in range(0, len(env_seeds), MAX_ENVS)]
    own = KeptEnvironments() if kept is None else kept
    try:
        done = []
        for turn, seeds in enumerate(turns):
            with own.side_by_side(env, len(seeds), turn) as envs:
                done.append(_run(module, env, seeds, envs, how))
    finally:
        if kept is None:
            own.close()
    return Evaluation(np.concatenate([d.returns for d in done]), np.concatenate([d.lengths for d in done]))


def check_weights(module: RLModule) -> None:
    """Make sure that a module's weights are finite.

    Raises:
        NonFiniteError: They are not: it would take some action or other all the same.
    """
    for name, weights in module.named_parameters():
        if not weights.isfinite().all():
            raise NonFiniteError(f"non-finite weights {name} in an evaluation")


def environments(env: EnvSettings, count: int) -> Any:
    """Environments side by side, in this process: others would cost more than they bring for a single pass."""
    mode = "sync" if env.vectorize_mode == "async" else env.vectorize_mode
    around = [checked.Checked] if mode == "sync" else None
    return DictInfoToList(
        gym.make_vec(env.id, num_envs=count, vectorization_mode=mode, wrappers=around, **env.make_arguments)
    )


class KeptEnvironments:
    """Environments side by side that stay from one evaluation to the next,
    where a reset leaves nothing of what was before.
    """

    def __init__(self) -> None:
        self._kept: dict[tuple[int, int], Any] = {}

    @contextmanager
    def side_by_side(self, env: EnvSettings, count: int, turn: int) -> Iterator[Any]:
        """Environments for one turn of an evaluation; the next evaluation's same turn finds them again,
        unless something failed.

        Args:
            env: The same at each call.
            count: Number of environments.
            turn: Number of the turn.
        """
        envs = self._kept.pop((count, turn), None)
        if envs is None:
            envs = environments(env, count)
        try:
            yield envs
        except BaseException:
            envs.close()
            raise
        if _forgets(envs):
            self._kept[(count, turn)] = envs
        else:
            envs.close()

    def close(self) -> None:
        """Close them all."""
        while self._kept:
            self._kept.popitem()[1].close()


def _forgets(envs: Any) -> bool:
    """True if a reset with a seed makes environments as they were when they were made.

    So it is of those of Gymnasium's below; one of a person's own, or a wrapper, may remember.
    """
    env: Any = envs.unwrapped
    if type(env) is SyncVectorEnv:
        env = checked.own(env.envs[0])
    return type(env).__module__.startswith(_FORGETTING)


def _run(module: RLModule, env: EnvSettings, env_seeds: Sequence[int], envs: Any, how: Playing) -> Evaluation:
    count = len(env_seeds)
    spaces = envs.single_observation_space, envs.single_action_space
    own = PipelinePolicy(module, *how.pipelines, *spaces, how.explore_at) if how.pipelines else None
    act = own or acting(module, spaces[1], how.normalize_actions, how.clip_actions, count, how.explore_at)
    returns, lengths, running = np.zeros(count), np.zeros(count, dtype=np.int64), np.ones(count, dtype=bool)
    most, steps = math.inf if how.max_env_steps is None else how.max_env_steps, 0
    was_training = module.training
    module.eval()
    known = known_actions(envs, module) if own is None and chooses_by_number(module) else nullcontext()
    try:
        observations, _ = envs.reset(
            seed=env_seeds[0] if env.vectorize_mode == "vector_entry_point" else list(env_seeds)
        )
        all_of_them = own is not None or how.on_actions is not None  # who see episodes that begin behind others
        step = _step_of(envs, None if all_of_them else observations)
        with known:
            while np.count_nonzero(running) and steps < most:
                if how.watch is not None:
                    how.watch(envs, running)
                how.alive()
                actions = act(observations)
                if how.on_actions is not None:
                    how.on_actions(observations, actions)
                observations, rewards, terminated, truncated = step(actions, running)
                if own is not None:
                    own.on_step(observations, rewards, terminated, truncated)
                np.add(returns, rewards, out=returns, where=running)
                lengths += running
                running &= ~(terminated | truncated)
                steps += 1
    finally:
        module.train(was_training)
    return Evaluation(returns, lengths)


def _step_of(envs: Any, first: npt.NDArray[Any] | None) -> Step:
    """The step of environments side by side.

    Where each is an object of its own, those whose episode is over stay as they are: their further episodes would
    count for nothing, and take more than half of the time where episodes differ in length.

    Args:
        envs: As `environments` makes them.
        first: Their first observations (envs, ...); None: all are to be stepped.
    """
    vector = envs.env if type(envs) is DictInfoToList else None
    if type(vector) is not SyncVectorEnv or not isinstance(first, np.ndarray):
        step, _ = step_function(envs)
        return lambda actions, running: step(actions)[:4]
    count, seen = vector.num_envs, first.copy()
    rewards, terminated, truncated = np.zeros(count), np.zeros(count, dtype=np.bool_), np.zeros(count, dtype=np.bool_)

    def step_running(actions: npt.NDArray[Any], running: npt.NDArray[np.bool_]) -> Stepped:
        each = list(iterate(vector.action_space, actions))
        for i in np.flatnonzero(running):
            seen[i], rewards[i], terminated[i], truncated[i], _ = vector.envs[i].step(each[i])
        return seen, rewards, terminated, truncated

    return step_running


def acting(
    module: RLModule,
    action_space: gym.Space[Any],
    normalize_actions: bool,
    clip_actions: bool,
    envs: int,
    explore_at: int | None = None,
) -> Act:
    """A module's policy of environments side by side, one episode of each from its first observation.

    What a recurrent module remembers goes from call to call, as RLlib's connectors pass it on: states (envs, ...), and
    a dimension of time in all else.

    Args:
        module: The trained module, not in training mode.
        action_space: Action space of one environment.
        normalize_actions: RLlib's setting: actions in [-1, 1] are stretched to the Box.
        clip_actions: RLlib's setting: actions are clipped to the Box.
        envs: Number of environments.
        explore_at: Env steps sampled by which the module explores; None: its deterministic policy.
    """
    continuous = isinstance(action_space, gym.spaces.Box)
    recurrent = module.is_stateful()
    state = _first_state(module, envs) if recurrent else {}
    explores = explore_at is not None
    entry = "forward_exploration" if explores else "forward_inference"
    # The hook behind forward_inference(), which walks the whole module twice a step to switch modes:
    # two thirds of the time.
    own = isinstance(module, TorchRLModule) and is_overridden(module, TorchRLModule, entry)
    forward = (
        getattr(module, entry if own else f"_{entry}") if own or explores or recurrent else inference_function(module)
    )
    options = {"t": explore_at} if explores else {}
    of_action = "get_exploration_action_dist_cls" if explores else "get_inference_action_dist_cls"
    distribution = functools.cache(lambda: getattr(module, of_action)())  # a module that puts out actions may have none
    by_number = isinstance(action_space, gym.spaces.Discrete) and not (own or explores or recurrent)
    certain = certain_choices(module) if by_number else None
    if certain is not None and distribution() is not TorchCategorical:
        certain = None
    device = next(module.parameters()).device

    @torch.inference_mode()
    def by_torch(observations: npt.NDArray[Any]) -> npt.NDArray[Any]:
        nonlocal state
        # CartPole's vector environment returns float64 outside its float32 space.
        batch = torch.as_tensor(
            observations, dtype=torch.float32 if observations.dtype.kind == "f" else None, device=device
        )
        if recurrent:
            out = forward({Columns.OBS: batch.unsqueeze(1), Columns.STATE_IN: state}, **options)
            state = out.pop(Columns.STATE_OUT)
            out = {name: values.squeeze(1) for name, values in out.items()}
        else:
            out = forward({Columns.OBS: batch}, **options)
        if Columns.ACTIONS in out:
            actions = out[Columns.ACTIONS]
        else:
            inputs = out[Columns.ACTION_DIST_INPUTS]
            scores = inputs.cpu().numpy()
            if not math.isfinite(scores.sum()) and not np.isfinite(scores).all():
                raise NonFiniteError("non-finite outputs of the policy in an evaluation")
            if not explores and distribution() is TorchCategorical:
                # as `deterministic_actions`; of so few numbers NumPy's is faster
                return np.asarray(scores.argmax(axis=-1))
            actions = (
                distribution().from_logits(inputs).sample()
                if explores
                else deterministic_actions(distribution(), inputs)
            )
        actions = actions.detach().cpu().numpy()
        if continuous and normalize_actions:
            return np.asarray(unsquash_action(actions, action_space))
        if continuous and clip_actions:
            return np.asarray(clip_action(actions, action_space))
        return np.asarray(actions)

    def act(observations: npt.NDArray[Any]) -> npt.NDArray[Any]:
        chosen = None
        if certain is not None and observations.dtype.kind == "f":
            chosen = certain(observations.astype(np.float32, copy=False))
        return by_torch(observations) if chosen is None else chosen

    return act


def _first_state(module: RLModule, envs: int) -> Any:
    """A recurrent module's state before an episode's first observation, (envs, ...) each."""
    device = next(module.parameters()).device
    return tree.map_structure(
        lambda state: torch.as_tensor(state, device=device).expand(envs, *state.shape).contiguous(),
        module.get_initial_state(),
    )
