"""What reaches the target soonest on another machine, from a study that searched it on this one."""

import pandas as pd
import pytest

from analysis import AnalysisError, plan
from analysis.evidence import Evidence
from analysis.load import Study
from analysis.questions.elsewhere import Machine, elsewhere, layouts_of, widest
from analysis.questions.product import Factors, factors_of
from analysis.questions.runners import ENVS, RUNNERS
from tests.questions.test_product import CONFIRMED, stale, study, without_staleness
from tests.support.study_frames import make_curves

SHARES = {"time/learn_share": 0.2, "time/env_step_share": 0.6, "time/inference_share": 0.2}
FACTS = {"any": {"num_cpus": 64}}


def measured(evidence: Evidence | None = None) -> tuple[Factors, pd.DataFrame]:
    """What was learned and measured, and where the time of the measurements went: a fifth of it to the learner."""
    factors = factors_of(evidence or study(CONFIRMED))
    assert factors is not None
    reports = {name: [(step, step / 1000, share) for step in (1000, 2000, 3000)] for name, share in SHARES.items()}
    keys = zip(factors.rounds["config"], factors.rounds["seed"], strict=True)
    return factors, make_curves(factors.rounds, {(str(config), int(seed)): reports for config, seed in keys})


def row_of(table: pd.DataFrame, runners: int, envs: int) -> pd.Series:
    return table[(table[RUNNERS] == runners) & (table[ENVS] == envs) & (table["lr"] == 3e-3)].iloc[0]


def test_layouts_are_those_that_the_machine_has_room_for_and_its_profiles() -> None:
    factors, _ = measured()
    found = layouts_of(Machine(most_runners=5, runners=3, envs=7), factors.rounds)
    assert {runners for runners, _ in found} == {0, 1, 2, 3, 4}
    assert {envs for _, envs in found} == {4, 7, 16}


def test_what_was_measured_stands_and_more_runners_are_a_range_with_more_env_steps() -> None:
    factors, curves = measured()
    table = elsewhere(factors, curves, FACTS, Machine(most_runners=32))
    here, there = row_of(table, 4, 4), row_of(table, 32, 4)
    assert not here["is_bound"] and there["is_bound"]
    assert here["minutes_low"] < (4 + 200_000 / 6_000) / 60 < here["minutes_high"]
    assert there["minutes_high"] / there["minutes_low"] > 2 * here["minutes_high"] / here["minutes_low"]
    assert table["minutes"].is_monotonic_increasing
    assert (int(table.iloc[0][RUNNERS]), int(table.iloc[0][ENVS])) in widest(table)


@pytest.mark.slow
def test_where_samples_are_older_with_more_runners_these_bring_less() -> None:
    studies = (stale(), without_staleness(stale(with_older=False)))
    tables = [elsewhere(*measured(evidence), FACTS, Machine(most_runners=32)) for evidence in studies]
    for layout in ((4, 4), (32, 4)):  # measured here, and not
        aware, blind = (row_of(table, *layout)["minutes"] for table in tables)
        assert aware > 1.1 * blind


def test_a_machine_that_is_twice_as_fast_takes_half_of_the_training() -> None:
    factors, curves = measured()
    once, twice = (
        row_of(elsewhere(factors, curves, FACTS, Machine(most_runners=0, speed=speed)), 0, 16) for speed in (1.0, 2.0)
    )
    assert twice["minutes"] == pytest.approx(once["minutes"] / 2, rel=0.02)


def test_a_plan_asks_for_the_machine_and_for_a_study_that_has_both() -> None:
    class Asked:
        """As much of a study as is asked."""

        evidence = study(CONFIRMED)

    asked: Study = Asked()  # type: ignore[assignment]
    with pytest.raises(AnalysisError, match="how large is the machine"):
        plan.joint_lines(asked, {"study": "joint"})
    Asked.evidence = study(CONFIRMED).concluding
    with pytest.raises(AnalysisError, match=r"experiments/run\.py study=joint"):
        plan.joint_lines(asked, {"study": "other", "num_cpus": 64})
