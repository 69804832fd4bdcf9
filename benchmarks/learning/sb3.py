r"""Stable-Baselines3's PPO, DQN and SAC on pairs of `pairs.csv`, at the very settings that the suite ships,
scored as the suite scores.

    python -m benchmarks.learning.sb3 ppo-halfcheetah ppo-hopper ppo-walker2d dqn-lunarlander
    python -m benchmarks.learning.sb3 sac-halfcheetah budget_env_steps=50000 \
        ++algorithm.training.state_dependent_noise_steps=8

For MuJoCo, whose published scores are of older versions of the environments, and for DQN, whose published scores are
of one run each where seeds differ. Trials are kept one by one in `benchmarks/learning/data/sb3.csv`; needs
`pip install -e '.[bench]'`.
"""

import argparse
import multiprocessing
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from datetime import date
from importlib import metadata
from typing import Any

import gymnasium as gym
import numpy as np
import pandas as pd
import torch

from benchmarks.learning.pairs import MEASURED, Pair, keep, measured, pairs, trial_of
from benchmarks.peers.sb3_script import evaluate
from benchmarks.support.harness import say
from experiments.config.trial_config import TrialConfig
from experiments.rllib.algorithms import defaults_of
from experiments.rllib.seeding import Role, stream_seed
from experiments.rllib.state_dependent_noise import HELD, LOG_STD
from experiments.tracking.provenance import host

SEEDS = {"ppo": range(3), "dqn": range(10), "sac": range(2)}
"""DQN's are many, since they differ more."""
BESIDE = MEASURED.with_name("sb3.csv")
"""A row a trial, as what the suite itself was measured by."""
_ACTIVATIONS = {"tanh": torch.nn.Tanh, "relu": torch.nn.ReLU}


def train(job: tuple[Pair, int, Sequence[str]]) -> dict[str, Any]:
    """Train and score one seed of a pair; a row of `BESIDE`."""
    os.nice(19)
    torch.set_num_threads(1)
    from stable_baselines3.common.env_util import make_vec_env

    pair, seed, overrides = job
    trial = trial_of(pair, seed, overrides)
    start = time.perf_counter()
    envs: Any = make_vec_env(
        trial.env.id,
        n_envs=trial.algorithm["env_runners"]["num_envs_per_env_runner"],
        seed=seed,
        env_kwargs=trial.env.env_config,
    )
    if pair.algorithm == "ppo":
        model, normalised = _ppo(trial, envs, seed)
    else:
        model, normalised = (_dqn if pair.algorithm == "dqn" else _sac)(trial, envs, seed), envs
    model.learn(trial.budget_env_steps)
    train_s = time.perf_counter() - start
    held_out = gym.make_vec(
        trial.env.id, num_envs=trial.evaluation.final_episodes, vectorization_mode="sync", **trial.env.env_config
    )
    # frozen: VecNormalize's own steps alone change it
    seen = getattr(normalised, "normalize_obs", lambda observations: observations)
    score = evaluate(model, held_out, stream_seed(seed, Role.EVALUATION), seen)
    return {
        "algorithm": pair.algorithm, "env": pair.env, "config_id": trial.config_id, "seed": seed,
        "env_steps": trial.budget_env_steps, "score": round(score, 3), "env_steps_to_target": None,
        "train_s": round(train_s, 1), "date": date.today().isoformat(),
        "commit": f"stable-baselines3 {metadata.version('stable-baselines3')}", "cpu": host()["cpu"],
    }  # fmt: skip


def _ppo(trial: TrialConfig, envs: Any, seed: int) -> tuple[Any, Any]:
    from stable_baselines3 import PPO
    from stable_baselines3.common.vec_env import VecNormalize

    training, networks = trial.algorithm["training"], trial.algorithm["rl_module"]
    preprocessing = asdict(trial.preprocessing)
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
        learning_rate=_rate(training["lr"], trial.budget_env_steps),
        n_steps=training["train_batch_size_per_learner"] // envs.num_envs,
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
    return model, envs


def _dqn(trial: TrialConfig, envs: Any, seed: int) -> Any:
    """Plain DQN."""
    from stable_baselines3 import DQN

    training, networks = trial.algorithm["training"], trial.algorithm["rl_module"]
    (_, first), (explored, last) = training["epsilon"]
    return DQN(
        "MlpPolicy",
        envs,
        **_replaying(trial, envs),
        learning_rate=_rate(training["lr"], trial.budget_env_steps),
        target_update_interval=training["target_network_update_freq"],
        exploration_fraction=explored / trial.budget_env_steps,
        exploration_initial_eps=first,
        exploration_final_eps=last,
        max_grad_norm=training.get("grad_clip", defaults_of(trial.algorithm).grad_clip),
        policy_kwargs={
            "net_arch": networks["fcnet_hiddens"],
            "activation_fn": _ACTIVATIONS[networks["fcnet_activation"]],
        },
        seed=seed,
        device="cpu",
    )


def _sac(trial: TrialConfig, envs: Any, seed: int) -> Any:
    """SAC with a temperature that is learned, by white noise or gSDE, of which Stable-Baselines3 draws a new function
    at each rollout: rollouts are as long as it is held.
    """
    from stable_baselines3 import SAC

    training, networks = trial.algorithm["training"], trial.algorithm["rl_module"]
    return SAC(
        "MlpPolicy",
        envs,
        **_replaying(trial, envs, training.get(HELD)),
        learning_rate=training["actor_lr"],
        tau=training.get("tau", defaults_of(trial.algorithm).tau),
        use_sde=bool(training.get(HELD)),
        sde_sample_freq=training.get(HELD) or -1,
        policy_kwargs={
            "net_arch": networks["fcnet_hiddens"],
            "activation_fn": _ACTIVATIONS[networks["fcnet_activation"]],
            "log_std_init": training.get(LOG_STD, -3.0),
        },
        seed=seed,
        device="cpu",
    )


def _replaying(trial: TrialConfig, envs: Any, fragment: int | None = None) -> dict[str, Any]:
    """What DQN and SAC share; unless told otherwise, with as many updates at once after as many env steps as the
    suite's.
    """
    training, defaults = trial.algorithm["training"], defaults_of(trial.algorithm)
    own = trial.algorithm["env_runners"].get("rollout_fragment_length", defaults.rollout_fragment_length)
    fragment = fragment or (1 if own == "auto" else own)
    per_env_step = training["training_intensity"] / training["train_batch_size_per_learner"]
    return {
        "buffer_size": training["replay_buffer_config"]["capacity"],
        "learning_starts": training["num_steps_sampled_before_learning_starts"],
        "batch_size": training["train_batch_size_per_learner"],
        "gamma": training["gamma"],
        "train_freq": fragment,
        "gradient_steps": round(fragment * envs.num_envs * per_env_step),
    }


def _rate(rate: float | Sequence[Sequence[float]], env_steps: int) -> float | Callable[[float], float]:
    """A learning rate as Stable-Baselines3 takes it: of a schedule a function of the share that is left."""
    if isinstance(rate, int | float):
        return rate
    at, rates = zip(*rate, strict=True)
    return lambda left: float(np.interp((1 - left) * env_steps, at, rates))


def main() -> None:
    """Train what is missing, two at a time."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.learning.sb3", description=__doc__)
    parser.add_argument("words", nargs="+", help="pairs of benchmarks/learning/pairs.csv, and settings of all of them")
    words = parser.parse_args().words
    names, overrides = [w for w in words if "=" not in w], [w for w in words if "=" in w]
    of_name = {f"{pair.algorithm}-{pair.env}": pair for pair in pairs() if pair.algorithm in SEEDS}
    if unknown := sorted({*names} - {*of_name}):
        parser.error(f"there is no pair {unknown[0]!r} of PPO, DQN or SAC in benchmarks/learning/pairs.csv")
    for name in names:
        training = trial_of(of_name[name], 0, overrides).algorithm["training"]
        if name.startswith("sac-") and len({training[rate] for rate in ("actor_lr", "critic_lr", "alpha_lr")}) > 1:
            parser.error(f"{name}: Stable-Baselines3's SAC has one learning rate")
        if name.startswith("dqn-") and (training["n_step"] != 1 or training["double_q"] or training["dueling"]):
            parser.error(
                f"{name}: Stable-Baselines3's DQN has no returns of several env steps, double Q or dueling heads"
            )
    known = {(row["config_id"], row["seed"]) for row in measured(BESIDE).to_dict("records")}
    wanted = [
        (pair, seed, overrides)
        for pair in (of_name[name] for name in names)
        for seed in SEEDS[pair.algorithm]
        if (trial_of(pair, seed, overrides).config_id, seed) not in known
    ]
    with multiprocessing.get_context("spawn").Pool(2, maxtasksperchild=1) as pool:
        for row in pool.imap_unordered(train, wanted):
            keep(pd.DataFrame([row]), BESIDE, ("algorithm", "env", "config_id", "seed"))
            say(f"SB3's {row['algorithm']} on {row['env']}: seed {row['seed']}")


if __name__ == "__main__":
    main()
