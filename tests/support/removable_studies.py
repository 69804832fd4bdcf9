"""Studies as they are left on disk and in an embedded store, made without Ray, for the tests of what removes them."""

import contextlib
import json
import shutil
import sqlite3
from dataclasses import dataclass, field
from pathlib import Path

from mlflow.models import Model

from experiments.contract import Tag
from experiments.tracking.registry import CHAMPION, PolicyModel
from experiments.tracking.store import Store
from experiments.tracking.writes import LogParams, LogReport
from tests.support.stored_studies import START_MS, planned

MIB = 2**20
EXPERIMENT = "lr/ppo-cartpole"
BEST, OTHER = "lr=3e-3", "lr=1e-3"
SCORES = {BEST: 490.0, OTHER: 20.0}
REGISTERED = "ppo-cartpole"
PLACES = [
    ("experiments", "artifact_location"), ("runs", "artifact_uri"), ("logged_models", "artifact_location"),
    ("tags", "value"), ("model_versions", "source"), ("model_versions", "storage_location"),
]  # fmt: skip


def new_store(folder: Path) -> Path:
    """The file of an empty store; to copy, since MLflow takes seconds to make one."""
    Store(f"sqlite:///{folder / 'mlflow.db'}", folder / "mlartifacts", 5.0)
    return folder / "mlflow.db"


@dataclass
class Made:
    """An output folder with studies of two configurations and two seeds: half a MiB of checkpoint each,
    and a model of each of the best.

    Attributes:
        out: The output folder.
        uri: Of its store.
        runs: `study` and the names of trials to run ids, of each study by name.
    """

    out: Path
    uri: str
    runs: dict[str, dict[str, str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.store = Store(self.uri, self.out / "mlartifacts", 30.0)
        self.client = self.store._client

    def folder(self, name: str) -> Path:
        return self.out / "studies" / f"{name}-ppo-cartpole-20260101-000000-abcdef"

    def report(self, name: str, experiment: str = EXPERIMENT) -> Path:
        return self.out / "reports" / f"{experiment.replace('/', '-')}-{self.runs[name]['study'][:8]}.html"

    def trial(self, name: str, trial: str) -> Path:
        return self.folder(name) / "trials" / trial.replace(" ", "_")

    def add(
        self, name: str, experiment: str = EXPERIMENT, status: str | None = "FINISHED", models: bool = True
    ) -> None:
        """A study, as its execution leaves it."""
        tags = {Tag.KIND: "study", Tag.STUDY: experiment.partition("/")[0], Tag.STUDY_FOLDER: str(self.folder(name))}
        study = self.store.create_run("studies", experiment, START_MS, tags)
        self.runs[name] = {"study": study}
        plan = {
            "study": name,
            "question": "",
            "seeds": [0, 1],
            "axes": {"lr": "algorithm.training.lr"},
            "exclusive": True,
        }
        configurations = [planned(BEST, 0.003), planned(OTHER, 0.001)]
        self.store.log_texts(study, {"plan.json": json.dumps({**plan, "configurations": configurations})})
        write(self.folder(name) / "study.json", "{}")
        write(self.folder(name) / "lock")
        write(self.folder(name) / "tune" / "tuner.pkl")
        for config in (BEST, OTHER):
            for seed in (0, 1):
                self._add_trial(name, experiment, config, seed)
                if models and config == BEST:
                    self.model(name, experiment, f"{config} s={seed}")
        write(self.report(name, experiment), "a page")
        if status is not None:
            self.store.finish(study, status, START_MS + 9)

    def _add_trial(self, name: str, experiment: str, config: str, seed: int) -> None:
        trial, runs = f"{config} s={seed}", self.runs[name]
        tags = {
            Tag.KIND: "trial", Tag.STUDY_RUN: runs["study"], Tag.TRIAL_ID: trial.replace(" ", "_"), Tag.CONFIG: config,
            Tag.SEED: str(seed), Tag.CONFIG_ID: f"id-{config}", Tag.ALGORITHM: "ppo", Tag.ENV: "cartpole",
            Tag.HARDWARE: "laptop", Tag.PHASE: "fixed",
        }  # fmt: skip
        run = runs[trial] = self.store.create_run(experiment, trial, START_MS, tags)
        returned = LogReport({"eval/return_mean": 5.0 + seed}, 1000, START_MS + 1)
        scored = LogReport({"final/score": SCORES[config] + seed}, 2000, START_MS + 2)
        self.store.log_rows(run, LogParams({"lr": config}), returned, scored)
        self.store.log_texts(run, {"config.json": "{}"})
        self.store.finish(run, "FINISHED", START_MS + 3)
        folder = self.trial(name, trial)
        write(folder / "events.jsonl", "{}\n")
        write(folder / "lock")
        write(folder / "checkpoints" / "000000002000" / "weights", "x" * (MIB // 2))
        write(self.folder(name) / "policies" / folder.name / "policy" / "MLmodel", "flavors: {}")
        write(self.out / "policies" / run / "episodes.parquet", "rows")

    def model(self, name: str, experiment: str, trial: str, registered: str | None = REGISTERED) -> None:
        """Log and register a policy of a trial."""
        folder = self.out / "made" / "model"
        folder.mkdir(parents=True)
        Model().save(str(folder / "MLmodel"))
        model = PolicyModel(self.trial(name, trial).name, "policy", folder, 2000, registered)
        self.store.log_model(self.runs[name]["study"], experiment, model)
        shutil.rmtree(folder.parent)

    def models(self, experiment: str = EXPERIMENT) -> set[str]:
        """Run ids of the trials that have a logged model."""
        experiment_id = self.client.get_experiment_by_name(experiment).experiment_id
        return {model.source_run_id for model in self.client.search_logged_models([experiment_id])}

    def crown(self, version: str = "1") -> None:
        """Make a version the champion."""
        self.client.set_registered_model_alias(REGISTERED, CHAMPION, version)

    def copied(self, to: Path) -> "Made":
        """A copy elsewhere, whose store names the places that it was copied from."""
        shutil.copytree(self.out, to)
        return Made(to, f"sqlite:///{to / 'mlflow.db'}", self.runs)

    def again(self, to: Path) -> "Made":
        """The same as if it had been made elsewhere."""
        copy = self.copied(to)
        with contextlib.closing(sqlite3.connect(to / "mlflow.db")) as connection:
            for table, column in PLACES:
                connection.execute(f"UPDATE {table} SET {column} = replace({column}, ?, ?)", (str(self.out), str(to)))
            connection.commit()
        return copy

    def left(self) -> dict[str, object]:
        """All files with their contents, and the rows of the store."""
        files = {
            str(p.relative_to(self.out)): p.read_bytes()
            for p in self.out.rglob("*")
            if p.is_file() and p.name[:9] != "mlflow.db"
        }
        return {**files, **self.rows()}

    def rows(self) -> dict[str, list[str]]:
        """Table to rows, of the tables that have any; without the times of changes and the output folder's place."""
        with contextlib.closing(sqlite3.connect(self.out / "mlflow.db")) as connection:
            tables = [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
            found = {}
            for table in tables:
                columns = [
                    row[1] for row in connection.execute(f"PRAGMA table_info('{table}')") if "last_update" not in row[1]
                ]
                rows = connection.execute(f"SELECT {', '.join(map(_quoted, columns))} FROM '{table}'")
                found[table] = sorted(repr(row).replace(str(self.out), "") for row in rows)
        return {table: rows for table, rows in found.items() if rows}


def _quoted(column: str) -> str:
    return f'"{column}"'


def write(path: Path, text: str = "") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
