"""Mean and variance of what was sampled: gathered on each env runner, merged in a fixed order. NumPy only."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Moments:
    """Mean and variance of some values, element by element.

    Attributes:
        mean: [...].
        variance: [...], of the values themselves: their squares' sum is divided by `count`.
        count: Number of values.
    """

    mean: Array
    variance: Array
    count: float

    @classmethod
    def of(cls, values: npt.ArrayLike) -> "Moments":
        """The moments of values [count, ...], one or more."""
        array = np.asarray(values, np.float64)
        mean = array.mean(axis=0)
        return cls(mean, np.square(array - mean).mean(axis=0), len(array))

    def merged(self, other: "Moments") -> "Moments":
        """The moments of both together.

        Chan, Golub and LeVeque 1983, as in `gymnasium.wrappers.utils.update_mean_var_count_from_moments`. The order
        matters for the last bits: others are merged into the running ones, one after the other.
        """
        if not self.count:
            return other
        count, delta = self.count + other.count, other.mean - self.mean
        squares = (
            self.variance * self.count
            + other.variance * other.count
            + np.square(delta) * self.count * other.count / count
        )
        return Moments(self.mean + delta * other.count / count, squares / count, count)


@dataclass(frozen=True)
class Sampled:
    """The moments of what an env runner sampled.

    Attributes:
        observations: Observations as the environments gave them, each once; None if there are none.
        returns: Discounted returns, one for each env step; None if there are none.
    """

    observations: Moments | None
    returns: Moments | None


class Gatherer:
    """Gathers what an env runner samples, chunk by chunk of its episodes.

    The discounted return of an env step is R = gamma R + r from the episode's start, as in Stable-Baselines3's
    VecNormalize (Gymnasium's NormalizeReward begins anew one step earlier, with the reward that ends an episode).

    Args:
        gamma: Discount per step.
        observations: Whether moments of observations are wanted.
        rewards: Whether moments of discounted returns are wanted.
        first: Index of the first part of an observation that counts: before it is a mask of actions.

    Attributes:
        episodes: Id of an episode that goes on to its discounted return so far:
            part of the state of a runner's environments.
    """

    def __init__(self, gamma: float, observations: bool, rewards: bool, first: int = 0) -> None:
        self.episodes: dict[str, float] = {}
        self._gamma, self._wants_observations, self._wants_rewards = gamma, observations, rewards
        self._first = first
        self._observations: list[Sequence[Any]] = []
        self._returns: list[float] = []

    def add(self, id_: str, is_first: bool, observations: Sequence[Any], rewards: Sequence[float], ended: bool) -> None:
        """Add consecutive env steps of one episode.

        Args:
            id_: Id of the episode.
            is_first: Whether they are its first: the observation before them counts as well.
            observations: [T + 1, ...]; kept until `take`.
            rewards: [T].
            ended: Whether the episode ends with the last step.
        """
        if self._wants_observations:
            self._observations.append(observations if is_first else observations[1:])
        if self._wants_rewards:
            gamma, before = self._gamma, self.episodes.pop(id_, 0.0)
            returns = list(
                accumulate(map(float, rewards), lambda so_far, reward: gamma * so_far + reward, initial=before)
            )
            self._returns += returns[1:]
            if not ended:
                self.episodes[id_] = returns[-1]

    def take(self) -> Sampled:
        """The moments of what was added since the last call."""
        observations, returns = self._observations, self._returns
        self._observations, self._returns = [], []
        return Sampled(
            Moments.of(np.concatenate(observations)[..., self._first :]) if observations else None,
            Moments.of(returns) if returns else None,
        )


def merge(running: Moments, sampled: Iterable[Moments | None]) -> Moments:
    """Running moments with others merged into them, in the order given."""
    for moments in sampled:
        running = running if moments is None else running.merged(moments)
    return running
