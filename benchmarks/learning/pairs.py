"""The pairs of algorithm and environment that have to learn, what is published of them, and what was measured here."""

from dataclasses import dataclass
from pathlib import Path

import pandas as pd

FOLDER = Path(__file__).parent
MEASURED = FOLDER / "data" / "learning.csv"
"""A row a trial. It is kept: measuring all of it takes days."""
COLUMNS = ("algorithm", "env", "config_id", "seed", "env_steps", "score", "env_steps_to_target", "train_s", "date", "commit", "cpu")
_KEY = ["algorithm", "env", "seed"]


@dataclass(frozen=True)
class Pair:
    """An algorithm on an environment.

    Attributes:
        algorithm: Its file in `conf/algorithm`.
        env: Its file in `conf/env`.
        published: Score that others have published; NaN if none.
        deviation: Of the published score, over episodes of one run.
        source: Who published it.
        reason: Why the suite may score less; "" if it must not.
    """

    algorithm: str
    env: str
    published: float
    deviation: float
    source: str
    reason: str

    def __str__(self) -> str:
        return f"{self.algorithm} on {self.env}"


def pairs() -> list[Pair]:
    """All of them."""
    table = pd.read_csv(FOLDER / "pairs.csv").fillna({"source": "", "reason": ""})
    return [Pair(**{str(name): value for name, value in row.items()}) for row in table.to_dict("records")]


def measured(file: Path = MEASURED) -> pd.DataFrame:
    """What was measured so far, by `COLUMNS`."""
    return pd.read_csv(file) if file.exists() else pd.DataFrame(columns=list(COLUMNS))


def keep(rows: pd.DataFrame, file: Path = MEASURED) -> None:
    """Add trials to what was measured; a trial that was measured before is replaced.

    Args:
        rows: With `COLUMNS`.
        file: CSV.
    """
    known = measured(file)
    table = pd.concat([known, rows[list(COLUMNS)]], ignore_index=True) if len(known) else rows[list(COLUMNS)]
    table = table.drop_duplicates(_KEY, keep="last").sort_values(_KEY)
    file.parent.mkdir(exist_ok=True)
    scratch = file.with_suffix(".new")
    table.to_csv(scratch, index=False)
    scratch.replace(file)
