"""IMPALA and APPO that learn from older samples than they have to: artificial staleness, as PPO-EWMA's (`ppo_ewma.py`).

How old samples are is up to the machine and the number of runners. To see what that costs, each training batch can wait
here behind others. RLlib's `broadcast_interval` makes samples older too, but changes more than that: for so many
updates all samples come from one policy, so that they are of every age; and the learner, which waits for its updates as
seldom (`BATCHES_PER_AGGREGATION` in algorithms/impala/impala_learner.py, RLlib 2.60), is sent more than it learns from:
APPO's drops batches that it has not used as often as it should (algorithms/appo/utils.py).
"""

from collections import deque
from typing import Any, Self

from ray.rllib.algorithms import appo, impala
from ray.rllib.utils.from_config import NotProvided


class WaitingConfig:
    """A configuration of one of the algorithms below: to be mixed into RLlib's.

    Attributes:
        staleness: Training batches that are sampled after one before it is learned from.
    """

    def __init__(self, algo_class: Any = None) -> None:
        super().__init__(algo_class=algo_class)  # type: ignore[call-arg]  # RLlib's takes it
        self.staleness = 0

    def training(self, *, staleness: int = NotProvided, **kwargs: Any) -> Self:
        """As RLlib's, with the setting above."""
        super().training(**kwargs)  # type: ignore[misc]
        if staleness is not NotProvided:
            self.staleness = staleness
        return self


class _Waiting:
    """An algorithm of RLlib's whose training batches wait for `staleness` others.

    Those that wait are no part of a checkpoint, as all else that is on its way to an asynchronous learner.
    """

    config: Any

    def setup(self, config: Any) -> None:
        """As RLlib's."""
        self._late: deque[list[Any]] = deque()
        super().setup(config)  # type: ignore[misc]

    def _pre_queue_episode_refs(self, episode_refs: list[Any], package_size: int) -> list[list[Any]]:
        """As RLlib's: the samples of the next batches, in order."""
        self._late.extend(super()._pre_queue_episode_refs(episode_refs, package_size))  # type: ignore[misc]
        return [self._late.popleft() for _ in range(len(self._late) - self.config.staleness)]


# RLlib ships no type information
class WaitingIMPALA(_Waiting, impala.IMPALA):  # type: ignore[misc]
    """IMPALA."""


class WaitingAPPO(_Waiting, appo.APPO):  # type: ignore[misc]
    """APPO."""
