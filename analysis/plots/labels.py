"""Direct labels: the name of a line, a point or a target beside it, in the place of a legend."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.text import Annotation
from matplotlib.transforms import Bbox

from analysis.plots.style import INK, MUTED, SMALL_PT, ink_for
from analysis.plots.text import number

# Sides of a point on which its name may stand, the best first; units are a few points.
_SIDES = ((-1, -1), (1, 1), (1, -1), (-1, 1), (0, -1.4), (0, 1.4), (1.4, 0), (-1.4, 0))
_LABEL_AT, _SAMPLE = 1.03, 0.075  # Of the width of the axes.


@dataclass(frozen=True)
class End:
    """Where a line ends, and what it is called.

    Attributes:
        text: The label.
        x: In data units.
        y: In data units.
        colour: Of the line.
        dash: Of the line; None: no sample of the line stands before the text.
        marker: On the line.
    """

    text: str
    x: float
    y: float
    colour: str
    dash: Any = None
    marker: str = ""


def label_ends(ax: Axes, ends: Sequence[End]) -> None:
    """Names lines at the right of the axes, moved apart where they would overlap. Call it when the limits are final."""
    if not ends:
        return
    ax.set(xlim=ax.get_xlim(), ylim=ax.get_ylim())
    to_axes = ax.transData + ax.transAxes.inverted()
    height_pt = ax.get_window_extent().height / ax.figure.dpi * 72
    ordered = sorted(ends, key=lambda end: end.y)
    wanted = np.array([float(np.clip(to_axes.transform((end.x, end.y))[1], 0.0, 1.0)) for end in ordered])
    tall = np.array([(end.text.count("\n") + 1) * SMALL_PT * 1.25 / height_pt for end in ordered])
    for end, y in zip(ordered, _apart(wanted, tall), strict=True):
        ax.annotate(
            end.text,
            xy=(end.x, end.y),
            xytext=(_LABEL_AT if end.dash is None else _LABEL_AT + _SAMPLE, y),
            textcoords="axes fraction",
            annotation_clip=False,
            ha="left",
            va="center",
            fontsize=SMALL_PT,
            color=ink_for(end.colour),
            linespacing=0.95,
            arrowprops={
                "arrowstyle": "-",
                "color": end.colour,
                "linewidth": 0.8,
                "shrinkA": 1,
                "shrinkB": 2,
                "relpos": (0, 0.5),
            }
            if end.dash is None
            else None,
        )
        if end.dash is not None:
            sample: dict[str, Any] = {"color": end.colour, "clip_on": False, "transform": ax.transAxes}
            left, middle, right = _LABEL_AT, _LABEL_AT + 0.4 * _SAMPLE, _LABEL_AT + 0.8 * _SAMPLE
            ax.add_line(Line2D([left, right], [y, y], linewidth=1.7, linestyle=end.dash, **sample))
            ax.add_line(
                Line2D(
                    [middle],
                    [y],
                    marker=end.marker,
                    markersize=4,
                    markeredgecolor="white",
                    markeredgewidth=0.4,
                    **sample,
                )
            )
            ax.annotate(
                "",
                xy=(end.x, end.y),
                xytext=(left, y),
                textcoords="axes fraction",
                annotation_clip=False,
                arrowprops={"arrowstyle": "-", "color": end.colour, "linewidth": 0.6, "shrinkA": 0, "shrinkB": 2},
            )


def _apart(wanted: npt.NDArray[np.float64], tall: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Ascending positions moved upwards until none overlaps, then back below the top: (n,), (n,) -> (n,)."""
    at = wanted.copy()
    gaps = (tall[1:] + tall[:-1]) / 2
    for i in range(1, len(at)):
        at[i] = max(at[i], at[i - 1] + gaps[i - 1])
    top = max(1.0, min(at[-1], tall.sum()))
    at[-1] = min(at[-1], top)
    for i in range(len(at) - 2, -1, -1):
        at[i] = min(at[i], at[i + 1] - gaps[i])
    return at


def label_points(
    ax: Axes, points: Sequence[tuple[float, float]], texts: Sequence[str], obstacles: Sequence[tuple[float, float]] = ()
) -> None:
    """Names points beside them, on the side where the text covers least. Call it when the limits are final.

    Args:
        ax: Where the points are.
        points: (n, 2), in data units.
        texts: (n,) their names.
        obstacles: (m, 2), in data units: what the names should not cover, beside the points and each other.
    """
    ax.set(xlim=ax.get_xlim(), ylim=ax.get_ylim())
    figure = ax.get_figure(root=True)
    if figure is not None:
        figure.draw_without_rendering()  # So that pixels are final.
    frame = ax.get_window_extent()
    spots = [ax.transData.transform(spot) for spot in (*points, *obstacles)]
    taken: list[Bbox] = []
    for point, words in zip(points, texts, strict=True):
        best: tuple[float, Annotation] | None = None
        for dx, dy in _SIDES:
            label = _beside(ax, point, words, dx, dy)
            box = label.get_window_extent()
            outside = (
                max(frame.x0 - box.x0, 0)
                + max(box.x1 - frame.x1, 0)
                + max(frame.y0 - box.y0, 0)
                + max(box.y1 - frame.y1, 0)
            )
            covered = sum(box.padded(4).contains(*spot) for spot in spots) + 10 * sum(
                box.overlaps(other) for other in taken
            )
            cost = 3 * outside + 100 * covered
            if best is not None and cost >= best[0]:
                label.remove()
                continue
            if best is not None:
                best[1].remove()
            best = (cost, label)
        if best is not None:
            taken.append(best[1].get_window_extent())


def _beside(ax: Axes, point: tuple[float, float], words: str, dx: float, dy: float) -> Annotation:
    return ax.annotate(
        words,
        xy=point,
        xytext=(dx * 7, dy * 6),
        textcoords="offset points",
        ha={-1: "right", 0: "center", 1: "left"}[int(np.sign(dx))],
        va={-1: "top", 0: "center", 1: "bottom"}[int(np.sign(dy))],
        fontsize=SMALL_PT,
        color=INK,
        linespacing=0.95,
        bbox={"facecolor": "white", "edgecolor": "none", "alpha": 0.6, "pad": 0.5},
        zorder=6,
    )


def target_line(ax: Axes, target: float | None, vertical: bool = False, named: bool = True) -> None:
    """The env's target, drawn through the axes and named at its end unless the caller says what it is;
    nothing where the env has none.
    """
    if target is None or not math.isfinite(target):
        return
    look: dict[str, Any] = {"color": MUTED, "linewidth": 1.0, "linestyle": (0, (4, 2)), "zorder": 1.5}
    words: dict[str, Any] = {"fontsize": SMALL_PT, "color": MUTED}
    text = f"target {number(target)}" if named else ""
    if vertical:
        ax.axvline(target, **look)
        ax.text(target, 1.01, text, transform=ax.get_xaxis_transform(), ha="center", va="bottom", **words)
    else:
        ax.axhline(target, **look)
        ax.text(0.01, target, text, transform=ax.get_yaxis_transform(), ha="left", va="bottom", **words)
