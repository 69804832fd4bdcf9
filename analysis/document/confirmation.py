"""What a study said of its recommendation, for a record that is to be confirmed; and whether it was, in a sentence."""

import math
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from analysis import AnalysisError
from analysis.evidence import SMALLER_IS_BETTER, SPEEDS, Claim
from analysis.load import Study, seeds_of_confirmations
from analysis.questions.confirmation import Confirmation, beside_of, claim_of, is_better, is_worse
from analysis.questions.decision import decision_of, summary_of
from analysis.questions.labels import FORMS, WORDS, code, listed, shown
from analysis.stats.interval import Interval
from experiments.contract.words import limited, plural


def claimed_by(study: Study, beside: Sequence[str]) -> dict[str, Any]:
    """What a study says of what it recommends, as plan.json records it.

    Args:
        study: The study.
        beside: What is to run beside it: `leaders`, `runner_up`, `base`, or configurations by name.

    Returns:
        `study_run`; `seeds`, all that it and earlier confirmations were given, so that others are fresh; `claims`,
        environment to `Claim`.

    Raises:
        AnalysisError: It recommends nothing, or has no such configuration.
    """
    claims = {}
    for env, of_env in study.evidence.concluding.of_envs.items():
        decision = decision_of(of_env)
        if decision.chosen is None:
            continue
        try:
            others = beside_of(of_env, study.base, beside)
        except ValueError as error:
            raise AnalysisError(f"confirm.with: {error}.") from None
        claims[env] = _recorded(claim_of(decision, summary_of(of_env), others))
    if not claims:
        raise AnalysisError("the study recommends nothing yet. Go on with it, or run it again.")
    return {
        "study_run": study.run_id,
        "seeds": sorted({*study.seeds, *map(int, study.runs["seed"]), *seeds_of_confirmations(study)}),
        "claims": claims,
    }


def _recorded(claim: Claim) -> dict[str, Any]:
    """A claim for JSON, which has no NaN."""
    ends = {name: None if math.isnan(end) else end for name, end in asdict(claim.value).items()}
    return {**asdict(claim), "value": ends}


def sentence(found: Confirmation) -> str:
    """Whether a recommendation was confirmed, and by how much, Markdown."""
    claim, measure = found.claim, found.claim.measure
    if math.isnan(found.fresh.estimate):
        return f"Not confirmed: no fresh seed of {code(claim.config)} finished."
    first = "Confirmed" if found.confirmed else "Not confirmed"
    seeds = "round" if measure in SPEEDS else "seed"
    form, before, by = FORMS[measure], "", ""
    if math.isfinite(found.change.estimate):
        before, by = f" now and {shown(claim.value, form)} in the study", f", {by_how_much(found.change, measure)}"
    told = (
        f"{first} on {plural(found.num_seeds, f'fresh {seeds}')}: {code(claim.config)} has {WORDS[measure]} "
        f"{shown(found.fresh, form)}{before}{by}"
    )
    if math.isfinite(found.target) and measure not in SPEEDS:
        told += (
            f"; {found.num_at_end} of {found.num_seeds} seeds end at {found.target:g} or above now, "
            f"{claim.num_at_end} of {claim.num_seeds} did in the study"
        )
    others = [_against(other, difference, measure) for other, difference in found.others.items()]
    better = [o for o, difference in found.others.items() if is_worse(difference, measure) and o not in found.broken]
    instead = f" Use {code(better[0])} instead{_number(found, better[0])}." if better else ""
    amounts = [limited(name, amount) for name, amount in found.broken.get(claim.config, {}).items()]
    told += f"; it breaks the constraints, with {listed(amounts)}" if amounts else ""
    return f"{told}{'; it is ' if others else ''}{listed(others) if others else ''}.{instead}"


def _number(found: Confirmation, other: str) -> str:
    """What another one comes to on the same seeds; of speeds nothing, whose ratio was told."""
    measure = found.claim.measure
    if measure in SPEEDS:
        return ""
    return f", {WORDS[measure]} {found.fresh.estimate - found.others[other].estimate:{FORMS[measure]}}"


def _against(other: str, difference: Interval, measure: str) -> str:
    if math.isnan(difference.estimate):
        return f"not compared with {code(other)}, which has no fresh seed"
    by = by_how_much(difference, measure)
    if is_better(difference, measure):
        return f"better than {code(other)} ({by})"
    worse = is_worse(difference, measure)
    return f"{'worse than' if worse else 'not significantly different from'} {code(other)} ({by})"


def by_how_much(difference: Interval, measure: str) -> str:
    """By how much: `12.3 more [-4.0, 28.6]`; of speeds the ratio."""
    if measure in SPEEDS:
        return f"{shown(difference, '.2f')} times as fast"
    size, sign = abs(difference.estimate), 1 if difference.estimate >= 0 else -1
    word = "more" if sign > 0 else "fewer" if measure in SMALLER_IS_BETTER else "less"
    ends = Interval(size, *sorted((sign * difference.low, sign * difference.high)))
    form = FORMS[measure]
    interval = "" if math.isnan(ends.low) else f" [{ends.low:{form}}, {ends.high:{form}}]"
    return f"{size:{form}} {word}{interval}"
