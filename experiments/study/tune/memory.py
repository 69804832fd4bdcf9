"""The memory of the attempts at a study's trials, and the words for those that run out of it."""

from collections.abc import Collection, Mapping

from experiments.config.trial_config import TrialConfig
from experiments.contract.words import mib
from experiments.rllib.algorithms import config_class, replays
from experiments.study.tune.heartbeats import Key, Memory

_TOGETHER_S = 1.5
"""Ray ends several processes at once, and tells of one after the other."""


class MemoryOfAttempts:
    """As their processes told it."""

    def __init__(self) -> None:
        self._of: dict[Key, Memory] = {}
        self._lost: dict[Key, float] = {}  # when

    def update(self, told: Mapping[Key, Memory]) -> None:
        """Take what `Heartbeats` has, which may have been ended and begun anew."""
        self._of.update(told)

    def lost(self, attempt: Key, others: Collection[Key], now: float) -> str:
        """How much an attempt that ran out of memory had, as a clause.

        Args:
            attempt: Which.
            others: The attempts that are under way.
            now: Seconds of a clock.
        """
        together = [key for key, at in self._lost.items() if now - at <= _TOGETHER_S]
        self._lost[attempt] = now
        if attempt not in self._of:  # it had no time to say anything
            return "how much it had is not known"
        host, own = self._of[attempt]
        found = [self._of[key] for key in {*others, *together} if key[0] != attempt[0] and key in self._of]
        beside = sum(size for of_host, size in found if of_host == host)
        return f"it had {mib(own)}, {mib(beside) if beside else 'no other trial'} beside it"


def what_to_write(trial: TrialConfig) -> str:
    """The override that makes a trial smaller, which had the memory of its machine for itself."""
    if not replays(trial.algorithm):
        envs = trial.algorithm["env_runners"]["num_envs_per_env_runner"]
        return (
            f"Fewer environments take less: hardware.num_envs_per_env_runner={envs // 2}"
            if envs > 1
            else "It takes a larger machine"
        )
    configured = trial.algorithm["training"].get("replay_buffer_config", {}).get("capacity")
    capacity = configured or config_class(trial.algorithm)().replay_buffer_config["capacity"]
    return f"A smaller replay buffer takes less: ++algorithm.training.replay_buffer_config.capacity={capacity // 2}"
