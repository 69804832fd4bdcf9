"""The figures of throughput: what is drawn where, from frames written by hand."""

import math
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection, PolyCollection
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from pandas.testing import assert_frame_equal

from analysis.plots import scaling_curve, scaling_efficiency, staleness, style, time_breakdown
from tests.support.drawn_axes import lines_of, note_of, words

NUMS = (1, 2, 4, 8)
ALGORITHMS = ("ppo", "appo", "impala")
PARTS = (
    "env_step",
    "inference",
    "connectors",
    "transfer",
    "waiting",
    "learn",
    "sync",
    "evaluation",
    "logging",
    "unexplained",
)


def of_algorithms(frame: pd.DataFrame, algorithms: tuple[str, ...], *scaled: str) -> pd.DataFrame:
    """The frame once for each algorithm, speeds doubling from one to the next."""
    parts = [frame.assign(algorithm=a, **{c: frame[c] * 2**i for c in scaled}) for i, a in enumerate(algorithms)]
    return pd.concat(parts, ignore_index=True)


SPEEDS = ("env_steps_per_s", "env_steps_per_s_low", "env_steps_per_s_high", "low", "high", "mean_low", "mean_high")


def counts(algorithms: tuple[str, ...] = (), interval: float = 0.05) -> pd.DataFrame:
    speeds = [400 * n / (1 + 0.05 * (n - 1)) for n in NUMS]
    frame = pd.DataFrame(
        {
            "num": NUMS,
            "env_steps_per_s": speeds,
            "env_steps_per_s_low": [v * (1 - interval) for v in speeds],
            "env_steps_per_s_high": [v * (1 + interval) for v in speeds],
            "efficiency": [v / 400 / n for v, n in zip(speeds, NUMS, strict=True)],
            "efficiency_low": [v / 400 / n - 0.02 * (n > 1) for v, n in zip(speeds, NUMS, strict=True)],
            "efficiency_high": [v / 400 / n + 0.02 * (n > 1) for v, n in zip(speeds, NUMS, strict=True)],
        }
    )
    return of_algorithms(frame, algorithms, *SPEEDS[:3]) if algorithms else frame


def curve(algorithms: tuple[str, ...] = ()) -> pd.DataFrame:
    nums = np.geomspace(1, 16, 41)
    speeds = 400 * nums / (1 + 0.05 * (nums - 1))
    ends = {"low": 0.8, "high": 1.2, "mean_low": 0.9, "mean_high": 1.1}
    frame = pd.DataFrame(
        {
            "num": nums,
            "env_steps_per_s": speeds,
            **{name: speeds * by for name, by in ends.items()},
            "extrapolated": nums > 8 + 1e-9,
        }
    )
    return of_algorithms(frame, algorithms, "env_steps_per_s", *ends) if algorithms else frame


def marks() -> pd.DataFrame:
    return pd.DataFrame(
        {
            "kind": ["knee", "peak"],
            "num": [7.0, 13.0],
            "num_low": [6.0, 11.0],
            "num_high": [9.0, math.inf],
            "env_steps_per_s": [2150.0, 3250.0],
        }
    )


def held_out() -> pd.DataFrame:
    return pd.DataFrame({"num": [8], "env_steps_per_s": [2500.0], "low": [2000.0], "high": [2900.0]})


def stale(algorithms: tuple[str, ...] = ALGORITHMS, per_algorithm: int = 2) -> pd.DataFrame:
    rows: list[dict[str, Any]] = []
    for i, algorithm in enumerate(algorithms):
        for k in range(per_algorithm):
            updates, speed = 0.7 * i + 0.3 * k, 900.0 * (1 + i) + 300 * k
            rows.append(
                {
                    "config": f"{algorithm} runners={2**k}",
                    "algorithm": algorithm,
                    "staleness_updates": updates,
                    "staleness_updates_low": max(0.0, updates - 0.15),
                    "staleness_updates_high": updates + 0.15,
                    "env_steps_per_s": speed,
                    "env_steps_per_s_low": speed - 90,
                    "env_steps_per_s_high": speed + 90,
                }
            )
    return pd.DataFrame(rows)


def fine_shares(configs: int = 4) -> pd.DataFrame:
    share = [0.24, 0.16, 0.10, 0.08, 0.12, 0.14, 0.04, 0.05, 0.03, 0.04]
    rows = [
        {"config": f"runners={2**i}", "part": p, "share": s}
        for i in range(configs)
        for p, s in zip(PARTS, share, strict=True)
    ]
    return pd.DataFrame(rows)


FIGURES: dict[str, tuple[Callable[..., Axes], Callable[[], pd.DataFrame]]] = {
    "scaling_curve": (
        lambda frame, **options: scaling_curve.plot(frame, curve(), marks(), held_out(), **options),
        counts,
    ),
    "scaling_curve of several": (
        lambda frame, **options: scaling_curve.plot(frame, curve(ALGORITHMS), series="algorithm", **options),
        lambda: counts(ALGORITHMS),
    ),
    "scaling_curve without a fit": (scaling_curve.plot, counts),
    "scaling_efficiency": (scaling_efficiency.plot, counts),
    "scaling_efficiency of several": (
        lambda frame, **options: scaling_efficiency.plot(frame, "algorithm", **options),
        lambda: counts(ALGORITHMS),
    ),
    "staleness": (staleness.plot, stale),
    "time_breakdown": (time_breakdown.plot, fine_shares),
}
each_figure = pytest.mark.parametrize("figure", FIGURES)


def bands(ax: Axes) -> list[PolyCollection]:
    return [c for c in ax.collections if isinstance(c, PolyCollection)]


def whiskers(ax: Axes) -> list[Any]:
    found = [s for c in ax.collections if isinstance(c, LineCollection) for s in c.get_segments()]
    return [s for s in found if len(s) and np.isfinite(s).all()]


# Every figure.


@each_figure
def test_every_figure_is_drawn_inside_its_edges_in_letters_of_8_points(figure: str) -> None:
    plot, frame_of = FIGURES[figure]
    ax = plot(frame_of())
    assert isinstance(ax.figure, Figure)
    style.annotate_caption(ax.figure, style.caption("runner_scaling", 3, "posterior of both laws"))
    ax.figure.draw_without_rendering()
    box = ax.get_tightbbox()
    assert box is not None
    assert box.x0 >= -1 and box.y0 >= -1 and box.x1 <= ax.figure.bbox.width + 1 and box.y1 <= ax.figure.bbox.height + 1
    texts = [*ax.texts, *ax.get_xticklabels(), *ax.get_yticklabels(), ax.xaxis.label, ax.yaxis.label]
    assert min(float(t.get_fontsize()) for t in texts if t.get_text()) >= 8


@each_figure
def test_neither_the_frame_nor_matplotlibs_state_is_changed(figure: str) -> None:
    plot, frame_of = FIGURES[figure]
    frame, state = frame_of(), dict(mpl.rcParams)
    before = frame.copy(deep=True)
    plot(frame)
    assert_frame_equal(frame, before)
    assert dict(mpl.rcParams) == state


@each_figure
def test_axes_that_are_passed_are_drawn_on_and_given_back(figure: str) -> None:
    plot, frame_of = FIGURES[figure]
    left, right = Figure(layout="constrained").subplots(1, 2)
    assert plot(frame_of(), ax=right) is right
    assert not left.has_data()
    assert isinstance(right.figure, Figure)
    right.figure.draw_without_rendering()


@each_figure
def test_a_frame_without_values_is_drawn_as_no_data(figure: str) -> None:
    plot, frame_of = FIGURES[figure]
    frame = frame_of()
    numbers = frame.select_dtypes("float").columns
    for empty in (frame.iloc[:0], pd.DataFrame(), frame.assign(**dict.fromkeys(numbers, math.nan))):
        assert any(word.startswith("no data:") for word in words(plot(empty)))


@each_figure
def test_a_missing_column_is_named(figure: str) -> None:
    plot, frame_of = FIGURES[figure]
    with pytest.raises(ValueError, match="the figure needs the column"):
        plot(frame_of().rename(columns=lambda name: f"other_{name}"))


@each_figure
def test_packed_trials_are_said_below(figure: str) -> None:
    plot, frame_of = FIGURES[figure]
    assert "Trials shared the machine" in note_of(plot(frame_of(), packed=True))


@pytest.mark.parametrize(
    ("figure", "x", "y"),
    [
        ("scaling_curve", "env runners", "throughput (env steps/s)"),
        ("scaling_efficiency", "env runners", "efficiency (% of linear scaling)"),
        ("staleness", "staleness of the samples (updates)", "throughput (env steps/s)"),
        ("time_breakdown", "share of wall-clock time (%)", ""),
    ],
)
def test_axes_are_labelled_with_units(figure: str, x: str, y: str) -> None:
    plot, frame_of = FIGURES[figure]
    ax = plot(frame_of())
    assert (ax.get_xlabel(), ax.get_ylabel()) == (x, y)


# Scaling curve.


def test_ticks_are_the_measured_counts_and_how_far_the_fit_is_drawn() -> None:
    ax = scaling_curve.plot(counts(), curve())
    assert (ax.get_xscale(), ax.get_yscale()) == ("log", "log")
    assert [t.get_text() for t in ax.get_xticklabels()] == ["1", "2", "4", "8", "16"]
    assert [t.get_text() for t in scaling_curve.plot(counts()).get_xticklabels()] == ["1", "2", "4", "8"]


def test_the_trials_own_process_stands_at_0_left_of_the_counts() -> None:
    own = pd.DataFrame({"env_steps_per_s": [450.0], "env_steps_per_s_low": [430.0], "env_steps_per_s_high": [3600.0]})
    ax = scaling_curve.plot(counts(), curve(), marks(), own_process=own)
    assert [t.get_text() for t in ax.get_xticklabels()] == ["0", "1", "2", "4", "8", "16"]
    assert ax.get_xscale() == "log" and ax.get_xlim()[0] < 0.5 and ax.get_ylim()[1] > 3600
    assert [[0.5, 430.0], [0.5, 3600.0]] in [np.asarray(w).tolist() for w in whiskers(ax)]
    assert "0: in the trial's own process, no point of the fits." in note_of(ax)
    (linear,) = [line for line in lines_of(ax)
                 if to_hex(line.get_color()) == style.MUTED.lower() and len(set(line.get_ydata())) > 1
                 and line.get_transform() == ax.transData]  # fmt: skip
    assert linear.get_xdata()[0] == 1
    of_two = of_algorithms(own, ALGORITHMS[:2], *SPEEDS[:3])  # one algorithm has none
    several = scaling_curve.plot(counts(ALGORITHMS), curve(ALGORITHMS), own_process=of_two, series="algorithm")
    assert len([w for w in whiskers(several) if w[0][0] == 0.5]) == 2
    assert "0:" not in note_of(scaling_curve.plot(counts(), curve()))


def test_linear_scaling_goes_through_one_runner() -> None:
    ax = scaling_curve.plot(counts(), curve())
    (linear,) = [line for line in lines_of(ax) if to_hex(line.get_color()) == style.MUTED.lower()]
    (x0, x1), (y0, y1) = linear.get_xdata(), linear.get_ydata()
    assert (x0, y0) == (1, 400) and y1 / x1 == pytest.approx(400)
    assert "Dotted: linear scaling." in note_of(ax)


def test_the_extrapolated_part_is_dashed_and_shaded_without_a_gap() -> None:
    ax = scaling_curve.plot(counts(), curve())
    solid, dashed = [line for line in lines_of(ax) if len(line.get_xdata()) == 41]
    inside, beyond = (np.isfinite(line.get_xdata().astype(float)) for line in (solid, dashed))
    assert np.nanmax(solid.get_xdata()) == pytest.approx(8) == np.nanmin(dashed.get_xdata())
    assert (inside & beyond).sum() == 1 and (inside | beyond).all()
    assert solid.get_linestyle() == "-" and dashed.get_linestyle() == "--"
    assert "extrapolated" in words(ax) and "Dashed: beyond what was measured." in note_of(ax)
    measured = curve()[lambda frame: frame["num"] <= 8]
    assert "extrapolated" not in words(scaling_curve.plot(counts(), measured))


def test_one_series_has_both_bands_and_several_have_the_means_alone() -> None:
    assert len(bands(scaling_curve.plot(counts(), curve()))) == 2
    assert len(bands(scaling_curve.plot(counts(ALGORITHMS), curve(ALGORITHMS), series="algorithm"))) == 3
    many = tuple(f"a{i}" for i in range(5))
    assert not bands(scaling_curve.plot(counts(many), curve(many), series="algorithm"))


def test_knee_and_peak_are_marked_with_their_intervals_unless_out_of_sight() -> None:
    ax = scaling_curve.plot(counts(), curve(), marks())
    assert {"knee 7 [6, 9]", "peak 13 [11, \u221e)"} <= set(words(ax))
    places = {
        line.get_marker(): (line.get_xdata()[0], line.get_ydata()[0])
        for line in lines_of(ax)
        if line.get_marker() in "v*"
    }
    assert places == {"v": (7.0, 2150.0), "*": (13.0, 3250.0)}
    assert "Triangle: knee" in note_of(ax) and "Star: peak" in note_of(ax)
    gone = scaling_curve.plot(counts(), curve(), marks().assign(num=math.inf))
    assert not {line.get_marker() for line in lines_of(gone)} & {"v", "*"} and "Star" not in note_of(gone)


def test_the_held_out_count_is_hollow_beside_its_measurement_with_its_interval() -> None:
    ax = scaling_curve.plot(counts(), curve(), held_out=held_out())
    (hollow,) = [line for line in lines_of(ax) if line.get_color() == "white"]
    assert (hollow.get_xdata()[0], hollow.get_ydata()[0]) == (8, 2500.0)
    assert [[8, 2000], [8, 2900]] in [np.asarray(w).tolist() for w in whiskers(ax)]
    assert hollow.get_transform() != ax.transData
    assert "Hollow: predicted by a fit that did not see this count." in note_of(ax)


def test_series_differ_in_colour_marker_and_dash_and_are_named_at_their_ends() -> None:
    ax = scaling_curve.plot(counts(ALGORITHMS), curve(ALGORITHMS), series="algorithm")
    assert set(ALGORITHMS) <= set(words(ax))
    points = [line for line in lines_of(ax) if line.get_label() in ALGORITHMS]
    fits = [line for line in lines_of(ax) if len(line.get_xdata()) == 41][::2]
    assert len({line.get_color() for line in points}) == len({line.get_marker() for line in points}) == 3
    assert len({str(line.get_linestyle()) + str(line._dash_pattern) for line in fits}) == 3


def test_series_of_numbers_have_colours_from_dark_to_pale() -> None:
    frame = counts(ALGORITHMS).rename(columns={"algorithm": "num_envs_per_env_runner"})
    frame["num_envs_per_env_runner"] = frame["num_envs_per_env_runner"].map({"ppo": 1, "appo": 4, "impala": 16})
    shown = scaling_curve.looks(frame, "num_envs_per_env_runner")
    assert [look.label for look in shown] == ["envs 1", "envs 4", "envs 16"]
    brightness = [style.luminance(look.colour) for look in shown]
    assert brightness == sorted(brightness)


def test_wide_bands_do_not_squeeze_the_points() -> None:
    wide = curve()
    wide[["low", "mean_low"]] /= 1e4
    wide[["high", "mean_high"]] *= 1e4
    low, high = scaling_curve.plot(counts(), wide).get_ylim()
    assert high / low < 30


def test_one_seed_has_no_whisker_and_the_figure_says_so() -> None:
    frame = counts(interval=math.nan)
    ax = scaling_curve.plot(frame, curve().assign(low=math.nan, high=math.nan, mean_low=math.nan, mean_high=math.nan))
    assert not whiskers(ax) and "No whisker" in note_of(ax) and "band" not in note_of(ax)


def test_an_unknown_mark_is_named() -> None:
    with pytest.raises(ValueError, match="no mark is called 'elbow'"):
        scaling_curve.plot(counts(), marks=marks().assign(kind="elbow"))


# Efficiency.


def test_efficiency_has_a_line_at_1_and_axes_from_0() -> None:
    ax = scaling_efficiency.plot(counts())
    assert any(list(line.get_ydata()) == [1.0, 1.0] for line in lines_of(ax))
    assert ax.get_ylim()[0] == 0 and ax.get_ylim()[1] > 1
    assert len(whiskers(ax)) == 4 and "No whisker" not in note_of(ax)


def test_series_of_efficiency_stand_side_by_side() -> None:
    ax = scaling_efficiency.plot(counts(ALGORITHMS), "algorithm")
    at = sorted(float(w[0][0]) for w in whiskers(ax))
    assert len(set(at)) == 12
    assert all(min(abs(x / n - 1) for n in NUMS) < 0.03 for x in at)
    assert set(ALGORITHMS) <= set(words(ax)) and "side by side" in note_of(ax)


def test_one_runner_needs_no_interval() -> None:
    frame = counts()
    frame.loc[0, ["efficiency_low", "efficiency_high"]] = math.nan
    assert "No whisker" not in note_of(scaling_efficiency.plot(frame))
    frame.loc[2, ["efficiency_low", "efficiency_high"]] = math.nan
    assert "No whisker" in note_of(scaling_efficiency.plot(frame))


# Staleness.


def test_a_point_has_intervals_both_ways_and_its_name() -> None:
    frame = stale()
    ax = staleness.plot(frame)
    assert len(whiskers(ax)) == 2 * len(frame)
    assert {w.replace("\n", " ") for w in words(ax)} == set(frame["config"])
    legend = ax.get_legend()
    assert legend is not None and [t.get_text() for t in legend.get_texts()] == list(ALGORITHMS)
    points = [line for line in lines_of(ax) if line.get_label() in ALGORITHMS]
    assert len({line.get_color() for line in points}) == len({line.get_marker() for line in points}) == 3
    assert ax.get_xlim()[0] < 0 and ax.get_ylim()[0] == 0


def test_a_limit_of_staleness_is_drawn_where_there_is_one() -> None:
    ax = staleness.plot(stale(), limit_updates=2.0)
    assert any(list(line.get_xdata()) == [2.0, 2.0] for line in lines_of(ax))
    assert "2 updates, beyond which learning may suffer" in note_of(ax)
    assert "Dashed" not in note_of(staleness.plot(stale()))


def test_one_algorithm_needs_no_key_and_points_may_be_nameless() -> None:
    ax = staleness.plot(stale(("appo",)), label=None)
    assert ax.get_legend() is None and not words(ax)


def test_speeds_far_apart_are_on_a_logarithmic_axis() -> None:
    frame = stale()
    assert staleness.plot(frame).get_yscale() == "linear"
    frame.loc[0, ["env_steps_per_s", "env_steps_per_s_low", "env_steps_per_s_high"]] /= 100
    assert staleness.plot(frame).get_yscale() == "log"


# Time.


def test_fine_parts_are_stacked_to_one_in_their_order_with_their_words() -> None:
    ax = time_breakdown.plot(fine_shares())
    bars: list[Any] = list(ax.patches)
    assert len(bars) == 4 * 10
    assert bars[9].get_x() + bars[9].get_width() == pytest.approx(1)
    assert words(ax) == ["24", "16", "10", "8", "12", "14"] * 4
    legend = ax.get_legend()
    assert legend is not None
    assert [t.get_text() for t in legend.get_texts()] == [
        "stepping environments",
        "policy inference",
        "connectors and episodes",
        "moving data",
        "waiting for the slowest",
        "learner updates",
        "syncing weights",
        "evaluation",
        "logging and checkpoints",
        "unexplained",
    ]


def test_neighbours_differ_in_grey_or_in_pattern() -> None:
    for parts in (time_breakdown.PARTS, time_breakdown.FINE_PARTS):
        looks = list(parts.values())
        assert len(set(looks)) == len(looks)
        for (colour, hatch), (other, other_hatch) in pairwise(looks):
            assert hatch != other_hatch or abs(style.luminance(colour) - style.luminance(other)) > 0.1


def test_parts_that_took_no_time_are_not_in_the_key() -> None:
    frame = fine_shares()
    frame.loc[frame["part"].isin(["evaluation", "logging"]), "share"] = 0.0
    legend = time_breakdown.plot(frame).get_legend()
    assert legend is not None
    assert len(legend.get_texts()) == 8


def test_the_kind_of_parts_follows_from_the_frame() -> None:
    coarse = pd.DataFrame({"config": "a", "part": ["sample", "learn", "sync", "other"], "share": 0.25})
    assert time_breakdown.plot(coarse).get_xlabel() == "share of training time (%)"
    assert time_breakdown.plot(coarse[coarse["part"] == "learn"]).get_xlabel() == "share of training time (%)"
    with pytest.raises(ValueError, match=r"'sample' is a part of training time, 'env_step' one of wall-clock time"):
        time_breakdown.plot(pd.concat([coarse, fine_shares()]))
    with pytest.raises(ValueError, match="no part of time is called 'idle'"):
        time_breakdown.plot(fine_shares().replace({"part": {"waiting": "idle"}}))
