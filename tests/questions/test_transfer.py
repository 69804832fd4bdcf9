"""Which settings carry over: planted ones are found, and none where there are none."""

from dataclasses import replace

import numpy as np
import pytest

from analysis import AnalysisError
from analysis.questions.shared_settings import MULTIPLES, VALUES, Source
from analysis.questions.transfer import Transfer, transfer
from tests.support.several_studies import BASE, composed, peak, source


def of(*sources: Source, measure: str = "score") -> Transfer:
    return transfer(sources, measure, np.random.default_rng(0))


def values(letter: str, at: float, env: str, noise: float = 5.0) -> Source:
    """A study of the same values as the others, whose best learning rate is planted."""
    return source(letter, peak(at), env, as_values=True, noise=noise)


ALIKE = of(values("A", 3e-3, "cartpole"), values("B", 3e-3, "acrobot"), values("C", 3e-3, "pendulum"))


def test_a_setting_that_carries_over_is_found() -> None:
    best = ALIKE.best
    assert (best.form, len(best.settings), best.num_seeds, ALIKE.kind) == (VALUES, 10, 6, "environment")
    assert best.label(best.first) == "lr=0.003 b=512"
    assert all(pair.low > 0 for pair in best.correlations.pairs.values())
    assert best.correlations.mean.low > 0.5
    assert {one.chosen for one in best.left_out} == {best.first}
    assert abs(best.regret.estimate) < 0.01
    assert best.at_random.estimate > 0.2
    assert [axis.column for axis in best.by_axis] == ["lr", "train_batch_size_total"]
    assert all(abs(regret.estimate) < 0.01 for regret in best.by_axis.values())
    assert (ALIKE.other, ALIKE.is_one) == (None, False)


def test_factors_are_called_factors_though_all_start_from_the_same() -> None:
    found = of(source("A", peak(3e-3), "cartpole"), source("B", peak(3e-3), "acrobot"))
    assert found.best.label(found.best.first).startswith("learning_rate=x")
    assert found.parts[0].named("cartpole") == "cartpole"


def test_settings_that_do_not_carry_over_cost_where_they_are_used() -> None:
    """The best learning rates are a hundred times apart: what is best for one is worst for the other. The batch is the
    same for both.
    """
    found = of(values("A", 3e-4, "cartpole"), values("B", 3e-2, "acrobot"))
    best = found.best
    assert best.correlations.mean.high < 0
    assert np.isnan(best.regret.low)  # two environments say nothing of the others
    for one in best.left_out:
        assert one.regret.whole.low > 0.5  # 300 of 475
        rate = "0.03" if one.part.name == "cartpole" else "0.0003"
        assert best.label(one.chosen) == f"lr={rate} b=512"
    of_rate, of_batch = best.by_axis.values()
    assert of_rate.estimate == pytest.approx(300 / 475, abs=0.03)
    assert of_batch.estimate == pytest.approx(0, abs=0.01)


def test_noise_alone_is_neither() -> None:
    def flat(*_: float) -> float:
        return 200.0

    one, other = (source(*of_one, noise=60.0) for of_one in (("A", flat, "cartpole"), ("B", flat, "acrobot")))
    found = of(one, other)
    assert found.best.correlations.mean.low < 0 < found.best.correlations.mean.high
    assert all(one.regret.whole.low < 0 < one.regret.whole.high for one in found.best.left_out)


def bases(*of_env: tuple[str, str, float, float]) -> list[Source]:
    """Letter, environment, the learning rate that it starts from and the best one; the same factors of each."""
    return [source(letter, peak(best), env, base=(base, 2048)) for letter, env, base, best in of_env]


def test_multiples_carry_over_better_where_each_environment_starts_from_what_it_needs() -> None:
    found = of(*bases(("A", "cartpole", 1e-3, 1e-3), ("B", "acrobot", 1e-2, 1e-2), ("C", "pendulum", 1e-3, 1e-3)))
    assert found.best.form == MULTIPLES
    assert found.best.label(found.best.first) == "learning_rate=x1 batch_size=x0.25"
    assert found.other is not None and found.other.form == VALUES
    assert len(found.other.settings) == 6  # 1e-3, 3e-3 and 1e-2
    assert found.other.label(found.other.first) == "lr=0.001 b=512"
    assert abs(found.best.regret.estimate) < 0.01 < found.other.regret.estimate
    assert found.difference.estimate == pytest.approx(found.other.regret.estimate - found.best.regret.estimate)


def test_where_all_start_from_the_same_both_forms_are_one() -> None:
    found = of(*bases(("A", "cartpole", 1e-3, 1e-3), ("B", "acrobot", 1e-3, 1e-3)))
    assert found.is_one and found.other is None
    assert np.isnan(found.difference.estimate)


def test_the_own_best_may_lie_outside_of_what_all_ran() -> None:
    """Pendulum needs a learning rate that nobody else tried."""
    wide = source("B", peak(0.3), "pendulum", as_values=True, factors=(0.1, 1.0, 100.0))
    found = of(values("A", 3e-3, "cartpole"), wide)
    (other,) = [one for one in found.best.left_out if one.part.name == "pendulum"]
    assert len(found.best.settings) == 4
    assert found.best.label(other.chosen) == "lr=0.003 b=512"
    assert other.regret.whole.low > 0.5


def test_budgets_of_one_environment_share_their_seeds() -> None:
    short = source("B", peak(3e-3), budget_env_steps=20_000)
    found = of(source("A", peak(3e-3)), short)
    assert found.kind == "budget"
    assert [(a.name, b.name) for a, b in found.same_streams] == [("100,000 env steps", "20,000 env steps")]
    assert ALIKE.same_streams == []


def test_the_area_under_the_curve_may_decide() -> None:
    found = of(values("A", 3e-3, "cartpole"), values("B", 3e-3, "acrobot"), measure="auc")
    assert found.best.left_out[0].part.scores.to_numpy().max() < 0.9  # 0.8 of the score


def test_too_few_settings_in_common_are_refused_with_the_fix() -> None:
    apart = source("B", peak(3e-3), "acrobot", as_values=True, factors=(0.5, 2.0))
    with pytest.raises(AnalysisError) as refused:
        of(source("A", peak(3e-3), as_values=True), apart)
    assert str(refused.value).startswith(
        "cartpole and acrobot share too few settings with two finished seeds: 0 as values, and it takes 2. "
        "Search the same values of lr and train_batch_size_total in each"
    )
    elsewhere = replace(apart, composed=composed("another", "ppo", BASE, dict(apart.space)))
    with pytest.raises(AnalysisError, match="0 as multiples and 0 as values, and it takes 2"):
        of(source("A", peak(3e-3)), elsewhere)


def test_the_generator_determines_it() -> None:
    again = of(values("A", 3e-3, "cartpole"), values("B", 3e-3, "acrobot"), values("C", 3e-3, "pendulum"))
    assert again.best.regret == ALIKE.best.regret
    assert again.best.correlations == ALIKE.best.correlations
