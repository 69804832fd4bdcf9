"""What holds for every figure."""

import ast
import itertools
import math
from dataclasses import replace
from pathlib import Path

import matplotlib as mpl
import pandas as pd
import pytest
from matplotlib.figure import Figure
from matplotlib.text import Text
from pandas.testing import assert_frame_equal

from analysis import plots
from analysis.plots import (
    labels,
    style,
)
from tests.support.drawn_axes import words
from tests.support.figures import FIGURES, SMALL, STUDIES, UNITS, drawn, each_figure


@each_figure
@pytest.mark.parametrize("study", STUDIES)
def test_every_figure_is_drawn_to_the_end(figure: str, study: str) -> None:
    ax = drawn(figure, STUDIES[study])
    assert isinstance(ax.figure, Figure)
    ax.figure.draw_without_rendering()


@each_figure
def test_axes_that_are_passed_are_drawn_on_and_given_back(figure: str) -> None:
    left, right = Figure(layout="constrained").subplots(1, 2)
    assert drawn(figure, SMALL, ax=right) is right
    assert not left.has_data()
    assert isinstance(right.figure, Figure)
    right.figure.draw_without_rendering()
    assert right.figure.get_supxlabel() == "", "the foot belongs to all axes of the figure"


@each_figure
def test_an_empty_frame_is_drawn_as_no_data(figure: str) -> None:
    plot, frame_of = FIGURES[figure]
    for empty in (frame_of(SMALL).iloc[:0], pd.DataFrame()):
        assert any(word.startswith("no data:") for word in words(plot(empty)))


@each_figure
def test_values_that_are_all_nan_are_drawn_as_no_data_or_named(figure: str) -> None:
    plot, frame_of = FIGURES[figure]
    frame = frame_of(SMALL)
    numbers = frame.select_dtypes("float").columns.difference(["lr", "threshold", "env_steps"])
    ax = plot(frame.assign(**dict.fromkeys(numbers, math.nan)))
    if figure == "seed_scatter":
        assert words(ax) == ["\u00d7 seeds 0, 1, 2 without a value"] * 4
    else:
        assert any(word.startswith("no data:") for word in words(ax))


@each_figure
def test_a_single_nan_leaves_the_rest_standing(figure: str) -> None:
    plot, frame_of = FIGURES[figure]
    frame = frame_of(SMALL)
    numbers = frame.select_dtypes("float").columns.difference(["lr", "threshold", "env_steps"])
    frame.loc[frame.index[0], numbers] = math.nan
    ax = plot(frame)
    assert not any(word.startswith("no data:") for word in words(ax))


@each_figure
def test_a_missing_column_is_named(figure: str) -> None:
    plot, frame_of = FIGURES[figure]
    with pytest.raises(ValueError, match="the figure needs the column"):
        plot(frame_of(SMALL).rename(columns=lambda name: f"other_{name}"))


@each_figure
def test_a_figure_labels_its_axes_with_units_and_changes_neither_its_frame_nor_matplotlib(figure: str) -> None:
    plot, frame_of = FIGURES[figure]
    frame, state = frame_of(SMALL), dict(mpl.rcParams)
    before = frame.copy(deep=True)
    ax = plot(frame)
    assert_frame_equal(frame, before)
    assert dict(mpl.rcParams) == state
    assert (ax.get_xlabel(), ax.get_ylabel()) == UNITS[figure]


def test_figures_draw_and_compute_nothing() -> None:
    """No statistics, no chance, no pyplot, and of the analysis nothing but one another."""
    for path in Path(str(plots.__file__)).parent.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            modules = [a.name for a in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom):
                modules = [f"{node.module}.{a.name}" for a in node.names]
            for module in modules:
                assert not module.startswith(("scipy", "statsmodels", "numpy.random", "random", "matplotlib.pyplot")), (
                    f"{path.name}: {module}"
                )
                assert not module.startswith("analysis") or module.startswith("analysis.plots"), (
                    f"{path.name}: {module}"
                )
            assert not (isinstance(node, ast.Attribute) and node.attr in {"groupby", "agg", "pivot_table", "random"}), (
                path.name
            )


def test_a_caption_stands_below_the_notes_inside_the_figure() -> None:
    ax = drawn("throughput_bars", packed=True)
    figure = ax.figure
    assert isinstance(figure, Figure)
    words = style.annotate_caption(
        figure, style.caption("lr_batch", 3, "t, variances moderated over configurations, and more of it")
    )
    assert figure.get_supxlabel().startswith("Trials shared")
    figure.draw_without_rendering()
    box = words.get_window_extent()
    assert box.y0 >= 0 and box.x1 <= figure.bbox.width
    assert box.y1 <= ax.xaxis.label.get_window_extent().y0


@each_figure
def test_nothing_is_cut_off_at_the_edges_or_smaller_than_8_points(figure: str) -> None:
    ax = drawn(figure, replace(SMALL, long_names=True))
    assert isinstance(ax.figure, Figure)
    style.annotate_caption(ax.figure, style.caption("lr_batch", 3, "t, variances moderated over configurations"))
    ax.figure.draw_without_rendering()
    box = ax.get_tightbbox()
    assert box is not None
    assert box.x0 >= -1 and box.y0 >= -1
    assert box.x1 <= ax.figure.bbox.width + 1 and box.y1 <= ax.figure.bbox.height + 1
    texts = [*ax.texts, *ax.get_xticklabels(), *ax.get_yticklabels(), ax.xaxis.label, ax.yaxis.label, ax.title]
    assert min(float(t.get_fontsize()) for t in texts if t.get_text()) >= 8


def test_labels_of_lines_that_end_together_do_not_overlap() -> None:
    ax = Figure(figsize=(6, 3.6), layout="constrained").subplots()
    ax.plot([0, 1], [0, 500])
    labels.label_ends(ax, [labels.End(f"line {i}", 1.0, 500.0, "#0072B2") for i in range(8)])
    assert isinstance(ax.figure, Figure)
    ax.figure.draw_without_rendering()
    boxes = sorted((Text.get_window_extent(t) for t in ax.texts), key=lambda box: box.y0)
    assert all(below.y1 <= above.y0 + 1 for below, above in itertools.pairwise(boxes))


@pytest.mark.parametrize("limits", [(1, 1e5), (17_000, 19_000), (12_000, 46_000), (2, 10), (4.4, 7.3)])
def test_a_logarithmic_axis_of_any_range_has_a_few_ticks(limits: tuple[float, float]) -> None:
    ax = Figure().subplots()
    style.log_axis(ax, "x")
    ax.set_xlim(*limits)
    assert 3 <= len([t for t in ax.get_xticks() if limits[0] <= t <= limits[1]]) <= 9


@pytest.mark.parametrize("colour", style.COLOURS)
def test_text_in_any_colour_can_be_read_on_white(colour: str) -> None:
    assert 1.05 / (style.luminance(style.ink_for(colour)) + 0.05) >= 4.5
