"""The memory that trials took, beside what was predicted."""

import numpy as np
import pandas as pd

from analysis.document.wording import memory_sentences
from analysis.questions.memory import differing

PREDICTED = {"a": 500.0, "b": 500.0, "c": 400.0}


def trials(**peaks: list[float]) -> pd.DataFrame:
    rows = [(config, peak) for config, of_config in peaks.items() for peak in of_config]
    runs = pd.DataFrame(rows, columns=["config", "memory_mib"])
    return runs.astype({"config": pd.CategoricalDtype(["a", "b", "c"], ordered=True)})


def test_what_differs_by_more_than_a_quarter_is_said_the_largest_difference_first() -> None:
    runs = trials(a=[510.0, 624.0], b=[900.0, np.nan, 1200.0], c=[280.0])
    found = differing(runs, PREDICTED)
    assert found.to_dict("list") == {
        "config": ["b", "c"], "predicted": [500.0, 400.0], "measured": [1200.0, 280.0], "num_trials": [2, 1],
    }  # fmt: skip
    (sentence,) = memory_sentences(runs, PREDICTED)
    assert "trials of b took up to 1,200 MiB (peak of 2 trials), where 500 MiB were predicted" in sentence
    assert "and so 1 other configuration" in sentence


def test_nothing_is_said_where_it_came_as_predicted_or_nobody_knows() -> None:
    assert memory_sentences(trials(a=[600.0], b=[400.0]), PREDICTED) == []
    assert memory_sentences(trials(a=[5000.0]), {}) == []
    assert memory_sentences(trials(a=[np.nan]), PREDICTED) == []
