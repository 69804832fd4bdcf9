"""Throughput against the number of env runners: what was measured, the fitted laws, and what they predict."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.transforms import ScaledTranslation

from analysis.plots import style, text
from analysis.plots.labels import End, label_ends, label_points

_SPEED = "env_steps_per_s"
_BEYOND: Any = (0, (3, 2))
_MOST_BANDS = 3
_HELD_OUT_PT = 6.0  # Predictions stand beside the measurement and each other.
_ASIDE = 2.0  # A logarithmic axis has no 0: it stands where half the smallest count would.
_OWN = "0: in the trial's own process, no point of the fits."
_PLACES = {"knee": ("v", "knee"), "peak": ("*", "peak")}


@dataclass(frozen=True)
class Look:
    """How a series is drawn.

    Attributes:
        name: Its value; None: the only one.
        label: In words.
        colour: Of everything.
        dash: Of its line.
        marker: Of its points.
    """

    name: Any
    label: str
    colour: str
    dash: Any
    marker: str

    @property
    def line(self) -> dict[str, Any]:
        """Properties of a line with markers."""
        return {
            "color": self.colour,
            "linestyle": self.dash,
            "marker": self.marker,
            "linewidth": 1.7,
            "markeredgecolor": "white",
            "markeredgewidth": 0.6,
        }


def looks(frame: pd.DataFrame, series: str | None) -> list[Look]:
    """A colour, a dash and a marker for each value of a column; numbers have colours from dark to pale."""
    if series is None:
        return [Look(None, "", style.ACCENT, "-", style.MARKERS[0])]
    names = style.levels(frame[series])
    ordered = pd.api.types.is_numeric_dtype(frame[series])
    colours = style.sequential(len(names)) if ordered else style.COLOURS
    texts = {name: text.short_setting(series, name) for name in names} if ordered else style.name_texts(frame[series])
    return [
        Look(
            name,
            texts[name],
            colours[i % len(colours)],
            style.DASHES[i % len(style.DASHES)],
            style.MARKERS[i % len(style.MARKERS)],
        )
        for i, name in enumerate(names)
    ]


def of_series(frame: pd.DataFrame, series: str | None, name: Any) -> pd.DataFrame:
    """The rows of one series."""
    return frame if series is None else frame[frame[series] == name]


def plot(
    counts: pd.DataFrame,
    curve: pd.DataFrame | None = None,
    marks: pd.DataFrame | None = None,
    held_out: pd.DataFrame | None = None,
    own_process: pd.DataFrame | None = None,
    series: str | None = None,
    axis: str = "num_env_runners",
    packed: bool = False,
    ax: Axes | None = None,
) -> Axes:
    """Draws measured throughput with whiskers, the fit with its bands, and linear scaling, both axes logarithmic.

    One series has two bands: of the mean, and, paler, of a new measurement; two or three have the first alone,
    more have none.

    Args:
        counts: From `scaling_laws.fit`, the frame `counts`: num,
            env_steps_per_s, env_steps_per_s_low, env_steps_per_s_high.
        curve: From `ScalingFit.predict` at many counts: num, env_steps_per_s, low, high, mean_low, mean_high,
            extrapolated. None: no fit.
        marks: Places on the curve to name: kind (``knee`` or ``peak``), num, num_low, num_high, env_steps_per_s. Those
            that are not finite are left out.
        held_out: Predictions of counts that the fit did not see: num, env_steps_per_s, low, high.
            Drawn hollow beside the measurement.
        own_process: Without any of what is counted, left of the counts at 0: env_steps_per_s, with _low and _high.
            No fit is of it.
        series: Column of all frames that tells curves apart (algorithm, envs per runner); None: there is one.
        axis: What was counted.
        packed: Trials ran side by side, so speeds are not those of a trial alone: said below.
        ax: To draw on; None makes a figure.

    Returns:
        The axes.

    Raises:
        ValueError: A column is missing, or a kind of mark is unknown.
    """
    more = [series] if series else []
    style.require(counts, ["num", _SPEED, f"{_SPEED}_low", f"{_SPEED}_high", *more])
    curve, marks, held_out, own = (
        frame if frame is not None else pd.DataFrame() for frame in (curve, marks, held_out, own_process)
    )
    style.require(curve, ["num", _SPEED, "low", "high", "mean_low", "mean_high", "extrapolated", *more])
    style.require(marks, ["kind", "num", "num_low", "num_high", _SPEED, *more])
    style.require(held_out, ["num", _SPEED, "low", "high", *more])
    style.require(own, [_SPEED, f"{_SPEED}_low", f"{_SPEED}_high", *more])
    unknown = sorted(set(marks["kind"]) - set(_PLACES)) if len(marks) else []
    if unknown:
        raise ValueError(f"no mark is called {unknown[0]!r}; there are {', '.join(_PLACES)}")
    ax = style.axes(ax)
    style.name_axes(ax, text.readable(axis), text.readable(_SPEED))
    known = counts.dropna(subset=["num", _SPEED]) if len(counts) else counts
    if known.empty:
        return style.no_data(ax, "no count has a throughput")
    shown = looks(known, series)
    # On its own bands a series' colour is hard to see: what was measured is black where there is one series alone.
    ends = [
        _measured(ax, of_series(known, series, look.name), look, look.colour if series else style.INK) for look in shown
    ]
    if len(curve):
        fitted = curve.dropna(subset=["num", _SPEED])
        ends = [
            _fitted(ax, of_series(fitted, series, look.name), look, len(shown)) or end
            for look, end in zip(shown, ends, strict=True)
        ]
    if len(held_out):
        for i, look in enumerate(shown):
            _held_out(ax, of_series(held_out, series, look.name), look, _HELD_OUT_PT * (i + 1))
    places = _marked(ax, marks, series, shown)
    levels = style.levels(known["num"])
    own = own.dropna(subset=[_SPEED]).assign(num=min(levels) / _ASIDE) if len(own) else own
    for look in shown if len(own) else ():
        if len(part := of_series(own, series, look.name)):
            _measured(ax, part, look, look.colour if series else style.INK)
    furthest = _limits(ax, pd.concat([own, known]) if len(own) else known, curve, held_out)
    beyond = furthest > max(levels)
    ticks = levels + ([furthest] if furthest >= 1.4 * max(levels) else [])
    zero = [min(levels) / _ASIDE] if len(own) else []
    style.log_axis(ax, "x", [*zero, *ticks], lambda value: "0" if value in zero else text.level(axis, value))
    style.log_axis(ax, "y")
    if zero:
        ax.axvline(zero[0] * math.sqrt(_ASIDE), color=style.MUTED, linewidth=0.8, zorder=1)
    if beyond:
        ax.axvspan(max(levels), ax.get_xlim()[1], color=style.FAINT, alpha=0.5, linewidth=0, zorder=0.5)
        ax.text(
            max(levels) * 1.03, 0.02, "extrapolated", transform=ax.get_xaxis_transform(), ha="left", va="bottom",
            fontsize=style.TINY_PT, color=style.MUTED,
        )  # fmt: skip
    for look in shown:
        _linear(ax, of_series(known, series, look.name), furthest)
    label_ends(ax, ends if series else [])
    style.note(
        ax, *_notes(known, curve, marks, held_out, len(shown), beyond), _OWN if zero else "", style.packed_note(packed)
    )
    if not series and places:
        whisker = (
            [(float(x), float(y)) for x, *ys in held_out[["num", "low", "high"]].dropna().to_numpy() for y in ys]
            if len(held_out)
            else []
        )
        drawn = pd.concat([own, known]) if len(own) else known
        dots = [(float(x), float(y)) for x, y in zip(drawn["num"], drawn[_SPEED], strict=True)]
        line = [(float(x), float(y)) for x, y in zip(curve["num"], curve[_SPEED], strict=True)] if len(curve) else []
        label_points(ax, [place for place, _ in places], [words for _, words in places], [*dots, *line, *whisker])
    return ax


def _measured(ax: Axes, part: pd.DataFrame, look: Look, colour: str) -> End:
    part = part.sort_values("num")
    banded = part.dropna(subset=[f"{_SPEED}_low", f"{_SPEED}_high"])
    ax.vlines(banded["num"], banded[f"{_SPEED}_low"], banded[f"{_SPEED}_high"], color=colour, linewidth=1.4, zorder=3.2)
    dots = {**look.line, "linestyle": "", "color": colour}
    ax.plot(part["num"], part[_SPEED], label=look.label or None, markersize=5.5, zorder=3.4, **dots)
    return End(
        look.label, float(part["num"].iloc[-1]), float(part[_SPEED].iloc[-1]), look.colour, look.dash, look.marker
    )


def _fitted(ax: Axes, part: pd.DataFrame, look: Look, num_series: int) -> End | None:
    if part.empty:
        return None
    part = part.sort_values("num")
    bands = [("low", "high", 0.12)] if num_series == 1 else []
    bands += [("mean_low", "mean_high", 0.25 if num_series == 1 else 0.15)] if num_series <= _MOST_BANDS else []
    for low, high, alpha in bands:
        banded = part.dropna(subset=[low, high])
        ax.fill_between(
            banded["num"], banded[low], banded[high], color=look.colour, alpha=alpha, linewidth=0, zorder=1.6
        )
    outside = part["extrapolated"].to_numpy(dtype=bool)
    x, y = part["num"].to_numpy(float), part[_SPEED].to_numpy(float)
    ax.plot(np.where(outside, np.nan, x), y, color=look.colour, linestyle=look.dash, linewidth=1.7, zorder=2.6)
    # The dashed part begins where the other ends, so that there is no gap.
    joined = outside | np.append(outside[1:], False) | np.insert(outside[:-1], 0, False)
    ax.plot(np.where(joined, x, np.nan), y, color=look.colour, linestyle=_BEYOND, linewidth=1.2, zorder=2.6)
    return End(look.label, float(x[-1]), float(y[-1]), look.colour, look.dash, look.marker)


def _held_out(ax: Axes, part: pd.DataFrame, look: Look, aside_pt: float) -> None:
    aside = ax.transData + ScaledTranslation(aside_pt / 72, 0, ax.figure.dpi_scale_trans)
    banded = part.dropna(subset=["low", "high"])
    ax.vlines(
        banded["num"], banded["low"], banded["high"], color=look.colour, linewidth=1.2, zorder=3.0, transform=aside
    )
    hollow = {**look.line, "linestyle": "", "color": "white", "markeredgecolor": look.colour, "markeredgewidth": 1.4}
    ax.plot(part["num"], part[_SPEED], markersize=6.5, zorder=3.6, transform=aside, **hollow)


def _marked(
    ax: Axes, marks: pd.DataFrame, series: str | None, shown: list[Look]
) -> list[tuple[tuple[float, float], str]]:
    """Draws the marks; returns where they are and what they are called."""
    places = []
    for look in shown if len(marks) else []:
        for row in of_series(marks, series, look.name).to_dict("records"):
            if not (math.isfinite(row["num"]) and math.isfinite(row[_SPEED])):
                continue
            marker, word = _PLACES[row["kind"]]
            ax.plot(
                row["num"], row[_SPEED], marker=marker, markersize=14 if marker == "*" else 8, color=look.colour,
                markeredgecolor=style.INK, markeredgewidth=0.9, linestyle="", zorder=3.1,
            )  # fmt: skip
            words = f"{word} {text.number(round(row['num']))}{_interval(row['num_low'], row['num_high'])}"
            places.append(((float(row["num"]), float(row[_SPEED])), words))
    return places


def _interval(low: float, high: float) -> str:
    """Whole counts; open at the top where the end is out of sight."""
    if math.isnan(low):
        return ""
    return f" [{text.number(round(low))}, " + (f"{text.number(round(high))}]" if math.isfinite(high) else "\u221e)")


def _linear(ax: Axes, part: pd.DataFrame, furthest: float) -> None:
    """Linear scaling through the smallest count, as far as the axes go."""
    first = part.sort_values("num").iloc[0]
    each = float(first[_SPEED]) / float(first["num"])
    end = min(furthest, ax.get_ylim()[1] / each)
    ax.plot(
        [first["num"], end],
        [first[_SPEED], each * end],
        color=style.MUTED,
        linestyle=(0, (1, 1.6)),
        linewidth=1.1,
        zorder=2,
    )


def _limits(ax: Axes, known: pd.DataFrame, curve: pd.DataFrame, held_out: pd.DataFrame) -> float:
    """Room for points, whiskers and curves, but not for the whole of wide bands; returns the largest count drawn."""
    values = [known[[_SPEED, f"{_SPEED}_low", f"{_SPEED}_high"]].to_numpy(float).ravel()]
    values += [frame[[_SPEED]].to_numpy(float).ravel() for frame in (curve,) if len(frame)]
    values += [held_out[[_SPEED, "low", "high"]].to_numpy(float).ravel()] if len(held_out) else []
    found = np.concatenate(values)
    found = found[np.isfinite(found)]
    nums = np.concatenate([frame["num"].to_numpy(float) for frame in (known, curve, held_out) if len(frame)])
    ax.set_xlim(float(nums.min()) / 1.12, float(nums.max()) * 1.12)
    ax.set_ylim(float(found.min()) / 1.35, float(found.max()) * 1.5)
    return float(nums.max())


def _notes(
    known: pd.DataFrame, curve: pd.DataFrame, marks: pd.DataFrame, held_out: pd.DataFrame, num_series: int, beyond: bool
) -> list[str]:
    bare = known[[f"{_SPEED}_low", f"{_SPEED}_high"]].isna().any(axis=None)
    bands = len(curve) > 0 and curve[["mean_low", "mean_high"]].notna().any(axis=None)
    words = []
    if bands and num_series == 1:
        words.append("Dark band: of the mean; pale band: of a new measurement.")
    elif bands and num_series <= _MOST_BANDS:
        words.append("Bands: of the mean.")
    words.append("Dotted: linear scaling.")
    words.append("Dashed: beyond what was measured." if beyond else "")
    words.append("Hollow: predicted by a fit that did not see this count." if len(held_out) else "")
    kinds = set(marks.loc[np.isfinite(marks["num"].astype(float)), "kind"]) if len(marks) else set()
    if "knee" in kinds:
        words.append("Triangle: knee, the last count at which one more brings half of what the first brings.")
    if "peak" in kinds:
        words.append("Star: peak of the fit.")
    return [" ".join(word for word in words if word), style.NO_INTERVAL.format("whisker") if bare else ""]
