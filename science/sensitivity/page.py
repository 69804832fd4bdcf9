"""How much tuning a result needed, in words, tables and a page."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pandas as pd

from analysis.document.page import address, environment, svg
from analysis.document.parts import figure_of
from analysis.document.tables import Table, section
from analysis.questions.labels import code, listed, percent, shown
from analysis.stats.interval import Interval
from experiments.contract.words import plural
from science.sensitivity import figure
from science.sensitivity.question import NEAR_PEAK, PERCENTILES, Sensitivity

FEW_SEEDS = 10
"""Below it the choice of the best of several settings is mostly luck: said on the page."""
_FORM = ".3f"
METHODS = (
    f"**Score.** An environment's scores are put on one scale: the {PERCENTILES[0]}th and the {PERCENTILES[1]}th "
    "percentile of the mean scores of all settings of all algorithms become 0 and 1.",
    "**Sensitivity** (Adkins, Bowling and White 2024, arXiv 2412.07165). The score with the best setting "
    "of each environment, minus that of the setting that is best for all together; means over environments.",
    "**Effective dimensionality.** The fewest hyperparameters that, tuned for each environment with the others "
    f"as in the common setting, bring {percent(NEAR_PEAK)} of the score tuned for each environment.",
    "**Intervals.** 95%, basic bootstrap over the seeds of each setting in each environment, the scale held. "
    "Simulated, they cover in 86 to 94%, and less where many settings are equally good; "
    "the percentiles of the paper can miss altogether there.",
    "**On other seeds.** The best of several noisy means flatters, more so where it is chosen for each environment. "
    "Settings chosen without a seed, and judged by it, each seed in turn, are not flattered; "
    "this number has no interval.",
)


@dataclass(frozen=True)
class Page:
    """The page of a sensitivity analysis.

    Attributes:
        html: The page.
        lines: The same in short, for the terminal.
    """

    html: str
    lines: tuple[str, ...]


def points(found: Sequence[Sensitivity]) -> pd.DataFrame:
    """A row an algorithm: `algorithm`, `tuned`, `common` and `difference` with their intervals."""
    parts = ("tuned", "common", "difference")
    return pd.DataFrame([{"algorithm": one.algorithm, **_columns(one, parts)} for one in found])


def _columns(one: Sensitivity, parts: Sequence[str]) -> dict[str, float]:
    return {name: value for part in parts for name, value in getattr(one, part).columns(part).items()}


def sentences(found: Sequence[Sensitivity]) -> list[str]:
    """A paragraph of Markdown for each algorithm."""
    return [_sentence(one) for one in found]


def _sentence(one: Sensitivity) -> str:
    held_out = (
        f"; {one.held_out:{_FORM}} where settings are chosen on other seeds" if one.held_out == one.held_out else ""
    )
    tried, whole = one.num_settings + one.num_elsewhere, one.num_settings
    for_all = "the best one for all" if tried == whole else f"the best for all of the {whole} that ran everywhere"
    told = (
        f"{code(one.algorithm)}: {shown(one.tuned, _FORM)} with the best of {tried} settings "
        f"in each of {len(one.tuned_settings)} environments, {shown(one.common, _FORM)} with {for_all} "
        f"({code(one.common_setting)}): a sensitivity of {shown(one.difference, _FORM)}{held_out} "
        f"({plural(one.num_seeds, 'seed')} each or more)."
    )
    if not one.by_number:
        return told
    names = one.by_number[-1][0]
    if one.dimensionality is None:
        return f"{told} How many hyperparameters have to be tuned for it cannot be said: it is not above 0."
    some = one.by_number[one.dimensionality][0]
    which = f": {listed([code(name) for name in some])}" if some else ""
    return (
        f"{told} For {percent(NEAR_PEAK)} of the tuned score {one.dimensionality} of {len(names)} "
        f"hyperparameters have to be tuned{which}."
    )


def page(found: Sequence[Sensitivity], source: str, command: str) -> Page:
    """The page and its short form.

    Args:
        found: One or more.
        source: What was read, in words.
        command: The command line that wrote it.
    """
    paragraphs, few = sentences(found), min(one.num_seeds for one in found)
    caption = f"Sensitivity to hyperparameters: {source}. 95% intervals: bootstrap over seeds."
    picture = svg(figure_of(figure.plot(points(found))))
    most = max(one.num_settings + one.num_elsewhere for one in found)
    cautions = [
        f"{plural(few, 'seed')} are few to choose the best of {most} settings by: "
        "read the sensitivity on other seeds beside that of the paper."
    ] * (few < FEW_SEEDS)
    html = (
        environment()
        .get_template("side_by_side.html.j2")
        .render(
            title=f"Sensitivity: {source}",
            over="Sensitivity to hyperparameters",
            heading=f"How much tuning did it take? {source}",
            answers=[[paragraph] for paragraph in paragraphs],
            gaps=[],
            cautions=cautions,
            sections=[
                _section(
                    "Performance and sensitivity", [_overall(found)], [{"source": address(picture), "caption": caption}]
                ),
                _section("The best setting of each environment", [_settings(found)]),
                _section("Hyperparameters that have to be tuned", [_numbers(one) for one in found if one.by_number]),
            ],
            methods=METHODS,
            commands=[("This page", command)],
            footer=f"Written {datetime.now(UTC):%Y-%m-%d %H:%M} UTC.",
        )
    )
    return Page(html, tuple(paragraph.replace("`", "") for paragraph in paragraphs))


def _section(title: str, tables: Sequence[Table], figures: Sequence[dict[str, str]] = ()) -> dict[str, Any]:
    unknown = "Hyperparameters are not known: settings are no words of the form key=value, the same keys in each."
    return section(title, tables, "" if any(table.rows for table in tables) else unknown, figures)


def _cell(found: Interval) -> tuple[str, str]:
    number, _, ends = shown(found, _FORM).partition(" ")
    return number, ends


def _overall(found: Sequence[Sensitivity]) -> Table:
    rows = []
    for one in found:
        held_out = f"{one.held_out:{_FORM}}" if one.held_out == one.held_out else "\u2013"
        dimensions = f"{one.dimensionality} of {len(one.by_number) - 1}" if one.dimensionality is not None else "\u2013"
        settings = str(one.num_settings + one.num_elsewhere)
        settings += f", {one.num_settings} everywhere" if one.num_elsewhere else ""
        cells = [_cell(one.tuned), _cell(one.common), _cell(one.difference), (held_out, ""), (dimensions, "")]
        rows.append([(one.algorithm, ""), *cells, (settings, ""), (str(one.num_seeds), "")])
    columns = (
        "algorithm",
        "tuned for each",
        "one for all",
        "sensitivity",
        "on other seeds",
        "effective dimensionality",
        "settings",
        "seeds",
    )
    return Table(columns, rows)


def _settings(found: Sequence[Sensitivity]) -> Table:
    rows = []
    for one in found:
        rows += [[(one.algorithm, ""), (env, ""), (setting, "")] for env, setting in one.tuned_settings.items()]
        rows.append([(one.algorithm, ""), ("all together", ""), (one.common_setting, "")])
    return Table(("algorithm", "environment", "best setting"), rows, prose=True)


def _numbers(one: Sensitivity) -> Table:
    rows = [
        [(str(len(some)), ""), (", ".join(some) or "none", ""), (f"{score:{_FORM}}", "")]
        for some, score in one.by_number
    ]
    return Table(("tuned for each environment", "the best choice of these", "score"), rows, title=one.algorithm)
