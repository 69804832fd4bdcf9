"""Greedy actions by NumPy: those of torch, or none."""

import itertools

import gymnasium as gym
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from ray.rllib.algorithms.ppo.ppo_catalog import PPOCatalog
from ray.rllib.algorithms.ppo.torch.default_ppo_torch_rl_module import DefaultPPOTorchRLModule
from ray.rllib.core.rl_module.rl_module import RLModuleSpec
from torch import nn

from experiments.fast.networks.certain import CertainChoices, certain_choices
from experiments.fast.networks.perceptrons import Layers
from experiments.trial.evaluation import acting


def layers_of(sizes: list[int], activation: type[nn.Module], scale: float, seed: int) -> Layers:
    torch.manual_seed(seed)
    linear = [nn.Linear(*pair) for pair in itertools.pairwise(sizes)]
    for layer in linear:
        layer.weight.data *= scale
    found: Layers = [(layer, (activation(),) if layer is not linear[-1] else ()) for layer in linear]
    return found


def by_torch(layers: Layers, observations: np.ndarray) -> np.ndarray:
    values = torch.from_numpy(observations)
    with torch.inference_mode():
        for linear, following in layers:
            values = linear(values)
            for one in following:
                values = one(values)
    return values.numpy().argmax(axis=-1)


@settings(max_examples=60, deadline=None)
@given(
    hidden=st.lists(st.integers(1, 70), max_size=3),
    inputs=st.integers(1, 20),
    actions=st.integers(2, 9),
    activation=st.sampled_from([nn.Tanh, nn.ReLU]),
    scale=st.sampled_from([0.01, 1.0, 30.0]),
    size=st.sampled_from([1e-3, 1.0, 1e4]),
    seed=st.integers(0, 1000),
)
def test_what_is_certain_is_what_torch_chooses(
    hidden: list[int], inputs: int, actions: int, activation: type[nn.Module], scale: float, size: float, seed: int
) -> None:
    layers = layers_of([inputs, *hidden, actions], activation, scale, seed)
    choose = CertainChoices(layers)
    rng = np.random.default_rng(seed)
    for rows in (1, 3, 20):
        observations = (size * rng.standard_normal((rows, inputs))).astype(np.float32)
        chosen = choose(observations)
        if chosen is not None:
            np.testing.assert_array_equal(chosen, by_torch(layers, observations))


def test_as_a_rule_it_is_certain() -> None:
    choose = CertainChoices(layers_of([4, 64, 64, 2], nn.Tanh, 2.0, 0))
    rng = np.random.default_rng(0)
    certain = [choose(rng.standard_normal((20, 4)).astype(np.float32)) is not None for _ in range(200)]
    assert np.mean(certain) > 0.7


def test_outputs_that_differ_by_rounding_alone_are_not_certain() -> None:
    """Two actions by the same hidden units, each there twice: the exact outputs are equal."""
    layers = layers_of([4, 64, 2], nn.Tanh, 1.0, 0)
    first, last = layers[0][0], layers[-1][0]
    half = first.weight.data[:32]
    first.weight.data, first.bias.data = torch.cat([half, half]), torch.zeros(64)
    own = torch.randn(32)
    last.weight.data = torch.stack([torch.cat([own, 0 * own]), torch.cat([0 * own, own])])
    last.bias.data.zero_()
    choose = CertainChoices(layers)
    assert choose(np.random.default_rng(0).standard_normal((1, 4)).astype(np.float32)) is None


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_numbers_that_are_not_finite_are_left_to_torch(value: float) -> None:
    choose = CertainChoices(layers_of([4, 8, 2], nn.ReLU, 1.0, 0))
    observations = np.ones((3, 4), dtype=np.float32)
    assert choose(observations) is not None
    observations[1, 2] = value
    with np.errstate(all="ignore"):
        assert choose(observations) is None


def module_of(actions: gym.Space, **model: object) -> DefaultPPOTorchRLModule:
    torch.manual_seed(0)
    return RLModuleSpec(
        module_class=DefaultPPOTorchRLModule,
        observation_space=gym.spaces.Box(-1.0, 1.0, (4,), np.float32),
        action_space=actions,
        model_config={"fcnet_hiddens": [64, 64], "fcnet_activation": "tanh", "vf_share_layers": False, **model},
        catalog_class=PPOCatalog,
    ).build()


def test_a_policy_acts_the_same_with_and_without_it(monkeypatch: pytest.MonkeyPatch) -> None:
    actions = gym.spaces.Discrete(3)
    module = module_of(actions)
    for parameters in module.parameters():
        parameters.data *= 3
    rng = np.random.default_rng(0)
    seen = [rng.standard_normal((20, 4)) for _ in range(200)]
    asked = []
    counted = CertainChoices.__call__
    monkeypatch.setattr(CertainChoices, "__call__", lambda *given: asked.append(found := counted(*given)) or found)
    act = acting(module, actions, True, False, 20)
    ours = [act(observations) for observations in seen]
    assert len(asked) == 200
    assert sum(found is not None for found in asked) > 100
    monkeypatch.setattr("experiments.trial.evaluation.certain_choices", lambda _: None)
    act = acting(module, actions, True, False, 20)
    np.testing.assert_array_equal(ours, [act(observations) for observations in seen])


@pytest.mark.parametrize(
    "module",
    [
        module_of(gym.spaces.Discrete(3), fcnet_hiddens=[256, 256]),
        module_of(gym.spaces.Discrete(3), fcnet_activation="elu"),
        module_of(gym.spaces.Discrete(3), use_lstm=True),
    ],
    ids=["large", "another activation", "recurrent"],
)
def test_other_modules_are_left_to_torch(module: DefaultPPOTorchRLModule) -> None:
    assert certain_choices(module) is None
