"""RLlib's own parts against those of `experiments/fast`, and against Stable-Baselines3, side by side."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from benchmarks.fast import turns
from benchmarks.fast.sides import ENVIRONMENT, Side
from benchmarks.support.harness import Report, Table, ratio, ratios, spread
from experiments.limits.arithmetic import Arithmetic

OF_ONE_THREAD = Arithmetic(1).variables

_POOLED_COLUMNS = "", "Gymnasium, env steps/s", "EnvPool, env steps/s", "EnvPool / Gymnasium"
_POOLED_NOTE = (
    "Sampling alone with the fast runner and `env.backend=envpool`, one thread. Gymnasium's CartPole is its vector "
    "entry point, the others its `sync`. Median (minimum-maximum) of 3 turns."
)


@dataclass(frozen=True)
class Case:
    """Something that is done by several sides.

    Attributes:
        name: As the table has it.
        function: Of `benchmarks/fast/sides.py`.
        settings: Its arguments.
        targets: Side to how many times as fast the fast one has to be.
        sides: Beside the fast one.
        turn_s: How long a turn takes at least.
    """

    name: str
    function: str
    settings: Mapping[str, Any]
    targets: Mapping[str, float] = field(default_factory=dict)
    sides: tuple[str, ...] = ("stock",)
    turn_s: float = 3.0


_CARTPOLE: dict[str, Any] = {"env": "CartPole-v1", "envs": 16, "width": 64}
_SAMPLING = "stock", ENVIRONMENT
_LARGE, _SMALL = {"minibatch": 1000, "epochs": 4}, {"minibatch": 128, "epochs": 10}

_UNIFORM = {"type": "EpisodeReplayBuffer", "capacity": 50_000}
_PLAIN_DQN = {"double_q": False, "dueling": False, "replay_buffer_config": _UNIFORM}

MAIN = (
    Case("sampling alone", "sampling", _CARTPOLE, {"stock": 7.0}, _SAMPLING),
    Case(
        "PPO, minibatches of 1000 x 4 epochs",
        "ppo",
        {**_CARTPOLE, **_LARGE},
        {"stock": 3.5, "sb3": 2.2},
        ("stock", "sb3"),
    ),
    Case(
        "PPO, minibatches of 128 x 10 epochs",
        "ppo",
        {**_CARTPOLE, **_SMALL},
        {"stock": 3.2, "sb3": 3.5},
        ("stock", "sb3"),
    ),
    Case("DQN, prioritised", "replay", {"algorithm": "dqn"}, {"stock": 4.0, "sb3": 1.25}, ("stock", "sb3")),
    Case(
        "SAC, critics of SB3's shape", "replay", {"algorithm": "sac", "critics": "sb3"}, {"sb3": 1.3}, ("stock", "sb3")
    ),
    Case("SAC, default networks", "replay", {"algorithm": "sac"}, {"stock": 1.5}, ("stock", "sb3")),
    Case("APPO, 4 envs x 50", "asynchronous", {"algorithm": "appo", "envs": 4, "fragment": 50}, {"stock": 2.5}),
    Case("IMPALA, 4 envs x 50", "asynchronous", {"algorithm": "impala", "envs": 4, "fragment": 50}, {"stock": 2.5}),
    Case("APPO, 32 envs x 64", "asynchronous", {"algorithm": "appo", "envs": 32, "fragment": 64}, {"stock": 1.5}),
    Case("IMPALA, 32 envs x 64", "asynchronous", {"algorithm": "impala", "envs": 32, "fragment": 64}, {"stock": 1.5}),
)
OTHERS = (
    *(
        Case(f"{algorithm.upper()}, 4 runners, steps wait 1 ms", "slow", {"algorithm": algorithm, "runners": 4})
        for algorithm in ("appo", "impala")
    ),
    *(
        Case(f"PPO on {env}, 1000 x 4", "ppo", {**_CARTPOLE, "env": env, **_LARGE})
        for env in ("Acrobot-v1", "Pendulum-v1")
    ),
    Case(
        "PPO on MountainCarContinuous-v0, 1000 x 4", "ppo", {**_CARTPOLE, "env": "MountainCarContinuous-v0", **_LARGE}
    ),
    *(
        Case(f"sampling, {envs} envs", "sampling", {**_CARTPOLE, "envs": envs}, sides=_SAMPLING)
        for envs in (1, 4, 64, 256)
    ),
    *(Case(f"PPO, {envs} envs, 1000 x 4", "ppo", {**_CARTPOLE, "envs": envs, **_LARGE}) for envs in (1, 4, 64, 256)),
    Case("PPO, 256 wide, 1000 x 4", "ppo", {**_CARTPOLE, "width": 256, **_LARGE}),
    Case(
        "DQN as SB3 has it: uniform, neither double nor dueling",
        "replay",
        {"algorithm": "dqn", **_PLAIN_DQN},
        sides=("stock", "sb3"),
    ),
    Case(
        "SAC, critics of SB3's shape, uniform as SB3 has it",
        "replay",
        {"algorithm": "sac", "critics": "sb3", "replay_buffer_config": _UNIFORM},
        sides=("stock", "sb3"),
    ),
)
POOLED = tuple(
    Case(f"{env}, 16 envs", "pooled", {"env": env, "envs": 16}, sides=("gymnasium",))
    for env in ("CartPole-v1", "Acrobot-v1", "Pendulum-v1", "LunarLander-v3", "Hopper-v5")
)


def measure(quick: bool) -> Report:
    """Run it."""
    repeats, cases = (1, MAIN[:1]) if quick else (5, MAIN)
    rows: list[tuple[str, ...]] = []
    missed: list[str] = []
    for case in cases:
        found = measured(case, repeats, quick)
        rows += _rows(case, found)
        for side, target in case.targets.items():
            if (reached := ratio(found["fast"], found[side])) < target:
                missed.append(f"{case.name} against {side}: {reached:.2f} of {target:.1f}")
    others = [row[:-1] for case in (() if quick else OTHERS) for row in _rows(case, measured(case, 3, quick))]
    pooled = [
        (row[0], *row[2:-1]) for case in (() if quick else POOLED) for row in _rows(case, measured(case, 3, quick))
    ]
    columns = ("", "against", "env steps/s", "fast, env steps/s", "fast / it", "target")
    better = {"fast / it": True, _POOLED_COLUMNS[-1]: True}
    targets = sum(len(case.targets) for case in cases)
    return Report(
        name="fast",
        title="RLlib, fast",
        compared=(
            "*Fast*: RLlib with `experiments/fast`. *Stock*: the same configuration without. *SB3*: Stable-Baselines3 "
            "with the same hyperparameters and nets. *Environment*: its own steps alone, with drawn actions: what fast "
            "reaches of it is the share that they have of sampling. PPO: CartPole-v1 with 16 environments, separate "
            "nets of [64, 64] tanh, batches of 4000 env steps, one process, one torch thread. DQN (CartPole-v1, "
            "[64, 64] ReLU) and SAC (Pendulum-v1): one environment, an update of 32 and 256 transitions for each "
            "of its steps. SB3's DQN is uniform, and neither double nor dueling; the critics of its SAC have a "
            "tenth of the weights of RLlib's default ones. APPO and IMPALA: one runner process if nothing else is "
            "said. The sides take turns of some seconds, each in a warm process of its own."
        ),
        verdict=f"{targets - len(missed)} of {targets} targets met"
        + (f"; missed: {'; '.join(missed)}." if missed else "."),
        tables=(
            Table("Against the targets", columns, tuple(rows), f"Median (minimum-maximum) of {repeats} turns.", better),
            *(
                [Table("Elsewhere", columns[:-1], tuple(others), "Median (minimum-maximum) of 3 turns.", better)]
                if others
                else []
            ),
            *([Table("EnvPool", _POOLED_COLUMNS, tuple(pooled), _POOLED_NOTE, better)] if pooled else []),
        ),
        packages=("stable-baselines3", "envpool"),
    )


def _rows(case: Case, found: Mapping[str, list[float]]) -> list[tuple[str, ...]]:
    fast = found["fast"]
    return [
        (
            case.name,
            side,
            spread(found[side], ",.0f"),
            spread(fast, ",.0f"),
            ratios(fast, found[side]),
            f"{case.targets[side]:.1f}" if side in case.targets else "",
        )
        for side in case.sides
    ]


def measured(case: Case, repeats: int, quick: bool) -> dict[str, list[float]]:
    """Env steps per second of each side, turn by turn."""
    sides = {side: (side, OF_ONE_THREAD) for side in (*case.sides, "fast")}
    return turn_by_turn(case, sides, repeats, 0.1 if quick else case.turn_s)


def turn_by_turn(
    case: Case, sides: Mapping[str, tuple[str, Mapping[str, str]]], repeats: int, turn_s: float
) -> dict[str, list[float]]:
    """What each side does a second, turn by turn, in a warm process of its own.

    Args:
        case: What they do.
        sides: Name to the side, and to variables that its process is started with.
        repeats: Turns of each.
        turn_s: How long a turn takes at least.
    """
    starts = {
        name: partial(Side, f"{case.name}, {name}", case.function, side, case.settings, variables)
        for name, (side, variables) in sides.items()
    }
    return turns.turn_by_turn(starts, repeats, turn_s)
