"""What a study prints at its end."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from experiments.study.ending import delete_command, resume_command, room_lines
from experiments.study.removal import size_of
from tests.support.removable_studies import Made, new_store, write
from tests.support.suite import PlanOf

OUTCOME = SimpleNamespace(study_run="abc", folder=None)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ((), "resume=abc output_dir=/there"),
        (("tracking=server", "tracking.uri=http://h:5000"), "resume=abc output_dir=/there tracking=server tracking.uri=http://h:5000"),
        (("tracking.name=lab",), "--config-dir '/my files' resume=abc output_dir=/there tracking=lab"),
    ],
)
def test_the_command_that_resumes_names_the_store_and_where_its_file_is(plan_of: PlanOf, words: tuple[str, ...], expected: str) -> None:
    suite = plan_of("study=smoke", "output_dir=/there", *words).suite
    assert resume_command(suite, OUTCOME, Path("/my files")) == f"python experiments/run.py {expected}"


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ((), "study=abc"),
        (("output_dir=/there",), "study=abc output_dir=/there"),
        (("tracking=server", "tracking.uri=http://h:5000"), "study=abc tracking_uri=http://h:5000"),
        (("tracking.uri=sqlite:////s/m.db",), "study=abc output_dir=outputs tracking_uri=sqlite:////s/m.db"),
    ],
)
def test_the_command_that_removes_names_the_store_and_the_output_folder(plan_of: PlanOf, words: tuple[str, ...], expected: str) -> None:
    assert delete_command(plan_of("study=smoke", *words).suite, OUTCOME) == f"python experiments/delete.py {expected}"


def test_a_study_says_what_it_holds_on_disk_and_in_mlflow(plan_of: PlanOf, tmp_path: Path) -> None:
    made = Made(tmp_path, f"sqlite:///{new_store(tmp_path)}")
    made.add("this")
    write(tmp_path / "mlartifacts/lr/ppo-cartpole" / made.runs["this"]["lr=1e-3 s=0"] / "artifacts/big", "x" * 3 * 2**20)
    write(tmp_path / "mlartifacts/lr/ppo-cartpole/another run/artifacts/big", "x" * 2**20)
    suite, folder, study_run = plan_of("study=smoke", f"output_dir={tmp_path}").suite, made.folder("this"), made.runs["this"]["study"]
    write(folder / "tune" / "curves", "x" * 2**20)
    outcome = SimpleNamespace(study_run=study_run, folder=folder, undelivered=0)
    command = f"            python experiments/delete.py study={study_run} output_dir={tmp_path}"
    database = f"mlflow.db of all studies {(tmp_path / 'mlflow.db').stat().st_size / 2**20:.1f} MiB"
    said = f"3.0 MiB of files (checkpoints 2.0 MiB), 3.0 MiB of artifacts in MLflow, {database}"
    assert room_lines(suite, outcome, made.uri, tmp_path) == [f"room        {said}; to free it:", command]
    said = "3.0 MiB of files (checkpoints 2.0 MiB), artifacts on the tracking server"
    assert room_lines(suite, outcome, "http://127.0.0.1:1", tmp_path) == [f"room        {said}; to free it:", command]


def test_a_store_that_cannot_be_read_ends_no_study(plan_of: PlanOf, tmp_path: Path) -> None:
    write(tmp_path / "mlflow.db", "no database")
    outcome = SimpleNamespace(study_run="abc", folder=tmp_path, undelivered=0)
    (said, _) = room_lines(plan_of("study=smoke").suite, outcome, f"sqlite:///{tmp_path / 'mlflow.db'}", tmp_path)
    assert said.startswith("room        unknown: ")


def test_sizes_are_of_all_files_and_follow_no_links(tmp_path: Path) -> None:
    write(tmp_path / "a" / "b" / "c", "1234567")
    write(tmp_path / "a" / "d", "123")
    write(tmp_path / "outside", "x" * 1000)
    (tmp_path / "a" / "link").symlink_to(tmp_path)
    assert size_of(tmp_path / "a") == 10 + len(str(tmp_path))  # of a link, the length of its target
    assert (size_of(tmp_path / "a" / "d"), size_of(tmp_path / "nothing")) == (3, 0)
