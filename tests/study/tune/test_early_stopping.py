from collections.abc import Iterable
from dataclasses import replace

import pytest

from experiments.config.search_settings import Asha, Median
from experiments.config.trial_config import TrialConfig
from experiments.contract import FINISHED
from experiments.study.tune.early_stopping import RETURN, EarlyStopping, rule_of
from experiments.trial.events import Ended, Reported
from tests.support.suite import TINY, PlanOf

CONTINUE, STOP = False, True
ASHA = Asha("asha", 1000, 2.0)
MEDIAN = Median("median", 1000, 2)


@pytest.fixture
def trial(plan_of: PlanOf) -> TrialConfig:
    return replace(plan_of(*TINY, "study.space={}", "seeds=[0]").trials[0], phase="search")


def decisions(scheduler: EarlyStopping, returns: Iterable[tuple[str, int, float]]) -> list[bool]:
    return [scheduler.on_report(name, env_steps, value) for name, env_steps, value in returns]


def test_asha_stops_at_its_rungs_whoever_is_not_among_the_best_half() -> None:
    scheduler = EarlyStopping(rule_of(ASHA, 8000))
    assert decisions(scheduler, [("a", 500, 1.0), ("a", 1000, 10.0), ("b", 1000, 20.0), ("c", 1000, 5.0)]) == [
        CONTINUE
    ] * 3 + [STOP]
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
    for seed, step, value in returns:
        resumed.on_event(trials[seed], Reported(env_steps=step, metrics={RETURN: value}))
    again = (trials[3].folder_name, 1000, 30.0)  # a stretch that is trained once more
    assert decisions(resumed, [again]) == [CONTINUE]
    last = [("new", 1000, 15.0), ("newer", 1000, 29.0), ("newest", 1000, 1.0)]
    assert decisions(resumed, last) == decisions(whole, last)


def test_only_what_searches_is_stopped_and_what_has_ended_is_not(trial: TrialConfig) -> None:
    stopping = EarlyStopping(rule_of(ASHA, 8000))

    def stops(config: TrialConfig, value: float) -> bool:
        stopping.on_event(config, Reported(env_steps=1000, metrics={RETURN: value}))
        return stopping.stops(config)

    assert not stops(trial, 100.0)
    assert not stops(replace(trial, seed=1, phase="confirm"), 1.0)
    worse = replace(trial, seed=3)
    assert stops(worse, 1.0)
    stopping.on_event(worse, Ended(status=FINISHED, env_steps=1000))
    assert not stopping.stops(worse)


def test_a_report_without_an_evaluation_decides_nothing(trial: TrialConfig) -> None:
    stopping = EarlyStopping(rule_of(ASHA, 8000))
    decisions(stopping, [("a", 1000, 100.0)])
    stopping.on_event(trial, Reported(env_steps=1000, metrics={}))
    assert not stopping.stops(trial)


@pytest.mark.parametrize("settings", [ASHA, MEDIAN])
def test_others_are_compared_with_the_last_return_of_a_trial_that_stopped_at_its_target(
    settings: Asha | Median, trial: TrialConfig
) -> None:
    trials = [replace(trial, seed=seed, budget_env_steps=8000, report_every_env_steps=1000) for seed in range(3)]
    stopping = EarlyStopping(rule_of(settings, 8000))
    for early in trials[:2]:
        stopping.on_event(early, Reported(env_steps=1000, metrics={RETURN: 100.0}))
        stopping.on_event(early, Ended(status=FINISHED, env_steps=1000))
    for step, value in ((1000, 100.0), (2000, 1.0), (4000, 1.0)):
        stopping.on_event(trials[2], Reported(env_steps=step, metrics={RETURN: value}))
    # At 1,000 it was as good as they are; ASHA goes by what it is now, the median rule by its best so far.
    assert stopping.stops(trials[2]) == isinstance(settings, Asha)
    worse = replace(trials[2], seed=3)
    stopping.on_event(worse, Reported(env_steps=4000, metrics={RETURN: 1.0}))
    assert stopping.stops(worse)
