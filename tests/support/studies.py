"""Studies that ran, as a person and as MLflow see them."""

import io
import sqlite3
import time
from contextlib import closing
from pathlib import Path
from typing import Any

from rich.console import Console

from analysis.document import conclusions
from experiments.contract import depends_on_clock
from experiments.planning.plan import Plan
from experiments.study.driver import StudyOutcome, run_study
from experiments.study.source import begun
from experiments.tracking.place import Place
from experiments.trial.events import Restarted
from experiments.trial.folder import TrialFolder

Curve = dict[str, list[tuple[int, float]]]
"""Name of a metric to its (step, value), in the order in which they were logged, doubles included."""


def query(database: Path, sql: str, *values: Any) -> list[Any]:
    with closing(sqlite3.connect(database)) as connection:
        return connection.execute(sql, values).fetchall()


def curve(database: Path, run_id: str) -> Curve:
    found: Curve = {}
    for key, step, value in query(
        database, "SELECT key, step, value FROM metrics WHERE run_uuid = ? ORDER BY timestamp, step", run_id
    ):
        found.setdefault(key, []).append((step, value))
    return found


def learned(of: Curve) -> Curve:
    """The part of a curve that is the same whenever the trial is."""
    return {name: points for name, points in of.items() if not depends_on_clock(name)}


def run_new(plan: Plan, out: Path, console: Console) -> StudyOutcome:
    """Run a study from its beginning."""
    place = Place.of(plan.suite.tracking, out)
    return run_study(plan, begun(plan, place, console.print), place, console, conclusions)


class Study:
    """A study that ran, as a person and as MLflow see it."""

    def __init__(self, plan: Plan, out: Path) -> None:
        self.plan, self.out = plan, out
        shown = io.StringIO()
        start = time.monotonic()
        self.outcome = run_new(plan, out, Console(file=shown, width=200))
        self.seconds = time.monotonic() - start
        self.shown = shown.getvalue()
        print(f"{self.seconds:.1f} s\n{self.shown}")

    def ended(self, label: str) -> Any:
        (found,) = (o for o in self.outcome.outcomes if o.label == label)
        return found

    def query(self, sql: str, *values: Any) -> list[Any]:
        return query(self.out / "mlflow.db", sql, *values)

    def run_id(self, label: str) -> str:
        ((found,),) = self.query("SELECT run_uuid FROM tags WHERE key = 'config' AND value = ?", label)
        return str(found)

    def status(self, label: str) -> str:
        return str(self.query("SELECT status FROM runs WHERE run_uuid = ?", self.run_id(label))[0][0])

    def tags(self, label: str) -> dict[str, str]:
        return dict(self.query("SELECT key, value FROM tags WHERE run_uuid = ?", self.run_id(label)))

    def curve(self, label: str) -> Curve:
        return curve(self.out / "mlflow.db", self.run_id(label))

    def learned(self, label: str) -> Curve:
        return learned(self.curve(label))

    def folder(self, label: str) -> Path:
        (trial,) = (t for t in self.plan.trials if t.label == label)
        return self.outcome.folder / "trials" / trial.folder_name

    def restarts(self, label: str) -> list[dict[str, Any]]:
        return [vars(e) for e in TrialFolder(self.folder(label)).log.all() if isinstance(e, Restarted)]
