"""The pairs of algorithm and environment that have to learn, what is published of them, and what was measured here."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from benchmarks.support import kept
from benchmarks.support.commanded import plan_of_command
from experiments.config.trial_config import TrialConfig

FOLDER = Path(__file__).parent
MEASURED = FOLDER / "data" / "learning.csv"
"""A row a trial. It is kept: measuring all of it takes days."""
CURVES = MEASURED.with_name("curves.parquet")
"""The scores on the way, of the trials that were measured since they are kept: a row an evaluation, by
`CURVE_COLUMNS`.
"""
STUDIES = MEASURED.with_name("studies")
"""Studies that chose what a file of `conf/tuned` has, in a folder of that name each (`benchmarks.learning.chosen`)."""
CURVE_COLUMNS = ("algorithm", "env", "config_id", "seed", "env_steps", "score")
COLUMNS = (
    "algorithm",
    "env",
    "config_id",
    "seed",
    "env_steps",
    "score",
    "env_steps_to_target",
    "train_s",
    "date",
    "commit",
    "cpu",
)
_KEY = ("algorithm", "env", "seed")


@dataclass(frozen=True)
class Pair:
    """An algorithm on an environment.

    Attributes:
        algorithm: Its file in `conf/algorithm`.
        env: Its file in `conf/env`.
        published: Score that others have published; NaN if none.
        deviation: Of the published score, over episodes of one run.
        published_env_steps: After how many it was reached; NaN if there is none.
        source: Who published it.
        reason: Why the suite may score less; "" if it must not.
        env_steps: Where its trials end, as far as two cores get; NaN where they end as the settings say.
        report_every_env_steps: Between its evaluations, where it was measured with fewer than the suite now derives;
            NaN of others.
    """

    algorithm: str
    env: str
    published: float
    deviation: float
    published_env_steps: float
    source: str
    reason: str
    env_steps: float
    report_every_env_steps: float = math.nan

    def __str__(self) -> str:
        return f"{self.algorithm} on {self.env}"

    def of(self, rows: pd.DataFrame) -> "pd.Series[bool]":
        """Which rows are its trials."""
        return (rows["algorithm"] == self.algorithm) & (rows["env"] == self.env)


def pairs() -> list[Pair]:
    """All of them."""
    table = pd.read_csv(FOLDER / "pairs.csv").fillna({"source": "", "reason": ""})
    return [Pair(**{str(name): value for name, value in row.items()}) for row in table.to_dict("records")]


def settings_of(pair: Pair) -> list[str]:
    """The overrides that make a pair the study that is measured."""
    given = {"budget_env_steps": pair.env_steps, "report_every_env_steps": pair.report_every_env_steps}
    own = [f"{key}={value:.0f}" for key, value in given.items() if not math.isnan(value)]
    return [f"algorithm={pair.algorithm}", f"env={pair.env}", "study.space={}", *own]


def trial_of(pair: Pair, seed: int, overrides: Sequence[str] = ()) -> TrialConfig:
    """The trial that the command runs on this machine."""
    return plan_of_command([*settings_of(pair), *overrides]).configurations[0].trial(seed)


def measured(file: Path = MEASURED) -> pd.DataFrame:
    """What was measured so far, by `COLUMNS`."""
    return kept.kept(file, COLUMNS)


def keep_curves(points: pd.DataFrame, file: Path = CURVES) -> None:
    """Add the curves of trials; those of a trial that was measured before are replaced.

    Args:
        points: With `CURVE_COLUMNS`.
        file: Parquet.
    """
    key, table = list(_KEY), points[list(CURVE_COLUMNS)]
    if file.exists():
        known = pd.read_parquet(file)
        again = pd.MultiIndex.from_frame(known[key]).isin(pd.MultiIndex.from_frame(table[key]))
        table = pd.concat([known[~again], table], ignore_index=True)
    file.parent.mkdir(exist_ok=True)
    scratch = file.with_suffix(".new")
    table.sort_values([*key, "env_steps"]).to_parquet(scratch, index=False)
    scratch.replace(file)


def keep(rows: pd.DataFrame, file: Path = MEASURED, key: Sequence[str] = _KEY) -> None:
    """Add trials to what was measured; a trial that was measured before is replaced.

    Args:
        rows: With `COLUMNS`.
        file: CSV.
        key: Of them, what tells a trial from others.
    """
    kept.keep(rows, file, COLUMNS, key)
