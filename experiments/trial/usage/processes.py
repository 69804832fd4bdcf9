"""The processes of a trial beside its own, runners and learners: asked, measured, ended."""

from collections.abc import Callable
from functools import partial
from itertools import chain
from typing import Any

import psutil
import ray

from experiments.rllib.process_state import ProcessState
from experiments.trial.usage import resource_usage
from experiments.trial.usage.machine import Machine, this_machine
from experiments.trial.usage.resource_usage import Address, ProcessMonitor, processes_at, this_process


class Processes:
    """The processes of an algorithm of RLlib's, whose own is this one."""

    def __init__(self, algorithm: Any) -> None:
        """Take an algorithm.

        Args:
            algorithm: RLlib's `Algorithm`, built.
        """
        self._algorithm = algorithm

    def measured(self, driver: Address | None) -> ProcessMonitor:
        """A monitor of all of them.

        Args:
            driver: Host and process of the study's driver; None if it is not to be told from others.
        """
        roles, elsewhere = {resource_usage.DRIVER: [this_process()]}, {}
        for role, actors in self._actors().items():
            if actors:
                roles[role] = _asked(actors, _address)
                elsewhere[role] = [
                    a for a, (host, _) in zip(actors, roles[role], strict=True) if host != this_process()[0]
                ]
        return ProcessMonitor(roles, driver, elsewhere)

    def here(self) -> list[psutil.Process]:
        """Those on this host, this one among them."""
        return processes_at([this_process(), *_asked(self._others(), _address)])

    def machines(self) -> tuple[Machine, ...]:
        """The machine of each, of this one first."""
        return (this_machine(), *_asked(self._others(), _machine))

    def note_state(self, packages: frozenset[str]) -> None:
        """Let each of the others note what code keeps in it.

        Args:
            packages: As `ProcessState` takes them.
        """
        _asked(self._others(), partial(_note_state, packages=packages))

    def changed_state(self) -> list[str]:
        """Names of what code has changed in the others since then."""
        return list(chain.from_iterable(_asked(self._others(), _changed_state)))

    def kill(self) -> None:
        """End the others by force."""
        for actor in self._others():
            ray.kill(actor)

    def _others(self) -> list[Any]:
        return [actor for of_role in reversed(self._actors().values()) for actor in of_role]

    def _actors(self) -> dict[str, list[Any]]:
        """Handles, by what they do."""
        runners, learners = self._algorithm.env_runner_group, self._algorithm.learner_group
        return {
            resource_usage.RUNNERS: list(runners._worker_manager.actors().values()),
            resource_usage.LEARNERS: list(learners._worker_manager.actors().values()) if learners.is_remote else [],
        }


def _asked(actors: list[Any], question: Callable[[Any], Any]) -> list[Any]:
    """The answers of actors."""
    return list(ray.get([actor.apply.remote(question) for actor in actors])) if actors else []


def _address(actor: Any) -> Address:
    return this_process()


def _machine(actor: Any) -> Machine:
    return this_machine()


def _note_state(actor: Any, packages: frozenset[str]) -> None:
    actor.process_state = ProcessState(packages)


def _changed_state(actor: Any) -> list[str]:
    changed: list[str] = actor.process_state.changed()
    return changed
