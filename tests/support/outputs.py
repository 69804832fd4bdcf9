"""What a study leaves in its output folder and in its store, halfway and at its end."""

import contextlib
import re
import shutil
import sqlite3
from dataclasses import dataclass, replace
from pathlib import Path

from experiments.contract import depends_on_clock

SMALL = (
    "study=smoke",
    "budget_env_steps=4096",
    "report_every_env_steps=512",
    "checkpoint.every_env_steps=1024",
    "algorithm.training.train_batch_size_per_learner=256",
    "algorithm.rl_module.fcnet_hiddens=[512,512]",  # so that a trial takes seconds, within which a signal comes
    "evaluation.final_episodes=5",
    "tracking.tensorboard=false",
    "tracking.system_metrics=false",
    "hardware.num_cpus=2",
)
"""Four trials of eight reports and four checkpoints, two at a time."""
TRIALS = [f"gamma={gamma} s={seed}" for gamma in (0.98, 0.99) for seed in (0, 1)]


@dataclass(frozen=True)
class Left:
    """What a study leaves.

    Attributes:
        learned: Run, metric and step to value, without the metrics that depend on the clock.
        points: Run, metric and step of every value, as often as it is there.
        statuses: Run to status, with the study's own.
        tags: Run to tags.
    """

    learned: dict[tuple[str, str, int], float]
    points: list[tuple[str, str, int]]
    statuses: dict[str, str]
    tags: dict[str, dict[str, str]]

    @property
    def weights(self) -> dict[str, str]:
        return {run: tags["weights"] for run, tags in self.tags.items() if "weights" in tags}

    @property
    def restarts(self) -> dict[str, int]:
        return {run: int(tags["restarts"]) for run, tags in self.tags.items() if "restarts" in tags}


def left_in(database: Path, study_folder: Path | None = None) -> Left:
    """What a study left in a store; `study_folder` tells it from others."""
    with contextlib.closing(sqlite3.connect(database)) as connection:
        runs = {
            run: (name, status) for run, name, status in connection.execute("SELECT run_uuid, name, status FROM runs")
        }
        tags: dict[str, dict[str, str]] = {run: {} for run in runs}
        for run, key, value in connection.execute("SELECT run_uuid, key, value FROM tags"):
            tags[run][key] = value
        metrics = connection.execute("SELECT run_uuid, key, step, value FROM metrics").fetchall()
    (study,) = (r for r in runs if tags[r]["kind"] == "study" and study_folder in (None, Path(tags[r]["study_folder"])))
    trials = [r for r in runs if tags[r]["kind"] == "trial" and tags[r]["study_run"] == study]
    names = {run: runs[run][0] for run in trials}
    assert len(set(names.values())) == len(trials)
    points = [(names[run], key, step) for run, key, step, _ in metrics if run in names]
    return Left(
        learned={
            (names[run], key, step): value
            for run, key, step, value in metrics
            if run in names and not depends_on_clock(key)
        },
        points=sorted(points),
        statuses={"study": runs[study][1], **{names[r]: runs[r][1] for r in trials}},
        tags={names[r]: tags[r] for r in trials},
    )


def of_metrics_in(reference: Left, found: Left) -> Left:
    """What was found, without the metrics that came since the reference was written."""
    known = {metric for _, metric, _ in reference.points}
    return replace(
        found,
        learned={point: value for point, value in found.learned.items() if point[1] in known},
        points=[point for point in found.points if point[1] in known],
    )


def assert_same(found: Left, reference: Left) -> None:
    """To the bit, with every point once."""
    assert set(found.statuses.values()) == {"FINISHED"}
    assert found.learned == reference.learned
    assert found.points == reference.points
    assert found.weights == reference.weights
    assert len(found.weights) == len(found.statuses) - 1
    assert {tags["reproducible"] for tags in found.tags.values()} == {"true"}


def folder_of(out: Path) -> Path:
    (folder,) = out.glob("studies/*")
    return folder


def reports(out: Path) -> dict[str, int]:
    """Folder of a trial to its reports."""
    return {
        p.parent.name: p.read_bytes().count(b'"kind": "reported"') for p in out.glob("studies/*/trials/*/events.jsonl")
    }


def checkpoints(out: Path) -> set[str]:
    """Folders of the trials that have one."""
    return {p.parents[1].name for p in out.glob("studies/*/trials/*/checkpoints/0*") if p.name.isdigit()}


def is_halfway(out: Path) -> bool:
    """Some trials have finished, others have a checkpoint and have not."""
    counts = reports(out)
    ended = any(b'"kind": "ended"' in path.read_bytes() for path in out.glob("studies/*/trials/*/events.jsonl"))
    return ended and any(counts.get(trial, 0) < 7 for trial in checkpoints(out))


def standing(stdout: str) -> tuple[int, int, int]:
    """Trials that are finished, go on, start from the beginning: as a resumed study says."""
    found = re.search(
        r"resume +(\d+) trials are finished, (\d+) go on from a checkpoint, (\d+) start from the beginning", stdout
    )
    assert found, stdout
    return int(found[1]), int(found[2]), int(found[3])


def contents(out: Path) -> dict[str, bytes]:
    """All files but locks, and the rows of the store: its own files change when it is read."""
    files = [p for p in out.rglob("*") if p.is_file() and not p.name.startswith("mlflow.db") and p.name != "lock"]
    found = {str(p.relative_to(out)): p.read_bytes() for p in files}
    with contextlib.closing(sqlite3.connect(out / "mlflow.db")) as connection:
        return {**found, "rows": "\n".join(connection.iterdump()).encode()}


def run_id(out: Path, kind: str) -> str:
    """The id of a run of a kind."""
    with contextlib.closing(sqlite3.connect(out / "mlflow.db")) as connection:
        return str(
            connection.execute("SELECT run_uuid FROM tags WHERE key = 'kind' AND value = ?", [kind]).fetchone()[0]
        )


@dataclass(frozen=True)
class Killed:
    """A study that was killed halfway.

    Attributes:
        out: Its output, for the one test that goes on with it.
        kept: A copy that no test touches. Its study is known by its folder alone: the store knows it by another one.
    """

    out: Path
    kept: Path

    def copy(self, to: Path) -> Path:
        return Path(shutil.copytree(self.kept, to))
