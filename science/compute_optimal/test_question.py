"""The frontier of simulated studies, and the best point at a budget that was not run."""

import numpy as np
import pandas as pd
import pytest

from analysis import AnalysisError
from science.compute_optimal.flops import dqn_update, forward
from science.compute_optimal.question import LIMIT, Found, at_edge, best, find
from science.compute_optimal.testing import AXES, BEFORE, layers, planted, study


def found_of(**how: object) -> Found:
    found = find(*study(**how), AXES, np.random.default_rng(0))  # type: ignore[arg-type]
    assert found is not None
    return found


@pytest.fixture(scope="module")
def found() -> Found:
    return found_of(spread=0.05)


def flops_of(updates: float, width: int, batch: int, env_steps: float) -> float:
    own = layers(width)
    return (env_steps - BEFORE) * updates * dqn_update(own, batch, double_q=False) + env_steps * forward(own)


def test_data_and_compute_of_each_configuration_by_hand() -> None:
    runs, curves = study(spread=0.0, num_seeds=2)
    found = find(runs, curves, AXES, np.random.default_rng(0))
    assert found is not None and found.num_layers == 2
    row = found.measured.set_index("config").loc["utd=0.5 h=64x64 b=256"]
    taken = round(planted(0.5, 64, 256))
    assert (row["updates"], row["width"], row["batch"], row["num_seeds"]) == (0.5, 64, 256, 2)
    assert row["env_steps"] == pytest.approx(taken)
    assert row["flops"] == pytest.approx(flops_of(0.5, 64, 256, taken))


def test_each_batch_has_its_law_and_points_at_most_four_times_what_was_run(found: Found) -> None:
    assert [(fit.batch, fit.width, fit.why) for fit in found.fits] == [(64, None, ""), (256, None, "")]
    assert found.points["updates"].max() == LIMIT * 2.0
    assert found.points["width"].max() == LIMIT * 128
    assert (found.points["flops"] <= LIMIT * found.most_flops).all()
    assert found.points["was_run"].sum() == 24


def test_points_that_were_not_run_come_out_as_predicted(found: Found) -> None:
    new = found.points[~found.points["was_run"]]
    truth = np.array([planted(*row) for row in new[["updates", "width", "batch"]].to_numpy()])
    held = (new["env_steps_low"] <= truth) & (truth <= new["env_steps_high"])
    assert held.mean() > 0.8
    compute = [flops_of(*row) for row in zip(new["updates"], new["width"], new["batch"], new["env_steps"], strict=True)]
    assert new["flops"].to_numpy() == pytest.approx(compute)


def test_none_of_the_frontier_is_beaten(found: Found) -> None:
    frontier = found.frontier
    assert len(frontier) > 3
    assert (frontier["flops"].diff().dropna() >= 0).all()
    assert (frontier["env_steps"].diff().dropna() < 0).all()
    for point in frontier.itertuples():
        better = (found.points["flops"] <= point.flops) & (found.points["env_steps"] < point.env_steps)
        assert not better.any()


def test_the_best_point_at_a_budget_is_the_laws(found: Found) -> None:
    amount = 2 * found.most_flops
    point = best(found, "compute", amount)
    assert point["flops"] <= amount and not point["was_run"]
    affordable = found.points[found.points["flops"] <= amount]
    assert point["env_steps"] == affordable["env_steps"].min()
    data = best(found, "data", 1.05 * point["env_steps"])
    assert data["env_steps"] <= 1.05 * point["env_steps"] and data["flops"] <= point["flops"]
    cheap, dear = (best(found, "price", price) for price in (1.0, 1e12))
    assert cheap["flops"] == found.points["flops"].min()
    assert dear["env_steps"] == found.points["env_steps"].min()
    assert at_edge(found, dear) and not at_edge(found, cheap)


@pytest.mark.parametrize(
    ("kind", "amount", "words"),
    [
        ("compute", 1e20, "more than 4 times the largest that was run"),
        ("compute", 1.0, "no point within 4 times what was run is predicted to reach the target"),
        ("data", 1000.0, "no point within 4 times what was run"),
        ("price", 0.0, "must be a number above 0"),
    ],
)
def test_a_budget_too_far_from_what_was_run_is_refused(found: Found, kind: str, amount: float, words: str) -> None:
    with pytest.raises(AnalysisError, match=words):
        best(found, kind, amount)  # type: ignore[arg-type]


def test_the_compute_that_a_refusal_names_is_taken(found: Found) -> None:
    with pytest.raises(AnalysisError) as refused:
        best(found, "compute", 1e20)
    named = str(refused.value).split("Try compute=")[1].split(",")[0]
    assert best(found, "compute", float(named))["flops"] <= float(named)


def test_where_nothing_makes_a_difference_nothing_is_predicted() -> None:
    found = found_of(env_steps=lambda updates, width, batch: 20_000.0)
    assert found.points.empty and found.frontier.empty
    assert all("no significant difference" in fit.why for fit in found.fits)
    with pytest.raises(AnalysisError, match="no law holds"):
        best(found, "compute", 1e12)


def test_a_largest_configuration_that_breaks_the_law_stops_predictions() -> None:
    def broken(updates: float, width: float, batch: float) -> float:
        return planted(updates, width, batch) * (1.5 if (updates, width) == (2.0, 128) else 1.0)

    found = found_of(env_steps=broken)
    assert found.points.empty
    assert all(fit.why for fit in found.fits)


def test_two_widths_have_laws_of_their_own_and_no_other_is_predicted() -> None:
    found = found_of(widths=(32, 128), updates=(0.25, 0.5, 1.0, 2.0, 4.0), spread=0.03, num_seeds=5, batches=(64,))
    assert [(fit.batch, fit.width) for fit in found.fits] == [(64, 32), (64, 128)]
    assert set(found.points["width"]) <= {32, 128}


def test_it_is_asked_of_studies_that_search_updates_and_count_operations_alone() -> None:
    runs, curves = study()
    rng = np.random.default_rng(0)
    assert find(runs, curves, ("fcnet_hiddens",), rng) is None
    assert find(runs.drop(columns="update_flops"), curves, AXES, rng) is None
    assert find(runs.assign(update_flops=np.nan), curves, AXES, rng) is None
    searched = runs.assign(lr=np.where(runs["seed"] == 0, 1e-3, 1e-2))
    with pytest.raises(AnalysisError, match="lr was searched as well"):
        find(searched, curves, (*AXES, "lr"), rng)
    with pytest.raises(AnalysisError, match="of one width in each"):
        find(runs.assign(fcnet_hiddens="[64, 32]"), curves, AXES, rng)
    with pytest.raises(AnalysisError, match="no target"):
        find(runs.assign(target=np.nan), curves, AXES, rng)
    with pytest.raises(AnalysisError, match="did not log their updates"):
        find(runs, pd.DataFrame(columns=curves.columns), AXES, rng)
