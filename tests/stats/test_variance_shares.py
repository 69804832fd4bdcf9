"""The shares of the axes of a grid in the variance between its cells."""

import itertools
from pathlib import Path

import numpy as np
import optuna
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from scipy import stats

from analysis.stats.variance_shares import main_effect, total_effect

GRIDS = Path(__file__).parents[2] / "benchmarks/search/data"
CELLS = np.array([[0.0, 0], [4, 8]])
"""Squares by hand: 36 of the rows, 4 of the columns, 4 of their interaction."""


def noisy(cells: np.ndarray, num_seeds: int, rng: np.random.Generator, spread: float | np.ndarray = 1.0) -> np.ndarray:
    of_seeds = rng.normal(0, 3, num_seeds)  # what a seed does to all alike is no difference
    return cells[..., None] + of_seeds + rng.normal(0, spread, (*cells.shape, num_seeds))


def test_by_hand() -> None:
    values = np.repeat(CELLS[..., None], 3, axis=-1)
    found = [effect(values, axis) for effect in (main_effect, total_effect) for axis in (0, 1)]
    assert_allclose([share.estimate for share in found], [36 / 44, 4 / 44, 40 / 44, 8 / 44])
    assert_allclose([share.low for share in found], [share.high for share in found])  # no seed differs


def test_where_all_cells_are_the_same_there_is_no_share() -> None:
    found = main_effect(np.full((2, 3, 4), 500.0), 0), total_effect(np.full((2, 3, 4), 7.0), 1)
    assert np.isnan([share.estimate for share in found]).all()


def test_on_a_grid_without_noise_they_are_those_of_optunas_random_forest() -> None:
    """`FanovaImportanceEvaluator` fits a forest to points anywhere, of which the ends of a range are half as wide."""
    places = np.arange(8)
    cells = 3.0 * places[:, None] + 0.4 * (places[None] - 3) ** 2 + 0.15 * places[:, None] * places[None]
    space = {name: optuna.distributions.FloatDistribution(-0.5, 7.5) for name in ("a", "b")}
    study = optuna.create_study()
    for a, b in itertools.product(range(8), range(8)):
        point = {"a": float(a), "b": float(b)}
        study.add_trial(optuna.trial.create_trial(params=point, distributions=space, value=float(cells[a, b])))
    evaluator = optuna.importance.FanovaImportanceEvaluator(seed=0)
    theirs = optuna.importance.get_param_importances(study, evaluator=evaluator, normalize=False)
    values = np.repeat(cells[..., None], 2, axis=-1)
    assert_allclose([main_effect(values, axis).estimate for axis in (0, 1)], [theirs["a"], theirs["b"]], atol=0.06)


def test_of_two_values_that_vary_alike_one_is_shown_where_an_f_test_on_all_seeds_shows_it() -> None:
    """Of two cells of 40 seeds each, whose variances are known well enough."""
    rng = np.random.default_rng(0)
    for effect in np.linspace(0, 1, 40):
        values = noisy(np.array([[0.0], [effect]]), 40, rng)
        p = stats.ttest_rel(*values[:, 0]).pvalue
        if not 0.02 < p < 0.03:
            assert (main_effect(values, 0).low > 0) == (p < 0.025)


@pytest.mark.parametrize("num_seeds", [3, 8])
@pytest.mark.parametrize("spreads", [(1.0, 1.0, 1.0), (0.1, 1.0, 3.0)], ids=["alike", "unlike"])
def test_an_axis_that_was_planted_is_found_and_one_that_does_nothing_is_not(
    num_seeds: int, spreads: tuple[float, ...]
) -> None:
    """Rows have means of 0, 0 and 12, columns none, and the cells of one row vary more than those of another."""
    rng, planted, absent = np.random.default_rng(1), [], []
    rows = np.repeat(np.array([0.0, 0, 12])[:, None], 4, axis=1)
    for _ in range(100):
        values = noisy(rows, num_seeds, rng, spread=np.array(spreads)[:, None, None])
        planted.append(total_effect(values, 0))
        absent.append(total_effect(values, 1))
    assert np.mean([share.low > 0 for share in planted]) > 0.95
    assert np.mean([share.low == 0 for share in absent]) >= 0.93
    assert all(share.low <= share.estimate <= share.high <= 1 for share in (*planted, *absent))


@pytest.mark.parametrize("num_seeds", [3, 8])
def test_intervals_cover_a_share_between_none_and_all(num_seeds: int) -> None:
    """Of the squares 54 are of the rows, 13.5 of the columns, and 12 of the interaction."""
    cells = np.array([-3.0, 0, 3])[:, None] + np.array([1.5, 0, -1.5])[None]
    cells = cells + np.array([[1.0, -2, 1], [0, 0, 0], [-1, 2, -1]])
    rng, main, total = np.random.default_rng(2), [], []
    for _ in range(100):
        values = noisy(cells, num_seeds, rng, spread=1.5)
        main.append(main_effect(values, 0))
        total.append(total_effect(values, 1))
    for shares, truth in ((main, 54 / 79.5), (total, 25.5 / 79.5)):
        assert np.mean([share.low <= truth <= share.high for share in shares]) >= 0.93
        assert abs(np.mean([share.estimate for share in shares]) - truth) < 0.05


@pytest.mark.parametrize(("grid", "measure"), [("ppo_cartpole", "score"), ("ppo_acrobot", "env_steps_to_target")])
def test_they_cover_with_the_noise_that_seeds_really_have(grid: str, measure: str) -> None:
    """Scores saturate and collapse: three seeds of each configuration are drawn from ten, whose means are the truth."""
    table = pd.read_csv(GRIDS / f"{grid}.csv")
    rates, batches = (sorted(table[name].unique()) for name in table.columns[1:3])
    table[measure] = table[measure].fillna(table["budget_env_steps"])
    ten = (
        table.sort_values([*table.columns[1:3], "seed"])[measure].to_numpy(float).reshape(len(rates), len(batches), 10)
    )
    truth = total_effect(np.repeat(ten.mean(axis=-1, keepdims=True), 2, axis=-1), 0).estimate
    rng, covered = np.random.default_rng(3), []
    for _ in range(60):
        drawn = np.take_along_axis(ten, rng.integers(0, 10, (*ten.shape[:2], 3)), axis=-1)
        share = total_effect(drawn, 0)
        covered.append(share.low <= truth <= share.high)
    assert np.mean(covered) >= 0.9
