"""The section on widths, and its sentences."""

import math
from collections.abc import Sequence

import pandas as pd

from analysis.document import wording
from analysis.document.extension import Report
from analysis.document.parts import MODERATED, Drawn, Part, Section, figure_of, slug
from analysis.plots import best_lr, text
from analysis.questions.claims import Verdict
from analysis.questions.labels import FORMS, WORDS, interval_of, listed, shown
from analysis.questions.learning_rate_batch import learning_rate_axis
from analysis.stats.gaussian_process import EXPONENTS
from experiments.contract.words import plural
from science.network_width import figure
from science.network_width.question import COST_ENV_STEPS, MUP, RULES, STANDARD, WIDTH, Carried, carried, seconds

_WAYS = {
    STANDARD: "the standard parametrization",
    MUP: "the maximal update parametrization",
    "": "this study's parametrization",
}


class WidthReport(Report):
    """A section on each environment."""

    before = "learning"

    def sections(self, part: Part) -> list[Section]:
        """Whether the best learning rate carries over from one width to another."""
        return [width(part)]


def width(part: Part) -> Section:
    """Whether the best learning rate carries over from one width to another."""
    found = [] if part.picked else carried(part.runs, part.axes, part.rng)
    if not found:
        return Section("width", "")
    lr = learning_rate_axis(part.axes)
    sentences: list[str] = []
    figures: list[Drawn] = []
    parts = list(dict.fromkeys(wording.within(one.settings) for one in found))
    for i, where in enumerate(parts):
        alike = [one for one in found if wording.within(one.settings) == where]
        sentences += [f"{where}{sentence}" for sentence in (advice(alike), *map(sentence_of, alike))]
        for one in alike:
            if one.measure == "auc":
                figures += _figures(part, one, lr, f"{slug(one.way)}{f'-{i}' if len(parts) > 1 else ''}", where)
    if told := cost_sentence(seconds(part.runs), part.packed):
        sentences.append(told)
    return Section("width", "Does the best learning rate carry over to other widths?", tuple(sentences), tuple(figures))


def advice(found: Sequence[Carried]) -> str:
    """What to do, of all answers that are alike but for parametrization and measure: the first sentence."""
    by_way = {way: [one.answer for one in found if one.way == way] for way in dict.fromkeys(one.way for one in found)}
    first, widths = found[0], sorted({*found[0].levels[WIDTH]})
    span = f"{widths[0]:g} to {widths[-1]:g}"
    kept = [way for way, answers in by_way.items() if set(answers) == {Verdict.HOLDS}]
    measures = listed([WORDS[one.measure] for one in found if one.way == first.way])
    if kept:
        how = " (`extension.network_width.parametrization=mup`)" if kept == [MUP] else ""
        return (
            f"**Tune at width {first.tuned_at:g} and keep the learning rate at {span}** with "
            f"{listed([_WAYS[way] for way in kept])}{how}: by {measures} no width loses more than the "
            f"{first.delta:.1f} that make no practical difference."
        )
    told = [
        f"{Verdict.FAILS if Verdict.FAILS in answers else Verdict.OPEN} with {_WAYS[way]}"
        for way, answers in by_way.items()
    ]
    return (
        f"**Tune at each width.** That the best learning rate of width {first.tuned_at:g} can be kept at {span}, "
        f"by {measures}: {listed(told)}."
    )


def sentence_of(found: Carried) -> str:
    """The exponent, and what is lost at each width, by one measure."""
    form, words = FORMS[found.measure], WORDS[found.measure]
    lost = [
        "nothing, the same learning rate is best" if row["same"] else shown(interval_of(row, "regret"), f"+{form}")
        for row in found.regrets.to_dict("records")
    ]
    told = [f"{loss} at {at:g}" for loss, at in zip(lost, found.regrets[WIDTH], strict=True)]
    num_seeds = int(found.levels["num_seeds"].max())
    name = _WAYS[found.way]
    sides = [
        f"at {listed([f'{at:g}' for at, of_width in found.untried.items() if of_width == side])} no {side} one"
        for side in dict.fromkeys(found.untried.values())
    ]
    open_to = f" A better one may not have been tried: {listed(sides)} was." if sides else ""
    return (
        f"{name[0].upper()}{name[1:]}, by {words}: {_exponent(found)}. To keep {text.rate(found.rate)}, the best at "
        f"{found.tuned_at:g}, costs {listed(told)} (delta {found.delta:{form}}; {plural(num_seeds, 'seed')}, each of "
        f"which judges what the others chose): **{found.answer}**.{open_to}"
    )


def _exponent(found: Carried) -> str:
    p = found.exponent
    if math.isnan(p.estimate):
        return "how the best learning rate changes with the width can't be told, widen the grid or add seeds"
    kept = [f"{name} ({power:g})" for name, power in RULES.items() if p.low <= power <= p.high]
    out = [f"{name} ({power:g})" for name, power in RULES.items() if not p.low <= power <= p.high]
    verdicts = [f"{listed(names)} {how}" for names, how in ((out, "rejected"), (kept, "not rejected")) if names]
    ends = ", where none below were considered" if p.low < EXPONENTS[0] + 0.1 else ""
    interval = f"{p.estimate:.2f} [{p.low:.2f}, {p.high:.2f}]{ends}"
    return f"the best learning rate goes as width^{interval}: {listed(verdicts)}"


def cost_sentence(found: pd.DataFrame, packed: bool) -> str:
    """What env steps cost at each width; "" where it is not known.

    Args:
        found: From `question.seconds`.
        packed: Whether trials shared their machine.
    """
    told = []
    for way, rows in found.groupby("way", sort=False):
        costs = [f"{shown(interval_of(row, 'seconds'), '.2g')} at {row[WIDTH]:g}" for row in rows.to_dict("records")]
        told.append(f"{listed(costs)} with {_WAYS[str(way)]}")
    beside = " Trials ran side by side, which takes each of them longer." if packed else ""
    return f"Training seconds of {COST_ENV_STEPS:,} env steps: {'; '.join(told)}.{beside}" if told else ""


def _figures(part: Part, found: Carried, lr: str, key: str, where: str) -> list[Drawn]:
    p = found.exponent
    rejected = [name for name, power in RULES.items() if power < p.low or power > p.high]
    rates = figure_of(best_lr.plot(found.best, None, rejected, lr, over=WIDTH, rules=RULES))
    curves = figure_of(figure.plot(found.levels, found.measure, lr))
    with_way = f"with {_WAYS[found.way]}"
    return [
        part.drawn(
            f"width-levels{key}",
            curves,
            f"{where}Area under the learning curve over the learning rate {with_way}, a line for each width.",
            MODERATED,
            found.levels["num_seeds"],
        ),
        part.drawn(
            f"width-best{key}",
            rates,
            f"{where}The learning rate with the largest area under the learning curve over the width, {with_way}.",
            "Gaussian process posterior",
            found.best["num_seeds"],
        ),
    ]
