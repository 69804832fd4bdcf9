"""Words, numbers and captions in figures."""

import math
from typing import Any

import pytest

from analysis.plots import (
    style,
    text,
)
from tests.support.figures import Study


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (475, "475"),
        (499.96, "500"),
        (999.9, "1k"),
        (8543, "8.54k"),
        (44_000, "44k"),
        (999_999, "1M"),
        (-73.5, "\u221273.5"),
        (3e-4, "3e-4"),
        (0, "0"),
    ],
)
def test_numbers_read_with_three_digits(value: float, expected: str) -> None:
    assert text.number(value) == expected


def test_missing_numbers_are_dashes_and_missing_intervals_nothing() -> None:
    assert text.number(math.nan) == "\u2013"
    assert text.interval(math.nan, 1) == ""


@pytest.mark.parametrize(
    ("value", "expected"), [(3e-4, "3e-4"), (2.5e-4, "2.5e-4"), (0.1, "0.1"), (1, "1"), (0.01, "1e-2")]
)
def test_learning_rates_read_as_in_the_configurations(value: float, expected: str) -> None:
    assert text.level("lr", value) == expected


def test_settings_that_are_not_numbers_read_as_they_are() -> None:
    assert [text.level("gamma", 0.99), text.level("use_kl", True), text.level("train_batch_size_total", 4096.0)] == [
        "0.99",
        "True",
        "4096",
    ]


def test_long_names_are_cut_to_two_lines_and_stay_apart() -> None:
    names = Study(long_names=True).names
    texts = text.short_names(names)
    assert list(texts) == names
    assert len(set(texts.values())) == len(names)
    assert all(len(line) <= 24 for t in texts.values() for line in t.split("\n"))
    assert all(t.count("\n") <= 1 for t in texts.values())


def test_a_long_key_is_cut_before_its_value() -> None:
    name = "train_batch_size_per_learner=4000 num_envs_per_env_runner=16"
    assert text.short_names([name])[name] == "\u2026_learner=4000\n\u2026v_runner=16"


def test_a_name_is_the_same_in_a_figure_of_some_configurations() -> None:
    study = Study(long_names=True)
    frame = study.summary()
    assert style.name_texts(frame["config"].iloc[3:5]) == style.name_texts(frame["config"])


@pytest.mark.parametrize(
    ("num_seeds", "method", "expected"),
    [
        (3, "t", "Study s; 3 seeds per configuration; 95% intervals: t."),
        ([2, 3, 3], "t", "Study s; 2 to 3 seeds per configuration; 95% intervals: t."),
        (1, "t", "Study s; 1 seed per configuration; no intervals."),
        (3, "", "Study s; 3 seeds per configuration; no intervals."),
        ([], "t", "Study s; no seeds; no intervals."),
    ],
)
def test_captions_state_study_seeds_and_method(num_seeds: Any, method: str, expected: str) -> None:
    assert style.caption("s", num_seeds, method) == expected
