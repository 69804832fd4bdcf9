"""Tune's schedulers that stop trials early, on env steps, for searching trials alone."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ray.tune.schedulers import AsyncHyperBandScheduler, MedianStoppingRule, TrialScheduler

from experiments.config.search_settings import Asha, Median
from experiments.config.trial_config import TrialConfig
from experiments.search.strategy import SEARCH
from experiments.study.driver_callback import STOPPED_EARLY, config_of
from experiments.study.process_reuse import ReuseUnlessWorn
from experiments.trial.folder import Report
from experiments.trial.trainable import FAILURE, STEP

RETURN = "eval/return_mean"
"""What trials are compared by."""


def rule_of(settings: Asha | Median, budget_env_steps: int) -> TrialScheduler:
    """Tune's scheduler for a budget.

    Env steps are the points of the report grid, the same for all trials, whatever their batch.

    Args:
        settings: The study's.
        budget_env_steps: Of a trial.
    """
    common = {"time_attr": STEP, "metric": RETURN, "mode": "max"}
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
    """A trial as a rule knows it: by its folder, which a resume finds again, where Tune's own id is another one each time."""

    trial_id: str


class EarlyStopping(ReuseUnlessWorn):
    """A rule of Tune's for the trials that search; those that confirm have their whole budget.

    Tune does not keep a rule's state. It is brought back by the reports that the trials made before, in their order.
    """

    def __init__(self, rule: TrialScheduler, earlier: Iterable[tuple[TrialConfig, Report]] = ()) -> None:
        """Apply a rule.

        Args:
            rule: Tune's.
            earlier: Reports of earlier executions of the study, in the order in which they were made.
        """
        super().__init__()
        self._rule = rule
        self._seen: dict[str, int] = {}  # trial to the last env steps that it reported
        for config, report in earlier:
            if config.phase == SEARCH:
                self.look(config.folder_name, report.env_steps, report.metrics)

    def on_trial_result(self, tune_controller: Any, trial: Any, result: dict[str, Any]) -> str:
        """Whether the trial goes on."""
        config = config_of(trial)
        if config.phase != SEARCH or FAILURE in result:
            return str(TrialScheduler.CONTINUE)
        decision = self.look(config.folder_name, int(result[STEP]), result)
        if decision == TrialScheduler.STOP and not result["done"]:
            setattr(trial, STOPPED_EARLY, True)
        return decision

    def look(self, name: str, env_steps: int, metrics: Mapping[str, Any]) -> str:
        """The rule's decision about a report: one of `TrialScheduler`'s.

        Args:
            name: Of the trial.
            env_steps: On the report grid.
            metrics: Of the report.
        """
        if RETURN not in metrics or env_steps <= self._seen.get(name, 0):  # no evaluation; the same stretch again after a fault
            return str(TrialScheduler.CONTINUE)
        known = _Known(name)
        if name not in self._seen:
            self._rule.on_trial_add(None, known)
        self._seen[name] = env_steps
        return str(self._rule.on_trial_result(None, known, {STEP: env_steps, RETURN: metrics[RETURN]}))
