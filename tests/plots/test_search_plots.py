"""Figures of a search and of a population."""

import math

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.colors import to_hex, to_rgb
from matplotlib.patches import Rectangle
from matplotlib.text import Annotation

from analysis.plots import (
    lineage,
    search_confirmed,
    search_progress,
    style,
)
from tests.support.drawn_axes import lines_of, note_of, words
from tests.support.figures import DEFAULT, SMALL, TARGET, patches_of, segments

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
    assert not [line for line in lines_of(alone) if len(line.get_xdata()) > 1], (
        "no diagonal where there is no search score"
    )


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
    lines = [
        line
        for line in lines_of(ax)
        if line.get_marker() in ("o", "D") and line.get_markersize() == 6 and len(line.get_xdata()) == 1
    ]
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
    """Member and generation that each begins at, member it ends at, whether it is an arrow,
    whether it is the best one's.
    """
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
    many = pd.concat(
        [one.assign(generation=g, start_env_steps=1000 * g, env_steps=1000 * (g + 1)) for g in range(60)],
        ignore_index=True,
    )
    ax = lineage.plot(many)
    assert len(bars_of(ax)) == 240
    assert words(ax) == []
    assert "197 to 200" in note_of(ax) and "settings" not in note_of(ax)
    assert len(ax.get_xticks()) < 10
