"""What more env steps are expected to bring, in words."""

import pandas as pd

from analysis.evidence import TO_COME, Evidence
from analysis.questions.decision import decision_of
from analysis.questions.forecast import curves_of, forecast, gain_of
from analysis.questions.labels import FORMS, interval_of, shown
from analysis.stats.forecast import INTERVAL, rises
from experiments.contract.words import labelled, plural, some

FEWEST_SEEDS = 3
"""Behind a sentence of an answer: two seeds say little of where the others go."""
_MOST_RIVALS = 8
"""Configurations that may overtake the recommended one, told with their numbers."""
_FORM = FORMS["score"]
_PERCENT = f"{100 * INTERVAL:.0f}%"


def if_longer(evidence: Evidence) -> str:
    """What twice the env steps are expected to bring of the recommended configuration, a sentence; "" where its return
    does not rise any more, something else than the score decides, seeds are few or to come, or it makes no difference.

    Args:
        evidence: Of one environment; without curves nothing is said.
    """
    decision = decision_of(evidence)
    if evidence.curves is None or decision.measure != "score" or decision.chosen is None:
        return ""
    if evidence.replicates["status"].isin(TO_COME).any():
        return ""
    curve = curves_of(evidence).get(decision.chosen)
    if curve is None or len(curve.returns) < FEWEST_SEEDS or not rises(curve):
        return ""
    gain = gain_of(forecast(evidence, (2,)).iloc[0])
    if gain.high < decision.delta:
        return ""
    told = shown(gain, _FORM)
    return f"Its return still rises: twice the env steps are expected to bring {told} more ({_PERCENT} interval)."


def lines_of(found: pd.DataFrame) -> list[str]:
    """What is expected of the recommended configuration, and which may overtake it: for the terminal.

    Args:
        found: As `analysis.questions.forecast.forecast` gives it.
    """
    first, *others = [rows for _, rows in found.groupby("config", observed=True, sort=False)]
    lines = [labelled("recommended" if first["recommended"].iloc[0] else "best so far", _told(first))]
    if not first["rises"].iloc[0]:
        lines.append(labelled("", "over the last half of its curve no rise is shown"))
    rivals = [rows for rows in others if rows["may_overtake"].any()]
    for i, rows in enumerate(rivals[:_MOST_RIVALS]):
        lines.append(labelled("" if i else "rivals", _told(rows)))
    if more := [str(rows["config"].iloc[0]) for rows in rivals[_MOST_RIVALS:]]:
        lines.append(labelled("", f"and {some(more, _MOST_RIVALS)}"))
    if left := len(others) - len(rivals):
        lines.append(labelled("behind", f"{plural(left, 'other')}, up to {found['env_steps'].max():,} env steps"))
    basis = f"evaluations during training, mean over seeds; {_PERCENT} intervals"
    return [*lines, labelled("rests on", f"{basis}; rivals: may overtake it by then")]


def _told(rows: pd.DataFrame) -> str:
    """`lr=1e-3: 310.2 at 60,000 env steps, expected 390.1 [340.0, 441.2] at 120,000 (5 seeds)`."""
    first = rows.iloc[0]
    ahead = [f"{shown(interval_of(row, 'expected'), _FORM)} at {row['env_steps']:,}" for row in rows.to_dict("records")]
    seen = f"{first['now']:{_FORM}} at {first['env_steps_seen']:,} env steps"
    return f"{first['config']}: {seen}, expected {', '.join(ahead)} ({plural(int(first['num_seeds']), 'seed')})"
