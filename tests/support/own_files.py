"""Python files as a person would write them: an environment, an algorithm's class, an RLModule.

Each test has a module of its own name.
"""

from pathlib import Path

SOURCE = '''
import gymnasium as gym
import numpy as np
import torch
from ray.rllib.algorithms.ppo import PPOConfig
from ray.rllib.core.columns import Columns
from ray.rllib.core.rl_module.apis.value_function_api import ValueFunctionAPI
from ray.rllib.core.rl_module.torch import TorchRLModule


class MyEnv(gym.Env):
    """Twenty steps; the reward is the first choice, which is worth taking."""

    def __init__(self, size=3):
        self.observation_space = gym.spaces.Box(-1, 1, (size,), np.float32)
        self.action_space = gym.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.t = 0
        return self.np_random.uniform(-1, 1, self.observation_space.shape).astype(np.float32), {}

    def step(self, action):
        self.t += 1
        observation = np.full(self.observation_space.shape, self.t / 20, np.float32)
        return observation, float(action), self.t >= 20, False, {}


class MyConfig(PPOConfig):
    pass


class MyRLModule(TorchRLModule, ValueFunctionAPI):
    def setup(self):
        width = self.model_config["width"]
        self.net = torch.nn.Sequential(torch.nn.Linear(self.observation_space.shape[0], width), torch.nn.Tanh())
        self.pi, self.vf = torch.nn.Linear(width, 2), torch.nn.Linear(width, 1)

    def _forward(self, batch, **kwargs):
        return {Columns.ACTION_DIST_INPUTS: self.pi(self.net(batch[Columns.OBS]))}

    def compute_values(self, batch, embeddings=None):
        return self.vf(self.net(batch[Columns.OBS])).squeeze(-1)


gym.register("ID", entry_point=MyEnv, max_episode_steps=50, reward_threshold=18.0)
'''


def own_file(folder: Path, name: str) -> tuple[str, str]:
    """Write such a file.

    Args:
        folder: Where.
        name: Of the module.

    Returns:
        The words that choose its environment.
    """
    gym_id = f"{name}-v0"
    (folder / f"{name}.py").write_text(SOURCE.replace('"ID"', f'"{gym_id}"'))
    return f"modules=[{folder / name}.py]", f"env.id={gym_id}"


def own_rl_module(folder: Path, name: str) -> tuple[str, ...]:
    """The same, with its RLModule: the words that choose both."""
    module = f"algorithm.rl_module.module_class={name}.MyRLModule"
    return ("env=gym", *own_file(folder, name), module, "algorithm.rl_module.model_config={width:8}")
