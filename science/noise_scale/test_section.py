"""The gradient noise scale in a report."""

import pandas as pd
import pytest

from analysis.report import build
from science.noise_scale.testing import curves_of
from tests.support.report_pages import Page, learning, study_of
from tests.support.study_frames import make_runs, together

SEEDS = [480.0, 481.0, 482.0, 483.0, 484.0]


@pytest.fixture(autouse=True)
def undrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Figures are made, and not drawn."""
    monkeypatch.setattr("analysis.report.svg", lambda figure: b"<svg/>")


def test_each_environment_has_its_noise_scale_and_all_are_summed_up() -> None:
    falling = make_runs(
        {"c": [-80.0 + seed for seed in range(5)]}, env="acrobot", target=-100.0, score_range=(-500.0, 0.0)
    )
    runs = together(make_runs({"a": SEEDS}), falling)
    of_each = [curves_of(runs[runs["env"] == env], growth) for env, growth in (("cartpole", 20.0), ("acrobot", 0.1))]
    report = build(study_of(runs, pd.concat([learning(runs), *of_each], ignore_index=True)))
    page = Page(report.html)
    for words in (
        "from the first fifth of training to the last: it rises in a; it falls in c.",
        "Gradient noise scale: cartpole",
        "It rises: 20 [20, 20] times as large (5 seeds)",
        "the published rise does not hold in this range",
    ):
        assert words in page.text, words
    assert {"noise-scale-all-weights.svg", "cartpole-noise-scale.svg", "acrobot-noise-scale.svg"} <= set(
        report.pictures
    )


def test_a_study_that_did_not_measure_it_says_nothing_of_it() -> None:
    runs = make_runs({"a": SEEDS})
    assert "noise scale" not in Page(build(study_of(runs, learning(runs))).html).text
