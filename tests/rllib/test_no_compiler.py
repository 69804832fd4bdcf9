"""Torch's compiler is loaded where something is compiled, and nowhere else."""

import os
import subprocess
import sys

import pytest

from tests.support.suite import ROOT

TRAINS_AND_COMPILES = """
import sys
import ray, torch
from experiments.rllib.no_compiler import leave_out_compiler
leave_out_compiler()
import gymnasium as gym
from ray.rllib.algorithms.ppo import PPOConfig
from ray.rllib.utils.torch_utils import set_torch_seed

config = PPOConfig().environment(observation_space=gym.spaces.Box(-1, 1, (4,)), action_space=gym.spaces.Discrete(2))
set_torch_seed(1)
assert torch.are_deterministic_algorithms_enabled()
learner = config.build_learner(env=None, spaces={"__env__": (config.observation_space, config.action_space)})
optimizer = learner.get_optimizer()
optimizer.zero_grad()
optimizer.step()
optimizer.load_state_dict(optimizer.state_dict())
loaded = [name for name in sys.modules if name.startswith(("torch._dynamo", "torch._inductor"))]
assert sorted(loaded) == ["torch._dynamo", "torch._inductor", "torch._inductor.config"], loaded

compiled = torch.compile(lambda x: x + 1, backend="eager")
assert compiled(torch.ones(1)).item() == 2
assert len([name for name in sys.modules if name.startswith("torch._dynamo")]) > 50
assert torch._inductor.config.deterministic
assert not any("no_compiler" in function.__module__ for function in (torch._dynamo.disable, torch._dynamo.graph_break))
assert not hasattr(torch.optim.Optimizer.zero_grad.__wrapped__, "__dynamo_disable")
optimizer.zero_grad()
assert torch.optim.Optimizer.zero_grad.__wrapped__.__dynamo_disable is not torch.optim.Optimizer.zero_grad.__wrapped__
"""


@pytest.mark.slow
def test_learning_leaves_it_out_and_compiling_loads_it() -> None:
    """In a process of its own: others have loaded it here."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    ended = subprocess.run(
        [sys.executable, "-c", TRAINS_AND_COMPILES], env=environment, capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stderr[-3000:]
