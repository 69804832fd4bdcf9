import numpy as np
import pandas as pd
import pytest

from analysis import AnalysisError
from analysis.questions.convergence import summarise
from analysis.questions.machines import machine_kinds
from analysis.questions.throughput import PARTS, check_comparable, pareto, time_shares
from tests.support.study_frames import make_curves, make_runs, together, with_status


def reports(seconds: list[float], **shares: list[float]) -> dict[str, list[tuple[int, float, float]]]:
    """Reports at the given training seconds, with the shares since the last one."""
    series = {"progress/train_s": seconds, **{f"throughput/{part}_share": values for part, values in shares.items()}}
    return {
        name: [(1000 * (i + 1), 10.0 * i, value) for i, value in enumerate(values)] for name, values in series.items()
    }


def shares_of(table: pd.DataFrame, config: str) -> list[float]:
    return table[table["config"] == config].set_index("part").loc[list(PARTS), "share"].tolist()


@pytest.fixture
def runs() -> pd.DataFrame:
    return make_runs({"a": [480, 490], "b": [500, 490]})


def test_a_share_weighs_by_the_seconds_since_the_last_report(runs: pd.DataFrame) -> None:
    # 1 s, then 3 s: sampling takes 0.8 s of the first and 0.6 s of the others.
    curves = make_curves(
        runs, {("a", 0): reports([1, 4], sample=[0.8, 0.2], learn=[0.1, 0.6], sync=[0, 0.1], other=[0.1, 0.1])}
    )
    table = time_shares(curves, runs)
    assert table.columns.tolist() == ["config", "part", "share", "num_seeds"]
    assert shares_of(table, "a") == pytest.approx([1.4 / 4, 1.9 / 4, 0.3 / 4, 0.4 / 4])
    assert table["config"].unique().tolist() == ["a"]


def test_each_seed_counts_alike_and_shares_add_to_1(runs: pd.DataFrame) -> None:
    long = reports([50, 100], sample=[0.5, 0.5], learn=[0.5, 0.5], sync=[0, 0], other=[0, 0])
    short = reports([1], sample=[0.7], learn=[0.1], sync=[0.1], other=[0.1])
    table = time_shares(make_curves(runs, {("a", 0): long, ("a", 1): short, ("b", 1): short}), runs)
    assert shares_of(table, "a") == pytest.approx([0.6, 0.3, 0.05, 0.05])
    assert table.groupby("config", observed=True)["share"].sum().tolist() == pytest.approx([1, 1])
    assert table.groupby("config", observed=True)["num_seeds"].first().tolist() == [2, 1]


def test_trials_that_did_not_finish_have_no_share(runs: pd.DataFrame) -> None:
    full = reports([1], sample=[1], learn=[0], sync=[0], other=[0])
    changed = with_status(with_status(runs, "a", [0], "failed"), "b", [0, 1], "running")
    table = time_shares(make_curves(runs, {("a", 0): full, ("a", 1): full, ("b", 0): full}), changed)
    assert table["config"].unique().tolist() == ["a"]
    assert table["num_seeds"].unique().tolist() == [1]


@pytest.mark.filterwarnings("error")
def test_a_part_that_was_never_logged_has_no_share(runs: pd.DataFrame) -> None:
    table = time_shares(make_curves(runs, {("a", 0): reports([2], sample=[0.6], learn=[0.3], other=[0.1])}), runs)
    assert shares_of(table, "a") == pytest.approx([0.6, 0.3, 0, 0.1])


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("missing", ["throughput", "progress", "both"])
def test_without_shares_or_seconds_the_breakdown_is_empty(runs: pd.DataFrame, missing: str) -> None:
    curves = make_curves(runs, {("a", 0): reports([2], sample=[0.6], learn=[0.3], sync=[0], other=[0.1])})
    table = time_shares(
        curves.iloc[:0] if missing == "both" else curves[~curves["metric"].str.startswith(missing)], runs
    )
    assert table.empty
    assert table.columns.tolist() == ["config", "part", "share", "num_seeds"]


def test_pareto_front_by_hand() -> None:
    points = {
        "fast": (50, 10),
        "frugal": (10, 50),
        "middle": (30, 30),
        "beaten": (40, 40),
        "tied": (30, 40),
        "twin": (30, 30),
        "never": (100, 100),
    }
    runs = make_runs(
        {config: [480] for config in points},
        env_steps_to_target={
            config: [1000 * steps if config != "never" else np.nan] for config, (steps, _) in points.items()
        },
        seconds_to_target={
            config: [seconds if config != "never" else np.nan] for config, (_, seconds) in points.items()
        },
    )
    front = pareto(summarise(runs)).set_index("config")
    # `beaten` needs more of both than `middle`; `tied` as many env steps and more seconds;
    # equal ones do not beat each other.
    assert front["on_front"].to_dict() == {
        "fast": True,
        "frugal": True,
        "middle": True,
        "beaten": False,
        "tied": False,
        "twin": True,
    }


def test_pareto_fronts_of_environments_are_their_own() -> None:
    slow = make_runs({"x": [480]}, env="acrobot", env_steps_to_target={"x": [90_000]})
    runs = together(make_runs({"a": [480]}, env_steps_to_target={"a": [10_000]}), slow)
    assert pareto(summarise(runs))["on_front"].tolist() == [True, True]


@pytest.mark.filterwarnings("error")
def test_without_a_seed_at_the_target_the_front_is_empty(runs: pd.DataFrame) -> None:
    assert pareto(summarise(runs.assign(env_steps_to_target=np.nan))).empty
    assert pareto(summarise(runs.iloc[:0])).empty


def test_throughput_of_trials_alone_and_side_by_side_is_not_compared() -> None:
    alone, packed = make_runs({"a": [1], "b": [2]}), make_runs({"c": [3]}, exclusive=False)
    check_comparable(alone)
    check_comparable(packed)
    with pytest.raises(
        AnalysisError, match=r"2 configurations ran alone .*, 1 beside other trials.*max_concurrent_trials=1"
    ):
        check_comparable(together(alone, packed))


def test_a_configuration_of_which_one_seed_ran_alone_in_the_end_is_compared_with_the_others() -> None:
    packed = make_runs({"a": [1, 1], "b": [2, 2]}, exclusive=False)
    packed.loc[packed.index[-1], "exclusive"] = True
    check_comparable(packed)


def test_throughput_is_compared_within_a_kind_of_machine_only() -> None:
    runs = make_runs({"a": [1, 1], "b": [2, 2]}, exclusive=False).assign(cpu="EPYC")
    check_comparable(runs)
    check_comparable(runs.assign(host=["one", "two", "one", "two"]))
    runs["gpu"] = ["", "H200", "", ""]
    with pytest.raises(AnalysisError, match=r"3 on EPYC; 1 on EPYC with H200"):
        check_comparable(runs)
    check_comparable(runs[machine_kinds(runs) == "EPYC"])
    runs.loc[runs["gpu"] != "", ["cpu", "gpu"]] = ""  # not recorded
    check_comparable(runs)


def test_a_trial_that_never_started_does_not_make_throughput_incomparable() -> None:
    packed = with_status(make_runs({"c": [3]}, exclusive=False), "c", [0], "missing")
    check_comparable(together(make_runs({"a": [1]}), packed))
