"""What the constraints of a study leave, and what they cost, in words."""

import numpy as np

from analysis.document.confirmation import by_how_much
from analysis.evidence import Evidence
from analysis.questions.constraints import breaking, limits_of
from analysis.questions.decision import Decision, summary_of
from analysis.questions.labels import code, listed, with_name
from experiments.contract.words import limited, plural


def at_most(own: Evidence) -> str:
    """The constraints of a study: `at most 20% of seeds that fail and 4 GiB of memory`.

    Args:
        own: Trials of a study that has some.
    """
    return f"at most {listed([limited(name, limit) for name, limit in limits_of(own.runs).items()])}"


def kept(own: Evidence) -> str:
    """How many configurations keep the constraints, a sentence.

    Args:
        own: Trials on one environment of a study that has some.
    """
    total = own.runs["config"].nunique()
    number = total - len(breaking(own.runs))
    verb = "keeps" if number == 1 else "keep"
    return f"{number} of {plural(total, 'configuration')} {verb} the constraints, {at_most(own)}."


def cost(own: Evidence, decision: Decision) -> str:
    """What would be chosen without the constraints, how much better it is, and what it comes to of those that it
    breaks: a Markdown sentence.

    Args:
        own: Trials on one environment of a study that has some.
        decision: Of the environment.
    """
    free = decision.free
    assert free is not None and free.chosen is not None, "something would be chosen"
    if free.chosen == decision.chosen:
        return "They cost nothing: without them it would be the same."
    broken = breaking(own.runs).get(free.chosen, {})
    amounts = [limited(name, amount) for name, amount in broken.items() if np.isfinite(amount)]
    told = f"{code(free.chosen)}, {with_name(summary_of(own).set_index('config').loc[free.chosen], free.measure)}"
    by = "" if decision.forgone is None else f", {by_how_much(decision.forgone, free.measure)}"
    return f"Without them it would be {told}{by}{f', with {listed(amounts)}' if amounts else ''}."
