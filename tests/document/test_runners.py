import numpy as np
import pandas as pd

from analysis.document.wording import same_learning
from tests.support.study_frames import make_runs

AXES = ("num_env_runners",)


def study(envs: dict[str, int], shift: float = 0.0, exclusive: bool = True) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    scores = {f"runners={n}": list(300 + rng.normal(0, 10, 5)) for n in (1, 2, 4)}
    scores["runners=4"] = [score + shift for score in scores["runners=4"]]
    speeds = {name: [1000.0 * k * (1 + 0.01 * s) for s in range(5)] for k, name in enumerate(scores, start=1)}
    params = {"num_env_runners": {name: int(name[-1]) for name in scores}, "num_envs_per_env_runner": envs}
    return make_runs(scores, params=params, exclusive=exclusive, env_steps_per_s=speeds)


FIXED = {"runners=1": 16, "runners=2": 8, "runners=4": 4}
MORE = dict.fromkeys(FIXED, 4)


def test_learning_that_stays_the_same_is_bounded_by_an_interval() -> None:
    ((_, found),) = same_learning(study(FIXED), AXES)
    assert "1, 2, 4 env runners, 16 environments in all" in found
    assert "By area under the learning curve, no two are significantly different: the largest difference" in found
    assert "over 5 seeds" in found
    assert "`runners=4`" in found


def test_learning_that_changes_is_told() -> None:
    ((_, found),) = same_learning(study(FIXED, shift=100), AXES)
    assert "2 of 3 pairs are significantly different (Holm, 5%)" in found


def test_the_other_reading_is_called_by_its_name() -> None:
    ((_, found),) = same_learning(study(MORE), AXES)
    assert "4 environments a runner" in found
    assert "streams of random numbers" not in found


def test_throughput_is_compared_only_where_trials_ran_alone() -> None:
    assert "Throughput ranges from 1,020" in same_learning(study(FIXED), AXES)[0][1]
    assert "Throughput" not in same_learning(study(FIXED, exclusive=False), AXES)[0][1]


def test_single_seeds_tell_nothing() -> None:
    runs = study(FIXED)
    ((_, found),) = same_learning(runs[runs["seed"] == 0], AXES)
    assert "cannot be tested with a single seed each" in found


def test_a_study_of_something_else_has_nothing_to_say() -> None:
    assert same_learning(study(FIXED), ("lr",)) == []


def test_scores_that_all_end_alike_differ_by_nothing() -> None:
    runs = study(FIXED).assign(score=500.0)
    ((_, found),) = same_learning(runs, AXES)
    assert "is 0.0 over 5 seeds" in found
    assert "nan" not in found
