"""Which of two settings is faster: measured in turns, so that what changes on the machine meets both alike. Pure.

Rounds are compared on a logarithmic scale: a round in which everything is slower by a tenth says as much as any other.

No race of trials (`racing.py`), though both stop losers early: a trial starts processes and warms up for seconds, and
has one speed; here two settings are kept ready and measured in turns of half a second, so that a machine whose speed
drifts cannot decide between them, and a loser costs three turns.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from analysis.stats.distributions import t_quantile

CONFIDENCE = 0.95
"""Of the interval that decides a contest; all its looks share the rest."""
FEWEST_ROUNDS = 3
"""Before a contest is decided: the spread of two says little of that of others."""
MOST_LOOKS = 8
"""At a contest: each costs the others some of the error that they share."""


@dataclass(frozen=True)
class Ratio:
    """How many times as fast the challenger is.

    Attributes:
        estimate: Geometric mean over rounds.
        low: Lower end of the interval.
        high: Upper end.
        num_rounds: Rounds that it rests on.
    """

    estimate: float
    low: float
    high: float
    num_rounds: int

    def __str__(self) -> str:
        return f"{self.estimate:.2f} x [{self.low:.2f}, {self.high:.2f}]"


def ratio(logs: Sequence[float], confidence: float = CONFIDENCE) -> Ratio:
    """The ratio of speeds and its Student t interval.

    Args:
        logs: Logarithm of each round's ratio; one at least.
        confidence: Confidence of the interval.
    """
    n, mean = len(logs), float(np.mean(logs))
    if n < 2:
        return Ratio(math.exp(mean), 0.0, math.inf, n)
    half = float(t_quantile((1 + confidence) / 2, n - 1) * np.std(logs, ddof=1) / math.sqrt(n))
    return Ratio(math.exp(mean), math.exp(mean - half), math.exp(mean + half), n)


def rounds(
    holder: Callable[[], float],
    challenger: Callable[[], float],
    most: int,
    go_on: Callable[[], bool],
    enough: Callable[[list[float]], bool],
) -> list[float]:
    """Measure two settings in turns.

    Args:
        holder: Measures the holder once: its speed.
        challenger: Measures the challenger once: its speed.
        most: Rounds, `FEWEST_ROUNDS` at least.
        go_on: Whether there is time for another, of those beyond the fewest.
        enough: Takes the rounds so far, and says whether they are enough.

    Returns:
        Of each round, the logarithm of the ratio of challenger to holder.
    """
    logs: list[float] = []
    while len(logs) < FEWEST_ROUNDS or (len(logs) < most and go_on() and not enough(logs)):
        # The order changes from round to round: whoever comes second finds the machine as the first left it.
        if len(logs) % 2:
            base, speed = holder(), challenger()
        else:
            speed, base = challenger(), holder()
        logs.append(math.log(speed / base))
    return logs


def contest(
    holder: Callable[[], float],
    challenger: Callable[[], float],
    most_rounds: int,
    go_on: Callable[[], bool] = lambda: True,
) -> Ratio:
    """Measure two settings in turns until one is the faster, or the rounds or the time are over.

    There are `MOST_LOOKS` looks at the data, evenly spaced, or one after every round of a short contest. They
    share an error of 5% (Bonferroni), so that a setting that is no faster wins in at most 2.5% of contests,
    however early they end.

    Args:
        holder: Measures the holder once: its speed.
        challenger: Measures the challenger once: its speed.
        most_rounds: `FEWEST_ROUNDS` at least.
        go_on: Whether there is time for another round.

    Returns:
        Of challenger to holder, with the interval of a single look: the challenger is faster if it lies above 1.
    """
    every = -(-most_rounds // MOST_LOOKS)
    looks = [n for n in range(FEWEST_ROUNDS, most_rounds + 1) if n % every == 0]
    confidence = 1 - (1 - CONFIDENCE) / max(1, len(looks))

    def is_decided(logs: list[float]) -> bool:
        found = ratio(logs, confidence)
        return len(logs) in looks and (found.low > 1 or found.high < 1)

    return ratio(rounds(holder, challenger, most_rounds, go_on, is_decided), confidence)


@dataclass(frozen=True)
class Setting:
    """The settings that are tuned.

    Attributes:
        num_env_runners: 0 samples in the trial's own process.
        num_envs_per_env_runner: Environments of each.
        vectorize_mode: How they are vectorised.
    """

    num_env_runners: int
    num_envs_per_env_runner: int
    vectorize_mode: str

    @property
    def total_envs(self) -> int:
        """Environments side by side."""
        return max(1, self.num_env_runners) * self.num_envs_per_env_runner

    def __str__(self) -> str:
        return f"runners={self.num_env_runners} envs={self.num_envs_per_env_runner} {self.vectorize_mode}"


@dataclass(frozen=True)
class Bounds:
    """The settings that may be tried.

    Attributes:
        least_runners: 1 for algorithms that cannot do without, else 0.
        most_runners: Most runners that the machine or cluster holds.
        most_envs: Environments in all: more of them have shorter fragments of a batch each.
        modes: Ways to vectorise that the environment has.
    """

    least_runners: int
    most_runners: int
    most_envs: int
    modes: tuple[str, ...]

    def __contains__(self, setting: Setting) -> bool:
        runners = self.least_runners <= setting.num_env_runners <= self.most_runners
        return (
            runners
            and setting.num_envs_per_env_runner >= 1
            and setting.total_envs <= self.most_envs
            and setting.vectorize_mode in self.modes
        )


def neighbours(setting: Setting, bounds: Bounds) -> list[Setting]:
    """The settings that differ in one step of one thing: the likeliest gains first.

    Args:
        setting: The setting to start from.
        bounds: The settings that may be tried.
    """
    runners, envs, mode = setting.num_env_runners, setting.num_envs_per_env_runner, setting.vectorize_mode
    more, fewer = max(1, 2 * runners), runners // 2
    steps = [
        *(Setting(runners, envs, other) for other in bounds.modes if other != mode and (envs > 1 or other == "sync")),
        Setting(runners, 4 * envs, mode),
        Setting(runners, 2 * envs, mode),
        Setting(more, envs, mode),
        Setting(more, max(1, envs * max(1, runners) // more), mode),  # as many environments in all
        Setting(fewer, envs, mode),
        Setting(fewer, envs * max(1, runners) // max(1, fewer), mode),
        Setting(runners, envs // 2, mode),
        Setting(bounds.most_runners, envs, mode),
    ]
    return [step for step in dict.fromkeys(steps) if step in bounds and step != setting]
