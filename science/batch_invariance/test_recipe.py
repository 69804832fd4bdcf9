import itertools

import numpy as np
import pandas as pd

from analysis.questions.claims import Verdict
from analysis.questions.rules import RulesFound
from science.batch_invariance.recipe import RECIPE, compare_ways, has_ways, recipe_holds
from tests.support.study_frames import make_runs

AXES = ("num_envs_per_env_runner_rule", "minibatch_size_rule", "lr_rule", "train_batch_size_total")
OTHER = "longer fragments in larger minibatches at square-root rate"


def runs_of(recipe: float, others: float) -> pd.DataFrame:
    """A base configuration, and each of the eight ways at a batch of 2048."""
    rng = np.random.default_rng(0)
    of_seed = rng.normal(0, 20, 8)
    ways = {
        "base": ("base",) * 3,
        **{
            " ".join(way): way
            for way in itertools.product(("linear", "constant"), ("constant", "linear"), ("constant", "sqrt"))
        },
    }
    scores = {
        name: list((recipe if way == ("linear", "constant", "constant") else others) + of_seed + rng.normal(0, 3, 8))
        for name, way in ways.items()
    }
    params = {axis: {name: way[i] for name, way in ways.items()} for i, axis in enumerate(AXES[:3])}
    params["train_batch_size_total"] = {name: 512 if name == "base" else 2048 for name in ways}  # type: ignore[misc]
    return make_runs(scores, params=params)  # type: ignore[arg-type]


def by_score(recipe: float, others: float) -> RulesFound:
    (found,) = (found for found in compare_ways(runs_of(recipe, others), AXES) if found.measure == "score")
    return found


def test_the_recipe_holds_where_all_other_ways_are_rejected() -> None:
    found = by_score(450.0, 300.0)
    assert len(found.rejected) == 7 and OTHER in found.rejected and found.kept == (RECIPE,)
    assert len(found.pairs) == 28 and set(found.pairs["batch"]) == {2048}
    assert recipe_holds(found) is Verdict.HOLDS


def test_it_does_not_hold_where_it_is_rejected_itself_and_else_one_cannot_tell() -> None:
    assert recipe_holds(by_score(300.0, 450.0)) is Verdict.FAILS
    alike = by_score(400.0, 400.0)
    assert (alike.rejected, recipe_holds(alike)) == ((), Verdict.OPEN)


def test_a_way_is_named_by_what_was_searched() -> None:
    runs = runs_of(450.0, 300.0)
    runs = runs[runs["minibatch_size_rule"].isin(["base", "constant"]) & runs["lr_rule"].isin(["base", "constant"])]
    found = compare_ways(runs, (AXES[0], AXES[3]))[0]
    assert set(found.pairs["better"]) | set(found.pairs["worse"]) == {"more environments", "longer fragments"}


def test_a_study_of_the_learning_rate_alone_is_none_of_ways() -> None:
    assert not has_ways(("lr_rule", "train_batch_size_total")) and has_ways(AXES)
    assert compare_ways(runs_of(450.0, 300.0), ("lr_rule", "train_batch_size_total")) == []
