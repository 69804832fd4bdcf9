"""A grid of PPO trials on CartPole with Stable-Baselines3 in a process pool:
what one writes who needs neither tracking nor checkpoints.

python -m benchmarks.peers.sb3_pool --output FILE --lr 3e-4 1e-3 --batch 512 2000 --seed 0 1 --budget 30000
    [--processes 2] [--evaluate-every ENV_STEPS --episodes 20]

With `--evaluate-every`, SB3's EvalCallback plays so many episodes with the deterministic policy, side by side.
"""

import argparse
import itertools
import json
import multiprocessing
from pathlib import Path

import torch

NUM_ENVS = 16


def train(trial: tuple[float, int, int, int, int, int]) -> tuple[int, int]:
    """Train one (learning rate, batch, seed, budget, env steps between evaluations or 0, episodes of one).

    Returns:
        The env steps, and how often it was evaluated.
    """
    from stable_baselines3 import PPO
    from stable_baselines3.common.callbacks import EvalCallback
    from stable_baselines3.common.env_util import make_vec_env

    lr, batch, seed, budget, every, episodes = trial
    torch.set_num_threads(1)
    model = PPO(
        "MlpPolicy",  # separate nets, [64, 64] tanh
        make_vec_env("CartPole-v1", n_envs=NUM_ENVS, seed=seed),
        n_steps=batch // NUM_ENVS,
        batch_size=256,
        n_epochs=6,
        learning_rate=lr,
        seed=seed,
        device="cpu",
    )
    evaluation = None
    if every:
        envs = make_vec_env("CartPole-v1", n_envs=episodes, seed=1000 + seed)
        evaluation = EvalCallback(envs, n_eval_episodes=episodes, eval_freq=every // NUM_ENVS, verbose=0)
    model.learn(budget, callback=evaluation)
    return int(model.num_timesteps), evaluation.n_calls // evaluation.eval_freq if evaluation else 0


def main() -> None:
    """Run them all."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--lr", type=float, nargs="+", required=True)
    parser.add_argument("--batch", type=int, nargs="+", required=True)
    parser.add_argument("--seed", type=int, nargs="+", required=True)
    parser.add_argument("--budget", type=int, required=True)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--evaluate-every", type=int, default=0, help="env steps; 0: no evaluation")
    parser.add_argument("--episodes", type=int, default=20)
    arguments = parser.parse_args()
    evaluation = [arguments.evaluate_every], [arguments.episodes]
    trials = itertools.product(arguments.lr, arguments.batch, arguments.seed, [arguments.budget], *evaluation)
    with multiprocessing.get_context("spawn").Pool(arguments.processes) as pool:
        done = pool.map(train, trials, chunksize=1)
    arguments.output.write_text(json.dumps(done))


if __name__ == "__main__":
    main()
