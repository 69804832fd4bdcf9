"""What reaches the target soonest, of a search that measured env steps to target and seconds an env step apart."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from analysis.evidence import Evidence, conclusive, once, replicates
from analysis.questions.runners import ENVS, RUNNERS, total_envs
from analysis.stats.goodput import Candidates, Learned, Measured, Predicted, predicted
from analysis.stats.interval import Array, Interval
from analysis.stats.moderated import moderated_intervals

BATCH, MODE, START = "train_batch_size_total", "vectorize_mode", "start_s"
LAYOUT = "layout"
_OF_LAYOUT = (RUNNERS, ENVS, MODE)
_NORMAL_90 = 1.645


@dataclass(frozen=True)
class Product:
    """The product for every learning setting in every layout that was measured.

    Attributes:
        table: A row for each, the least regret first: the searched settings, `layout`, its runners, environments of
            each and how they are vectorised; `minutes`, `env_steps` and `env_steps_per_s` with 90% intervals;
            `start_s`, the seconds of these before training; `p_best`, the probability to be the soonest; `regret`, by
            what share it is expected to take longer than the soonest; `is_near`, whether it is expected to be about as
            soon; and `config`, its name, "" where it was not trained.
        checked: A row for each configuration that was confirmed: `config`; `minutes` with a 90% interval, as predicted
            without these seeds; `measured` with a 95% one; and `holds`, whether they differ by no more than chance.
        num_learned: Trials that env steps are learned from, those that confirm among them.
        num_rounds: Measurements of throughput.
    """

    table: pd.DataFrame
    checked: pd.DataFrame
    num_learned: int
    num_rounds: int

    def row(self, config: str) -> pd.Series | None:
        """What is predicted of a configuration; None if nothing is."""
        rows = self.table[self.table["config"] == config]
        return None if rows.empty else rows.iloc[0]

    def beside(self, config: str) -> pd.DataFrame:
        """A configuration's learning settings in every layout, the soonest first; no row if nothing is predicted."""
        own = self.row(config)
        if own is None:
            return self.table.iloc[:0]
        axes = [axis for axis in self.table.columns[: self.table.columns.get_loc(LAYOUT)] if axis not in _OF_LAYOUT]
        same = (self.table[axes] == own[axes]).all(axis=1)
        return self.table[same].sort_values("minutes", kind="stable", ignore_index=True)


@once
def product_of(evidence: Evidence) -> Product | None:
    """The product of a search on one environment that measured layouts and trained learning settings apart.

    Args:
        evidence: All of its trials.

    Returns:
        None of other studies, and of one that has not come so far.
    """
    runs = replicates(evidence.runs)
    exploratory = runs["exploratory"].astype(bool)
    rounds = runs[exploratory & (runs["phase"] == "throughput") & runs["env_steps_per_s"].gt(0)]
    searched = runs[exploratory & (runs["phase"] == "search") & runs["status"].isin(["finished", "failed"])]
    if rounds.empty or searched.empty or runs["env"].nunique() > 1:
        return None
    confirmed = runs[~exploratory & runs["status"].isin(["finished", "failed"])]
    axes = [axis for axis in evidence.axes if axis in runs and axis not in _OF_LAYOUT]
    table = _predicted(axes, pd.concat([searched, confirmed]), rounds, confirmed)
    return Product(
        table,
        _checked(_predicted(axes, searched, rounds, confirmed), confirmed),
        len(searched) + len(confirmed),
        len(rounds),
    )


def _predicted(axes: Sequence[str], learned: pd.DataFrame, rounds: pd.DataFrame, named: pd.DataFrame) -> pd.DataFrame:
    layouts = rounds[[*_OF_LAYOUT]].drop_duplicates()
    batches = learned[[*axes, BATCH]].drop_duplicates(subset=axes)
    cells = batches.loc[:, ~batches.columns.duplicated()].merge(layouts, how="cross")
    places = [_place(frame, axes) for frame in (cells, learned)]
    starts = rounds.groupby(RUNNERS)[START].max()  # some rounds find the processes of those before them
    begins = cells[RUNNERS].map(starts).fillna(0.0).to_numpy(float)
    steps = learned["env_steps_to_target"].where(learned["status"] == "finished")
    found = predicted(
        Candidates(
            places[0],
            cells[BATCH].to_numpy(float),
            [_layout(row) for row in cells.to_dict("records")],
            begins,
        ),
        Learned.of(places[1], steps.fillna(learned["budget_env_steps"]).to_numpy(float)),
        Measured.of(
            [_layout(row) for row in rounds.to_dict("records")],
            rounds[BATCH].to_numpy(float),
            rounds["env_steps_per_s"].to_numpy(float),
        ),
        np.random.default_rng(0),
    )
    return _table(axes, cells, found, named, begins)


def _place(frame: pd.DataFrame, axes: Sequence[str]) -> Array:
    return np.asarray(np.log10(np.column_stack([*(frame[axis].astype(float) for axis in axes), total_envs(frame)])))


def _layout(row: dict[str, object]) -> str:
    return " ".join(str(row[name]) for name in _OF_LAYOUT)


def _table(
    axes: Sequence[str], cells: pd.DataFrame, found: Predicted, named: pd.DataFrame, start_s: Array
) -> pd.DataFrame:
    keys = [*axes, *_OF_LAYOUT]
    names = named.drop_duplicates("config").set_index(keys)["config"].astype(str)
    several = cells[MODE].nunique() > 1
    table = cells[keys].assign(**{LAYOUT: [_called(row, several) for row in cells.to_dict("records")]})
    for name in ("minutes", "env_steps", "env_steps_per_s"):
        spread = getattr(found, name)
        table = table.assign(**{name: spread.median, f"{name}_low": spread.low, f"{name}_high": spread.high})
    table = table.assign(start_s=start_s, p_best=found.p_best, regret=found.regret, is_near=found.is_near)
    table["config"] = [names.get(key, "") for key in table[keys].itertuples(index=False, name=None)]
    return table.iloc[found.order].reset_index(drop=True)


def _called(row: dict[str, object], with_mode: bool) -> str:
    runners, envs = row[RUNNERS], row[ENVS]
    return f"{runners} x {envs}{f' {row[MODE]}' if with_mode else ''}"


def _checked(table: pd.DataFrame, confirmed: pd.DataFrame) -> pd.DataFrame:
    """What was predicted beside what was measured: they may differ by the errors of both, on a logarithmic scale."""
    measured = conclusive(confirmed)
    rows = []
    for config, trials in measured.groupby("config", observed=True, sort=False):
        own = table[table["config"] == str(config)]
        if own.empty or len(trials) < 2:
            continue
        logs = np.log(trials["minutes_to_target"].to_numpy(float))
        row = own.iloc[0]
        error = np.hypot(
            np.log(row["minutes_high"] / row["minutes_low"]) / 2 / _NORMAL_90, logs.std(ddof=1) / len(logs) ** 0.5
        )
        minutes = moderated_intervals(trials["minutes_to_target"].to_numpy(float)[None], (0.0, np.inf))
        mean = Interval(float(minutes.estimate[0]), float(minutes.low[0]), float(minutes.high[0]))
        rows.append(
            {
                "config": str(config),
                **{name: row[name] for name in ("minutes", "minutes_low", "minutes_high")},
                "measured": mean.estimate,
                "measured_low": mean.low,
                "measured_high": mean.high,
                "holds": bool(abs(np.log(mean.estimate / row["minutes"])) <= 1.96 * error),
            }
        )
    columns = ["config", "minutes", "minutes_low", "minutes_high", "measured", "measured_low", "measured_high", "holds"]
    return pd.DataFrame(rows, columns=columns)
