"""DQN's networks without modules act as RLlib's."""

import pytest
import torch
from ray.rllib.env.single_agent_env_runner import SingleAgentEnvRunner

from experiments.fast.networks.q import QNetworks
from tests.support.fast_off_policy import dqn, runner_of

pytestmark = pytest.mark.filterwarnings("ignore")


def test_actions_are_those_of_the_module() -> None:
    for make in (dqn, lambda fast: dqn(fast, dueling=False)):
        module = runner_of(SingleAgentEnvRunner, make(True)).module
        networks = QNetworks.of(module)
        assert networks is not None
        for t in (0, 4000, 4000, 20000):
            batch = {"obs": torch.randn(50, 4)}
            torch.manual_seed(t)
            expected = module.forward_exploration(batch, t=t)["actions"]
            torch.manual_seed(t)
            with torch.no_grad():
                assert torch.equal(networks.explore(batch, t=t)["actions"], expected)
