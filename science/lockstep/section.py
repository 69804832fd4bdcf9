"""The section on environments that move in lockstep, and its sentences."""

import pandas as pd

from analysis.document import wording
from analysis.document.extension import Report
from analysis.document.parts import MODERATED, Drawn, Part, Section, figure_of
from analysis.questions.claims import Verdict
from analysis.questions.labels import FORMS, WORDS, interval_of, listed, percent, shown
from experiments.contract.words import plural
from science.lockstep import figure
from science.lockstep.question import (
    END,
    FRAGMENT,
    LITTLE,
    MEASURES,
    PUBLISHED_SPEEDUP,
    REACHED,
    STAGGER,
    TOTAL,
    LockstepFound,
    change_verdict,
    compare,
)

_FIGURES = {
    "auc": "Area under the learning curve, mean over seeds, of environments that start together and of staggered ones.",
    "diversity": (
        "Phase diversity of a training batch, mean over the trial: 0 if all its rows are of the same time "
        "of the episode, 1 if they are spread evenly over it."
    ),
}


class LockstepReport(Report):
    """A section on each environment."""

    before = "learning"

    def sections(self, part: Part) -> list[Section]:
        """The harm of lockstep."""
        return [lockstep(part)]


def lockstep(part: Part) -> Section:
    """The effect of staggering, and of more environments with shorter fragments."""
    sentences: list[str] = []
    figures: list[Drawn] = []
    for i, found in enumerate(compare(part.runs, part.curves, part.axes)):
        sentences += [f"{wording.within(found.settings)}{sentence}" for sentence in sentences_of(found)]
        for measure, what in _FIGURES.items():
            if found.levels[measure].notna().any():
                where, key = wording.within(found.settings), f"lockstep-{measure}{f'-{i}' if found.settings else ''}"
                drawn = figure_of(figure.plot(found.levels, measure))
                figures.append(part.drawn(key, drawn, f"{where}{what}", MODERATED))
    return Section("lockstep", "Does lockstep hurt?", tuple(sentences), tuple(figures))


def sentences_of(found: LockstepFound) -> list[str]:
    """The findings, a Markdown sentence or two each: of phases, of staggering, of more environments,
    against what is published.
    """
    told = [
        _diversity(found),
        *(_staggered(found, measure) for measure in MEASURES),
        _speedups(found),
        _published_speedup(found),
    ]
    return [sentence for sentence in (*told, *(_more(found, measure) for measure in MEASURES)) if sentence]


def _shape(environments: float, fragment: float) -> str:
    return f"{environments:g} x {fragment:g}"


def _diversity(found: LockstepFound) -> str:
    known = found.levels[found.levels["diversity"].notna()]
    told = []
    for (environments, fragment), rows in known.groupby([TOTAL, FRAGMENT]):
        ways = [
            f"{shown(interval_of(row, 'diversity'), '.2f')} {_way(row[STAGGER])}" for row in rows.to_dict("records")
        ]
        told.append(f"{listed(ways)} with {_shape(environments, fragment)}")
    if not told:
        return ""
    return (
        "Phase diversity of a training batch (0: of one time of the episode, 1: spread evenly over it): "
        f"{'; '.join(told)}."
    )


def _way(is_staggered: bool) -> str:
    return "staggered" if is_staggered else "together"


def _staggered(found: LockstepFound, measure: str) -> str:
    rows = found.staggered[found.staggered["measure"] == measure]
    if rows.empty or rows["p_adjusted"].isna().all():
        return f"By {WORDS[measure]}, staggering cannot be judged: it takes both ways with two seeds in common."
    told = [
        f"{shown(interval_of(row, 'difference'), '+' + FORMS[measure])} with {_shape(row[TOTAL], row[FRAGMENT])}"
        for row in rows.to_dict("records")
    ]
    by_verdict = {
        verdict: _shapes(rows[[change_verdict(row) == verdict for row in rows.to_dict("records")]])
        for verdict in _HELPS
    }
    verdicts = [f"{words} with {shapes}" for verdict, words in _HELPS.items() if (shapes := by_verdict[verdict])]
    rests = f"{plural(int(rows['num_seeds'].min()), 'matched seed')}; Holm over all changes, 5%"
    return f"By {WORDS[measure]}, staggering brings {listed(told)}: it {listed(verdicts)} ({rests})."


_HELPS = {Verdict.HOLDS: "helps", Verdict.FAILS: "hurts", Verdict.OPEN: "makes no significant difference"}
"""A verdict on a change in words."""


def _shapes(rows: pd.DataFrame) -> str:
    return listed([_shape(row[TOTAL], row[FRAGMENT]) for row in rows.to_dict("records")])


def _speedups(found: LockstepFound) -> str:
    known = found.speedups[found.speedups["speedup"].notna()]
    if known.empty:
        return ""
    told = [
        f"{shown(interval_of(row, 'speedup'), '.2f')} with {_shape(row[TOTAL], row[FRAGMENT])}"
        for row in known.to_dict("records")
    ]
    return (
        f"To {percent(REACHED)} of what both gain by the last {percent(END)} of the budget, environments "
        f"that start together take {listed(told)} times the env steps of staggered ones (geometric means over seeds; "
        "95% intervals, not corrected)."
    )


def _published_speedup(found: LockstepFound) -> str:
    low, high = PUBLISHED_SPEEDUP
    claims = {
        True: (
            f"where environments would move in lockstep, staggered ones take {low:g} to {high:g} times fewer env steps"
        ),
        False: f"elsewhere they make little difference (here: less than {LITTLE:g} times)",
    }
    told = []
    for in_lockstep, claim in claims.items():
        rows = found.speedups[found.speedups["in_lockstep"] == in_lockstep]
        verdicts = [f"{row['verdict']} with {_shape(row[TOTAL], row[FRAGMENT])}" for row in rows.to_dict("records")]
        told += (
            [f"Published (Bharthulwar et al. 2025): {claim}. In this range: {listed(verdicts)}."] if verdicts else []
        )
    return " ".join(told)


def _more(found: LockstepFound, measure: str) -> str:
    rows = found.more[found.more["measure"] == measure]
    if rows.empty or rows["p_adjusted"].isna().all():
        return ""
    told = [
        f"{_way(row[STAGGER])} {shown(interval_of(row, 'difference'), '+' + FORMS[measure])} ({change_verdict(row)})"
        for row in rows.to_dict("records")
    ]
    row = rows.iloc[0]
    return (
        "Published (Mayor et al. 2025): at the same batch, more environments with shorter fragments are better. "
        f"In this range, by {WORDS[measure]}, {_shape(row[TOTAL], row[FRAGMENT])} minus "
        f"{_shape(row['than'], row['than_fragment'])}: {listed(told)}."
    )
