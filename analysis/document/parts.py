"""The parts of sections: figures with captions, and the part of a study that they show."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from analysis.document.answer import closing_table
from analysis.document.next_step import study_command
from analysis.document.tables import Table
from analysis.evidence import Evidence
from analysis.load import Study
from analysis.plots import style
from analysis.questions import diagnosis
from analysis.questions.decision import decision_of

MODERATED = "spread moderated over configurations"
WILSON = "Wilson"


@dataclass(frozen=True)
class Drawn:
    """One figure.

    Attributes:
        key: For file names and links.
        figure: The figure, without caption.
        caption: What it shows, and what it rests on.
    """

    key: str
    figure: Figure
    caption: str


@dataclass(frozen=True)
class Section:
    """One subject of a report.

    Attributes:
        key: For links.
        title: Its heading.
        sentences: What was found, Markdown.
        figures: In their order.
        tables: Below the first sentence.
    """

    key: str
    title: str
    sentences: tuple[str, ...] = ()
    figures: tuple[Drawn, ...] = ()
    tables: tuple[Table, ...] = ()


class Part:
    """The trials of a study on one environment that a section rests on, with what several figures need of them."""

    def __init__(self, study: Study, evidence: Evidence, rng: np.random.Generator) -> None:
        self.evidence = evidence
        runs = self.trials = evidence.runs
        self.runs = evidence.replicates
        self.study, self.curves, self.rng = study.name, study.curves, rng
        self.asked = study_command(study)
        self.axes = [axis for axis in study.axes if axis in runs]
        self.decision = decision_of(evidence)
        self.table = closing_table(evidence)
        self.summary = self.table.sort_values("config", ignore_index=True)
        self.target = float(runs["target"].iloc[0])
        self.packed = not bool(runs["exclusive"].all())
        self.picked = bool((runs["phase"] == "confirm").all())
        """True if a search picked the few configurations, which are no grid."""
        self.replays = study.replays(runs)
        self.predicted_mib = study.predicted_mib
        self.diagnosed = diagnosis.of_study(runs, study.curves, study.facts, self.axes)
        names = list(self.table["config"].astype(str))
        self.highlight = names[:6] + [name for name in names[6:] if name == study.base]

    def drawn(self, key: str, figure: Figure, what: str, interval: str, num_seeds: pd.Series | None = None) -> Drawn:
        """A figure with its caption, which says what it rests on: the seeds of each configuration,
        unless others are given.
        """
        counts = self.summary["num_seeds"] if num_seeds is None else num_seeds
        return Drawn(key, figure, f"{what} {style.caption(self.study, counts, interval)}")


def figure_of(axes: Axes | Sequence[Axes]) -> Figure:
    """The figure of axes."""
    first = axes if isinstance(axes, Axes) else axes[0]
    figure = first.figure
    assert isinstance(figure, Figure)
    return figure


def slug(label: str) -> str:
    """Words for file names and links: `-lr-0-01`."""
    return "".join(f"-{word}" for word in re.findall(r"[^\W_]+", label))
