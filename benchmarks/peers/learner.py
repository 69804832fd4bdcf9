"""A learner of Stable-Baselines3, SBX or rlox, in the environment of the peers.

    .venv-peers/bin/python benchmarks/peers/learner.py PEER CASE

It is built and has trained a little when it writes `ready`. Each line of its input is a number of seconds: it trains in
turns for at least so long, and writes the env steps per second. Where it fails it writes the traceback, a string of
JSON. The end of its input is its end. It imports the standard library and the peer alone, since the suite is not in
that environment; threads and core are those that it is started with.
"""

import gc
import json
import os
import sys
import time
import traceback
from collections.abc import Callable, Mapping
from functools import partial
from importlib import import_module
from typing import Any

SB3, SBX, RLOX = "sb3", "sbx", "rlox"
_MODULES = {SB3: "stable_baselines3", SBX: "sbx", RLOX: "rlox.algorithms"}
_ENV_STEPS = 4000
"""Of a batch of PPO's."""
BATCH = {"dqn": 32, "sac": 256}
WARM_UP = 100
"""Env steps before the first update."""
_REPLAY = {"dqn": ("CartPole-v1", 64, 6), "sac": ("Pendulum-v1", 256, 2)}
"""Algorithm to environment, width of its two layers, and turns until all is compiled: SBX's DQN has another function
for its target network, which is called first after 1000 env steps.
"""
_TURN = 200
_EPSILON = 0.05

Turn = Callable[[], int]
"""Trains a little; returns how many env steps that took."""


def ppo(peer: str, env: str, envs: int, width: int, minibatch: int, epochs: int) -> Turn:
    """PPO with a batch of 4000 env steps, and separate nets of two layers with tanh.

    Args:
        peer: `sb3`, `sbx` or `rlox`, whose CartPole is one of its own, in Rust, with two layers of 64.
        env: Gymnasium's name.
        envs: How many.
        width: Of a layer.
        minibatch: Env steps.
        epochs: Over a batch.
    """
    steps = _ENV_STEPS // envs
    settings: dict[str, Any] = {
        "n_steps": steps,
        "batch_size": minibatch,
        "n_epochs": epochs,
        "learning_rate": 3e-4,
        "gae_lambda": 0.95,
        "max_grad_norm": 0.5,
        "seed": 0,
    }
    build = import_module(_MODULES[peer]).PPO
    if peer == RLOX:
        # what the others have by default
        model = build(env, n_envs=envs, ent_coef=0.0, clip_vloss=False, anneal_lr=False, **settings)
        return settled(_turn(model.train, steps * envs))
    from stable_baselines3.common.env_util import make_vec_env

    vector = make_vec_env(env, n_envs=envs, seed=0)
    model = build("MlpPolicy", vector, policy_kwargs={"net_arch": [width, width]}, device="cpu", **settings)
    if peer == SBX:  # else it is compiled in a turn, when for the first time an episode is cut off
        model.vf.apply(model.policy.vf_state.params, vector.reset()[:1])
    return settled(_turn(partial(model.learn, reset_num_timesteps=False), steps * envs))


def replay(peer: str, algorithm: str, prioritised: bool = False) -> Turn:
    """DQN on CartPole or SAC on Pendulum, one environment and one update for each of its steps.

    Args:
        peer: `sb3`, `sbx` or `rlox`.
        algorithm: `dqn` or `sac`.
        prioritised: With rlox's DQN: prioritised, double and dueling; else uniform, and neither double nor dueling.
    """
    env, width, turns = _REPLAY[algorithm]
    settings: dict[str, Any] = {
        "batch_size": BATCH[algorithm],
        "learning_starts": WARM_UP,
        "train_freq": 1,
        "gradient_steps": 1,
        "seed": 0,
    }
    if algorithm == "dqn":
        settings["buffer_size"] = 50_000
    build = getattr(import_module(_MODULES[peer]), algorithm.upper())
    if peer == RLOX:
        if algorithm == "dqn":
            settings.update(dict.fromkeys(("prioritized", "double_dqn", "dueling"), prioritised))
            # each call of `train` would begin to explore anew
            settings.update(exploration_initial_eps=_EPSILON, exploration_final_eps=_EPSILON)
        model = build(env, hidden=width, **settings)
        turn = _turn(model.train, _TURN)
        turn()
        model.learning_starts = 0  # likewise: it counts env steps from the start of a call
        return settled(turn, turns)
    if prioritised:
        raise ValueError(f"{peer} has no prioritised {algorithm}")
    model = build("MlpPolicy", env, policy_kwargs={"net_arch": [width, width]}, device="cpu", **settings)
    return settled(_turn(partial(model.learn, reset_num_timesteps=False), _TURN), turns)


def _turn(train: Callable[[int], Any], env_steps: int) -> Turn:
    def turn() -> int:
        train(env_steps)
        return env_steps

    return turn


def settled(turn: Turn, turns: int = 1) -> Turn:
    """After so many turns, with nothing of them left to the garbage collector, as on every side."""
    for _ in range(turns):
        turn()
    gc.collect()
    gc.freeze()
    return turn


def rate(turn: Turn, at_least_s: float) -> float:
    """Env steps per second of turns that took at least so long."""
    steps, start = 0, time.perf_counter()
    while (took := time.perf_counter() - start) < at_least_s:
        steps += turn()
    return steps / took


_CARTPOLE: Mapping[str, Any] = {"env": "CartPole-v1", "envs": 16, "width": 64}
CASES: Mapping[str, Callable[[str], Turn]] = {
    "ppo-1000x4": partial(ppo, **_CARTPOLE, minibatch=1000, epochs=4),
    "ppo-128x10": partial(ppo, **_CARTPOLE, minibatch=128, epochs=10),
    "dqn": partial(replay, algorithm="dqn"),
    "dqn-prioritised": partial(replay, algorithm="dqn", prioritised=True),
    "sac": partial(replay, algorithm="sac"),
}


def main() -> None:
    """Serve."""
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # peers talk
    try:
        peer, case = sys.argv[1:]
        turn = CASES[case](peer)
        print("ready", file=answers)
        for line in sys.stdin:
            print(json.dumps(rate(turn, float(line))), file=answers)
    except Exception:  # noqa: BLE001  # whoever measures raises it
        print(json.dumps(traceback.format_exc()), file=answers)


if __name__ == "__main__":
    main()
