"""What normalisation costs training: the same trials with and without it."""

from benchmarks.fast.speed import Case, measured
from benchmarks.support.harness import Report, Table, against, ratio, ratios, spread

TARGET = 1.05
"""Times as long as without it an env step may take."""
_TRIALS = {
    "PPO on CartPole": ("algorithm=ppo", "env=cartpole"),
    "PPO on Pendulum": ("algorithm=ppo", "env=pendulum"),
    "PPO on HalfCheetah": ("algorithm=ppo", "env=halfcheetah"),
    "DQN on Acrobot": ("algorithm=dqn", "env=acrobot"),
    "SAC on Pendulum": ("algorithm=sac", "env=pendulum"),
}
CASES = tuple(Case(name, "preprocessed", {"words": words}, sides=("none",)) for name, words in _TRIALS.items())


def measure(quick: bool) -> Report:
    """Run it."""
    repeats, cases = (1, CASES[:1]) if quick else (5, CASES)
    found = {case.name: measured(case, repeats, quick) for case in cases}
    costs = {name: ratio(sides["none"], sides["fast"]) for name, sides in found.items()}
    dearest = max(costs, key=lambda name: costs[name])
    return Report(
        name="preprocessing_cost",
        title="What normalisation costs",
        compared=(
            "Trials as the suite trains them with the settings that it ships, in one process with one torch thread: "
            "with `preprocessing=normalize`, observations and rewards by running statistics, "
            "and with `preprocessing=none`. Training alone, without evaluations."
        ),
        verdict=f"Target of {TARGET:g} times the time of an env step {against(costs[dearest], TARGET)} ({dearest}).",
        tables=(
            Table(
                "Env steps per second",
                ("", "none", "normalize", "none / normalize"),
                tuple(
                    (
                        name,
                        spread(sides["none"], ",.0f"),
                        spread(sides["fast"], ",.0f"),
                        ratios(sides["none"], sides["fast"]),
                    )
                    for name, sides in found.items()
                ),
                f"Median (minimum-maximum) of {repeats} turns.",
                {"none / normalize": False},
            ),
        ),
    )
