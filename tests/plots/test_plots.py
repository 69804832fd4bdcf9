"""The figures: what is drawn where, from frames written by hand."""

import ast
import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection, PolyCollection
from matplotlib.colors import to_hex, to_rgb
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.text import Annotation, Text
from pandas.testing import assert_frame_equal

from analysis import plots
from analysis.plots import (
    batch_tradeoff,
    best_lr,
    group_gaps,
    improvement_matrix,
    labels,
    learning_curves,
    lineage,
    pareto,
    sample_efficiency,
    score_heatmap,
    score_profile,
    search_confirmed,
    search_progress,
    seed_scatter,
    style,
    text,
    throughput_bars,
    time_breakdown,
)
from tests.support.drawn_axes import lines_of, note_of, words

LRS = (3e-4, 1e-3, 3e-3, 1e-2, 3e-2)
BATCHES = (512, 2000, 4000)
LONG = "algorithm.training.learner_connector_gae_lambda=0.95 train_batch_size_per_learner=4000 num_envs_per_env_runner="
TARGET = 475.0


@dataclass(frozen=True)
class Study:
    """A study's frames, as the default study would give them: learning rate x batch, 15 points a curve."""

    lrs: tuple[float, ...] = LRS
    batches: tuple[int, ...] = BATCHES
    num_seeds: int = 3
    long_names: bool = False

    @property
    def grid(self) -> list[tuple[float, int]]:
        return list(itertools.product(self.lrs, self.batches))

    @property
    def names(self) -> list[str]:
        short = [f"lr={text.rate(lr)} b={batch}" for lr, batch in self.grid]
        return [f"{LONG}{i} {name}" for i, name in enumerate(short)] if self.long_names else short

    def frame(self, rows: list[dict[str, Any]], *columns: str) -> pd.DataFrame:
        frame = pd.DataFrame(rows)
        for column in columns or ("config",):
            frame[column] = pd.Categorical(frame[column], categories=self.names, ordered=True)
        return frame

    def with_interval(self, name: str, value: float, half: float) -> dict[str, float]:
        half = half if self.num_seeds > 1 else math.nan
        return {name: value, f"{name}_low": value - half, f"{name}_high": value + half}

    def bands(self, x: str = "env_steps") -> pd.DataFrame:
        rows = []
        for (lr, batch), name in zip(self.grid, self.names, strict=True):
            speed = 2 - abs(math.log10(lr / 3e-3))
            for step in range(4000, 60_001, 4000):
                value = 500 * (1 - math.exp(-step / 15_000 * speed))
                point = step if x == "env_steps" else step / 8000
                rows.append(
                    {"config": name, "lr": lr, "train_batch_size_total": batch, x: point, **self.with_interval("value", value, 30.0)}
                )
        return self.frame(rows)

    def summary(self) -> pd.DataFrame:
        rows = []
        for i, ((lr, batch), name) in enumerate(zip(self.grid, self.names, strict=True)):
            rows.append(
                {
                    "config": name,
                    "lr": lr,
                    "train_batch_size_total": batch,
                    "num_seeds": self.num_seeds,
                    "num_reached": self.num_seeds,
                    "on_front": i < 2,
                    **self.with_interval("score", 400.0 + i, 20.0),
                    **self.with_interval("env_steps_to_target", 20_000.0 + 1000 * i, 3000.0),
                    **self.with_interval("seconds_to_target", 5.0 - 0.3 * i if i < 2 else 5.0 + i, 0.5),
                    **self.with_interval("env_steps_per_s", 8000.0 + 10 * i, 200.0),
                }
            )
        return self.frame(rows)

    def runs(self) -> pd.DataFrame:
        seeds = range(self.num_seeds)
        rows = [
            {"config": name, "seed": seed, "status": "finished", "score": 400.0 + i + 5 * seed}
            for (i, name), seed in itertools.product(enumerate(self.names), seeds)
        ]
        return self.frame(rows)

    def profile(self, x: str, top: float) -> pd.DataFrame:
        rows = []
        for (i, name), at in itertools.product(enumerate(self.names), np.linspace(0, top, 21)):
            share = float(at < top * (0.5 + i / 200)) if x == "threshold" else float(at > top * (0.5 + i / 200))
            rows.append({"config": name, x: at, "share": share, "share_low": max(0, share - 0.5), "share_high": min(1, share + 0.5)})
        return self.frame(rows)

    def pairs(self) -> pd.DataFrame:
        columns = ("config_a", "config_b", "probability_of_improvement", "p_adjusted")
        rows = [dict(zip(columns, (a, b, 0.75, 0.2), strict=True)) for a, b in itertools.combinations(self.names, 2)]
        return self.frame(rows, "config_a", "config_b") if rows else pd.DataFrame(columns=list(columns))

    def shares(self) -> pd.DataFrame:
        parts = {"sample": 0.5, "learn": 0.4, "sync": 0.06, "other": 0.04}
        return self.frame([{"config": n, "part": part, "share": share} for n in self.names for part, share in parts.items()])

    def best(self) -> pd.DataFrame:
        rows = []
        for i, batch in enumerate(self.batches):
            edges = {"at_edge": "", "low_open": False, "high_open": False}
            rate = 1e-3 * 2**i
            low, high = (rate / 2, rate * 2) if self.num_seeds > 1 else (math.nan, math.nan)
            rows.append(
                {"train_batch_size_total": batch, "best_lr": rate, "best_lr_low": low, "best_lr_high": high, "grid_best_lr": 1e-3, **edges}
            )
        return pd.DataFrame(rows)

    def gaps(self) -> pd.DataFrame:
        groups = range(2, 6)
        return self.frame(
            [
                {"config": n, "group": g, "gap_95": (60.0 + i) / math.sqrt(g)}
                for (i, n), g in itertools.product(enumerate(self.names), groups)
            ]
        )

    def curse(self) -> pd.DataFrame:
        rows = [
            {"config": n, "is_base": i == 1, "searched": 450.0 - 2 * i, **self.with_interval("confirmed", 430.0 - 7 * i, 15.0)}
            for i, n in enumerate(self.names)
        ]
        return self.frame(rows)

    def progress(self) -> pd.DataFrame:
        rows = [
            {"config": n, "env_steps": 60_000.0 * (i + 1), "outcome": "finished", "score": 300.0 + i, "best": 300.0 + i}
            for i, n in enumerate(self.names)
        ]
        return self.frame(rows)

    def lineage(self) -> pd.DataFrame:
        """A member a configuration; the worst is copied from the best, and is the best of the third generation."""
        rows = []
        for generation, (i, name) in itertools.product(range(3), enumerate(self.names)):
            copied = generation == 1 and i == len(self.names) - 1
            best = i == (len(self.names) - 1 if generation else 0)
            rows.append(
                {
                    "member": i, "generation": generation, "settings": self.names[0] if copied else name,
                    "start_env_steps": 20_000 * generation, "env_steps": 20_000 * (generation + 1), "status": "finished",
                    "score": 200.0 + 100 * generation - i, "parent_member": 0 if copied else i if generation else pd.NA,
                    "copied": copied, "is_best": best,
                }
            )  # fmt: skip
        return pd.DataFrame(rows).astype({"parent_member": "Int64"})

    def tradeoff(self) -> pd.DataFrame:
        rows = []
        for batch in self.batches:
            steps = 15_000.0 * (1 + batch / 2000)
            costs = {
                **self.with_interval("env_steps_to_target", steps, 2000.0),
                **self.with_interval("updates_to_target", steps / batch, 2000 / batch),
            }
            rows.append({"train_batch_size_total": batch, **costs})
        return pd.DataFrame(rows)


@dataclass(frozen=True)
class Slope:
    estimate: float = 0.5
    low: float = 0.1
    high: float = 0.9
    reference_batch: float = 1000.0
    reference_lr: float = 2e-3


DEFAULT = Study()
SMALL = Study(lrs=LRS[:2], batches=BATCHES[:2])
FIGURES: dict[str, tuple[Callable[..., Axes], Callable[[Study], pd.DataFrame]]] = {
    "learning_curves": (learning_curves.plot, Study.bands),
    "score_heatmap": (score_heatmap.plot, Study.summary),
    "best_lr": (best_lr.plot, Study.best),
    "score_profile": (score_profile.plot, lambda study: study.profile("threshold", 500.0)),
    "sample_efficiency": (sample_efficiency.plot, lambda study: study.profile("env_steps", 60_000.0)),
    "throughput_bars": (throughput_bars.plot, Study.summary),
    "time_breakdown": (time_breakdown.plot, Study.shares),
    "pareto": (pareto.plot, Study.summary),
    "seed_scatter": (seed_scatter.plot, Study.runs),
    "improvement_matrix": (improvement_matrix.plot, Study.pairs),
    "batch_tradeoff": (batch_tradeoff.plot, Study.tradeoff),
    "group_gaps": (lambda gaps, **options: group_gaps.plot(gaps, "score", **options), Study.gaps),
    "search_confirmed": (search_confirmed.plot, Study.curse),
    "search_progress": (search_progress.plot, Study.progress),
    "lineage": (lineage.plot, Study.lineage),
}
STUDIES = {
    "one configuration, one seed": Study(lrs=(1e-3,), batches=(512,), num_seeds=1),
    "one seed": replace(SMALL, num_seeds=1),
    "40 configurations": Study(lrs=tuple(float(lr) for lr in np.geomspace(1e-4, 1e-1, 8)), batches=(256, 512, 1024, 2048, 4096)),
}
UNITS = {
    "learning_curves": ("env steps", "evaluation return"),
    "score_heatmap": ("train batch (env steps)", "learning rate"),
    "best_lr": ("train batch (env steps)", "learning rate"),
    "score_profile": ("score threshold (mean return)", "runs that score above it (%)"),
    "sample_efficiency": ("env steps", "seeds that hold the target (%)"),
    "throughput_bars": ("throughput (env steps/s)", ""),
    "time_breakdown": ("share of training time (%)", ""),
    "pareto": ("seconds to target (training time)", "env steps to target"),
    "seed_scatter": ("score (mean return of the final evaluation)", ""),
    "batch_tradeoff": ("updates to target (training batches)", "env steps to target"),
    "group_gaps": ("seeds on either side", "difference in score"),
    "search_confirmed": ("mean score in the search (return)", "mean score on held-out seeds (return)"),
    "search_progress": ("env steps spent in the search", "score (mean return)"),
    "lineage": ("env steps", "member (its seed)"),
    "improvement_matrix": ("a run of the row beats one of the column: probability (%)", ""),
}
"""Labels of the axes."""
each_figure = pytest.mark.parametrize("figure", FIGURES)


def drawn(figure: str, study: Study = DEFAULT, **options: Any) -> Axes:
    plot, frame_of = FIGURES[figure]
    return plot(frame_of(study), **options)


def patches_of(ax: Axes) -> list[Any]:
    return list(ax.patches)


def matrix_of(ax: Axes) -> Any:
    image: Any = ax.images[0]
    return np.ma.getdata(image.get_array())


def coloured(ax: Axes) -> list[Any]:
    """Lines of the data that are neither grey, nor targets, nor samples beside a label."""
    lines = [line for line in lines_of(ax) if line.get_label() and not str(line.get_label()).startswith("_")]
    return [line for line in lines if to_hex(line.get_color()) != style.GREY.lower()]


def bands(ax: Axes) -> list[PolyCollection]:
    return [c for c in ax.collections if isinstance(c, PolyCollection)]


def segments(ax: Axes) -> Iterator[Any]:
    for collection in ax.collections:
        if isinstance(collection, LineCollection):
            yield from (s for s in collection.get_segments() if len(s) and np.isfinite(s).all())


# Every figure.


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
                assert not module.startswith("analysis") or module.startswith("analysis.plots"), f"{path.name}: {module}"
            assert not (isinstance(node, ast.Attribute) and node.attr in {"groupby", "agg", "pivot_table", "random"}), path.name


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
    marked = [p for p in patches_of(ax) if isinstance(p, Rectangle) and to_hex(p.get_edgecolor()) == style.ALARM.lower()]
    return [(round(p.get_x() + p.get_width() / 2), round(p.get_y() + p.get_height() / 2)) for p in marked]


def test_heatmap_writes_value_and_interval_into_each_cell_and_frames_the_best() -> None:
    ax = score_heatmap.plot(DEFAULT.summary())
    assert len(words(ax)) == 30
    assert "414" in words(ax) and "[394, 434]" in words(ax)
    assert frames_around(ax) == [(2, 4)], "the last configuration: largest learning rate, largest batch"
    assert [t.get_text() for t in ax.get_yticklabels()] == ["3e-4", "1e-3", "3e-3", "1e-2", "3e-2"]


def test_heatmap_of_a_cost_frames_the_smallest() -> None:
    assert frames_around(score_heatmap.plot(DEFAULT.summary(), "env_steps_to_target")) == [(0, 0)]


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
        np.diff(np.log(line.get_ydata()))[0] / np.diff(np.log(line.get_xdata()))[0] for line in lines_of(ax) if len(line.get_xdata()) == 2
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
    assert "One batch only" in note_of(ax)


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
    first, second = ([(float(p.get_xdata()[0]), float(p.get_ydata()[0])) for p in lines_of(drawn("seed_scatter"))] for _ in range(2))
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
    assert "Framed: told apart" in note_of(ax)
    assert "No pair is told apart" in note_of(improvement_matrix.plot(study.pairs()))


def test_a_large_matrix_has_no_numbers() -> None:
    assert not words(improvement_matrix.plot(STUDIES["40 configurations"].pairs()))


def test_a_direction_that_the_frame_holds_is_not_replaced() -> None:
    study = Study(lrs=(1e-3,), batches=(512, 2000))
    both = pd.concat(
        [
            study.pairs(),
            study.pairs().rename(columns={"config_a": "config_b", "config_b": "config_a"}).assign(probability_of_improvement=0.3),
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


# Words.


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


@pytest.mark.parametrize(("value", "expected"), [(3e-4, "3e-4"), (2.5e-4, "2.5e-4"), (0.1, "0.1"), (1, "1"), (0.01, "1e-2")])
def test_learning_rates_read_as_in_the_configurations(value: float, expected: str) -> None:
    assert text.level("lr", value) == expected


def test_settings_that_are_not_numbers_read_as_they_are() -> None:
    assert [text.level("gamma", 0.99), text.level("use_kl", True), text.level("train_batch_size_total", 4096.0)] == ["0.99", "True", "4096"]


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


def test_a_caption_stands_below_the_notes_inside_the_figure() -> None:
    ax = drawn("throughput_bars", packed=True)
    figure = ax.figure
    assert isinstance(figure, Figure)
    words = style.annotate_caption(figure, style.caption("lr_batch", 3, "t, variances moderated over configurations, and more of it"))
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


# Searches.


def points_of(ax: Axes, marker: str) -> list[tuple[float, float]]:
    """Of the lines with a marker."""
    lines = [line for line in lines_of(ax) if line.get_marker() == marker]
    return [point for line in lines for point in zip(line.get_xdata(), line.get_ydata(), strict=True)]


def test_what_was_confirmed_stands_over_what_was_searched_and_the_base_is_a_diamond() -> None:
    frame = SMALL.curse()
    ax = search_confirmed.plot(frame)
    assert points_of(ax, "D") == [(448.0, 423.0)]
    assert points_of(ax, "o") == [(450.0, 430.0), (446.0, 416.0), (444.0, 409.0)]
    (diagonal,) = (line for line in lines_of(ax) if line.get_marker() == "None")
    np.testing.assert_array_equal(diagonal.get_xdata(), diagonal.get_ydata())
    assert set(words(ax)) == set(SMALL.names)
    assert {(s[0][0], s[0][1], s[1][1]) for s in segments(ax)} == {
        (448.0, 408.0, 438.0), (450.0, 415.0, 445.0), (446.0, 401.0, 431.0), (444.0, 394.0, 424.0),
    }  # fmt: skip
    assert "Diamond: the base configuration." in note_of(ax)


def test_a_base_that_was_not_searched_stands_in_the_margin() -> None:
    frame = SMALL.curse()
    frame.loc[1, "searched"] = math.nan
    ax = search_confirmed.plot(frame)
    ((x, y),) = points_of(ax, "D")
    assert ax.get_xlim()[0] < x < 444.0 and y == 423.0
    assert "no search score" in words(ax)
    alone = search_confirmed.plot(frame.iloc[[1]])
    assert not [line for line in lines_of(alone) if len(line.get_xdata()) > 1], "no diagonal where there is no search score"


def test_of_many_that_were_confirmed_the_best_and_the_base_are_named() -> None:
    ax = search_confirmed.plot(DEFAULT.curse().sort_values("confirmed"))
    assert set(words(ax)) == set(DEFAULT.names[: search_confirmed.MOST_NAMED + 1])  # the second is the base
    assert "Named: the best 8 and the base." in note_of(ax)


def test_trials_of_a_search_stand_where_they_ended_with_the_best_so_far() -> None:
    frame = SMALL.progress()
    frame.loc[1, "outcome"] = "stopped"
    frame.loc[2, ["outcome", "score"]] = ["failed", math.nan]
    ax = search_progress.plot(frame, target=TARGET)
    full, hollow = (line for line in lines_of(ax) if line.get_marker() == "o")
    assert list(full.get_xdata()) == [60_000.0, 240_000.0]
    assert (list(hollow.get_xdata()), hollow.get_color()) == ([120_000.0], "white")
    assert points_of(ax, "x") == [(180_000.0, 0.03)]
    best = next(line for line in lines_of(ax) if to_hex(line.get_color()) == style.ACCENT.lower())
    assert list(best.get_ydata()) == [300.0, 301.0, 302.0, 303.0]
    assert "target 475" in words(ax)
    assert "Hollow: stopped early" in note_of(ax) and "ended without a score" in note_of(ax)


def test_what_was_confirmed_stands_right_of_the_search_by_name_and_best_first() -> None:
    ax = search_progress.plot(SMALL.progress(), SMALL.curse())
    lines = [line for line in lines_of(ax) if line.get_marker() in ("o", "D") and line.get_markersize() == 6 and len(line.get_xdata()) == 1]
    confirmed = [point for line in lines for point in zip(*line.get_data(), strict=True)]
    assert [y for _, y in sorted(confirmed)] == [430.0, 423.0, 416.0, 409.0]
    assert min(x for x, _ in confirmed) > 240_000
    assert set(words(ax)) == {"confirmed", *SMALL.names}
    assert max(ax.get_xticks()) <= 240_000
    nothing = search_progress.plot(SMALL.progress(), SMALL.curse().iloc[:0])
    assert words(nothing) == []


def bars_of(ax: Axes) -> list[tuple[int, int, str, bool]]:
    """Member, generation, colour and whether it is framed, of each bar."""
    bars = [p for p in patches_of(ax) if isinstance(p, Rectangle)]
    return [
        (
            round(b.get_y() + b.get_height() / 2),
            int(b.get_x() // 20_000),
            to_hex(b.get_facecolor()),
            b.get_edgecolor()[:3] == to_rgb(style.ALARM),
        )
        for b in bars
    ]


def arrows_of(ax: Axes) -> list[tuple[int, int, int, bool, bool]]:
    """Member and generation that each begins at, member it ends at, whether it is an arrow, whether it is the best one's."""
    links = [t for t in ax.texts if isinstance(t, Annotation) and t.arrowprops]
    return [
        (
            int(link.xyann[1]),
            int(link.xyann[0] // 20_000),
            int(link.xy[1]),
            link.arrowprops["arrowstyle"] == "-|>",
            link.arrowprops["color"] == style.ALARM,
        )
        for link in links
        if link.arrowprops
    ]


def test_a_member_is_a_row_of_bars_with_its_score_and_its_settings_where_they_are_new() -> None:
    ax = lineage.plot(SMALL.lineage())
    bars = bars_of(ax)
    assert [(member, generation) for member, generation, _, _ in bars] == [(m, g) for g in range(3) for m in range(4)]
    assert [(member, generation) for member, generation, _, framed in bars if framed] == [(0, 0), (3, 1), (3, 2)]
    shades = [style.luminance(colour) for _, _, colour, _ in bars]
    assert shades[8] == min(shades) and shades[3] == max(shades), "the highest score is the darkest"
    scores = [word for word in words(ax) if "=" not in word]
    assert scores == [str(score - i) for score in (200, 300, 400) for i in range(4)]
    told = [word.replace("\n", " ") for word in words(ax) if "=" in word]
    assert told == [*SMALL.names, SMALL.names[0]]  # the last one is the copy
    assert [label.get_text() for label in ax.get_yticklabels()] == ["0", "1", "2", "3"]
    assert [label.get_text() for label in ax.get_xticklabels()] == ["0", "20k", "40k", "60k"]


def test_copies_are_arrows_and_the_way_to_the_best_is_bold() -> None:
    links = arrows_of(lineage.plot(SMALL.lineage()))
    assert len(links) == 8
    assert [link for link in links if link[3]] == [(0, 0, 3, True, True)]
    assert [link for link in links if link[4]] == [(0, 0, 3, True, True), (3, 1, 3, False, True)]


def test_a_generation_without_a_score_says_why_and_a_parent_that_is_gone_has_no_link() -> None:
    frame = SMALL.lineage()
    frame.loc[[9, 10, 11], "score"] = math.nan
    frame.loc[[9, 10], "status"] = ["failed", "missing"]
    frame.loc[11, "parent_member"] = pd.NA
    ax = lineage.plot(frame)
    assert [word for word in words(ax) if "=" not in word][-3:] == ["failed", "never ran", "no score"]
    assert len(arrows_of(ax)) == 7
    assert "Arrow" in note_of(ax) and "Arrow" not in note_of(lineage.plot(frame.assign(copied=False)))


def test_bars_that_are_narrow_have_no_words() -> None:
    one = SMALL.lineage()[:4]
    many = pd.concat([one.assign(generation=g, start_env_steps=1000 * g, env_steps=1000 * (g + 1)) for g in range(60)], ignore_index=True)
    ax = lineage.plot(many)
    assert len(bars_of(ax)) == 240
    assert words(ax) == []
    assert "197 to 200" in note_of(ax) and "settings" not in note_of(ax)
    assert len(ax.get_xticks()) < 10
