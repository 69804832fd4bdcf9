"""The check that an exported policy acts as in the suite's own evaluation, step by step along whole episodes."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import gymnasium as gym
import numpy as np
import numpy.typing as npt

from experiments.contract import MAX_ENVS
from experiments.envs.plain_actions import to_native
from experiments.policies.onnx_graph import (
    ACTIONS,
    OBSERVATIONS,
    STATE_IN,
    STATE_OUT,
    initial_states,
    input_dtype,
    state_names,
)
from experiments.policies.policy import Policy
from experiments.rllib.building import observed_environment_of
from experiments.rllib.made_environments import spaces
from experiments.trial.evaluation import Evaluation

TOLERANCE = 1e-4
"""By how much a continuous action may differ, as a share of its range, or of 1 plus its size where that has no end.
Single precision rounds to 6e-8; libraries add the products of a layer in different orders, which costs some square root
of its width; and a Gaussian's mean may be tens of ranges wide before it is clipped. The largest difference that was
found is in the file: see docs/export.md."""
LEAST_OBSERVATIONS = 1000
"""Fewer are no check: where the final evaluation has fewer, more episodes are made."""


class DifferentActionsError(Exception):
    """An exported policy acts otherwise than the module that it was made of; the message says how much."""


@dataclass(frozen=True)
class Check:
    """The comparison of an exported policy with its module.

    Attributes:
        evaluation: Evaluation of the module, on the env seeds of the trial's final evaluation.
        observations: Number of observations that the actions were compared on.
        max_difference: The largest difference of an action, as a share of its range; 0 where actions are discrete.
    """

    evaluation: Evaluation
    observations: int
    max_difference: float


class OnnxPolicy:
    """An exported policy in environments side by side, of one episode of each from its first observation.

    Args:
        session: Inference session of onnxruntime.
        states: Before an episode's first observation, by the names of `state_names`,
            without the dimension of the environments.
    """

    def __init__(self, session: Any, states: dict[str, npt.NDArray[Any]]) -> None:
        self._session, self._first = session, states
        self._states: dict[str, npt.NDArray[Any]] = {}

    def __call__(self, observations: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Observations (envs, ...) as the environments give them to actions (envs, ...)."""
        if not self._states:
            self._states = {
                name: np.repeat(state[np.newaxis], len(observations), axis=0) for name, state in self._first.items()
            }
        inputs = {f"{STATE_IN}.{name}": state for name, state in self._states.items()}
        outputs = [ACTIONS, *(f"{STATE_OUT}.{name}" for name in self._states)]
        actions, *after = self._session.run(outputs, {OBSERVATIONS: observations, **inputs})
        self._states = dict(zip(self._states, after, strict=True))
        return np.asarray(actions)


def session_of(graph: bytes) -> Any:
    """onnxruntime's, on the CPU and in one thread, as the trials of a study.

    Args:
        graph: The file.
    """
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(graph, options, providers=["CPUExecutionProvider"])


def compare(graph: bytes, policy: Policy, env_seeds: Sequence[int], alive: Callable[[], None]) -> Check:
    """Evaluate a policy, and compare each action with the one that the exported policy takes.

    The exported policy sees the same observations, and remembers by itself what it remembers: where all discrete
    actions are equal, it would have made the same episodes, and so has the same score.

    Args:
        graph: The exported policy.
        policy: The policy that it was made of; with RLlib's default connectors.
        env_seeds: Env seeds of the final evaluation.
        alive: Called before every step is compared; what it raises ends this.

    Raises:
        DifferentActionsError: The two act differently.
        ConfigurationError: As `Policy.evaluate`.
    """
    observation_space, action_space = spaces(observed_environment_of(policy.trial))
    dtype, differences, native = input_dtype(observation_space), _Differences(action_space), to_native(action_space)
    session, states = (
        session_of(graph),
        dict(zip(state_names(policy.module), initial_states(policy.module), strict=True)),
    )

    def run(seeds: Sequence[int]) -> Evaluation:
        exported = OnnxPolicy(session, states)

        def on_actions(observations: npt.NDArray[Any], actions: npt.NDArray[Any]) -> None:
            alive()
            differences.add(native(actions), exported(observations.astype(dtype, copy=False)))

        return policy.evaluate(seeds, on_actions=on_actions)

    turns = [run(env_seeds[i : i + MAX_ENVS]) for i in range(0, len(env_seeds), MAX_ENVS)]
    for first in range(0, LEAST_OBSERVATIONS, MAX_ENVS):  # of one step each, at the worst
        if differences.count < LEAST_OBSERVATIONS:
            run(range(first, first + MAX_ENVS))
    differences.check()
    found = Evaluation(np.concatenate([t.returns for t in turns]), np.concatenate([t.lengths for t in turns]))
    return Check(found, differences.count, differences.largest)


class _Differences:
    """Between the actions of an evaluation and those of the exported policy."""

    def __init__(self, space: gym.Space[Any]) -> None:
        self._space = space
        self.count, self.different, self.largest, self.kind = 0, 0, 0.0, ""

    def add(self, actions: npt.NDArray[Any], exported: npt.NDArray[Any]) -> None:
        """Actions (envs, ...) of the same observations."""
        if actions.shape != exported.shape or actions.dtype != exported.dtype:
            self.kind = f"are {exported.dtype}{list(exported.shape)} instead of {actions.dtype}{list(actions.shape)}"
            self.different += len(actions)
        elif isinstance(self._space, gym.spaces.Box):
            range_ = self._space.high.astype(np.float64) - self._space.low
            has_range = np.isfinite(range_) & (range_ > 0)
            off = np.abs(exported.astype(np.float64) - actions) / np.where(has_range, range_, 1.0 + np.abs(actions))
            self.largest = float(np.fmax(self.largest, off.max()))
            self.different += int((~(off <= TOLERANCE)).reshape(len(actions), -1).any(axis=1).sum())  # NaN is different
        else:
            self.different += int((exported != actions).reshape(len(actions), -1).any(axis=1).sum())
        self.count += len(actions)

    def check(self) -> None:
        if not self.different:
            return
        how = self.kind or (f"differ, by {self.largest:.1e} of their range at most" if self.largest else "differ")
        raise DifferentActionsError(f"{self.different} of {self.count} actions {how}")
