"""Studies in a store of MLflow, written as the suite's own tracking does."""

import json
import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from experiments.contract.sqlite_address import sqlite_uri
from experiments.tracking.store import Store
from experiments.tracking.writes import LogParams, LogReport

START_MS = 1_800_000_000_000
MORE_THAN_ONE_ANSWER = 26_000
"""Points of one curve; the server's bulk endpoint gives 25,000 at most."""


def uri_of(folder: Path) -> str:
    return sqlite_uri(folder / "mlflow.db")


class Written:
    """Writes studies as the suite's own tracking does."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.ids = folder, {}
        self.store = Store(uri_of(folder), folder / "mlartifacts", 5.0)

    def study(
        self, name: str, experiment: str, started_ms: int, plan: Any = None, params: Mapping[str, Any] | None = None
    ) -> str:
        tags = {"kind": "study", "study": name, "mlflow.source.name": "python experiments/run.py", "exclusive": "true"}
        note = {"mlflow.note.content": f"**Question.** What about {name}?\n\nThe answer."}
        run = self.store.create_run("studies", experiment, started_ms, {**tags, **note})
        self.store.log_rows(run, LogParams(params or {}))
        nothing = {"study": name, "question": "", "seeds": [0], "axes": {}, "exclusive": True, "configurations": []}
        texts = {
            "plan.json": json.dumps(plan or nothing),
            "provenance.json": json.dumps({"commit": "abc", "command": "python run.py seeds=[0,1]"}),
        }
        self.store.log_texts(run, texts)
        self.ids[experiment] = run
        return run

    def trial(
        self,
        study: str,
        experiment: str,
        config: str,
        seed: int,
        reports: Sequence[tuple[Mapping[str, float], int, int]] = (),
        status: str | None = "FINISHED",
        started_ms: int = START_MS,
        params: Mapping[str, Any] | None = None,
        **tags: str,
    ) -> str:
        all_tags = {
            "kind": "trial", "study_run": study, "algorithm": "ppo", "env": "cartpole", "hardware": "laptop",
            "config": config, "config_id": f"id-{config}", "seed": str(seed), "phase": "fixed", "exclusive": "false",
            "exploratory": "false", "mlflow.source.git.commit": "abc", **tags,
        }  # fmt: skip
        run = self.store.create_run(experiment, f"{config} s={seed}", started_ms, all_tags)
        given = {"algorithm": "ppo", "seed": seed, "budget_env_steps": 2000, **(params or {})}
        self.store.log_rows(run, LogParams(given))
        self.store.log_rows(run, *(LogReport(metrics, step, started_ms + at_ms) for metrics, step, at_ms in reports))
        if status is not None:
            self.store.finish(run, status, started_ms + 9000)
        self.ids[f"{config} s={seed}"] = run
        return run


def planned(config: str, lr: float) -> dict[str, Any]:
    return {
        "config": config, "config_id": f"id-{config}", "algorithm": "ppo", "env": "cartpole", "hardware": "laptop",
        "budget_env_steps": 2000, "target": 475.0, "score_range": [0.0, None], "point": {"algorithm.training.lr": lr},
        "params": {
            "algorithm": "ppo", "budget_env_steps": 2000, "lr": lr, "log10_lr": -3.0, "clip": None,
            "activation": "tanh",
        },
    }  # fmt: skip


PLAN = {
    "study": "lr", "question": "Which learning rate?", "seeds": [0, 1, 2], "axes": {"lr": "algorithm.training.lr"},
    "exclusive": True, "configurations": [planned("lr=3e-3", 0.003), planned("lr=1e-3", 0.001)],
}  # fmt: skip


def write_studies(written: Written) -> None:
    """A study of three trials; one of six planned trials, of which three finished; a long one."""
    old = written.study(
        "old",
        "old/ppo-cartpole",
        START_MS,
        params={"space.algorithm.training.train_batch_size_per_learner": "[512, 64]"},
    )
    for config, batch, seed, at_ms in (("b=512", 512, 0, 0), ("b=64", 64, 0, 1), ("b=512", 512, 1, 2)):
        params = {"train_batch_size_total": batch, "log10_train_batch_size_total": 1.0}
        written.trial(
            old,
            "old/ppo-cartpole",
            config,
            seed,
            [({"final/score": 1.0}, 1000, 5)],
            started_ms=START_MS + at_ms,
            params=params,
        )

    study = written.study("lr", "lr/ppo-cartpole", START_MS + 10, PLAN)
    experiment, lr3, lr1 = "lr/ppo-cartpole", {"lr": 0.003, "activation": "tanh"}, {"lr": 0.001, "activation": "tanh"}
    final = {"final/score": 490.0, "final/auc": 300.5, "final/env_steps_to_target": 1000.0, "final/train_s": 2.5}
    written.trial(
        study, experiment, "lr=3e-3", 0,
        [
            ({"eval/return_mean": 10.0, "train/return_mean": 5.0}, 1000, 500),
            ({"eval/return_mean": 99.0}, 2000, 1000),  # lost in a crash, and again after it:
            ({"eval/return_mean": 20.0, **final}, 2000, 4500),
        ],
        params=lr3,
    )  # fmt: skip
    written.trial(study, experiment, "lr=1e-3", 0, [({"eval/return_mean": float("nan")}, 1000, 250)], params=lr1)
    written.trial(study, experiment, "lr=3e-3", 1, status="FAILED", failure="out of memory", params=lr3)
    written.trial(study, experiment, "lr=1e-3", 1, [({"eval/return_mean": 7.0}, 1000, 100)], status=None, params=lr1)
    written.trial(study, experiment, "lr=3e-3", 2, status="KILLED", params=lr3)
    deleted = written.trial(study, experiment, "lr=1e-3", 2, [({"eval/return_mean": 8.0}, 1000, 100)], params=lr1)
    written.store._client.delete_run(deleted)
    written.store.finish(study, "FAILED", START_MS + 10_000)

    growing = written.study("growing", "growing/ppo-cartpole", START_MS - 20)
    for config, at_ms in (("c", 0), ("d", 1)):
        written.trial(
            growing,
            "growing/ppo-cartpole",
            config,
            0,
            [({"eval/return_mean": 1.0}, 1000, 5)],
            started_ms=START_MS + at_ms,
        )

    long = written.study("long", "long/ppo-cartpole", START_MS - 10)
    written.trial(long, "long/ppo-cartpole", "a", 0)
    written.trial(long, "long/ppo-cartpole", "b", 0, started_ms=START_MS + 1)
    with closing(sqlite3.connect(written.folder / "mlflow.db", timeout=20)) as database:
        for config, number in (("a", MORE_THAN_ONE_ANSWER), ("b", 100)):
            run = written.ids[f"{config} s=0"]
            insert_points(database, run, "eval/return_mean", [(i / 7, START_MS + i, i) for i in range(number)])


def insert_points(
    database: sqlite3.Connection, run: str, metric: str, points: Sequence[tuple[float, int, int]]
) -> None:
    """As MLflow stores them, fast: (value, timestamp, step), the last one last."""
    rows = [(metric, value, at_ms, run, step, 0) for value, at_ms, step in points]
    for table in ("metrics", "latest_metrics"):
        database.executemany(
            f"INSERT OR REPLACE INTO {table} (key, value, timestamp, run_uuid, step, is_nan) VALUES (?, ?, ?, ?, ?, ?)",
            rows if table == "metrics" else rows[-1:],
        )
    database.commit()
