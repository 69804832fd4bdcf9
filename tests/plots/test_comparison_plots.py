"""Figures that compare configurations: throughput, costs, seeds, pairs, the trade-off of the batch."""

import math

import numpy as np
import pandas as pd
import pytest

from analysis.plots import (
    batch_tradeoff,
    improvement_matrix,
    pareto,
    seed_scatter,
    throughput_bars,
    time_breakdown,
)
from tests.support.drawn_axes import lines_of, note_of, words
from tests.support.figures import DEFAULT, STUDIES, TARGET, Study, drawn, matrix_of, patches_of, segments

# Throughput.


def test_the_fastest_bar_is_on_top_with_its_number_and_whisker() -> None:
    ax = throughput_bars.plot(DEFAULT.summary(), packed=True)
    assert ax.get_yticklabels()[0].get_text() == DEFAULT.names[-1]
    assert ax.yaxis_inverted()
    assert [p.get_width() for p in patches_of(ax)][:2] == [8140.0, 8130.0]
    assert words(ax)[0] == "8.14k"
    assert len(list(segments(ax))) == 15
    assert ax.get_xlim()[0] == 0
    assert "Trials shared the machine" in note_of(ax)


def test_a_bar_of_one_seed_has_no_whisker_and_the_figure_says_so() -> None:
    ax = throughput_bars.plot(Study(num_seeds=1).summary())
    assert not list(segments(ax))
    assert "No whisker" in note_of(ax)


def test_a_configuration_without_a_speed_keeps_its_row() -> None:
    frame = DEFAULT.summary()
    frame.loc[0, "env_steps_per_s"] = math.nan
    ax = throughput_bars.plot(frame)
    assert ax.get_yticklabels()[-1].get_text() == DEFAULT.names[0]
    assert words(ax)[-1].strip() == "no data"


def test_shares_are_stacked_to_one_and_small_ones_have_no_number() -> None:
    ax = time_breakdown.plot(DEFAULT.shares())
    assert len(patches_of(ax)) == 4 * 15
    assert patches_of(ax)[3].get_x() + patches_of(ax)[3].get_width() == pytest.approx(1)
    assert words(ax) == ["50", "40"] * 15


def test_an_unknown_part_of_time_is_named() -> None:
    frame = DEFAULT.shares()
    with pytest.raises(ValueError, match="'idle'"):
        time_breakdown.plot(frame.assign(part=frame["part"].replace("sync", "idle")))


# Pareto.


def test_front_is_named_and_joined_and_censored_points_are_hollow() -> None:
    frame = DEFAULT.summary()
    frame.loc[4, "num_reached"] = 1
    ax = pareto.plot(frame)
    assert set(words(ax)) == set(DEFAULT.names[:2])
    hollow = [line for line in lines_of(ax) if line.get_color() == "white" and len(line.get_xdata())]
    assert [line.get_ydata().tolist() for line in hollow] == [[24_000.0]]
    assert any(line.get_drawstyle() == "steps-post" for line in lines_of(ax))
    assert "Hollow" in note_of(ax)
    assert (ax.get_xscale(), ax.get_yscale()) == ("log", "log")


# Seeds.


def test_every_seed_is_a_dot_at_the_same_place_every_time() -> None:
    first, second = (
        [(float(p.get_xdata()[0]), float(p.get_ydata()[0])) for p in lines_of(drawn("seed_scatter"))] for _ in range(2)
    )
    assert first == second
    assert len(set(first)) == len(DEFAULT.runs())
    assert all(abs(y - round(y)) < 0.3 for _, y in first)


def test_seeds_without_a_score_are_named_in_the_margin_by_their_reason() -> None:
    frame = DEFAULT.runs()
    frame.loc[[0, 1, 5], "score"] = math.nan
    frame.loc[[0, 1, 5, 8], "status"] = ["failed", "missing", "running", "interrupted"]
    ax = seed_scatter.plot(frame, target=TARGET)
    assert words(ax) == ["\u00d7 seed 0 failed\n\u00d7 seed 1 never ran", "\u00d7 seed 2 still running", "target 475"]
    dots = [line for line in lines_of(ax) if line.get_marker() == "o"]
    assert len(dots) == 42
    assert sum(dot.get_color() == "white" for dot in dots) == 1, "the interrupted one that has a score"
    assert "Hollow: the run did not finish" in note_of(ax)


def test_many_lost_seeds_are_counted() -> None:
    frame = Study(lrs=(1e-3,), batches=(512,), num_seeds=9).runs()
    frame.loc[:6, ["score", "status"]] = [math.nan, "failed"]
    assert words(seed_scatter.plot(frame)) == ["\u00d7 7 seeds failed"]


def test_a_summary_stands_behind_the_dots() -> None:
    ax = seed_scatter.plot(DEFAULT.runs(), summary=DEFAULT.summary())
    assert len(list(segments(ax))) == 2 * 15


# Matrix.


def test_matrix_shows_both_directions_of_a_pair_and_frames_those_told_apart() -> None:
    study = Study(lrs=(1e-3,), batches=(512, 2000, 4000))
    pairs = study.pairs()
    pairs.loc[0, ["probability_of_improvement", "p_adjusted"]] = [0.9, 0.01]
    ax = improvement_matrix.plot(pairs)
    image = matrix_of(ax)
    assert image[0, 1] == 0.9 and image[1, 0] == pytest.approx(0.1) and math.isnan(image[0, 0])
    assert sorted(words(ax)) == sorted(["90", "10", "75", "25", "75", "25"])
    assert len(patches_of(ax)) == 2
    assert "Framed: significantly different" in note_of(ax)
    assert "No pair is significantly different" in note_of(improvement_matrix.plot(study.pairs()))


def test_a_large_matrix_has_no_numbers() -> None:
    assert not words(improvement_matrix.plot(STUDIES["40 configurations"].pairs()))


def test_a_direction_that_the_frame_holds_is_not_replaced() -> None:
    study = Study(lrs=(1e-3,), batches=(512, 2000))
    both = pd.concat(
        [
            study.pairs(),
            study.pairs()
            .rename(columns={"config_a": "config_b", "config_b": "config_a"})
            .assign(probability_of_improvement=0.3),
        ]
    )
    image = matrix_of(improvement_matrix.plot(both))
    assert image[0, 1] == 0.75 and image[1, 0] == 0.3


# Trade-off.


def test_trade_off_obeys_its_equation_and_names_the_critical_batch() -> None:
    ax = batch_tradeoff.plot(DEFAULT.tradeoff(), 7.5, 15_000.0, 2000.0, 1000.0, 3000.0)
    curve = max(lines_of(ax), key=lambda line: len(line.get_xdata()))
    s, e = curve.get_xdata() / 7.5 - 1, curve.get_ydata() / 15_000 - 1
    np.testing.assert_allclose(s * e, 1)
    assert set(words(ax)) == {"batch 512", "batch 2000", "batch 4000", "critical batch 2k\n[1k, 3k]"}
    crosses = [line for line in lines_of(ax) if line.get_marker() == "X"]
    assert [(c.get_xdata()[0], c.get_ydata()[0]) for c in crosses] == [(15.0, 30_000.0)]


def test_without_a_fit_the_reason_is_given() -> None:
    ax = batch_tradeoff.plot(DEFAULT.tradeoff(), no_fit="only two batches reach the target.")
    assert "Only two batches reach the target." in note_of(ax)
    assert max(len(line.get_xdata()) for line in lines_of(ax)) == 2
