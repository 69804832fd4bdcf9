"""Stable-Baselines3's PPO on the environments of `pairs.csv`, at the very settings that the suite ships,
scored as the suite scores.

    python -m benchmarks.learning.sb3 halfcheetah hopper walker2d

For MuJoCo, whose published scores are of older versions of the environments. Trials are kept one by one in
`benchmarks/learning/data/sb3.csv`; needs `pip install -e '.[bench]'`.
"""

import argparse
import multiprocessing
import os
import time
from collections.abc import Mapping
from dataclasses import asdict
from datetime import date
from importlib import metadata
from typing import Any

import gymnasium as gym
import pandas as pd
import torch

from benchmarks.learning.pairs import MEASURED, Pair, keep, measured, pairs, trial_of
from benchmarks.peers.sb3_script import evaluate
from benchmarks.support.harness import say
from experiments.config.schema import EnvSettings
from experiments.rllib.seeding import Role, stream_seed
from experiments.tracking.provenance import host

SEEDS = (0, 1, 2)
BESIDE = MEASURED.with_name("sb3.csv")
"""A row a trial, as what the suite itself was measured by."""
_ACTIVATIONS = {"tanh": torch.nn.Tanh, "relu": torch.nn.ReLU}


def train(job: tuple[Pair, int]) -> dict[str, Any]:
    """Train and score one seed of a pair; a row of `BESIDE`."""
    os.nice(19)
    torch.set_num_threads(1)
    pair, seed = job
    trial = trial_of(pair, seed)
    start = time.perf_counter()
    model, normalised = _learned(trial.algorithm, trial.env, asdict(trial.preprocessing), seed, trial.budget_env_steps)
    train_s = time.perf_counter() - start
    envs = gym.make_vec(
        trial.env.id, num_envs=trial.evaluation.final_episodes, vectorization_mode="sync", **trial.env.env_config
    )
    # frozen: VecNormalize's own steps alone change it
    seen = getattr(normalised, "normalize_obs", lambda observations: observations)
    score = evaluate(model, envs, stream_seed(seed, Role.EVALUATION), seen)
    return {
        "algorithm": pair.algorithm, "env": pair.env, "config_id": trial.config_id, "seed": seed,
        "env_steps": trial.budget_env_steps, "score": round(score, 3), "env_steps_to_target": None,
        "train_s": round(train_s, 1), "date": date.today().isoformat(),
        "commit": f"stable-baselines3 {metadata.version('stable-baselines3')}", "cpu": host()["cpu"],
    }  # fmt: skip


def _learned(
    algorithm: Mapping[str, Any], env: EnvSettings, preprocessing: Mapping[str, Any], seed: int, env_steps: int
) -> Any:
    from stable_baselines3 import PPO
    from stable_baselines3.common.env_util import make_vec_env
    from stable_baselines3.common.vec_env import VecNormalize

    training, networks = algorithm["training"], algorithm["rl_module"]
    num_envs = algorithm["env_runners"]["num_envs_per_env_runner"]
    envs: Any = make_vec_env(env.id, n_envs=num_envs, seed=seed, env_kwargs=env.env_config)
    if preprocessing["normalize_observations"] or preprocessing["normalize_rewards"]:
        envs = VecNormalize(
            envs,
            norm_obs=preprocessing["normalize_observations"],
            norm_reward=preprocessing["normalize_rewards"],
            clip_obs=preprocessing["clip_observations"],
            clip_reward=preprocessing["clip_rewards"],
            gamma=training["gamma"],
        )
    layers = networks["fcnet_hiddens"]
    model = PPO(
        "MlpPolicy",
        envs,
        learning_rate=training["lr"],
        n_steps=training["train_batch_size_per_learner"] // num_envs,
        batch_size=training["minibatch_size"],
        n_epochs=training["num_epochs"],
        gamma=training["gamma"],
        gae_lambda=training["lambda_"],
        clip_range=training["clip_param"],
        ent_coef=training["entropy_coeff"],
        vf_coef=training["vf_loss_coeff"],
        max_grad_norm=training["grad_clip"],
        policy_kwargs={
            "net_arch": {"pi": layers, "vf": layers},
            "activation_fn": _ACTIVATIONS[networks["fcnet_activation"]],
            "log_std_init": training.get("log_std_init", 0.0),
            "ortho_init": networks["fcnet_kernel_initializer"] == "orthogonal_",
        },
        seed=seed,
        device="cpu",
    )
    model.learn(env_steps)
    return model, envs


def main() -> None:
    """Train what is missing, two at a time."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.learning.sb3", description=__doc__)
    parser.add_argument("envs", nargs="+", help="files of conf/env, for PPO")
    arguments = parser.parse_args()
    if unknown := sorted(set(arguments.envs) - {pair.env for pair in pairs() if pair.algorithm == "ppo"}):
        parser.error(f"there is no pair of PPO and {unknown[0]!r} in benchmarks/learning/pairs.csv")
    known = {(row["env"], row["seed"], row["config_id"]) for row in measured(BESIDE).to_dict("records")}
    wanted = [
        (pair, seed)
        for pair in pairs()
        for seed in SEEDS
        if pair.algorithm == "ppo"
        and pair.env in arguments.envs
        and (pair.env, seed, trial_of(pair, seed).config_id) not in known
    ]
    with multiprocessing.get_context("spawn").Pool(2, maxtasksperchild=1) as pool:
        for row in pool.imap_unordered(train, wanted):
            keep(pd.DataFrame([row]), BESIDE)
            say(f"SB3's PPO on {row['env']}: seed {row['seed']}")


if __name__ == "__main__":
    main()
