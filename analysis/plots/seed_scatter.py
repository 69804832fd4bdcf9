"""Every seed of every configuration, so that no average hides one; seeds without a value are named in the margin."""

import math

import pandas as pd
from matplotlib.axes import Axes

from analysis.plots import style, text
from analysis.plots.labels import target_line

_WORST_FIRST = ("failed", "missing", "interrupted", "running", "finished")
_WORDS = {
    "failed": "failed",
    "missing": "never ran",
    "interrupted": "interrupted",
    "running": "still running",
    "finished": "without a value",
}
_SPREAD = 0.56  # Of a row's height.


def plot(
    runs: pd.DataFrame,
    value: str = "score",
    target: float | None = None,
    summary: pd.DataFrame | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draws a row per configuration and in it a dot per seed, seeds from top to bottom.

    Args:
        runs: From `load_study`: config, seed, status, `value`.
        value: Column to show.
        target: Of the env, drawn as a line.
        summary: From `convergence.summarise`: `value` with _low and _high is drawn behind the dots.
        ax: To draw on; None makes a figure as tall as the rows need.

    Returns:
        The axes. Hollow dots: runs that did not finish.

    Raises:
        ValueError: A column is missing.
    """
    style.require(runs, ["config", "seed", "status", value])
    names = style.levels(runs["config"]) if len(runs) else []
    texts = [style.name_texts(runs["config"])[name] for name in names]
    ax = style.axes(ax, style.rows_height_in(texts, around_in=1.4))
    style.name_axes(ax, text.readable(value), "")
    if runs.empty:
        return style.no_data(ax, "the study has no run")
    shown = runs[["config", "seed", "status", value]].sort_values("seed")
    means = None if summary is None else summary[["config", value, f"{value}_low", f"{value}_high"]]
    for i, name in enumerate(names):
        of_name = shown[shown["config"] == name]
        if means is not None:
            for row in means[means["config"] == name].to_dict("records"):
                ax.hlines(i, row[f"{value}_low"], row[f"{value}_high"], color=style.GREY, linewidth=5, zorder=1.8)
                ax.vlines(row[value], i - 0.36, i + 0.36, color=style.INK, linewidth=1.6, zorder=1.9)
        for place, row in enumerate(of_name.to_dict("records")):
            # Spread by the seed's place and not by chance: the same study gives the same figure.
            y = i + _SPREAD * ((place + 0.5) / len(of_name) - 0.5)
            if math.isfinite(row[value]):
                done = row["status"] == "finished"
                ax.plot(
                    row[value],
                    y,
                    "o",
                    color=style.ACCENT if done else "white",
                    markeredgecolor="white" if done else style.ALARM,
                    markeredgewidth=0.5 if done else 1.4,
                    markersize=5.5,
                    clip_on=False,
                    zorder=3,
                )
        words = _without(of_name, value)
        if words:
            ax.annotate(
                words,
                xy=(1.0, i),
                xycoords=ax.get_yaxis_transform(),
                xytext=(8, 0),
                textcoords="offset points",
                ha="left",
                va="center",
                fontsize=style.SMALL_PT,
                color=style.ink_for(style.ALARM),
                annotation_clip=False,
            )
    style.rows(ax, texts)
    if runs[value].isna().all():
        ax.set_xticks([])
    else:
        style.linear_axis(ax, "x")
        ax.margins(x=0.04)
        target_line(ax, target, vertical=True)
    ax.grid(visible=True, axis="y", color=style.FAINT, linewidth=0.7)
    unfinished = ((runs["status"] != "finished") & runs[value].notna()).any()
    style.note(
        ax,
        "A dot is a seed." + (" Bar: mean over seeds with its interval." if summary is not None else ""),
        "Hollow: the run did not finish." if unfinished else "",
    )
    return ax


def _without(of_name: pd.DataFrame, value: str) -> str:
    """The seeds without a value, by the reason: ``x seed 2 failed``."""
    lost = of_name[of_name[value].isna()]
    parts = []
    for status in _WORST_FIRST:
        seeds = [str(seed) for seed in lost.loc[lost["status"] == status, "seed"]]
        if seeds:
            which = (
                f"seed {seeds[0]}"
                if len(seeds) == 1
                else f"seeds {', '.join(seeds)}"
                if len(seeds) <= 3
                else f"{len(seeds)} seeds"
            )
            parts.append(f"\u00d7 {which} {_WORDS[status]}")
    return "\n".join(parts)
