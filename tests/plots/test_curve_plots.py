"""Figures of what was learned: curves, heatmaps, learning rates, profiles."""

import math
from typing import Any

import numpy as np
import pandas as pd
import pytest
from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.text import Annotation

from analysis.plots import (
    best_lr,
    learning_curves,
    score_heatmap,
    style,
)
from tests.support.drawn_axes import lines_of, note_of, words
from tests.support.figures import (
    BATCHES,
    DEFAULT,
    STUDIES,
    TARGET,
    Slope,
    Study,
    bands,
    coloured,
    drawn,
    patches_of,
    segments,
)

# Learning curves.


def test_up_to_two_curves_have_bands_and_their_names_at_their_ends() -> None:
    frame = DEFAULT.bands()
    ax = learning_curves.plot(frame[frame["config"].isin(DEFAULT.names[:2])], target=TARGET)
    assert len(coloured(ax)) == len(bands(ax)) == 2
    assert set(words(ax)) == {*DEFAULT.names[:2], "target 475"}
    np.testing.assert_array_equal(coloured(ax)[0].get_xdata(), np.arange(4000, 60_001, 4000))


def test_of_many_curves_the_leaders_are_coloured_with_whiskers_and_the_rest_is_grey() -> None:
    ax = learning_curves.plot(DEFAULT.bands())
    highest = ["lr=1e-3 b=512", "lr=1e-3 b=2000", *(f"lr=3e-3 b={batch}" for batch in BATCHES)]
    assert [line.get_label() for line in coloured(ax)] == highest
    assert not bands(ax)
    ends = {float(s[0][0]) for s in segments(ax)}
    assert ends <= set(range(4000, 60_001, 4000))
    assert "Grey: 10 other configurations" in note_of(ax)


def test_no_two_curves_have_whiskers_at_the_same_point() -> None:
    ax = learning_curves.plot(DEFAULT.bands(), highlight=DEFAULT.names[:4])
    at = [s[0][0] for s in segments(ax)]
    assert len(at) == len(set(at)) == 15


def test_highlighted_curves_are_those_of_the_caller() -> None:
    ax = learning_curves.plot(DEFAULT.bands(), highlight=DEFAULT.names[3:5])
    assert [line.get_label() for line in coloured(ax)] == DEFAULT.names[3:5]


def test_one_seed_has_no_band_and_the_figure_says_so() -> None:
    study = Study(lrs=(1e-3,), batches=(512,), num_seeds=1)
    ax = learning_curves.plot(study.bands())
    assert not bands(ax)
    assert "No band: too few seeds" in note_of(ax)


def test_an_ordered_axis_has_colours_from_dark_to_pale() -> None:
    frame = DEFAULT.bands()
    ax = learning_curves.plot(frame[frame["train_batch_size_total"] == 512], series="lr")
    brightness = [style.luminance(line.get_color()) for line in coloured(ax)]
    assert brightness == sorted(brightness) and len(brightness) == 5
    assert "lr 3e-3" in words(ax)


def test_wall_clock_time_is_an_axis_in_seconds() -> None:
    ax = learning_curves.plot(DEFAULT.bands("wall_s"), x="wall_s")
    assert ax.get_xlabel() == "wall-clock time (s)"


def test_a_grid_has_a_panel_with_a_band_for_each_configuration_laid_out_as_the_heatmap() -> None:
    axes = learning_curves.panels(DEFAULT.bands(), panel="train_batch_size_total", series="lr", target=TARGET)
    assert len(axes) == 15
    assert [ax.get_title(loc="left") for ax in axes[:3]] == ["batch 512", "batch 2000", "batch 4000"]
    assert [words(ax) for ax in axes[2::3]] == [["lr 3e-2"], ["lr 1e-2"], ["lr 3e-3"], ["lr 1e-3"], ["lr 3e-4"]]
    for ax in axes:
        assert len(bands(ax)) == 1
        assert sum(to_hex(line.get_color()) == style.GREY.lower() for line in lines_of(ax)) == 4
        assert ax.get_ylim() == axes[0].get_ylim() and ax.get_xlim() == axes[0].get_xlim()
    assert "Dashed: the target, 475" in note_of(axes[0])


def test_a_grid_of_more_axes_than_two_is_refused() -> None:
    with pytest.raises(ValueError, match="several configurations share lr and num_epochs"):
        learning_curves.panels(DEFAULT.bands().assign(num_epochs=4), panel="lr", series="num_epochs")


@pytest.mark.parametrize("study", ["one configuration, one seed", "40 configurations"])
def test_a_grid_of_any_study_is_drawn(study: str) -> None:
    axes = learning_curves.panels(STUDIES[study].bands(), panel="train_batch_size_total", series="lr")
    assert isinstance(axes[0].figure, Figure)
    axes[0].figure.draw_without_rendering()


def test_a_grid_without_data_says_so() -> None:
    (ax,) = learning_curves.panels(DEFAULT.bands().iloc[:0], panel="train_batch_size_total", series="lr")
    assert words(ax)[0].startswith("no data")


# Heatmap.


def frames_around(ax: Axes) -> list[tuple[int, int]]:
    marked = [
        p for p in patches_of(ax) if isinstance(p, Rectangle) and to_hex(p.get_edgecolor()) == style.ALARM.lower()
    ]
    return [(round(p.get_x() + p.get_width() / 2), round(p.get_y() + p.get_height() / 2)) for p in marked]


def test_heatmap_writes_value_and_interval_into_each_cell_and_frames_the_best() -> None:
    ax = score_heatmap.plot(DEFAULT.summary())
    assert len(words(ax)) == 30
    assert "414" in words(ax) and "[394, 434]" in words(ax)
    assert frames_around(ax) == [(2, 4)], "the last configuration: largest learning rate, largest batch"
    assert [t.get_text() for t in ax.get_yticklabels()] == ["3e-4", "1e-3", "3e-3", "1e-2", "3e-2"]


def test_heatmap_of_a_cost_frames_the_smallest() -> None:
    assert frames_around(score_heatmap.plot(DEFAULT.summary(), "env_steps_to_target")) == [(0, 0)]


def test_heatmap_frames_what_the_answer_chose_whatever_the_number_says() -> None:
    summary = DEFAULT.summary()
    ax = score_heatmap.plot(summary.assign(chosen=summary.index == 4), "env_steps_to_target")
    assert frames_around(ax) == [(1, 1)]
    assert "Framed: the recommended one." in note_of(ax)


def test_censored_cells_are_lower_bounds_and_say_how_many_seeds_reached() -> None:
    frame = DEFAULT.summary()
    frame.loc[[1, 2], "num_reached"] = [2, 0]
    ax = score_heatmap.plot(frame, "env_steps_to_target")
    assert "\u2265 21k" in words(ax) and "[18k, 24k]\n2 of 3 reached" in words(ax)
    assert "\u2265 22k" in words(ax) and "never reached" in words(ax)
    assert "lower bound" in note_of(ax)
    assert "lower bound" not in note_of(score_heatmap.plot(DEFAULT.summary(), "env_steps_to_target"))


def test_a_cell_without_data_differs_from_one_that_was_not_run() -> None:
    frame = DEFAULT.summary().drop(index=0)
    frame.loc[1, "score"] = math.nan
    found = words(score_heatmap.plot(frame))
    assert found.count("not run") == found.count("no data") == 1


def test_the_only_value_of_a_heatmap_is_at_the_dark_end() -> None:
    for value in ("score", "env_steps_to_target"):
        image: Any = score_heatmap.plot(Study(lrs=(1e-3,), batches=(512,)).summary(), value).images[0]
        assert style.luminance(image.cmap(image.norm(image.get_array()))[0][0][:3]) < 0.05


def test_two_configurations_in_a_cell_are_refused() -> None:
    frame = DEFAULT.summary()
    with pytest.raises(ValueError, match="several configurations share"):
        score_heatmap.plot(pd.concat([frame, frame]))


# Best learning rate.


def test_rules_go_through_the_middle_of_the_points_with_their_slopes() -> None:
    ax = best_lr.plot(DEFAULT.best())
    slopes = [
        np.diff(np.log(line.get_ydata()))[0] / np.diff(np.log(line.get_xdata()))[0]
        for line in lines_of(ax)
        if len(line.get_xdata()) == 2
    ]
    np.testing.assert_allclose(slopes, [0, 0.5, 1], atol=1e-12)
    assert {"constant (0)", "square root (0.5)", "linear (1)"} <= set(words(ax))
    assert (ax.get_xscale(), ax.get_yscale()) == ("log", "log")
    middle = math.prod(BATCHES) ** (1 / 3)
    for line in (line for line in lines_of(ax) if len(line.get_xdata()) == 2):
        at = np.exp(np.interp(math.log(middle), np.log(line.get_xdata()), np.log(line.get_ydata())))
        assert at == pytest.approx(2e-3)


def test_the_fit_is_drawn_with_its_exponent_through_its_own_point() -> None:
    ax = best_lr.plot(DEFAULT.best(), Slope(), rejected=["linear"])
    assert "fit: p = 0.50\n[0.10, 0.90]" in words(ax)
    assert "linear (1)\nrejected" in words(ax)
    fan = bands(ax)[0].get_paths()[0].vertices
    assert [1000.0, 2e-3] in np.round(np.asarray(fan), 12).tolist(), "the fan pinches where the fit says"


def test_a_best_at_the_edge_or_an_open_interval_is_an_arrow() -> None:
    frame = DEFAULT.best()
    frame.loc[0, ["at_edge", "low_open"]] = ["low", True]
    frame.loc[2, "high_open"] = True
    ax = best_lr.plot(frame)
    arrows = {(a.xy[0], a.xy[1], a.xyann[1] < 0) for a in ax.texts if isinstance(a, Annotation) and not a.get_text()}
    assert arrows == {(512, 1e-3, True), (4000, 8e-3, False)}
    assert "Arrow" in note_of(ax)
    assert "Arrow" not in note_of(best_lr.plot(DEFAULT.best()))


def test_one_batch_has_no_rules() -> None:
    ax = best_lr.plot(Study(batches=(512,)).best(), Slope())
    assert not words(ax)
    assert "One value only" in note_of(ax)


def test_an_unknown_rule_is_named() -> None:
    with pytest.raises(ValueError, match="no rule is called 'cubic'"):
        best_lr.plot(DEFAULT.best(), rejected=["cubic"])


# Profiles.


@pytest.mark.parametrize("figure", ["score_profile", "sample_efficiency"])
def test_profiles_are_steps_with_a_key_and_the_band_of_the_first(figure: str) -> None:
    ax = drawn(figure, highlight=DEFAULT.names[2:6][::-1])
    assert {line.get_drawstyle() for line in coloured(ax)} == {"steps-post"}
    legend = ax.get_legend()
    assert legend is not None
    assert [t.get_text() for t in legend.get_texts()] == DEFAULT.names[2:6]
    assert len(bands(ax)) == 1
    assert f"Band: {DEFAULT.names[5]};" in note_of(ax)
    low, high = ax.get_ylim()
    assert low < 0 and high > 1


def test_lines_that_would_hide_each_other_keep_their_values() -> None:
    ax = drawn("score_profile", highlight=DEFAULT.names[:3])
    for line in coloured(ax):
        assert set(line.get_ydata()) == {0.0, 1.0}
