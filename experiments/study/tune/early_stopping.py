"""Tune's schedulers that stop trials early, on env steps, for searching trials alone."""

import math
from dataclasses import dataclass

from ray.tune.schedulers import AsyncHyperBandScheduler, MedianStoppingRule, TrialScheduler

from experiments.config.search_settings import Asha, Median
from experiments.config.trial_config import TrialConfig
from experiments.contract import FINISHED, RETURN, SEARCH
from experiments.trial.events import Ended, Event, Reported

ENV_STEPS = "env_steps"
"""The unit of a rule's time."""


def rule_of(settings: Asha | Median, budget_env_steps: int) -> TrialScheduler:
    """Tune's scheduler for a budget.

    Env steps are the points of the report grid, the same for all trials, whatever their batch.

    Args:
        settings: The scheduler's settings in the study.
        budget_env_steps: Of a trial.
    """
    common = {"time_attr": ENV_STEPS, "metric": RETURN, "mode": "max"}
    if isinstance(settings, Asha):
        grace = settings.grace_env_steps or max(1, budget_env_steps // 16)
        return AsyncHyperBandScheduler(
            **common, max_t=budget_env_steps, grace_period=grace, reduction_factor=settings.reduction_factor, brackets=1
        )
    grace = settings.grace_env_steps or max(1, budget_env_steps // 4)
    # A trial without enough others to be compared with goes on; it does not wait for them.
    return MedianStoppingRule(
        **common, grace_period=grace, min_samples_required=settings.min_trials, min_time_slice=math.inf, hard_stop=True
    )


@dataclass(frozen=True)
class _Known:
    """A trial as a rule knows it: by its folder, which a resume finds again,
    where Tune's own id is another one each time.
    """

    trial_id: str


class EarlyStopping:
    """A rule of Tune's for the trials that search; those that confirm have their whole budget.

    Tune does not keep a rule's state: it is brought back by the reports that the trials made before, in their order.
    """

    def __init__(self, rule: TrialScheduler) -> None:
        """Apply a rule.

        Args:
            rule: Tune's scheduler, which decides on env steps.
        """
        self._rule = rule
        # trial to the last env steps that it reported, and the return there
        self._heard: dict[str, tuple[int, float]] = {}
        self._stopped: set[str] = set()

    def on_event(self, trial: TrialConfig, event: Event) -> None:
        """Let the rule decide on a report."""
        name = trial.folder_name
        if isinstance(event, Ended):  # whatever the rule says of its last report
            self._stopped.discard(name)
            if event.status == FINISHED and name in self._heard:
                self._carry_on(trial, *self._heard[name])
        if not isinstance(event, Reported) or trial.phase != SEARCH or RETURN not in event.metrics:
            return
        if self.on_report(name, event.env_steps, event.metrics[RETURN]):
            self._stopped.add(name)

    def _carry_on(self, trial: TrialConfig, env_steps: int, return_mean: float) -> None:
        """Compare others with the last return of a trial that stopped at its target:
        else it is missing where they come later.
        """
        every = trial.report_every_env_steps
        for later in range(env_steps + every, trial.budget_env_steps + 1, every):
            self.on_report(trial.folder_name, later, return_mean)

    def on_report(self, name: str, env_steps: int, return_mean: float) -> bool:
        """True if the rule stops a trial at a report; what it has heard before changes nothing.

        Args:
            name: Of the trial.
            env_steps: On the report grid.
            return_mean: Of the evaluation.
        """
        if env_steps <= self._heard.get(name, (0, 0.0))[0]:
            return False
        known = _Known(name)
        if name not in self._heard:
            self._rule.on_trial_add(None, known)
        self._heard[name] = env_steps, return_mean
        return bool(
            self._rule.on_trial_result(None, known, {ENV_STEPS: env_steps, RETURN: return_mean}) == TrialScheduler.STOP
        )

    def stops(self, trial: TrialConfig) -> bool:
        """True for a trial that the rule has stopped."""
        return trial.folder_name in self._stopped
