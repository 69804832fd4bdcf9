"""Which searched settings matter for what decides: pure functions of a study's frames.

Of full grids alone, of which everything is known: what a search tries depends on what came out before, and points that
are drawn are no grid.
"""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from analysis.evidence import SPEEDS, Evidence
from analysis.questions.convergence import by_seed
from analysis.questions.decision import decision_of
from analysis.questions.machines import trials_by_kind
from analysis.stats.interval import Array, Interval
from analysis.stats.variance_shares import main_effect, total_effect
from experiments.contract import CONFIRM

FEWEST_SEEDS = 3
"""Common to all configurations: the spread of two says little."""
_COLUMNS = (
    *("env", "setting", "num_values", "measure"),
    *(f"{effect}{end}" for effect in ("main", "total") for end in ("", "_low", "_high")),
    *("num_configurations", "num_seeds"),
)


def importance(evidence: Evidence) -> pd.DataFrame:
    """How much each searched setting matters, of every environment of a study whose design is a full grid.

    Args:
        evidence: All trials of the study.

    Returns:
        As `importance_of`, environments in turn.
    """
    found = [of_one for env in evidence.of_envs.values() if len(of_one := importance_of(env.comparing))]
    return pd.concat(found, ignore_index=True) if found else pd.DataFrame(columns=_COLUMNS)


def importance_of(evidence: Evidence) -> pd.DataFrame:
    """How much each searched setting matters for what decides: its share of the variance between the means of all
    configurations (`analysis.stats.variance_shares`). Of speeds it is the variance of their logarithms.

    Args:
        evidence: Of one environment, the trials that compare its settings.

    Returns:
        A row a setting, the one that matters most first: `env`; `setting`, the searched column; `num_values` that were
        tried; `measure`, what decides; `main`, the share that it has by itself, and `total`, with all its interactions
        with the others, from 0 to 1 with their 95% intervals, NaN where nothing differs; `num_configurations` and
        `num_seeds`. Empty unless two settings or more were crossed, each value with each, and all configurations have
        `FEWEST_SEEDS` seeds in common; nor of speeds on several kinds of machine.
    """
    none, runs = pd.DataFrame(columns=_COLUMNS), evidence.runs
    axes = [axis for axis in evidence.axes if axis in runs and runs[axis].nunique(dropna=False) > 1]
    if len(axes) < 2 or (runs["phase"] == CONFIRM).all():
        return none
    measure = decision_of(evidence).measure
    if measure in SPEEDS and len(trials_by_kind(runs)) > 1:
        return none
    values = _cells(evidence, axes, measure)
    if values is None or values.shape[-1] < FEWEST_SEEDS:
        return none
    rows = []
    for place, axis in enumerate(axes):
        known = {"env": runs["env"].iloc[0], "setting": axis, "num_values": values.shape[place], "measure": measure}
        main, total = _in_order(main_effect(values, place), total_effect(values, place))
        shares = main.columns("main") | total.columns("total")
        size = {"num_configurations": int(np.prod(values.shape[:-1])), "num_seeds": values.shape[-1]}
        rows.append({**known, **shares, **size})
    return pd.DataFrame(rows, columns=_COLUMNS).sort_values("total", ascending=False, kind="stable", ignore_index=True)


def _in_order(main: Interval, total: Interval) -> tuple[Interval, Interval]:
    """A share by itself and one with interactions, which is no less: what bounds the one bounds the other."""
    low, high = max(main.low, total.low), min(main.high, total.high)
    by_itself, with_others = min(main.estimate, high), max(total.estimate, main.estimate, low)
    return Interval(by_itself, main.low, high), Interval(min(with_others, total.high), low, total.high)


def _cells(evidence: Evidence, axes: Sequence[str], measure: str) -> Array | None:
    """A measure as a grid, an axis of the array each and then the seeds that all configurations have; None where
    configurations are no full grid.
    """
    matrix = by_seed(evidence.counted, measure)
    if matrix.empty:
        return None
    planned = evidence.runs.drop_duplicates("config").set_index("config")
    places = [pd.factorize(planned[axis], use_na_sentinel=False) for axis in axes]
    shape = tuple(len(levels) for _, levels in places)
    cell = pd.Series(np.ravel_multi_index(tuple(codes for codes, _ in places), shape), planned.index)
    cell = cell.loc[matrix.index]
    if len(cell) != np.prod(shape) or cell.nunique() != len(cell):
        return None
    ordered = matrix.iloc[np.argsort(cell.to_numpy())].dropna(axis=1).to_numpy()
    return np.asarray((np.log(ordered) if measure in SPEEDS else ordered).reshape(*shape, ordered.shape[1]))
