"""The sections on batches."""

from types import SimpleNamespace
from typing import Any

import pandas as pd

from science.batch_invariance import test_question as of_invariance
from science.batch_invariance import test_recipe as of_recipe
from science.batch_invariance.recipe import RECIPE
from science.batch_invariance.section import invariance, recipe
from tests.support.study_frames import make_curves


def part_of(runs: pd.DataFrame, axes: tuple[str, ...]) -> Any:
    return SimpleNamespace(runs=runs, axes=axes, curves=make_curves(runs, {}))


def test_the_published_claim_comes_first_and_then_what_else_was_compared() -> None:
    found = invariance(part_of(of_invariance.runs_of(noise=3.0), of_invariance.AXES))
    first, published, *others = found.sentences
    assert first.startswith("PPO-EWMA, smaller batches, settings adjusted, by score: **holds**. ")
    assert (
        published.startswith("Published, of PPG-EWMA on Procgen: ") and "within 5% of the range of returns" in published
    )
    assert len(others) == 5
    assert sum("settings as they are, by score: **does not hold**. -" in sentence for sentence in others) == 1


def test_what_is_said_of_the_recipe_names_the_ways_that_are_as_good() -> None:
    *_, claim = recipe(part_of(of_recipe.runs_of(450.0, 300.0), of_recipe.AXES)).sentences
    assert claim == f"Published: {RECIPE}, and other ways degrade (Beukman et al. 2026): **holds** by score."
    *_, claim = recipe(part_of(of_recipe.runs_of(400.0, 400.0), of_recipe.AXES)).sentences
    assert "**can't tell in this range** by score, since the data do not reject " in claim and of_recipe.OTHER in claim


def test_other_studies_have_neither_section() -> None:
    part = part_of(of_invariance.runs_of(noise=3.0), ("lr",))
    assert not invariance(part).sentences and not recipe(part).sentences
