"""The findings of a sequential comparison, in words."""

from analysis.questions.labels import code, named
from analysis.questions.sequential import Comparison
from experiments.contract.words import plural

MOST_PAIRS = 6
"""Pairs of each kind that an answer names; the report has all."""


def sentences(found: Comparison, most_pairs: int | None = MOST_PAIRS) -> list[str]:
    """Which pairs differ, which were not shown to, and what that took: Markdown.

    Args:
        found: What was shown.
        most_pairs: Of each kind that are named; None: all.
    """
    design, over = found.design, "" if found.is_over else ", and it is not over"
    if not found.looks:
        return [
            f"No look at the scores yet: each takes {plural(design.seeds_per_look, 'seed')} of every configuration."
        ]
    told = []
    if found.differences:
        pairs = [f"{code(d.higher)} scores higher than {code(d.lower)} (look {d.look})" for d in found.differences]
        told.append(f"Shown to differ: {_some(pairs, most_pairs)}.")
    if found.alike:
        pairs = [f"{code(a)} and {code(b)}" for a, b in found.alike]
        told.append(f"Not shown to differ: {_some(pairs, most_pairs)}.")
    if found.failed:
        told.append(
            f"A seed has no score: the pairs of {named(found.failed)} that were undecided "
            "by then are not compared further."
        )
    told.append(
        f"{plural(found.looks, 'look')} of {design.looks} at most{over}; {found.num_trials} "
        f"of the {found.fixed_trials} trials of the fixed design with {plural(design.most_seeds, 'seed')} each. "
        f"The risk of calling any pair different that is not is {100 * design.alpha:g}%, all pairs and looks together."
    )
    return told


def _some(pairs: list[str], most: int | None) -> str:
    left = 0 if most is None else max(0, len(pairs) - most)
    return "; ".join(pairs[: len(pairs) - left]) + (f"; and {left} more" if left else "")
