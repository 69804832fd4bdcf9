"""The command that removes studies, on studies as they are left: on disk and in an embedded store."""

import contextlib
import os
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from analysis.load import load_study
from analysis.stores.cache import CACHE_DIR
from experiments.study import removal
from experiments.study.files.folder import StudyFolder
from experiments.tracking import study_archive
from experiments.tracking.study_archive import StoredRun, StudyArchive
from tests.support.commands import run_here
from tests.support.mlflow_server import Server
from tests.support.removable_studies import BEST, EXPERIMENT, OTHER, REGISTERED, Made, new_store
from tests.support.stored_studies import insert_points
from tests.support.suite import TINY

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> tuple[Made, dict[str, object]]:
    """Two executions of a study, which no test changes, and what was there before the second."""
    out = tmp_path_factory.mktemp("two") / "out"
    out.mkdir()
    made = Made(out, f"sqlite:///{new_store(out)}")
    made.add("kept", models=False)
    before = made.left()
    made.add("gone")
    return made, before


@pytest.fixture
def two(written: tuple[Made, dict[str, object]]) -> Made:
    return written[0]


@pytest.fixture
def without(written: tuple[Made, dict[str, object]]) -> dict[str, object]:
    return written[1]


@pytest.fixture
def made(two: Made, tmp_path: Path) -> Made:
    """The same for a test that changes it."""
    return two.again(tmp_path / "out")


def deleted(made: Made, *words: str, code: int = 0) -> str:
    """What the command says."""
    done = run_here("experiments/delete.py", *words, f"output_dir={made.out}")
    assert done.returncode == code, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    return " ".join((done.stdout if code == 0 else done.stderr).split())


def study(made: Made, name: str = "gone") -> str:
    return f"study={made.runs[name]['study']}"


def test_a_study_goes_and_everything_else_is_as_it_was_before_it(made: Made, without: dict[str, object]) -> None:
    said = deleted(made, study(made), "yes=true")
    assert f"folder {made.folder('gone')}: 2.0 MiB, 2.0 MiB of it checkpoints" in said
    assert "runs 4 trials in MLflow, and that of the study" in said
    assert f"models policy of {BEST} s=0, policy of {BEST} s=1" in said
    assert f"versions {REGISTERED} 1, {REGISTERED} 2 in MLflow's registry" in said
    assert f"report {made.report('gone')}: 0.0 MiB" in said
    assert f"policies 4 folders in {made.out / 'policies'}: 0.0 MiB" in said
    assert "removed 2.0 MiB of files" in said
    assert made.left() == without
    assert not made.folder("gone").exists()


def test_the_last_study_of_an_experiment_takes_it_along(made: Made) -> None:
    for name in ("gone", "kept"):
        deleted(made, study(made, name), "yes=true")
    assert set(made.rows()) <= {"alembic_version", "experiments", "experiment_tags", "workspaces"}
    assert [experiment.name for experiment in made.client.search_experiments()] == ["studies", "Default"]
    assert [path for path in made.out.rglob("*") if path.is_file() and path.name[:9] != "mlflow.db"] == []


def test_what_the_recommended_configuration_left_is_kept_and_the_analysis_stays_whole(made: Made) -> None:
    made.model("gone", EXPERIMENT, f"{OTHER} s=0", registered=None)
    before, study_before = made.left(), load_study(made.runs["gone"]["study"], made.uri)
    said = deleted(made, study(made), "keep=best", "yes=true")
    assert f"keeps {BEST} s=0, {BEST} s=1 whole" in said
    assert f"models policy of {OTHER} s=0" in said
    assert "removed 1.0 MiB of files" in said
    after, others = made.left(), [f"{OTHER} s={seed}" for seed in (0, 1)]
    for table in (
        "runs",
        "params",
        "tags",
        "metrics",
        "latest_metrics",
        "experiments",
        "registered_models",
        "model_versions",
    ):
        assert after[table] == before[table]
    tables = made.rows().keys()
    gone = [name for name in before if name not in tables and after.get(name) != before[name]]
    assert sorted(name for name in gone if not name.startswith("mlartifacts")) == sorted(
        str(path.relative_to(made.out))
        for trial in others
        for path in (
            made.trial("gone", trial) / "checkpoints/000000002000/weights",
            made.folder("gone") / "policies" / made.trial("gone", trial).name / "policy/MLmodel",
            made.out / "policies" / made.runs["gone"][trial] / "episodes.parquet",
        )
    )
    (model,) = [name for name in gone if name.startswith("mlartifacts")]
    assert "/models/m-" in model and model.endswith("MLmodel")
    assert made.models() == {made.runs["gone"][f"{BEST} s={seed}"] for seed in (0, 1)}
    assert made.client.get_run(made.runs["gone"][others[0]]).outputs.model_outputs == []
    study_after = load_study(made.runs["gone"]["study"], made.uri)
    assert study_after.runs.equals(study_before.runs) and study_after.curves.equals(study_before.curves)
    assert "removes nothing: there is nothing to remove" in deleted(made, study(made), "keep=best", "yes=true")


@pytest.mark.parametrize(("answer", "code"), [("y", 0), ("n", 1), ("", 1)])
def test_it_asks(made: Made, monkeypatch: pytest.MonkeyPatch, answer: str, code: int) -> None:
    asked: list[str] = []
    before = made.left()
    monkeypatch.setattr(sys, "stdin", mock.Mock(isatty=lambda: True))
    monkeypatch.setattr("builtins.input", lambda text: asked.append(text) or answer)
    deleted(made, study(made), code=code)
    assert asked == ["Remove this for good? [y/N] "]
    assert (made.left() == before) == (answer != "y")


def test_where_nobody_can_be_asked_it_shows_what_it_would_remove_and_refuses(made: Made) -> None:
    before = made.left()
    done = run_here("experiments/delete.py", study(made), f"output_dir={made.out}")
    assert (done.returncode, "4 trials in MLflow" in done.stdout) == (2, True)
    assert "stdin is no terminal: nothing was removed. To remove it: yes=true." in done.stderr
    assert made.left() == before


def test_a_version_with_an_alias_goes_only_by_request(made: Made, without: dict[str, object]) -> None:
    made.crown("2")
    before = made.left()
    said = deleted(made, study(made), "yes=true", code=2)
    assert f"models:/{REGISTERED}@champion (version 2) in MLflow's registry is a policy of this study" in said
    assert made.left() == before
    deleted(made, study(made), "yes=true", "aliases=true")
    assert made.left() == without


def test_a_version_with_an_alias_is_kept_with_its_model_whichever_configuration_it_is_of(made: Made) -> None:
    made.model("gone", EXPERIMENT, f"{OTHER} s=0")
    made.model("gone", EXPERIMENT, f"{OTHER} s=1")
    made.crown("3")
    said = deleted(made, study(made), "keep=best", "yes=true")
    assert f"versions {REGISTERED} 4 in" in said
    left = made.client.search_model_versions(f"name = '{REGISTERED}'")
    assert sorted(version.version for version in left) == [1, 2, 3]
    assert len(made.models()) == 3


def test_a_registered_model_that_others_use_stays(made: Made) -> None:
    made.model("kept", EXPERIMENT, f"{BEST} s=0")
    deleted(made, study(made), "yes=true")
    (version,) = made.client.search_model_versions(f"name = '{REGISTERED}'")
    assert version.run_id == made.runs["kept"][f"{BEST} s=0"]


def test_a_registered_model_that_a_person_described_stays(made: Made) -> None:
    made.client.update_registered_model(REGISTERED, "Ours.")
    deleted(made, study(made), "yes=true")
    (model,) = made.client.search_registered_models()
    assert (model.description, model.latest_versions) == ("Ours.", [])


def test_one_that_runs_is_never_removed(made: Made) -> None:
    before, at_work = made.left(), StudyFolder(made.folder("gone"))
    at_work.lock()
    said = deleted(made, study(made), "yes=true", code=2)
    assert f"the study is still running, in process {os.getpid()} on " in said
    at_work.close()
    assert made.left() == before
    with (made.trial("gone", f"{OTHER} s=1") / "lock").open("w") as file:  # its driver is dead, it is not
        assert removal.locked(file)
        assert "the trial is still running" in deleted(made, study(made), "yes=true", code=2)
    assert made.left() == before


def test_one_whose_driver_died_is_removed(made: Made, without: dict[str, object]) -> None:
    made.client.update_run(made.runs["gone"]["study"], status="RUNNING")
    deleted(made, study(made), "yes=true")
    assert made.left() == without


def test_one_that_may_run_on_another_machine_is_not_removed(made: Made) -> None:
    shutil.rmtree(made.folder("gone"))
    made.client.update_run(made.runs["gone"]["study"], status="RUNNING")
    before = made.left()
    said = deleted(made, study(made), "yes=true", code=2)
    assert "is running, as MLflow has it" in said and "delete it where it is" in said
    assert made.left() == before
    made.client.set_terminated(made.runs["gone"]["study"], "KILLED")
    deleted(made, study(made), "yes=true")
    assert study(made)[6:] not in str(made.rows())


def test_a_name_with_several_executions_lists_them(made: Made) -> None:
    before = made.left()
    said = deleted(made, "study=lr", "yes=true", code=2)
    assert "has 2 executions" in said and all(runs["study"] in said for runs in made.runs.values())
    assert made.left() == before
    deleted(made, study(made), "yes=true")
    assert "removed" in deleted(made, "study=lr", "yes=true")


def test_a_study_is_known_by_its_folder_whether_mlflow_knows_it_or_not(made: Made, without: dict[str, object]) -> None:
    deleted(made, f"study={made.folder('gone')}", "yes=true")
    assert made.left() == without
    made.client.delete_run(made.runs["kept"]["study"])  # as a person does in the UI
    deleted(made, f"study={made.folder('kept')}", "yes=true")
    assert not made.folder("kept").exists() and "runs" not in made.rows()
    (made.folder("gone") / "trials").mkdir(parents=True)
    (made.folder("gone") / "study.json").touch()
    deleted(made, f"study={made.folder('gone')}", "yes=true")  # of which there is no run
    assert not made.folder("gone").exists()


def test_a_folder_whose_store_is_gone_is_removed(made: Made) -> None:
    (made.out / "mlflow.db").unlink()
    done = run_here("experiments/delete.py", f"study={made.folder('gone')}", "yes=true")
    assert (done.returncode, made.folder("gone").exists(), made.folder("kept").exists()) == (0, False, True)
    assert (
        "MLflow does not know the study"
        in run_here("experiments/delete.py", f"study={made.folder('kept')}", "keep=best").stderr
    )


def test_what_a_person_marked_as_deleted_goes_as_well(made: Made, without: dict[str, object]) -> None:
    runs = made.runs["gone"]
    made.client.delete_run(runs[f"{OTHER} s=1"])
    experiment = made.client.get_experiment_by_name(EXPERIMENT)
    made.client.delete_logged_model(made.client.search_logged_models([experiment.experiment_id])[0].model_id)
    deleted(made, study(made), "yes=true")
    assert made.left() == without


def test_of_a_copied_output_folder_the_original_stays(made: Made, tmp_path: Path) -> None:
    before, copy = made.left(), made.copied(tmp_path / "copy")
    deleted(copy, study(copy), "yes=true")
    assert made.left() == before
    assert not copy.folder("gone").exists()


def test_a_folder_that_the_store_names_elsewhere_is_not_removed(made: Made, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere" / "studies" / made.folder("gone").name
    shutil.move(made.folder("gone"), elsewhere)
    made.client.set_tag(made.runs["gone"]["study"], "study_folder", str(elsewhere))
    said = deleted(made, study(made), "yes=true", code=2)
    assert (
        f"its folder {elsewhere} is outside of output_dir={made.out}. If it is yours, name it: "
        f"output_dir={elsewhere.parents[1]}"
    ) in said
    assert (elsewhere / "study.json").is_file()


def test_files_that_mlflow_would_not_have_named_so_are_not_removed(made: Made, tmp_path: Path) -> None:
    precious = made.out / "mlartifacts" / "precious" / "artifacts" / "file"
    precious.parent.mkdir(parents=True)
    precious.touch()
    with contextlib.closing(sqlite3.connect(made.out / "mlflow.db")) as connection:
        connection.execute(
            "UPDATE runs SET artifact_uri = ? WHERE run_uuid = ?",
            (str(precious.parent), made.runs["gone"][f"{BEST} s=0"]),
        )
        connection.commit()
    said = deleted(made, study(made), "yes=true")
    assert f"stays artifacts in {precious.parents[1]}, which may be of another copy of the study" in said
    assert precious.exists()


CALLS = [
    (StudyArchive, "delete_version"),
    (StudyArchive, "delete_model"),
    (StudyArchive, "_delete_artifacts"),
    (StudyArchive, "delete_run"),
    (StudyArchive, "delete_experiment_of"),
    (removal.shutil, "rmtree"),
]


@pytest.mark.parametrize("call", range(0, 28, 3))
def test_interrupted_anywhere_the_same_command_removes_the_rest(
    made: Made, without: dict[str, object], monkeypatch: pytest.MonkeyPatch, call: int
) -> None:
    made_calls = 0

    def interrupted(own: Any, *arguments: Any, **options: Any) -> Any:
        nonlocal made_calls
        made_calls += 1
        if made_calls > call:
            raise OSError("no more")
        return own(*arguments, **options)

    with monkeypatch.context() as patched:
        for place, name in CALLS:
            own = getattr(place, name)
            patched.setattr(place, name, lambda *a, own=own, **o: interrupted(own, *a, **o))
        said = deleted(made, study(made), "yes=true", code=1)
        assert "error: not all of it is removed (OSError: no more). The same command removes the rest." in said
    assert made.left() != without
    deleted(made, study(made), "yes=true")
    assert made.left() == without


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((), "study= is missing"),
        (("study=lr", "kep=best"), "'kep=best' is not understood"),
        (("study=lr", "keep=all"), "keep=all: must be best. rl-scaling delete --help"),
        (("study=lr", "yes=perhaps"), "yes=perhaps: must be true or false"),
        (("study=nothing",), "There is no study 'nothing'"),
    ],
)
def test_what_is_not_understood_is_refused(two: Made, words: tuple[str, ...], message: str) -> None:
    assert message in deleted(two, *words, code=2)


def test_a_trials_run_is_no_study(two: Made) -> None:
    said = deleted(two, f"study={two.runs['gone'][f'{BEST} s=0']}", code=2)
    assert f"is the run of a trial. Name its study's: study={two.runs['gone']['study']}" in said


def test_without_a_finished_trial_there_is_no_best_to_keep(made: Made) -> None:
    for name, run in made.runs["gone"].items():
        if name != "study":
            made.client.update_run(run, status="FAILED")
    before = made.left()
    assert "keep=best: no configuration is recommended" in deleted(made, study(made), "keep=best", "yes=true", code=2)
    assert made.left() == before


def test_the_room_in_the_database_is_given_back_unless_another_study_writes(
    made: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(study_archive, "WAIT_S", 0.05)
    database = made.out / "mlflow.db"
    for name in ("kept", "gone"):
        with contextlib.closing(sqlite3.connect(database)) as connection:
            points = [(i / 7, i, i) for i in range(20_000)]
            insert_points(connection, made.runs[name][f"{BEST} s=0"], "eval/return_mean", points)
    before = database.stat().st_size
    said = deleted(made, study(made), "yes=true")
    less = before - database.stat().st_size
    assert less > 2**20
    assert f"store {database} has {less / 2**20:.1f} MiB less" in said

    def delete_run(self: StudyArchive, run: StoredRun, own: Any = StudyArchive.delete_run) -> None:
        own(self, run)
        if run.folder:  # the last
            writer.execute("BEGIN IMMEDIATE")

    with contextlib.closing(sqlite3.connect(database)) as writer, monkeypatch.context() as patched:
        patched.setattr(StudyArchive, "delete_run", delete_run)
        assert f"store {database} keeps the room for later runs (database is locked)" in deleted(
            made, study(made, "kept"), "yes=true"
        )
    assert "runs" not in made.rows()


def test_a_server_marks_runs_as_deleted_and_the_command_it_names_removes_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(CACHE_DIR, str(tmp_path / "cache"))
    server = Server(tmp_path)
    try:
        made = Made(tmp_path / "out", server.uri)
        made.add("kept", "other/ppo-cartpole", models=False)
        made.add("gone")
        load_study(made.runs["gone"]["study"], server.uri)
        load_study(made.runs["kept"]["study"], server.uri)
        assert len(list((tmp_path / "cache").iterdir())) == 2
        said = deleted(made, study(made), f"tracking_uri={server.uri}", "keep=best", "yes=true")
        assert "removed 1.0 MiB of files" in said
        said = deleted(made, study(made), f"tracking_uri={server.uri}", "yes=true")
        assert "artifacts those of the runs and models below, on the tracking server" in said
        command = f"mlflow gc --backend-store-uri <the server's database> --tracking-uri {server.uri}"
        assert command in said
        assert not made.folder("gone").exists() and made.folder("kept").exists()
        assert made.models() == set()
        assert made.client.search_registered_models() == []
        (left,) = made.client.search_runs([made.client.get_experiment_by_name("studies").experiment_id])
        assert left.info.run_id == made.runs["kept"]["study"]
        assert not any(
            run in str(path)
            for run in made.runs["gone"].values()
            for path in server.artifacts.rglob("*")
            if path.is_file()
        )
        assert len(list((tmp_path / "cache").iterdir())) == 1
        arguments = command.replace("<the server's database>", f"sqlite:///{server.database}").split()[1:]
        subprocess.run([sys.executable, "-m", "mlflow", *arguments], check=True, capture_output=True, timeout=240)
    finally:
        server.kill()
    with contextlib.closing(sqlite3.connect(server.database)) as connection:
        runs = {run for (run,) in connection.execute("SELECT run_uuid FROM runs")}
        models = connection.execute("SELECT model_id FROM logged_models").fetchall()
    assert (runs, models) == (set(made.runs["kept"].values()), [])


@pytest.mark.ray
def test_of_a_study_that_ran_nothing_is_left(ray_instance: None, tmp_path: Path) -> None:
    out = tmp_path / "out"
    done = run_here(
        "experiments/run.py", *TINY, "seeds=[0,1]", "registry.models=all", f"output_dir={out}", with_ray=True
    )
    assert done.returncode == 0, done.stderr
    (command,) = [line.strip() for line in done.stdout.splitlines() if "experiments/delete.py" in line]
    assert run_here(*command.split()[1:], "keep=best", "yes=true").returncode == 0
    assert "to the bit" in run_here("experiments/evaluate.py", "study=smoke", f"output_dir={out}").stdout
    removed = run_here(*command.split()[1:], "yes=true")
    assert removed.returncode == 0, removed.stderr
    assert [path for path in out.rglob("*") if path.is_file() and path.name[:9] != "mlflow.db"] == []
    with contextlib.closing(sqlite3.connect(out / "mlflow.db")) as connection:
        tables = [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        left = {table for table in tables if connection.execute(f"SELECT 1 FROM '{table}'").fetchone()}
    assert left <= {"alembic_version", "experiments", "experiment_tags", "workspaces"}
