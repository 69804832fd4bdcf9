"""The sections on batches: whether learning is invariant to them, and in which way they should grow."""

from analysis.document import wording
from analysis.document.extension import Report
from analysis.document.parts import MODERATED, Drawn, Part, Section, figure_of
from analysis.questions.claims import Verdict
from analysis.questions.labels import FORMS, WORDS, interval_of, listed, percent, shown
from science.batch_invariance import figure
from science.batch_invariance.question import SMALLER, SPREAD, STALE, Invariance, compare_with_base
from science.batch_invariance.question import curve_gaps as gaps_of
from science.batch_invariance.recipe import RECIPE, compare_ways, recipe_holds

_POLICIES = {"ewma": "PPO-EWMA", "sampling": "PPO"}
_PUBLISHED = (
    f"Published, of PPG-EWMA on Procgen: the final normalised return differs by about {SPREAD} "
    f"from 256 environments to 1 (Hilton et al. 2022); tested here is whether all are within {percent(SPREAD)} "
    "of the range of returns of the base batch."
)


class BatchReport(Report):
    """Two sections on each environment."""

    before = "learning"

    def sections(self, part: Part) -> list[Section]:
        """How far learning is invariant to the batch, and in which way it should grow."""
        return [invariance(part), recipe(part)]


def invariance(part: Part) -> Section:
    """How far learning stays the same when the batch shrinks or samples are old."""
    found = compare_with_base(part.runs, part.axes)
    told = sorted((one for one in found if len(one.differences)), key=lambda one: not _is_claim(one))
    if not told:
        return Section("batch-invariance", "")
    sentences = [_invariance_sentence(one) for one in told]
    sentences.insert(1, _PUBLISHED)
    figures: list[Drawn] = []
    gaps = gaps_of(part.curves, part.runs)
    for policy in gaps["policy"].unique():
        of_policy = gaps[gaps["policy"] == policy]
        what = (
            f"{_named(policy)}: evaluation return minus that of the base batch on the same seeds, "
            "over env steps. Shaded: the published "
        )
        what += "spread."
        ax = figure.plot(of_policy.assign(config=of_policy["config"].cat.remove_unused_categories()), found[0].delta)
        figures.append(part.drawn(f"gaps-{policy}", figure_of(ax), what, MODERATED, of_policy["num_seeds"]))
    return Section("batch-invariance", "Does learning stay the same?", tuple(sentences), tuple(figures))


def _told(answer: Verdict) -> str:
    return f"{answer} in this range" if answer is Verdict.OPEN else answer


def _is_claim(found: Invariance) -> bool:
    """The verdict on what was published."""
    return (found.policy, found.change, found.measure) == ("ewma", SMALLER, "score")


def _named(policy: str) -> str:
    return _POLICIES.get(policy, policy)


def _invariance_sentence(found: Invariance) -> str:
    """The findings on a policy and a change, by a measure."""
    rows, form, words = found.differences, FORMS[found.measure], WORDS[found.measure]
    at = "staleness" if found.change == STALE else "batch"
    told = [
        f"{shown(interval_of(row, 'difference'), '+' + form)} at {at} {row[at]:,}"
        for row in rows.sort_values(at).to_dict("records")
    ]
    rests = (
        f"{rows['num_seeds'].min()} matched seeds; differences to the base with 95% intervals, "
        f"delta {found.delta:{form}}"
    )
    return f"{_named(found.policy)}, {found.change}, by {words}: **{_told(found.answer)}**. {listed(told)} ({rests})."


def recipe(part: Part) -> Section:
    """In which way the batch should grow."""
    sentences = []
    for found in compare_ways(part.runs, part.axes):
        answer = recipe_holds(found)
        claim = f"Published: {RECIPE}, and other ways degrade (Beukman et al. 2026): **{_told(answer)}**"
        left = [way for way in found.kept if way != RECIPE]
        more = f", since the data do not reject {listed(left)}" if answer is Verdict.OPEN and left else ""
        sentences += [
            f"{wording.within(found.settings)}{wording.rules_sentence(found, 'way')}",
            f"{claim} by {WORDS[found.measure]}{more}.",
        ]
    return Section("batch-recipe", "In which way should the batch grow?" if sentences else "", tuple(sentences))
