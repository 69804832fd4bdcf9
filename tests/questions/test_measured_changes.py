"""Advice that was measured: what a study knows of a change is said in the place of what may be hoped for."""

import pandas as pd
import pytest

from analysis.questions.advice import Change
from analysis.questions.diagnosis import of_study
from analysis.questions.measured_changes import MeasuredChanges
from tests.support.diagnosed import Curves, logged, reports
from tests.support.study_frames import make_curves, make_runs

NOISE = (0.98, 1.0, 1.02)


def measured(speeds: dict[str, float], axis: str, seeds: int = 3, **columns: dict[str, float]) -> pd.DataFrame:
    """Trials of configurations named by the value of an axis: `learners=2`."""
    values = {config: float(config.partition("=")[2].split()[0]) for config in speeds}
    of_seeds = {
        c: [speed * NOISE[(seed + i) % 3] for seed in range(seeds)] for i, (c, speed) in enumerate(speeds.items())
    }
    return make_runs(
        {config: [float("nan")] * seeds for config in speeds},
        params={axis: values, **columns},
        env_steps_per_s=of_seeds,
    ).assign(phase="throughput")


LEARNERS = measured(
    {"learners=0": 24_507, "learners=1": 9_189, "learners=2": 9_447, "learners=4": 7_708}, "num_learners"
)
"""As docs/throughput.md has it."""
TWO = Change(
    "Cores are free for another learner: algorithm.learners.num_learners=2.", {"num_learners": 2}, "The batch grows."
)


def test_a_change_that_was_measured_to_be_slower_is_no_advice() -> None:
    (told,) = MeasuredChanges(LEARNERS, ["num_learners"]).with_measurements("learners=0", [TWO])
    assert told.words.startswith("algorithm.learners.num_learners=2 was measured here: 0.39 [0.3")
    assert told.words.endswith(" times as fast (9,446 against 24,504 env steps/s, 3 seeds), so it does not help.")
    assert not told.settings


def test_a_change_that_was_measured_to_be_faster_says_by_how_much_and_what_it_does_to_learning() -> None:
    (told,) = MeasuredChanges(LEARNERS, ["num_learners"]).with_measurements("learners=4", [TWO])
    assert "was measured here: 1.23 [1.1" in told.words
    assert told.words.endswith("The batch grows.")


def test_the_closest_count_in_the_same_direction_stands_for_one_that_was_not_measured() -> None:
    found = MeasuredChanges(LEARNERS, ["num_learners"])
    (three,) = found.with_measurements("learners=2", [Change("Try 3.", {"num_learners": 3})])
    assert "num_learners=4 was measured here: 0.82" in three.words
    (far,) = found.with_measurements("learners=2", [Change("Try 16.", {"num_learners": 16})])
    assert far.words == "Try 16."
    (down,) = found.with_measurements("learners=0", [Change("Try none.", {"num_learners": 0})])
    assert down.words == "Try none."


def test_only_what_differs_in_nothing_else_counts() -> None:
    grid = {f"runners={r} e={e}": 1000.0 * r * e for r in (1, 2) for e in (4, 8)}
    runs = measured(grid, "num_env_runners", num_envs_per_env_runner={config: float(config[-1]) for config in grid})
    found = MeasuredChanges(runs, ["num_env_runners", "num_envs_per_env_runner"])
    (pair,) = found.with_measurements(
        "runners=2 e=4", [Change("Fewer.", {"num_env_runners": 1, "num_envs_per_env_runner": 8})]
    )
    assert "num_env_runners=1 algorithm.env_runners.num_envs_per_env_runner=8 was measured here: 1.00 " in pair.words
    assert "2.00" in found.with_measurements("runners=1 e=4", [Change("More.", {"num_env_runners": 2})])[0].words
    (other,) = found.with_measurements("runners=1 e=4", [Change("More.", {"num_env_runners": 2, "num_learners": 2})])
    assert other.words == "More."


@pytest.mark.parametrize(
    "runs", [LEARNERS.assign(exclusive=False), LEARNERS.assign(status="failed"), LEARNERS.iloc[:0]]
)
def test_trials_that_shared_the_machine_or_failed_tell_nothing(runs: pd.DataFrame) -> None:
    assert MeasuredChanges(runs, ["num_learners"]).with_measurements("learners=0", [TWO]) == (TWO,)


def test_a_single_seed_has_no_interval() -> None:
    one = measured({"learners=0": 100.0, "learners=2": 150.0}, "num_learners", seeds=1)
    (told,) = MeasuredChanges(one, ["num_learners"]).with_measurements("learners=0", [TWO])
    assert "1.53 times as fast (150 against 98 env steps/s, 1 seed); that has no interval." in told.words


def test_the_report_of_a_study_of_learners_advises_none_that_are_slower() -> None:
    def curves_of(learn: float) -> Curves:
        idle = {"system/machine_cpu_percent": [40.0] * 12, "system/runner_cpu_share": [0.98] * 12}
        return {
            **reports(env_step=1 - learn, learn=learn),
            **logged({k: pd.Series(v).to_numpy() for k, v in idle.items()}),
        }

    names = ["learners=0", "learners=1", "learners=2", "learners=4"]
    points = {
        (name, seed): {m: [(int(x), x / 1000, v) for x, v in p] for m, p in curves_of(0.9).items()}
        for name in names
        for seed in range(3)
    }
    runs = LEARNERS.assign(num_env_runners=0, num_envs_per_env_runner=16)
    curves = make_curves(runs, points)
    blind, told = (
        of_study(runs, curves, axes=axes, num_cpus=2).set_index(["config", "seed"])["advice"]
        for axes in ([], ["num_learners"])
    )
    assert "Cores are free for another learner" in blind["learners=0", 0]
    assert "Cores are free for another learner" not in told["learners=0", 0]
    assert "9,446 against 24,504 env steps/s, 3 seeds), so it does not help" in told["learners=0", 0]
