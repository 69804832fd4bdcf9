"""Which settings carry over, in words, tables and a page."""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import numpy as np

from analysis.document.caveats import FEW_SEEDS
from analysis.document.command_line import hydra_value
from analysis.document.page import environment
from analysis.document.tables import Table, section
from analysis.document.terminal import wrapped
from analysis.load import Study
from analysis.questions.labels import FORMS, WORDS, code, listed, shown
from analysis.questions.shared_settings import FEWEST, MULTIPLES, Source
from analysis.questions.transfer import Carried, LeftOut, Transfer
from analysis.stats.halves import SPLITS
from analysis.stats.interval import Interval
from experiments.contract import PROGRAM
from experiments.contract.words import labelled, plural

_REGRET, _CORRELATION = "z.3f", "z.2f"
_MOST_IN_TERMINAL = 6
"""Pairs of parts, shown there."""
METHODS = (
    "**Cases** are what a study ran in one environment, by one algorithm, with one budget. Settings are the same if "
    "they have the same values on all axes, or the same multiples of what each case starts from. Of a search those "
    "count that confirm what it found; a seed that crashed has the lowest score.",
    "**Scale.** 0 is the environment's lowest possible return, 1 its target. Where it lacks one, the lowest or the "
    "highest mean of its settings stands in.",
    "**Rank correlation.** Spearman's, of the settings' means over seeds; 95% percentiles of a bootstrap over the "
    "seeds of each setting. Noise pulls it towards 0: how far, the halves of a case's own seeds show.",
    "**Regret.** How much worse than its own best a case fares with what the others choose, by their mean score. Half "
    f"of its seeds choose its own best and the other half judges, in up to {SPLITS} splits; a seed that judges chooses "
    "nowhere. 95% intervals are Student's: of a case over its seeds, of a mean over three cases or more. Below 0 "
    "the others choose better than half of its own seeds do. Simulated, they hold the cost against the true best in 80 "
    "to 98%; where they miss, they mostly lie too low, since half of the seeds may not find the best.",
    "**What it is expected to cost** elsewhere is the mean regret, as if the cases were drawn from all that one could "
    "ask about.",
)


@dataclass(frozen=True)
class Page:
    """The page of a transfer.

    Attributes:
        html: The page.
        lines: The same in short, for the terminal.
    """

    html: str
    lines: tuple[str, ...]


def source_of(letter: str, study: Study, composed: Mapping[str, Any]) -> Source:
    """A study as the comparison takes it.

    Args:
        letter: What it is called.
        study: As `analysis.load.load_studies` gives it.
        composed: As `analysis.load.load_composed` gives it.
    """
    design = study.evidence.design.runs
    runs = design if len(design) else study.evidence.concluding.runs
    return Source(letter, runs, study.paths, study.points, composed)


def page(found: Transfer, studies: Mapping[str, Study], measure: str, command: str) -> Page:
    """The page and its short form.

    Args:
        found: What carries over.
        studies: Letter to study.
        measure: By which settings were compared.
        command: The command line that wrote it.
    """
    answers, cautions = sentences(found), _cautions(found)
    gaps = [f"{letter}: {gap}" for letter, study in studies.items() for gap in study.gaps()]
    names = [f"{letter} {study.experiment}" for letter, study in studies.items()]
    sections = [
        section("What is compared", [_parts(found, studies)], f"By the {WORDS[measure]}."),
        section("Are settings that are good in one good in another?", [_correlations(found)]),
        *(
            section(f"What the choice of the others costs as {carried.form}", [_left_out(found, carried, measure)])
            for carried in (found.best, *([found.other] if found.other else []))
        ),
        *([section("What to take over and what to tune", [_by_axis(found.best)])] if found.best.by_axis else []),
    ]
    html = (
        environment()
        .get_template("side_by_side.html.j2")
        .render(
            title=f"Transfer: {listed(names)}",
            over="Which settings carry over",
            heading=listed(names),
            answers=[answers],
            gaps=gaps,
            cautions=cautions,
            sections=sections,
            methods=METHODS,
            commands=[("This page", command), ("To try it", trial(found))],
            footer=(
                f"Study runs {listed([study.run_id for study in studies.values()])}. "
                f"Written {datetime.now(UTC):%Y-%m-%d %H:%M} UTC."
            ),
        )
    )
    return Page(html, tuple(_lines(found, studies, answers, cautions, gaps)))


# Sentences.


def sentences(found: Transfer) -> list[str]:
    """What to try first, what that costs, and what carries over: Markdown."""
    best, kind, num = found.best, found.kind, len(found.parts)
    of_own = ", multiples of its own settings," if best.form == MULTIPLES else ""
    said = [
        f"Try {code(best.label(best.first))}{of_own} first on a new {kind}.",
        f"It is expected to cost {shown(best.regret, _REGRET)} against the {kind}'s own best; a setting picked at "
        f"random costs {shown(best.at_random, _REGRET)}. These are means over {num} {kind}s, each left out in turn, on "
        "a scale from the lowest possible return, 0, to the target, 1, where there are both.",
        _verdict(found),
        *_worse(found),
    ]
    if best.by_axis:
        ordered = sorted(best.by_axis.items(), key=lambda item: -item[1].estimate)
        costs = [f"{code(best.name(axis))} costs {shown(cost, _REGRET)}" for axis, cost in ordered]
        said.append(f"Taken over alone, the rest tuned: {listed(costs)}.")
    if min(cost.estimate for cost in (best.regret, best.at_random, *best.by_axis.values())) < 0:
        said.append("Take a cost below 0 as none: the seeds that judge are not those that chose.")
    return [*said, *_forms(found)]


def _verdict(found: Transfer) -> str:
    """Whether settings are ordered alike, over all pairs."""
    mean, pairs = found.best.correlations.mean, found.best.correlations.pairs
    size = f"{plural(len(found.best.settings), 'setting')}, {plural(found.best.num_seeds, 'seed')} each or more"
    over = f" over {len(pairs)} pairs" if len(pairs) > 1 else ""
    number = f"{'mean ' if over else ''}rank correlation {shown(mean, _CORRELATION)}{over}, {size}"
    if np.isnan(mean.estimate):
        return f"Whether the order of settings carries over cannot be said: in one {found.kind} all settings tie."
    if mean.low > 0:
        return f"The order of settings carries over: {number}."
    if mean.high < 0:
        return f"The order of settings turns around: {number}. What is good in one {found.kind} is bad in another."
    return (
        f"There is no sign that the order of settings carries over: {number}. "
        f"Between halves of its own seeds it is {_halves(found)}: where that is low, noise hides it, and more seeds "
        "may show it; where it is high, tune each by itself."
    )


def _halves(found: Transfer) -> str:
    pairs = zip(found.best.correlations.halves, found.parts, strict=True)
    return listed([f"{agreement:{_CORRELATION}} in {part.name}" for agreement, part in pairs])


def _worse(found: Transfer) -> list[str]:
    """Where the choice of the others is significantly worse than the own best."""
    worse = [one for one in found.best.left_out if one.regret.whole.low > 0]
    if not worse:
        return []
    costs = [f"{one.part.name} ({shown(one.regret.whole, _REGRET)})" for one in worse]
    return [f"The choice of the others is significantly worse than its own best in {listed(costs)}: tune there."]


def _forms(found: Transfer) -> list[str]:
    """Which form of settings carries better."""
    if found.is_one:
        return ["As values and as multiples the settings pair alike: all start from the same."]
    if found.other is None:
        return []
    first, second = found.best, found.other
    forms = [
        f"as {one.form} ({plural(len(one.settings), 'setting')}) {shown(one.regret, _REGRET)}"
        for one in (first, second)
    ]
    apart = found.difference
    verdict = (
        f"Settings carry over better as {(first if apart.estimate > 0 else second).form}"
        if apart.low > 0 or apart.high < 0
        else "Whether settings carry over better as values or as multiples cannot be told"
    )
    return [f"{verdict}: {listed(forms)}, a difference of {shown(_positive(apart), _REGRET)}."]


def _positive(apart: Interval) -> Interval:
    return apart if not apart.estimate < 0 else Interval(-apart.estimate, -apart.high, -apart.low)


def _cautions(found: Transfer) -> list[str]:
    """What limits the conclusions."""
    said, best = [], found.best
    if len(found.parts) == FEWEST:
        said.append(
            f"Two {found.kind}s say little of a third, and their mean has no interval: each is judged by the choice of "
            "the other alone. Name more studies to know what a setting costs elsewhere."
        )
    if best.num_seeds < FEW_SEEDS:
        said.append(
            f"{plural(best.num_seeds, 'seed')} of a setting are few: half of them choose, and the rest judges. "
            "A difference that matters may not show."
        )
    if least := [part for part in found.parts if len(part.scores) > len(best.settings)]:
        counts = listed([f"{len(part.scores)} in {part.name}" for part in least])
        said.append(
            f"{plural(len(best.settings), 'setting')} ran everywhere, of {counts}: the others choose among these, "
            "the own best may be another."
        )
    if pairs := found.same_streams:
        names = listed([f"{a.name} and {b.name}" for a, b in pairs])
        said.append(
            f"{names} have seeds in common, the same algorithm and the same environment: their trials may be the same "
            "for a while, which makes their rank correlation too high. Regrets are judged by other seeds."
        )
    return said


# What to do next.


def trial(found: Transfer) -> str:
    """The command that tries the setting on what one has not run yet, in capitals."""
    best = found.best
    space: dict[str, Any] = {}
    for axis, value in zip(best.axes, best.first, strict=True):
        if best.has_factors(axis):
            base = {} if "." not in axis.word else {"base": f"${{{axis.word}}}"}
            space[axis.word] = {"distribution": "multiples", **base, "factors": [float(value)]}
        else:
            space[axis.path] = [value]
    words = {"environment": "env=ENV", "algorithm": "algorithm=ALGORITHM", "budget": "budget_env_steps=BUDGET"}
    given = [
        f"{key}={getattr(found.parts[0], key)}"
        for key in ("algorithm", "env")
        if len({getattr(part, key) for part in found.parts}) == 1
    ]
    asked = [words[found.kind]] if found.kind in words else []
    return shlex.join([PROGRAM, "run", *given, *asked, f"study.space={hydra_value(space)}"])


# Tables.


def _cell(found: Interval, form: str) -> tuple[str, str]:
    number, _, ends = shown(found, form).partition(" ")
    return number, ends


def _parts(found: Transfer, studies: Mapping[str, Study]) -> Table:
    rows = []
    for part in found.parts:
        low, high = part.scale
        facts = (
            f"{part.letter} {studies[part.letter].experiment}",
            part.algorithm,
            part.env,
            f"{part.budget_env_steps:,}",
            str(len(part.scores)),
            str(part.num_seeds),
            f"{low:,.4g} to {high:,.4g}",
        )
        rows.append([(part.name, ""), *((fact, "") for fact in facts)])
    columns = ("", "study", "algorithm", "environment", "env steps", "settings", "seeds", "scale: 0 to 1")
    return Table(columns, rows)


def _correlations(found: Transfer) -> Table:
    """A row and a column a part; on the diagonal its own halves."""
    known, num = found.best.correlations, len(found.parts)
    rows = []
    for i, part in enumerate(found.parts):
        cells = [
            (f"{known.halves[i]:{_CORRELATION}}", "its own halves")
            if i == j
            else _cell(known.pairs[min(i, j), max(i, j)], _CORRELATION)
            for j in range(num)
        ]
        rows.append([(part.name, ""), *cells])
    return Table(("", *(part.name for part in found.parts)), rows)


def _left_out(found: Transfer, carried: Carried, measure: str) -> Table:
    form = FORMS[measure]

    def row(one: LeftOut) -> list[tuple[str, str]]:
        part = one.part
        mine, own = part.settings[carried.form][one.chosen], str(part.scores.mean(axis=1).idxmax())
        return [
            (part.name, ""),
            (carried.label(one.chosen), f"{WORDS[measure]} {part.mean(mine):{form}}"),
            (part.named(own), f"{WORDS[measure]} {part.mean(own):{form}}"),
            _cell(one.regret.whole, _REGRET),
            _cell(one.regret.at_random, _REGRET),
        ]

    mean = [("all", ""), (carried.label(carried.first), ""), ("", "")]
    mean += [_cell(carried.regret, _REGRET), _cell(carried.at_random, _REGRET)]
    columns = (f"{found.kind} left out", "the others choose", "its own best, by all seeds", "regret", "one at random")
    return Table(columns, [*map(row, carried.left_out), mean])


def _by_axis(carried: Carried) -> Table:
    axes = list(carried.by_axis)
    places = [carried.axes.index(axis) for axis in axes]
    rows = [[(one.part.name, ""), *(_cell(one.regret.by_axis[i], _REGRET) for i in places)] for one in carried.left_out]
    mean = [("all", ""), *(_cell(carried.by_axis[axis], _REGRET) for axis in axes)]
    heads = [f"{carried.name(axis)} of the others, the rest tuned" for axis in axes]
    return Table(("regret", *heads), [*rows, mean])


# The terminal.


def _lines(
    found: Transfer,
    studies: Mapping[str, Study],
    answers: Sequence[str],
    cautions: Sequence[str],
    gaps: Sequence[str],
) -> list[str]:
    """The short form."""
    lines = [labelled(letter, f"{study.experiment}, {study.run_id}") for letter, study in studies.items()]
    lines += _block("answer", answers)
    lines += _block("left out", [_chosen(found.best, one) for one in found.best.left_out])
    pairs = found.best.correlations.pairs.items()
    names = [part.name for part in found.parts]
    if len(pairs) > 1:
        words = [f"{names[i]} and {names[j]}: rank correlation {shown(of, _CORRELATION)}" for (i, j), of in pairs]
        more = len(words) - _MOST_IN_TERMINAL
        lines += _block("pairs", [*words[:_MOST_IN_TERMINAL], *([f"and {more} more, on the page"] if more > 0 else [])])
    lines += _block("missing", gaps)
    lines += _block("mind", cautions)
    return [*lines, labelled("to try it", trial(found))]


def _chosen(carried: Carried, one: LeftOut) -> str:
    cost, is_worse = one.regret.whole, "" if one.regret.whole.low > 0 else "not "
    return (
        f"{one.part.name}: the others choose {carried.label(one.chosen)}, which costs {shown(cost, _REGRET)}, "
        f"{is_worse}significantly worse than its own best"
    )


def _block(label: str, sentences: Sequence[str]) -> list[str]:
    """A paragraph each, of which the first has the label."""
    return [line for i, sentence in enumerate(sentences) for line in wrapped("" if i else label, sentence)]
