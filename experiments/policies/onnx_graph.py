"""A policy as one ONNX graph: from the environment's observations to the actions that it takes,
with what is remembered between them.

torch's exporter by `torch.export` (`dynamo=True`, its default since 2.9) and not the one by TorchScript, thirty times
as fast: that one is deprecated, and follows the branch that a module of a person's own took for the example, where this
one refuses to choose.
"""

import logging
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import gymnasium as gym
import numpy as np
import torch
import tree
from ray.rllib.core.columns import Columns
from ray.rllib.core.rl_module.rl_module import RLModule
from ray.rllib.core.rl_module.torch.torch_rl_module import TorchRLModule

from experiments.envs.plain_actions import plain_space, start_of
from experiments.fast.networks.perceptrons import is_overridden

OPSET = 18
"""Of ONNX: the one that torch's exporter is written in (torch/onnx/_internal/exporter/_constants.py);
it converts to others."""
OBSERVATIONS, ACTIONS = "observations", "actions"
"""Names of the graph's input and output."""
STATE_IN, STATE_OUT = "state_in", "state_out"
"""How the names of a recurrent policy's states begin, among the inputs and among
the outputs: state_in.h, state_out.h."""
_EXAMPLES = 2
"""Rows of the example: torch takes a batch of one for a constant."""


class NotTraceableError(Exception):
    """A module is none that torch can export; the message says what torch said."""


def input_dtype(space: gym.Space[Any]) -> np.dtype[Any]:
    """The type of the observations that a policy is given: floats in single precision, as in an evaluation,
    all else as it is.
    """
    return np.dtype(np.float32) if np.issubdtype(space.dtype, np.floating) else np.dtype(space.dtype)


def state_names(module: RLModule) -> tuple[str, ...]:
    """Names of what a recurrent module remembers, in the order of its inputs; none of another one."""
    return tuple(".".join(map(str, path)) for path, _ in tree.flatten_with_path(_initial_state(module)))


def initial_states(module: RLModule) -> tuple[np.ndarray[Any, Any], ...]:
    """The states of a recurrent module before an episode's first observation, without the dimension of the batch."""
    return tuple(torch.as_tensor(state).cpu().numpy() for state in tree.flatten(_initial_state(module)))


def _initial_state(module: RLModule) -> Any:
    return module.get_initial_state() if module.is_stateful() else {}


class _Policy(torch.nn.Module):
    """Observations to actions in one step of an evaluation (`experiments.trial.evaluation`), in torch alone."""

    low: torch.Tensor
    high: torch.Tensor
    start: torch.Tensor

    def __init__(
        self, module: RLModule, action_space: gym.Space[Any], normalize_actions: bool, clip_actions: bool
    ) -> None:
        super().__init__()
        self._module, self._structure = module, _initial_state(module)
        own = isinstance(module, TorchRLModule) and is_overridden(module, TorchRLModule, "forward_inference")
        self._forward_module = module.forward_inference if own else module._forward_inference
        self._unsquashes = self._clips = False
        plain = plain_space(action_space)
        if isinstance(plain, gym.spaces.Box):
            self._unsquashes = normalize_actions and bool(plain.bounded_below.all() and plain.bounded_above.all())
            self._clips = clip_actions and not normalize_actions
            self.register_buffer("low", torch.as_tensor(plain.low))
            self.register_buffer("high", torch.as_tensor(plain.high))
        self._space = None if plain is action_space else action_space
        if self._space is not None:
            self.register_buffer("start", torch.as_tensor(start_of(action_space)))

    def forward(self, observations: torch.Tensor, states: Sequence[torch.Tensor] = ()) -> tuple[torch.Tensor, ...]:
        """Observations (batch, ...) and states (batch, ...) to actions (batch, ...) and the next states."""
        if states:
            batch = {
                Columns.OBS: observations.unsqueeze(1),
                Columns.STATE_IN: tree.unflatten_as(self._structure, list(states)),
            }
        else:
            batch = {Columns.OBS: observations}
        out = self._forward_module(batch)
        after = tree.flatten(out[Columns.STATE_OUT]) if states else []
        if Columns.ACTIONS in out:
            actions = out[Columns.ACTIONS]
            actions = actions.squeeze(1) if states else actions
        else:
            inputs = out[Columns.ACTION_DIST_INPUTS]
            distribution = self._module.get_inference_action_dist_cls().from_logits(
                inputs.squeeze(1) if states else inputs
            )
            actions = distribution.to_deterministic().sample()
        return self._for_environment(actions), *after

    def _for_environment(self, actions: torch.Tensor) -> torch.Tensor:
        """As RLlib's `unsquash_action` and `clip_action` (utils/spaces/space_utils.py),
        in its order of operations; then `to_native`.
        """
        if self._unsquashes:
            actions = self.low + (actions + 1.0) * (self.high - self.low) / 2.0
        if self._unsquashes or self._clips:
            actions = torch.clamp(actions, self.low, self.high)
        if self._space is None:
            return actions
        shaped = actions.reshape(actions.shape[0], *(self._space.shape or ()))
        if isinstance(self._space, gym.spaces.Box):
            return shaped
        return (shaped + self.start).to(torch.as_tensor(np.zeros(0, self._space.dtype)).dtype)


def trace(
    module: RLModule,
    observation_space: gym.Space[Any],
    action_space: gym.Space[Any],
    normalize_actions: bool,
    clip_actions: bool,
) -> Any:
    """A policy as torch's `ONNXProgram`, whose `model_proto` is the graph, of any batch size.

    Inputs are `observations` (batch, ...) and, for each of `state_names`, `state_in.<name>` (batch, ...); outputs are
    `actions` (batch, ...) as the environment takes them, and `state_out.<name>`.

    Args:
        module: The module with its weights, on the CPU.
        observation_space: Observation space of one environment.
        action_space: Action space of one environment.
        normalize_actions: RLlib's setting: the module's actions are in [-1, 1] and are stretched to the Box.
        clip_actions: RLlib's setting: the module's actions are clipped to the Box.

    Raises:
        NotTraceableError: torch cannot export it.
    """
    names = state_names(module)
    observations = torch.as_tensor(
        np.zeros((_EXAMPLES, *(observation_space.shape or ())), dtype=input_dtype(observation_space))
    )
    states = [torch.as_tensor(state).expand(_EXAMPLES, *state.shape).contiguous() for state in initial_states(module)]
    batch = {0: "batch"}
    was_training = module.training
    module.eval()
    try:
        with _quiet(), torch.no_grad():
            program = torch.onnx.export(
                _Policy(module, action_space, normalize_actions, clip_actions).eval(),
                (observations, states) if states else (observations,),
                dynamo=True,
                verbose=False,
                opset_version=OPSET,
                input_names=[OBSERVATIONS, *(f"{STATE_IN}.{name}" for name in names)],
                output_names=[ACTIONS, *(f"{STATE_OUT}.{name}" for name in names)],
                dynamic_shapes=(batch, [batch for _ in states]) if states else (batch,),
            )
        assert program is not None, "what dynamo=True returns"
        return program
    except Exception as error:  # torch and a module of a person's own raise what they like
        raise NotTraceableError(_reason(error)) from error
    finally:
        module.train(was_training)


def put_weights(
    program: Any, module: RLModule, action_space: gym.Space[Any], normalize_actions: bool, clip_actions: bool
) -> None:
    """Put the weights of another policy with the same networks into a program: a second's work less than to trace it.

    What the tracer has computed of the first one's weights stays; whether the graph acts as the policy must be
    compared, as after `trace`.

    Args:
        program: A program of `trace`; changed.
        module: The module with its weights, on the CPU.
        action_space: As for `trace`.
        normalize_actions: As for `trace`.
        clip_actions: As for `trace`.
    """
    weights = _Policy(module, action_space, normalize_actions, clip_actions).state_dict()
    program.apply_weights(
        {name: values for name, values in weights.items() if name in program.model.graph.initializers}
    )


def _reason(error: BaseException) -> str:
    """The reason why an export failed, in a line: torch puts pages of advice around it."""
    while error.__cause__ is not None:
        error = error.__cause__
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {lines[0][:300]}" if lines else type(error).__name__


@contextmanager
def _quiet() -> Iterator[None]:
    """Without torch's warnings: of packages that are not there, and of what it deprecates of its own."""
    logger = logging.getLogger("torch.onnx")
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(before)
