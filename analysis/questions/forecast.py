"""What more env steps are expected to bring, and what may overtake the recommended configuration. Pure."""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from analysis import AnalysisError
from analysis.evidence import Evidence
from analysis.questions.convergence import bounds_of, seed_curves
from analysis.questions.decision import decision_of
from analysis.questions.equivalence import delta_of
from analysis.stats.forecast import FEWEST_POINTS, Curve, forecasts, rises
from analysis.stats.interval import Interval, difference_of_intervals

FACTORS = (2, 5)
"""Times the env steps that were seen."""


def curves_of(evidence: Evidence) -> dict[str, Curve]:
    """Configuration to the evaluation returns of its seeds; those of too few evaluations left out.

    The seeds that finished count; where none of a configuration did, those under way or interrupted, as far as all of
    them have come. Trials that failed are left out.

    Args:
        evidence: Of one environment, with curves.
    """
    runs = evidence.replicates
    finished, begun = runs["status"] == "finished", runs["status"].isin(["running", "interrupted"])
    has_finished = runs["config"].isin(runs.loc[finished, "config"])
    counted = runs[(finished | (begun & ~has_finished)) & ~runs["exploratory"].astype(bool)]
    assert evidence.curves is not None, "evidence has curves"
    found = seed_curves(evidence.curves, counted)
    curves = {config: Curve(grid.astype(float), returns) for config, (grid, returns) in found.items()}
    return {config: curve for config, curve in curves.items() if len(curve.env_steps) >= FEWEST_POINTS}


def forecast(evidence: Evidence, factors: Sequence[float] = FACTORS) -> pd.DataFrame:
    """What the configurations of an environment are expected to return with more env steps, mean over their seeds.

    Args:
        evidence: Of one environment, with curves.
        factors: Times the most env steps that a configuration has, each above 1.

    Returns:
        A row a configuration and factor, the recommended configuration first (where none is, the one that returns
        most), then those that are expected to return most with the largest factor. Columns: `config`; `recommended`;
        `num_seeds`; `env_steps_seen`, and `now`, the mean return there; `rises`, whether it still rises there;
        `env_steps`, and `expected`, the mean return there, with its 90% interval, none of a single seed;
        `may_overtake`, whether that may be above the first one's by more than what is practically none: the 90%
        interval of the difference, or the lack of one, does not exclude it.

    Raises:
        AnalysisError: No curve has evaluations enough.
    """
    curves = curves_of(evidence)
    if not curves:
        raise AnalysisError(
            f"no trial on {evidence.runs['env'].iloc[0]} has {FEWEST_POINTS} evaluations or more yet: wait for them, "
            "or run the study with a smaller report_every_env_steps="
        )
    seen = max(curve.env_steps[-1] for curve in curves.values())
    at = [float(factor * seen) for factor in factors]
    found = dict(zip(curves, forecasts([*curves.values()], at, bounds_of("score", evidence.runs)), strict=True))
    now = {config: float(curve.mean[-1]) for config, curve in curves.items()}
    chosen = decision_of(evidence).chosen
    first = chosen if chosen in curves else max(now, key=lambda config: now[config])
    delta = float(np.nan_to_num(delta_of(evidence.runs)))
    rows = []
    for config in sorted(curves, key=lambda config: (config != first, -found[config][-1].estimate)):
        curve, num_seeds = curves[config], len(curves[config].returns)
        of_config = {
            "config": config,
            "recommended": config == chosen,
            "num_seeds": num_seeds,
            "env_steps_seen": int(curve.env_steps[-1]),
            "now": now[config],
            "rises": rises(curve),
        }
        for steps, expected, of_first in zip(at, found[config], found[first], strict=True):
            by = difference_of_intervals(expected, num_seeds, of_first, len(curves[first].returns))
            may = config != first and not by.high <= delta
            rows.append({**of_config, "env_steps": int(steps), **expected.columns("expected"), "may_overtake": may})
    return pd.DataFrame(rows).astype({"config": evidence.runs["config"].dtype})


def gain_of(row: pd.Series) -> Interval:
    """What is expected beyond the mean return now.

    Args:
        row: Of a frame as `forecast` gives it.
    """
    return Interval(*(float(row[f"expected{end}"] - row["now"]) for end in ("", "_low", "_high")))
