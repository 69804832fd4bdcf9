"""A trained policy as one ONNX file, with everything from the environment's observation to the action that it takes."""

import json
import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
from ray.rllib.core.rl_module.rl_module import RLModule

from analysis.stats.moderated import moderated_intervals
from experiments.config.errors import ConfigurationError
from experiments.config.trial_config import TrialConfig
from experiments.policies.onnx_check import Check, DifferentActionsError, compare
from experiments.policies.onnx_graph import OPSET, NotTraceableError, initial_states, put_weights, state_names, trace
from experiments.policies.policy import Policy
from experiments.rllib.building import is_masked, observed_environment_of
from experiments.rllib.made_environments import spaces

FORMAT = 1
"""Version of the metadata."""


@dataclass(frozen=True)
class Origin:
    """Where a policy comes from, as far as it is known; what is empty is left out of the file.

    Attributes:
        study: The study's name.
        study_run: The id of its run in MLflow.
        run: The id of the trial's run.
        commit: Commit of the suite's code that trained it.
        env_steps: Env steps that it was trained for.
    """

    study: str = ""
    study_run: str = ""
    run: str = ""
    commit: str = ""
    env_steps: int = 0


@dataclass(frozen=True)
class Exported:
    """An exported policy.

    Attributes:
        path: The file.
        metadata: The file's description of itself; all values are text, lists and spaces as JSON.
        check: The comparison before the file was written.
    """

    path: Path
    metadata: Mapping[str, str]
    check: Check


def export_policy(
    policy: Policy,
    path: Path,
    origin: Origin | None = None,
    traced: dict[str, Any] | None = None,
    alive: Callable[[], None] = lambda: None,
) -> Exported:
    """Write a policy into one ONNX file, once its actions were found to be those of the suite's own evaluation.

    Args:
        policy: On the CPU.
        path: The file; its folder is there. Written whole or not at all.
        origin: Where the policy comes from.
        traced: Programs that were traced of other policies, by what decides on their networks; added to.
        alive: Called before every step of the evaluation; what it raises ends this.

    Raises:
        ConfigurationError: The policy cannot be exported: its module cannot be traced, connectors of a person's own
            stand before or behind it, or what was traced acts differently.
        OSError: The disk takes no more.
    """
    trial, env = policy.trial, observed_environment_of(policy.trial)
    if policy.pipelines is not None:
        raise ConfigurationError(
            f"export=onnx: algorithm={trial.algorithm['name']} has connectors of its own between environment "
            "and module, which are Python and cannot be in the file. Do their work in the module (preprocessing=..., "
            "or algorithm.rl_module.module_class), or in a wrapper of the environment."
        )
    observation_space, action_space = spaces(env)
    seeds = policy.held_out_seeds()
    try:
        graph, found = _compared(policy, seeds, {} if traced is None else traced, alive)
    except (NotTraceableError, DifferentActionsError) as error:
        raise ConfigurationError(_refusal(trial, error)) from error
    metadata = {
        **_of_spaces(trial, observation_space, action_space),
        **_of_states(policy.module),
        **_of_check(found, seeds, env.vectorize_mode == "vector_entry_point"),
        **{name: str(value) for name, value in asdict(origin or Origin()).items() if value},
    }
    for name, value in metadata.items():
        graph.metadata_props.add(key=name, value=value)
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        partial.write_bytes(graph.SerializeToString())
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)
    return Exported(path, metadata, found)


def _compared(policy: Policy, seeds: list[int], traced: dict[str, Any], alive: Callable[[], None]) -> tuple[Any, Check]:
    """The graph of a policy, and what was compared.

    Raises:
        NotTraceableError: torch cannot export it.
        DifferentActionsError: The graph acts otherwise.
        ConfigurationError: The policy cannot be evaluated.
    """
    key, (observation_space, action_space) = _networks_of(policy), spaces(observed_environment_of(policy.trial))
    how = policy.normalize_actions, policy.clip_actions
    if key in traced:
        put_weights(traced[key], policy.module, action_space, *how)
        # a part was computed of the first one's weights: this one is traced by itself
        with suppress(DifferentActionsError):
            graph = traced[key].model_proto
            return graph, compare(graph.SerializeToString(), policy, seeds, alive)
    traced[key] = trace(policy.module, observation_space, action_space, *how)
    graph = traced[key].model_proto
    return graph, compare(graph.SerializeToString(), policy, seeds, alive)


def _networks_of(policy: Policy) -> str:
    """A key that is equal for policies which differ in nothing but their weights."""
    trial, module = policy.trial, policy.module
    shapes = [(name, tuple(weights.shape)) for name, weights in module.state_dict().items()]
    how = policy.normalize_actions, policy.clip_actions
    return repr((type(module), shapes, trial.algorithm["rl_module"], trial.env, trial.preprocessing, how))


def _refusal(trial: TrialConfig, error: Exception) -> str:
    module_class = trial.algorithm["rl_module"].get("module_class")
    who = f"algorithm.rl_module.module_class={module_class}" if module_class else f"algorithm={trial.algorithm['name']}"
    if isinstance(error, DifferentActionsError):
        return (
            f"export=onnx: {who} acts differently once it is exported: {error}. Its forward_inference must depend "
            "on the batch alone: not on numbers of Python's that it changes, on a random generator, or on numpy."
        )
    return (
        f"export=onnx: torch cannot trace the module of {who} ({error}). Its forward_inference must be torch alone, "
        "without branches on values (docs/export.md)."
    )


def _of_spaces(trial: TrialConfig, observations: gym.Space[Any], actions: gym.Space[Any]) -> dict[str, str]:
    env = observed_environment_of(trial)
    return {
        "format": str(FORMAT),
        "opset": str(OPSET),
        "algorithm": str(trial.algorithm["name"]),
        "env": trial.env.name,
        "env_id": env.id,
        "env_config": json.dumps(env.make_arguments),
        "vectorize_mode": "sync" if env.vectorize_mode == "async" else env.vectorize_mode,  # as it was evaluated
        "frame_stack": str(trial.preprocessing.frame_stack),
        **({"action_mask": str(gym.spaces.flatdim(actions))} if is_masked(trial) else {}),
        "observation_space": json.dumps(described(observations)),
        "action_space": json.dumps(described(actions)),
        "config": trial.label,
        "config_id": trial.config_id,
        "seed": str(trial.seed),
        "phase": trial.phase,
    }


def _of_states(module: RLModule) -> dict[str, str]:
    states = {name: state.tolist() for name, state in zip(state_names(module), initial_states(module), strict=True)}
    return {"initial_state": json.dumps(states)} if states else {}


def _of_check(check: Check, seeds: list[int], one_generator: bool) -> dict[str, str]:
    """The score, with its interval over episodes: none where all have the same return,
    which says nothing of how sure it is.
    """
    found = moderated_intervals(check.evaluation.returns[np.newaxis])
    ends = {"score_low": found.low[0], "score_high": found.high[0]}
    return {
        "score": repr(float(check.evaluation.returns.mean())),
        **{name: repr(float(end)) for name, end in ends.items() if np.isfinite(end)},
        "score_episodes": str(len(seeds)),
        "env_seeds": json.dumps(seeds[:1] if one_generator else seeds),
        "checked_observations": str(check.observations),
        "max_action_difference": repr(check.max_difference),
    }


def described(space: gym.Space[Any]) -> dict[str, Any]:
    """A space as JSON holds it; bounds that are the same everywhere as one number,
    infinite ones as Python's JSON has them.
    """
    found: dict[str, Any] = {
        "type": type(space).__name__,
        "dtype": str(np.dtype(space.dtype)),
        "shape": list(space.shape or ()),
    }
    if isinstance(space, gym.spaces.Box):
        found |= {"low": _bound(space.low), "high": _bound(space.high)}
    elif isinstance(space, gym.spaces.Discrete):
        found |= {"n": int(space.n), **({"start": int(space.start)} if space.start else {})}
    elif isinstance(space, gym.spaces.MultiDiscrete):
        found |= {"nvec": space.nvec.tolist(), **({"start": space.start.tolist()} if space.start.any() else {})}
    return found


def _bound(bound: np.ndarray[Any, Any]) -> Any:
    return bound.flat[0].item() if (bound == bound.flat[0]).all() else bound.tolist()
