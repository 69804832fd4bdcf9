"""The section on the gradient noise scale."""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from analysis.document.extension import Report
from analysis.document.parts import Drawn, Part, Section, figure_of
from analysis.load import Study
from analysis.plots import style
from analysis.questions.labels import code
from analysis.questions.learning_rate_batch import BATCH
from science.noise_scale import figure, question

_INTERVAL = "bootstrap over seeds, expanded percentiles"
_WHAT = "Gradient noise scale over training: how many rows a gradient needs until its noise is as large as itself."


class NoiseScaleReport(Report):
    """A section on each environment, and what they come to together."""

    before = "seeds"

    def sections(self, part: Part) -> list[Section]:
        """How the noise scale moves over training."""
        return [section(part)]

    def across(self, study: Study, runs: pd.DataFrame, rng: np.random.Generator) -> tuple[list[str], list[Drawn]]:
        """As `across`."""
        return across(study, runs, rng)


def section(part: Part) -> Section:
    """How the noise scale moves over training, and whether it says where a larger batch stops paying;
    empty where it was not measured.
    """
    found = question.rises(part.runs, part.curves, part.rng)
    sentences, figures = [], []
    for config in dict.fromkeys(rise.config for rise in found if rise.config in part.highlight):
        of_config = [rise for rise in found if rise.config == config]
        named = len({rise.config for rise in found}) > 1
        sentences += [f"{code(config)}: {rise.sentence}" if named else rise.sentence for rise in of_config]
    sentences += [one.sentence for one in question.beside_critical_batch(part.runs, part.axes, part.replays, part.rng)]
    frame = question.over_time(part.runs, part.curves, part.rng)
    best = part.highlight[:1]
    if len(frame) and len(mine := frame[frame["config"].astype(str).isin(best)]):
        whose = f" {code(best[0])}." if frame["config"].nunique() > 1 else ""
        ax = figure.plot(mine, "network", _rows(part.runs[part.runs["config"].isin(best)]))
        figures.append(part.drawn("noise-scale", figure_of(ax), f"{_WHAT}{whose}", _INTERVAL, mine["num_seeds"]))
    return Section(
        "noise-scale", "Gradient noise scale" if sentences or figures else "", tuple(sentences), tuple(figures)
    )


def across(study: Study, runs: pd.DataFrame, rng: np.random.Generator) -> tuple[list[str], list[Drawn]]:
    """The noise scales of several environments, one configuration each: sentences and figures;
    nothing where there are others.
    """
    frame: pd.DataFrame = question.over_time(runs, study.curves, rng)
    if frame.empty or frame["env"].nunique() < 2 or frame["config"].nunique() != frame["env"].nunique():
        return [], []
    figures = []
    for network in question.apart_or_all(frame["network"]):
        mine = frame[frame["network"] == network]
        caption = f"{_WHAT} {network.capitalize()}. {style.caption(study.name, mine['num_seeds'], _INTERVAL)}"
        figures.append(Drawn(f"noise-scale-{network.replace(' ', '-')}", figure_of(figure.plot(mine, "env")), caption))
    return question.across_sentences(question.rises(runs, study.curves, rng)), figures


def _rows(runs: pd.DataFrame) -> float | None:
    """Rows of a gradient step, where all runs have the same."""
    columns: Sequence[str] = [c for c in (question.MINIBATCH, BATCH) if c in runs and runs[c].notna().all()]
    values = pd.to_numeric(runs[columns[0]]).unique() if columns else []
    return float(values[0]) if len(values) == 1 else None
