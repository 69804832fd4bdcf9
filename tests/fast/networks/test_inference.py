"""The deterministic policy without modules and distributions beside RLlib's: the same actions to the bit."""

from typing import Any

import pytest
import torch
from ray.rllib.algorithms.tqc import TQCConfig
from ray.rllib.core.columns import Columns
from ray.rllib.env.single_agent_env_runner import SingleAgentEnvRunner

from experiments.fast.networks.inference import deterministic_actions, exploration_function, inference_function
from tests.support.fast_off_policy import dqn, runner_of, sac
from tests.support.fast_ppo import config_of
from tests.support.preprocessed import NORMALIZE, with_preprocessing

pytestmark = pytest.mark.filterwarnings("ignore")

CONFIGS = {
    "ppo": lambda: config_of(),
    "ppo of real actions": lambda: config_of("Pendulum-v1", {"free_log_std": True}),
    "dqn": lambda: dqn(True),
    "dqn without a dueling head": lambda: dqn(True, dueling=False),
    "sac": lambda: sac(True),
    "ppo, normalised": lambda: with_preprocessing(config_of(), NORMALIZE),
    "dqn, normalised": lambda: with_preprocessing(dqn(True), NORMALIZE),
    "sac, normalised": lambda: with_preprocessing(sac(True), NORMALIZE),
}


def actions_of(module: Any, outputs: dict[str, Any]) -> torch.Tensor:
    """RLlib's own."""
    if Columns.ACTIONS in outputs:
        return outputs[Columns.ACTIONS]
    return (
        module.get_inference_action_dist_cls()
        .from_logits(outputs[Columns.ACTION_DIST_INPUTS])
        .to_deterministic()
        .sample()
    )


@pytest.mark.parametrize("name", CONFIGS)
@torch.no_grad()
def test_actions_are_those_of_the_module(name: str) -> None:
    module = runner_of(SingleAgentEnvRunner, CONFIGS[name]()).module
    forward = inference_function(module)
    assert forward != module._forward_inference, "a default module of perceptrons"
    for rows in (1, 20, 100):
        batch = {Columns.OBS: torch.randn(rows, *module.observation_space.shape)}
        expected, found = module._forward_inference(batch), forward(batch)
        assert found.keys() == expected.keys()
        assert all(torch.equal(found[column], expected[column]) for column in expected)
        if Columns.ACTION_DIST_INPUTS in found:
            taken = deterministic_actions(module.get_inference_action_dist_cls(), found[Columns.ACTION_DIST_INPUTS])
            assert torch.equal(taken, actions_of(module, expected))


def test_the_module_of_an_algorithm_that_is_derived_from_sac_is_asked_itself() -> None:
    module = runner_of(SingleAgentEnvRunner, sac(True, config_class=TQCConfig)).module
    assert inference_function(module) == module._forward_inference
    assert exploration_function(module) is None


@pytest.mark.parametrize("name", ["ppo", "dqn", "sac"])
def test_a_module_with_a_policy_of_its_own_is_asked_itself(name: str) -> None:
    module = runner_of(SingleAgentEnvRunner, CONFIGS[name]()).module
    module._forward_inference = lambda batch: {Columns.ACTIONS: torch.zeros(len(batch[Columns.OBS]))}
    assert inference_function(module) is module._forward_inference
    module = runner_of(SingleAgentEnvRunner, CONFIGS[name]()).module
    linear = next(part for part in module.modules() if isinstance(part, torch.nn.Linear))
    hook = linear.register_forward_hook(lambda *seen: None)
    assert inference_function(module) == module._forward_inference
    hook.remove()


def test_actions_of_any_other_distribution_are_rllibs() -> None:
    class Rounded:
        def __init__(self, inputs: torch.Tensor) -> None:
            self.inputs = inputs

        from_logits = classmethod(lambda cls, inputs: cls(inputs))

        def to_deterministic(self) -> "Rounded":
            return self

        def sample(self) -> torch.Tensor:
            return self.inputs.round()

    assert deterministic_actions(Rounded, torch.tensor([[0.4], [1.6]])).tolist() == [[0.0], [2.0]]
