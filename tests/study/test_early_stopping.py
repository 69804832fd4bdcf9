from collections.abc import Iterable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from ray.tune.schedulers import TrialScheduler

from experiments.config.search_settings import Asha, Median
from experiments.config.trial_config import TrialConfig
from experiments.study.driver_callback import STOPPED_EARLY
from experiments.study.early_stopping import RETURN, EarlyStopping, rule_of
from experiments.trial.folder import Report
from experiments.trial.trainable import FAILURE, STEP, TRIAL
from tests.support.suite import TINY, PlanOf

CONTINUE, STOP = TrialScheduler.CONTINUE, TrialScheduler.STOP
ASHA = Asha("asha", 1000, 2.0)
MEDIAN = Median("median", 1000, 2)


@pytest.fixture
def trial(plan_of: PlanOf) -> TrialConfig:
    return replace(plan_of(*TINY, "study.space={}", "seeds=[0]").trials[0], phase="search")


def decisions(scheduler: EarlyStopping, returns: Iterable[tuple[str, int, float]]) -> list[str]:
    return [scheduler.look(name, env_steps, {RETURN: value}) for name, env_steps, value in returns]


def test_asha_stops_at_its_rungs_whoever_is_not_among_the_best_half() -> None:
    scheduler = EarlyStopping(rule_of(ASHA, 8000))
    assert decisions(scheduler, [("a", 500, 1.0), ("a", 1000, 10.0), ("b", 1000, 20.0), ("c", 1000, 5.0)]) == [CONTINUE] * 3 + [STOP]
    assert decisions(scheduler, [("a", 1500, 0.0), ("b", 2000, 30.0), ("a", 2000, 10.0)]) == [CONTINUE, CONTINUE, STOP]


def test_by_default_asha_begins_at_a_sixteenth_of_the_budget_and_median_at_a_quarter() -> None:
    asha = EarlyStopping(rule_of(replace(ASHA, grace_env_steps=None), 16_000))
    assert decisions(asha, [("a", 900, 9.0), ("b", 900, 1.0), ("a", 1000, 9.0), ("b", 1000, 1.0)])[-1] == STOP
    median = EarlyStopping(rule_of(replace(MEDIAN, grace_env_steps=None), 16_000))
    others = [(name, 1000 * i, 9.0) for i in range(1, 9) for name in "ab"]
    assert set(decisions(median, [*others, ("c", 1000, 1.0), ("c", 3000, 1.0)])) == {CONTINUE}
    assert decisions(median, [("c", 4000, 1.0)]) == [STOP]


def test_median_compares_the_best_so_far_with_the_others_means() -> None:
    scheduler = EarlyStopping(rule_of(MEDIAN, 8000))
    others = [(name, 1000 * i, value) for i in range(1, 4) for name, value in (("a", 10.0), ("b", 20.0), ("c", 30.0))]
    assert decisions(scheduler, others)[:2] == [CONTINUE] * 2  # too few to compare with: they go on at once
    assert decisions(scheduler, [("d", 1000, 25.0), ("e", 1000, 5.0)]) == [CONTINUE, STOP]


@pytest.mark.parametrize("settings", [ASHA, MEDIAN])
def test_what_was_reported_before_a_resume_counts_and_counts_once(settings: Asha | Median, trial: TrialConfig) -> None:
    returns = [(seed, 1000, 10.0 * seed) for seed in (1, 2, 3)]
    trials = {seed: replace(trial, seed=seed) for seed in (1, 2, 3)}
    whole, resumed = (EarlyStopping(rule_of(settings, 8000)) for _ in range(2))
    decisions(whole, [(trials[seed].folder_name, step, value) for seed, step, value in returns])
    resumed = EarlyStopping(rule_of(settings, 8000), [(trials[seed], Report(step, 0, {RETURN: value})) for seed, step, value in returns])
    again = (trials[3].folder_name, 1000, 30.0)  # a stretch that is trained once more
    assert decisions(resumed, [again]) == [CONTINUE]
    last = [("new", 1000, 15.0), ("newer", 1000, 29.0), ("newest", 1000, 1.0)]
    assert decisions(resumed, last) == decisions(whole, last)


def test_only_what_searches_is_stopped_and_what_is_stopped_is_known(trial: TrialConfig) -> None:
    scheduler = EarlyStopping(rule_of(ASHA, 8000))

    def decide(config: TrialConfig, value: float, **more: Any) -> tuple[str, bool]:
        tunes = SimpleNamespace(config={TRIAL: config.to_mapping()})
        decision = scheduler.on_trial_result(None, tunes, {STEP: 1000, RETURN: value, "done": False, **more})
        return decision, getattr(tunes, STOPPED_EARLY, False)

    assert decide(trial, 100.0) == (CONTINUE, False)
    assert decide(replace(trial, seed=1, phase="confirm"), 1.0) == (CONTINUE, False)
    assert decide(replace(trial, seed=2), 1.0, **{FAILURE: "out of memory"}) == (CONTINUE, False)
    assert decide(replace(trial, seed=3), 1.0) == (STOP, True)


def test_a_report_without_an_evaluation_decides_nothing() -> None:
    scheduler = EarlyStopping(rule_of(ASHA, 8000))
    decisions(scheduler, [("a", 1000, 100.0)])
    assert scheduler.look("b", 1000, {}) == CONTINUE
