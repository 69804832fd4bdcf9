"""The section on the gradient noise scale."""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from analysis.document.parts import Drawn, Part, Section, figure_of
from analysis.load import Study
from analysis.plots import noise_scale as drawing
from analysis.plots import style
from analysis.questions import noise_scale
from analysis.questions.labels import code
from analysis.questions.learning_rate_batch import BATCH

_INTERVAL = "bootstrap over seeds, expanded percentiles"
_WHAT = "Gradient noise scale over training: how many rows a gradient needs until its noise is as large as itself."


def section(part: Part) -> Section:
    """How the noise scale moves over training, and whether it says where a larger batch stops paying;
    empty where it was not measured.
    """
    found = noise_scale.rises(part.runs, part.curves, part.rng)
    sentences, figures = [], []
    for config in dict.fromkeys(rise.config for rise in found if rise.config in part.highlight):
        of_config = [rise for rise in found if rise.config == config]
        named = len({rise.config for rise in found}) > 1
        sentences += [f"{code(config)}: {rise.sentence}" if named else rise.sentence for rise in of_config]
    sentences += [
        one.sentence for one in noise_scale.beside_critical_batch(part.runs, part.axes, part.replays, part.rng)
    ]
    frame = noise_scale.over_time(part.runs, part.curves, part.rng)
    best = part.highlight[:1]
    if len(frame) and len(mine := frame[frame["config"].astype(str).isin(best)]):
        whose = f" {code(best[0])}." if frame["config"].nunique() > 1 else ""
        ax = drawing.plot(mine, "network", _rows(part.runs[part.runs["config"].isin(best)]))
        figures.append(part.drawn("noise-scale", figure_of(ax), f"{_WHAT}{whose}", _INTERVAL, mine["num_seeds"]))
    return Section(
        "noise-scale", "Gradient noise scale" if sentences or figures else "", tuple(sentences), tuple(figures)
    )


def across(study: Study, runs: pd.DataFrame, rng: np.random.Generator) -> tuple[list[str], list[Drawn]]:
    """The noise scales of several environments, one configuration each: sentences and figures;
    nothing where there are others.
    """
    frame: pd.DataFrame = noise_scale.over_time(runs, study.curves, rng)
    if frame.empty or frame["env"].nunique() < 2 or frame["config"].nunique() != frame["env"].nunique():
        return [], []
    figures = []
    for network in noise_scale.apart_or_all(frame["network"]):
        mine = frame[frame["network"] == network]
        caption = f"{_WHAT} {network.capitalize()}. {style.caption(study.name, mine['num_seeds'], _INTERVAL)}"
        figures.append(Drawn(f"noise-scale-{network.replace(' ', '-')}", figure_of(drawing.plot(mine, "env")), caption))
    return noise_scale.across_sentences(noise_scale.rises(runs, study.curves, rng)), figures


def _rows(runs: pd.DataFrame) -> float | None:
    """Rows of a gradient step, where all runs have the same."""
    columns: Sequence[str] = [c for c in (noise_scale.MINIBATCH, BATCH) if c in runs and runs[c].notna().all()]
    values = pd.to_numeric(runs[columns[0]]).unique() if columns else []
    return float(values[0]) if len(values) == 1 else None
