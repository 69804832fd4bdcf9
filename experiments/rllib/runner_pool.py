"""Env runner processes that outlive the algorithm that started them: each takes seconds to start,
and most of a short measurement's time.

For measurements alone. A trial whose results must not depend on what ran before it starts its own.
"""

from collections import defaultdict
from typing import Any

import ray
from ray.rllib.algorithms import algorithm
from ray.rllib.env.env_runner_group import EnvRunnerGroup
from ray.rllib.utils.actor_manager import FaultTolerantActorManager

_idle: defaultdict[str, list[Any]] = defaultdict(list)
"""Idle actors, by the resources that each reserved."""


class PooledEnvRunnerGroup(EnvRunnerGroup):  # type: ignore[misc]  # RLlib ships no type information
    """RLlib's group, whose remote runners are made anew in processes that are there, and are kept when it stops."""

    _worker_manager: Any

    def _setup(self, **kwargs: Any) -> None:
        self._renewals: list[Any] = []
        super()._setup(**kwargs)
        ray.get(self._renewals)  # raises what a runner's constructor raised

    def _make_worker(
        self, *, worker_index: int, num_workers: int, config: Any, spaces: Any = None, **kwargs: Any
    ) -> Any:
        idle = _idle[self._kind]
        if not worker_index or not idle:
            return super()._make_worker(
                worker_index=worker_index, num_workers=num_workers, config=config, spaces=spaces, **kwargs
            )
        actor = idle.pop()
        given = {"config": config, "worker_index": worker_index, "num_workers": num_workers, "spaces": spaces}
        self._renewals.append(actor.renew.remote(**given, tune_trial_id=self._tune_trial_id))
        return actor

    @property
    def _kind(self) -> str:
        return f"{self.env_runner_cls} {sorted((name, repr(value)) for name, value in self._remote_args.items())}"

    def stop(self) -> None:
        """Stop the local runner; leave the others to whoever comes next."""
        _idle[self._kind] += self._worker_manager.actors().values()
        self._worker_manager = FaultTolerantActorManager()
        super().stop()


def use(num_runners: int = 0) -> None:
    """Have the algorithms that this process builds from now on take their remote runners from those of earlier ones.

    Args:
        num_runners: Of the next one: if fewer are there, it starts all of them, so that how long it takes to start says
            what it takes on its own.
    """
    algorithm.EnvRunnerGroup = PooledEnvRunnerGroup
    if sum(map(len, _idle.values())) < num_runners:
        clear()


def leave() -> None:
    """Have them start runners of their own, as RLlib does, and end those that are kept."""
    algorithm.EnvRunnerGroup = EnvRunnerGroup
    clear()


def clear() -> None:
    """End the processes that nobody uses."""
    for actors in _idle.values():
        for actor in actors:
            ray.kill(actor)
    _idle.clear()
