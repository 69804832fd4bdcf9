"""Stable-Baselines3's PPO on CartPole with the suite's evaluation, one process per seed.

python -m benchmarks.peers.sb3_script --output FILE --seed 0 1 2 --rollouts 29 59 [--processes 2]
"""

import argparse
import json
import multiprocessing
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import torch

from experiments.rllib.seeding import Role, stream_seed

NUM_ENVS, NUM_STEPS = 16, 64


def train(seed: int, rollouts: list[int], episodes: int) -> dict[str, Any]:
    """Train one seed.

    Args:
        seed: Of everything that SB3 draws.
        rollouts: Rollouts of `NUM_ENVS * NUM_STEPS` env steps after which it is evaluated.
        episodes: Of each evaluation.

    Returns:
        `scores`: mean return of the deterministic policy after each of `rollouts`; `training`: mean return of all
        training episodes that had ended by then.
    """
    from stable_baselines3 import PPO
    from stable_baselines3.common.env_util import make_vec_env

    torch.set_num_threads(1)
    model = PPO(
        "MlpPolicy",  # separate nets, [64, 64] tanh
        make_vec_env("CartPole-v1", n_envs=NUM_ENVS, seed=seed),
        n_steps=NUM_STEPS,
        batch_size=256,
        n_epochs=6,
        learning_rate=1e-3,
        gamma=0.99,
        gae_lambda=0.95,
        clip_range=0.2,
        vf_coef=0.5,
        ent_coef=0.0,
        max_grad_norm=0.5,
        seed=seed,
        device="cpu",
    )
    scores, training, done = [], [], 0
    for count in rollouts:
        model.learn((count - done) * NUM_ENVS * NUM_STEPS, reset_num_timesteps=done == 0)
        done = count
        envs = gym.make_vec("CartPole-v1", num_envs=episodes, vectorization_mode="vector_entry_point")
        scores.append(evaluate(model, envs, stream_seed(seed, Role.EVALUATION)))
        training.append(float(np.mean([r for returns in model.env.env_method("get_episode_rewards") for r in returns])))
    return {"seed": seed, "scores": scores, "training": training}


def evaluate(
    model: Any, envs: Any, env_seed: int, seen: Callable[[Any], Any] = lambda observations: observations
) -> float:
    """Mean return of the deterministic policy, one episode of each environment, as the suite evaluates.

    Args:
        model: SB3's.
        envs: Gymnasium's vector; it is closed.
        env_seed: Of their resets.
        seen: From observations to what the policy was trained on.
    """
    observations, _ = envs.reset(seed=env_seed)
    returns, running = np.zeros(envs.num_envs), np.ones(envs.num_envs, dtype=bool)
    while running.any():
        actions, _ = model.predict(seen(observations).astype(np.float32), deterministic=True)
        observations, rewards, terminated, truncated, _ = envs.step(actions)
        returns[running] += rewards[running]
        running &= ~(terminated | truncated)
    envs.close()
    return float(returns.mean())


def main() -> None:
    """Train every seed, side by side."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--seed", type=int, nargs="+", required=True)
    parser.add_argument("--rollouts", type=int, nargs="+", required=True)
    parser.add_argument("--episodes", type=int, default=40)
    parser.add_argument("--processes", type=int, default=2)
    arguments = parser.parse_args()
    with multiprocessing.get_context("spawn").Pool(arguments.processes) as pool:
        found = pool.starmap(
            train, [(seed, arguments.rollouts, arguments.episodes) for seed in arguments.seed], chunksize=1
        )
    arguments.output.write_text(json.dumps(found))


if __name__ == "__main__":
    main()
