"""The law of env steps to the target: one that was planted is found, and where there is none nothing is claimed."""

from collections.abc import Callable

import numpy as np
import pytest

from science.compute_optimal.law import Cells, held_out, law_of, trend_of, why_not, why_rejected
from science.compute_optimal.testing import planted

UPDATES, WIDTHS = (0.25, 0.5, 1.0, 2.0), (32.0, 64.0, 128.0)


def cells(
    env_steps: Callable[[float, float], float] = planted,
    spread: float = 0.1,
    num_seeds: int = 3,
    updates: tuple[float, ...] = UPDATES,
    widths: tuple[float, ...] = WIDTHS,
    budget: float = np.inf,
    seed: int = 0,
) -> Cells:
    rng = np.random.default_rng(seed)
    points = [(u, w) for u in updates for w in widths]
    middle = np.array([env_steps(*point) for point in points])[:, None]
    drawn = middle * np.exp(spread * rng.standard_normal((len(points), num_seeds)))
    return Cells(*np.array(points).T, np.minimum(drawn, budget), drawn <= budget)


def rng() -> np.random.Generator:
    return np.random.default_rng(0)


def test_a_planted_law_is_found_and_foretells_twice_and_four_times_the_largest() -> None:
    own = cells(spread=0.05, num_seeds=5)
    assert why_not(own) == ""
    found = law_of(own, rng())
    assert why_rejected(own) == ""
    alpha, beta = found.powers
    assert alpha.low < 0.7 < alpha.high
    assert beta.low < 0.8 < beta.high
    larger, wider = np.array([2.0, 4.0, 8.0]), np.array([256.0, 256.0, 512.0])
    truth = np.array([planted(u, w) for u, w in zip(larger, wider, strict=True)])
    assert found.env_steps(larger, wider) == pytest.approx(truth, rel=0.15)
    low, high = np.quantile(found.drawn(larger, wider, 5, rng()), [0.05, 0.95], axis=0)
    assert (low < truth).all() and (truth < high).all()
    assert (high / low)[2] > (high / low)[0], "the farther, the less sure"


def test_a_trend_has_the_planted_exponents_and_none_where_there_are_none() -> None:
    planted_powers = cells(lambda updates, width: 20_000 * updates**-0.4 * width**0.2, spread=0.2)
    found = trend_of(planted_powers)
    assert found is not None
    assert found.num_trials == 36
    for power, truth in zip(found.powers, (-0.4, 0.2), strict=True):
        assert power.low < truth < power.high < power.low + 0.3
    assert found.factor == pytest.approx(np.exp(0.2), rel=0.15)
    flat = trend_of(cells(lambda *point: 20_000.0))
    assert flat is not None
    assert all(power.low < 0 < power.high for power in flat.powers)
    assert trend_of(cells(budget=25_000.0)) is None, "some seeds did not reach the target"
    one_width = trend_of(cells(widths=(64.0,)))
    assert one_width is not None
    assert len(one_width.powers) == 1


@pytest.mark.nightly
def test_ninety_percent_intervals_hold_about_as_many_new_means() -> None:
    at, held, num_studies = (np.array([4.0]), np.array([128.0])), 0, 60
    for seed in range(num_studies):
        found = law_of(cells(seed=seed), rng())
        low, high = np.quantile(found.drawn(*at, 3, rng()), [0.05, 0.95])
        by_chance = 0.1 / np.sqrt(3) * np.random.default_rng(100 + seed).standard_normal()
        new = planted(4.0, 128.0) * np.exp(by_chance)
        held += bool(low <= new <= high)
    assert held >= 49  # by chance, of 60 at 90%: 98%


def test_with_one_width_the_law_is_of_the_updates_alone() -> None:
    own = cells(widths=(64.0,), updates=(0.25, 0.5, 1.0, 2.0, 4.0), spread=0.05)
    found = law_of(own, rng())
    assert why_rejected(own) == ""
    assert len(found.powers) == 1
    assert found.env_steps(np.array([8.0]), np.array([64.0])) == pytest.approx(planted(8.0, 64.0), rel=0.15)


def test_where_nothing_makes_a_difference_nothing_is_claimed() -> None:
    for seed in range(5):
        own = cells(lambda updates, width: 20_000.0, seed=seed)
        assert "make no significant difference to the env steps to the target" in why_rejected(own)


def test_a_law_that_misses_is_rejected() -> None:
    own = cells(lambda updates, width: 20_000 * (1 + abs(np.log2(updates))), spread=0.05)  # best at 1 update
    assert "misses the configurations by more than seeds vary" in why_rejected(own)


def test_seeds_that_do_not_reach_the_target_are_known_to_take_more() -> None:
    truth = planted(0.25, 32.0)
    own = cells(budget=0.9 * truth)
    assert not own.reached.all()
    found = law_of(own, rng())
    (slowest,) = found.env_steps(np.array([0.25]), np.array([32.0]))
    assert slowest == pytest.approx(truth, rel=0.15)
    counted_as_the_budget = Cells(own.updates, own.width, own.env_steps, np.ones_like(own.reached))
    assert slowest > law_of(counted_as_the_budget, rng()).env_steps(np.array([0.25]), np.array([32.0]))[0]


def test_the_largest_configuration_is_foretold_from_the_others() -> None:
    tried = held_out(cells(), rng())
    assert tried is not None
    assert (tried.updates, tried.width) == (2.0, 128.0)
    assert tried.predicted.low < planted(2.0, 128.0) < tried.predicted.high
    assert tried.holds
    broken = held_out(cells(lambda u, w: planted(u, w) * (3 if (u, w) == (2.0, 128.0) else 1)), rng())
    assert broken is not None and not broken.holds


@pytest.mark.parametrize(
    ("own", "words"),
    [
        (cells(updates=(1.0, 2.0)), "it takes 3 values of the updates per env step, and there are 2"),
        (cells(widths=(64.0,), updates=(0.5, 1.0, 2.0)), "more configurations than the 3 parameters"),
        (cells(num_seeds=1), "one seed gives no interval"),
        (cells(budget=15_000.0), "it takes a larger budget"),
        (cells(spread=0.0), "it takes a smaller report_every_env_steps"),
    ],
)
def test_what_is_missing_is_said(own: Cells, words: str) -> None:
    assert words in why_not(own)
