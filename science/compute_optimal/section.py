"""The section on data and compute."""

import pandas as pd

from analysis import AnalysisError
from analysis.document.extension import Report
from analysis.document.parts import MODERATED, Part, Section, figure_of
from analysis.questions.labels import code
from science.compute_optimal import figure, words
from science.compute_optimal.question import Found, best, find

_TITLE = "Data against compute"
_AHEAD = 2.0
"""How many times the largest compute that was run the budget is that the report asks of."""
_WHAT = "Env steps over floating-point operations to the target, a dot a configuration, geometric means."
_BAND = " Band: 90% intervals of what is predicted."


class ComputeOptimalReport(Report):
    """A section on each environment."""

    before = "seeds"

    def sections(self, part: Part) -> list[Section]:
        """The frontier of data against compute, and the best point at a budget that was not run."""
        return [frontier(part)]


def frontier(part: Part) -> Section:
    """The laws, what they predict at twice the largest compute, and the figure; empty where it was not asked."""
    try:
        found = find(part.runs, part.curves, part.axes, part.rng)
    except AnalysisError as error:
        return Section("compute", _TITLE, (str(error),))
    if found is None:
        return Section("compute", "")
    sentences = [words.of_fit(fit) for fit in found.fits]
    point = None
    if len(found.points):
        amount = _AHEAD * found.most_flops
        point = best(found, "compute", amount)
        sentences.append(
            f"{words.of_point(found, point, 'compute', amount)} "
            f"To run it: {code(words.command_of(part.asked, part.runs, part.axes, found, point))}"
        )
    else:
        sentences.append(words.of_cheapest(found))
    ax = figure.plot(_drawn(found, point))
    what = _WHAT + (_BAND if len(found.points) else "")
    drawn = part.drawn("compute", figure_of(ax), what, MODERATED, found.measured["num_seeds"])
    return Section("compute", _TITLE, tuple(sentences), (drawn,))


def _drawn(found: Found, point: pd.Series | None) -> pd.DataFrame:
    measured = found.measured.assign(
        what=figure.MEASURED, label="", censored=found.measured["num_reached"] < found.measured["num_seeds"]
    )
    parts = [measured]
    if point is not None:
        parts.append(found.frontier.assign(what=figure.PREDICTED, label="", censored=False))
        label = words.settings_shown(point).replace(" and ", ", ").replace(", ", ",\n")
        parts.append(point.to_frame().T.assign(what=figure.BEST, label=label, censored=False))
    columns = ["what", "label", "censored", "flops", "env_steps", "env_steps_low", "env_steps_high"]
    numbers = dict.fromkeys(columns[3:], float)
    return pd.concat([part[columns].astype(numbers) for part in parts], ignore_index=True)
