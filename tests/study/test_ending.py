"""What a study prints at its end."""

import shlex
from pathlib import Path
from types import SimpleNamespace

import pytest
from hydra.core.override_parser.overrides_parser import OverridesParser
from sqlalchemy import make_url

from experiments.config.output_dir import absolute
from experiments.contract import FAILED, FINISHED
from experiments.contract.sqlite_address import sqlite_uri
from experiments.study.driver import StudyOutcome
from experiments.study.ending import Commands, in_mlflow, room_lines
from experiments.study.outcomes import INTERRUPTED
from experiments.study.removal import size_of
from experiments.tracking.place import Place
from tests.support.names import NAMES, ODD
from tests.support.removable_studies import Made, new_store, write
from tests.support.suite import ROOT, PlanOf

OUTCOME = SimpleNamespace(study_run="abc", folder=None)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ((), "resume=abc output_dir=/there"),
        (
            ("tracking=server", "tracking.uri=http://h:5000"),
            "resume=abc output_dir=/there tracking=server tracking.uri=http://h:5000",
        ),
        (("tracking.name=lab",), "--config-dir '/my files' resume=abc output_dir=/there tracking=lab"),
    ],
)
def test_the_command_that_resumes_names_the_store_and_where_its_file_is(
    plan_of: PlanOf, words: tuple[str, ...], expected: str
) -> None:
    suite = plan_of("study=smoke", "output_dir=/there", *words).suite
    commands = Commands(suite, OUTCOME, Place(Path("/there"), ""), Path("/my files"))
    assert commands.resume() == f"python experiments/run.py {expected}"


def test_the_command_that_resumes_names_the_output_folder_where_the_suite_is_not(
    plan_of: PlanOf, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    suite = plan_of("study=smoke").suite
    monkeypatch.chdir(tmp_path)
    expected = f"resume=abc output_dir={tmp_path}/outputs"
    commands = Commands(suite, OUTCOME, Place(tmp_path / "outputs", ""))
    assert commands.resume() == f"python {ROOT}/experiments/run.py {expected}"


def test_the_command_that_delivers_names_in_any_folder_the_study_and_its_store_whatever_they_are_called(
    plan_of: PlanOf,
) -> None:
    suite = plan_of("study=smoke").suite
    for name in (*NAMES, "null", "1", "[1]", "a=b", "~", "a\\"):
        output_dir = Path("/out", name)
        for uri, stores in (
            (sqlite_uri(output_dir / "mlflow.db"), {}),
            ("sqlite:////s/m.db", {"tracking.uri": "sqlite:////s/m.db"}),
        ):
            outcome = SimpleNamespace(folder=output_dir / "studies/abc")
            command, script, *words = shlex.split(Commands(suite, outcome, Place(output_dir, uri)).deliver())
            assert (command, script) == ("python", str(ROOT / "experiments/run.py"))
            typed = {word.key_or_group: word.value() for word in OverridesParser.create().parse_overrides(words)}
            assert typed == {"resume": f"{output_dir}/studies/abc", "output_dir": str(output_dir), **stores}


def test_the_ui_is_opened_on_the_store_by_a_command_that_a_shell_takes(tmp_path: Path) -> None:
    command, page = in_mlflow(sqlite_uri(tmp_path / ODD / "mlflow.db"), "#/experiments/1")
    words = shlex.split(command)
    assert make_url(words[words.index("--backend-store-uri") + 1]).database == str(tmp_path / ODD / "mlflow.db")
    assert page.split() == ["http://127.0.0.1:5000/#/experiments/1"]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ((), "study=abc"),
        (("output_dir=/there",), "study=abc output_dir=/there"),
        (("tracking=server", "tracking.uri=http://h:5000"), "study=abc tracking_uri=http://h:5000"),
        (("tracking.uri=sqlite:////s/m.db",), f"study=abc output_dir={ROOT}/outputs tracking_uri=sqlite:////s/m.db"),
    ],
)
def test_the_command_that_removes_names_the_store_and_the_output_folder(
    plan_of: PlanOf, words: tuple[str, ...], expected: str
) -> None:
    suite = plan_of("study=smoke", *words).suite
    commands = Commands(suite, OUTCOME, Place(absolute(suite.output_dir), ""))
    assert commands.delete() == f"python experiments/delete.py {expected}"


WHOLE, AWAY, REFUSED, NEVER = ("abc", 0, 0), ("abc", 7, 0), ("abc", 0, 1), (None, 22, 0)
"""Id of the study's run, writes that MLflow did not take, and writes that it refused for good."""


@pytest.mark.parametrize(
    ("statuses", "in_mlflow", "interrupted_by", "code"),
    [
        ((FINISHED, FINISHED), WHOLE, None, 0),
        ((FINISHED, FAILED), WHOLE, None, 1),
        ((FINISHED, FINISHED), AWAY, None, 3),
        ((FINISHED, FINISHED), REFUSED, None, 3),
        ((FINISHED, FINISHED), NEVER, None, 3),
        ((FINISHED, FAILED), AWAY, None, 3),  # what failed is told again by the command that delivers
        ((FINISHED, INTERRUPTED), AWAY, "SIGINT", 130),
        ((FINISHED, INTERRUPTED), NEVER, "SIGTERM", 143),
        ((FINISHED, INTERRUPTED), AWAY, "Ray", 1),  # it did not run to its end
    ],
)
def test_a_study_that_mlflow_does_not_have_whole_is_no_success(
    statuses: tuple[str, ...],
    in_mlflow: tuple[str | None, int, int],
    interrupted_by: str | None,
    code: int,
    tmp_path: Path,
) -> None:
    outcomes = tuple(SimpleNamespace(status=status) for status in statuses)
    study_run, undelivered, refused = in_mlflow
    assert (
        StudyOutcome(outcomes, {}, interrupted_by, False, tmp_path, study_run, {}, undelivered, refused).exit_code
        == code
    )  # type: ignore[arg-type]


def test_a_study_says_what_it_holds_on_disk_and_in_mlflow(plan_of: PlanOf, tmp_path: Path) -> None:
    made = Made(tmp_path, f"sqlite:///{new_store(tmp_path)}")
    made.add("this")
    write(
        tmp_path / "mlartifacts/lr/ppo-cartpole" / made.runs["this"]["lr=1e-3 s=0"] / "artifacts/big", "x" * 3 * 2**20
    )
    write(tmp_path / "mlartifacts/lr/ppo-cartpole/another run/artifacts/big", "x" * 2**20)
    suite, folder, study_run = (
        plan_of("study=smoke", f"output_dir={tmp_path}").suite,
        made.folder("this"),
        made.runs["this"]["study"],
    )
    write(folder / "tune" / "curves", "x" * 2**20)
    outcome = SimpleNamespace(study_run=study_run, folder=folder, undelivered=0)
    command = f"            python experiments/delete.py study={study_run} output_dir={tmp_path}"
    database = f"mlflow.db of all studies {(tmp_path / 'mlflow.db').stat().st_size / 2**20:.1f} MiB"
    said = f"3.0 MiB of files (checkpoints 2.0 MiB), 3.0 MiB of artifacts in MLflow, {database}"
    assert room_lines(Commands(suite, outcome, Place(tmp_path, made.uri))) == [
        f"room        {said}; to free it:",
        command,
    ]
    said = "3.0 MiB of files (checkpoints 2.0 MiB), artifacts on the tracking server"
    assert room_lines(Commands(suite, outcome, Place(tmp_path, "http://127.0.0.1:1"))) == [
        f"room        {said}; to free it:",
        command,
    ]


def test_a_store_that_cannot_be_read_ends_no_study(plan_of: PlanOf, tmp_path: Path) -> None:
    write(tmp_path / "mlflow.db", "no database")
    outcome = SimpleNamespace(study_run="abc", folder=tmp_path, undelivered=0)
    place = Place(tmp_path, f"sqlite:///{tmp_path / 'mlflow.db'}")
    (said, _) = room_lines(Commands(plan_of("study=smoke").suite, outcome, place))
    assert said.startswith("room        unknown: ")


def test_sizes_are_of_all_files_and_follow_no_links(tmp_path: Path) -> None:
    write(tmp_path / "a" / "b" / "c", "1234567")
    write(tmp_path / "a" / "d", "123")
    write(tmp_path / "outside", "x" * 1000)
    (tmp_path / "a" / "link").symlink_to(tmp_path)
    assert size_of(tmp_path / "a") == 10 + len(str(tmp_path))  # of a link, the length of its target
    assert (size_of(tmp_path / "a" / "d"), size_of(tmp_path / "nothing")) == (3, 0)
