"""How a study's trials ended, as the driver knows it without asking MLflow."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from experiments.config.trial_config import TrialConfig
from experiments.contract import FIXED
from experiments.trial.events import Ended, Event, Reported, Restarted, Reused

INTERRUPTED = "interrupted"
"""The status of a trial that has not ended."""


@dataclass(frozen=True)
class TrialOutcome:
    """How one trial ended.

    Attributes:
        label: Its configuration.
        seed: Its seed.
        status: `finished`, `pruned` (by an early-stopping rule, before its budget was used), `failed` or `interrupted`.
        final: Its `final/` metrics, if it finished.
        failure: Why it failed.
        repeat: Which run of the same configuration and seed it is.
        weights: Digest of its final weights, if it finished.
        restarts: How often it was taken up again.
        reproducible: Whether it would come out the same to the bit, as far as it can tell; None if it never said.
        phase: Its `TrialConfig.phase`.
        exploratory: Whether other trials confirm what it found.
        env_steps: Of its last report.
        diverged: Whether it failed on a value that was not finite.
        reused_from: Run of another study's trial that it was taken from; "" if it ran here.
    """

    label: str
    seed: int
    status: str
    final: Mapping[str, float] = field(default_factory=dict)
    failure: str = ""
    repeat: int = 0
    weights: str = ""
    restarts: int = 0
    reproducible: bool | None = None
    phase: str = FIXED
    exploratory: bool = False
    env_steps: int = 0
    diverged: bool = False
    reused_from: str = ""


class Outcomes:
    """How each trial of a study ended, over all its executions."""

    def __init__(self) -> None:
        self._of: dict[str, TrialOutcome] = {}
        self._ended: set[str] = set()

    @property
    def num_ended(self) -> int:
        """Trials that have ended."""
        return len(self._ended)

    def on_event(self, trial: TrialConfig, event: Event) -> None:
        """Keep what the trial came to so far."""
        known = self.of(trial)
        if isinstance(event, Reused):
            known = replace(known, reused_from=event.run)
        if isinstance(event, Restarted):
            known = replace(known, restarts=event.count)
        if isinstance(event, Reported | Restarted | Ended):
            known = replace(known, reproducible=event.reproducible, env_steps=event.env_steps)
        if isinstance(event, Ended):
            self._ended.add(trial.folder_name)
            known = replace(known, status=event.status, final=event.metrics, weights=event.weights)
            known = replace(known, failure=event.reason, diverged=event.diverged)
        self._of[trial.folder_name] = known

    def of(self, trial: TrialConfig) -> TrialOutcome:
        """How a trial ended; interrupted, if nothing was heard of its end."""
        new = TrialOutcome(
            trial.label, trial.seed, INTERRUPTED, repeat=trial.repeat, phase=trial.phase, exploratory=trial.exploratory
        )
        return self._of.get(trial.folder_name, new)
