"""Modules of one's own: sampled as in RLlib, whatever they put out, or left to RLlib."""

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from ray.rllib.core.columns import Columns
from ray.rllib.core.rl_module.rl_module import RLModuleSpec
from ray.rllib.core.rl_module.torch.torch_rl_module import TorchRLModule

from tests.support.fast_sampling import DISCRETE, Spaces, assert_same_samples, assert_same_steps, config_of

pytestmark = pytest.mark.filterwarnings("ignore")

SIZES = (20, 1, 30)


class Linear(TorchRLModule):
    """A linear policy; with a Box it puts out means and log standard deviations."""

    def setup(self) -> None:
        outputs = getattr(self.action_space, "n", None) or 2 * self.action_space.shape[0]
        self.policy = torch.nn.Linear(3, int(outputs))

    def _forward(self, batch: dict[str, Any], **how: Any) -> dict[str, Any]:
        return {Columns.ACTION_DIST_INPUTS: self.policy(batch[Columns.OBS])}


class OwnLogp(Linear):
    def _forward(self, batch: dict[str, Any], **how: Any) -> dict[str, Any]:
        found = super()._forward(batch, **how)
        return {**found, Columns.ACTION_LOGP: found[Columns.ACTION_DIST_INPUTS].sum(-1)}


class OwnForEnv(Linear):
    def _forward(self, batch: dict[str, Any], **how: Any) -> dict[str, Any]:
        found = super()._forward(batch, **how)
        return {
            **found,
            Columns.ACTIONS_FOR_ENV: torch.full(
                (len(batch[Columns.OBS]), *self.action_space.shape), 1, dtype=torch.int64
            ),
        }


class OwnActions(Linear):
    def _forward(self, batch: dict[str, Any], **how: Any) -> dict[str, Any]:
        inputs = super()._forward(batch, **how)[Columns.ACTION_DIST_INPUTS]
        return {Columns.ACTIONS: inputs.argmax(-1).numpy()}


class Structures(Linear):
    def _forward(self, batch: dict[str, Any], **how: Any) -> dict[str, Any]:
        found = super()._forward(batch, **how)
        inputs = found[Columns.ACTION_DIST_INPUTS]
        more = {
            "dict": {"a": inputs * 2, "b": {"c": inputs[:, 0]}},
            "tuple": (inputs[:, :2], inputs[:, 0].long()),
            "list": [inputs[:, 0], inputs[:, 1]],
            "array": inputs.detach().numpy().astype(np.float64),
            "flags": inputs[:, 0] > 0,
        }
        return {**found, **more}


class Reusing(Linear):
    """Puts out tensors of its own, which it changes at the next step."""

    def setup(self) -> None:
        super().setup()
        self.calls = torch.zeros(8)
        self.chosen = torch.zeros(8, dtype=torch.int32)

    def _forward(self, batch: dict[str, Any], **how: Any) -> dict[str, Any]:
        rows = len(batch[Columns.OBS])
        self.calls += 1
        self.chosen[:rows] = super()._forward(batch, **how)[Columns.ACTION_DIST_INPUTS].argmax(-1)
        return {Columns.ACTIONS: self.chosen[:rows], "calls": self.calls[:rows]}


class PublicForward(Linear):
    def forward_exploration(self, batch: dict[str, Any], **how: Any) -> dict[str, Any]:
        found = super().forward_exploration(batch, **how)
        return {name: values * 0.5 for name, values in found.items()}


class PublicInference(Linear):
    def forward_inference(self, batch: dict[str, Any], **how: Any) -> dict[str, Any]:
        found = super().forward_inference(batch, **how)
        return {name: -values for name, values in found.items()}


BOX = gym.spaces.Box(-2, 3, (2,), np.float32)
UNSCALED = {"normalize_actions": False, "clip_actions": False}
CASES: dict[str, tuple[type[TorchRLModule], gym.Space[Any], dict[str, Any]]] = {
    "a log-probability of its own": (OwnLogp, DISCRETE, {}),
    "a log-probability of its own, of a Box": (OwnLogp, BOX, {}),
    "actions for the environments": (OwnForEnv, DISCRETE, UNSCALED),
    "actions for the environments, which scaling replaces": (OwnForEnv, BOX, {}),
    "actions as an array": (OwnActions, DISCRETE, {}),
    "float actions of an integer Box": (Linear, gym.spaces.Box(0, 9, (2,), np.int64), {}),
    "float actions of an integer Box, clipped": (
        Linear,
        gym.spaces.Box(0, 9, (2,), np.int32),
        {"normalize_actions": False, "clip_actions": True},
    ),
    "nested outputs": (Structures, DISCRETE, {}),
    "tensors that it changes": (Reusing, DISCRETE, {}),
}


class Anything(Spaces):
    """Takes what is not in its action space."""

    def step(self, action: Any) -> Any:
        space, self.action_space = (
            self.action_space,
            gym.spaces.Box(-np.inf, np.inf, np.shape(action), np.asarray(action).dtype),
        )
        action = np.asarray(action)
        observation, reward, *rest = super().step(action)
        self.action_space = space
        return observation, reward + float(action.sum()), *rest


def config_with(module: type[TorchRLModule], space: gym.Space[Any], **how: Any) -> Any:
    config = config_of(env=lambda context: Anything(space), envs=3, **how)
    return config.rl_module(rl_module_spec=RLModuleSpec(module_class=module))


@pytest.mark.parametrize("name", CASES)
def test_a_module_of_ones_own_is_sampled_as_in_rllib(name: str) -> None:
    module, space, how = CASES[name]
    fast = assert_same_samples(config_with(module, space, **how), SIZES)
    assert fast.why_stock(explore=True, random_actions=False) is None


@pytest.mark.parametrize("name", CASES)
def test_single_steps_of_a_module_of_ones_own_are_those_of_rllib(name: str) -> None:
    module, space, how = CASES[name]
    assert_same_steps(config_with(module, space, **how), 12)


@pytest.mark.parametrize(("module", "explore"), [(PublicForward, True), (PublicInference, False)])
def test_a_public_forward_pass_of_ones_own_is_left_to_rllib(module: type[TorchRLModule], explore: bool) -> None:
    fast = assert_same_samples(config_with(module, DISCRETE), SIZES, explore=explore)
    said = f"a forward_{'exploration' if explore else 'inference'} of the module's own"
    assert (fast.why_stock(explore, False), fast.why_stock(not explore, False)) == (said, None)
