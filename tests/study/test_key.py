"""A study that the same command finds again: what begins it, what it refuses, and what it says. Without Ray."""

import json
import os
import re
import socket
from pathlib import Path

import pytest

from experiments.api import plan_study
from experiments.config.errors import ConfigurationError
from experiments.study.files.folder import StudyFolder
from experiments.study.key import StudyKey
from tests.support.commands import run_here
from tests.support.planning import composed_for

WORDS = ("study=smoke", "seeds=[0]", "budget_env_steps=2048", "hardware.num_cpus=2", "study.key=night")


def key_of(out: Path, *words: str) -> StudyKey:
    plan, compose = composed_for(*WORDS, *words)
    key = StudyKey.of(plan.suite, compose, out)
    assert key is not None
    return key


def begin(out: Path, *words: str) -> StudyKey:
    """A study that was begun, and whose driver is gone."""
    plan, _ = composed_for(*WORDS, *words)
    key = key_of(out, *words)
    key.folder.create(plan, key.given)
    key.folder.close()
    return key


def command(out: Path, *words: str) -> tuple[int, str, str]:
    done = run_here("experiments/run.py", *WORDS, *words, f"output_dir={out}", "report=false")
    assert "Traceback" not in done.stderr
    return done.returncode, done.stdout, done.stderr


def test_a_study_without_a_key_is_begun_by_each_command(tmp_path: Path) -> None:
    plan, compose = composed_for("study=smoke")
    assert StudyKey.of(plan.suite, compose, tmp_path) is None


def test_the_same_command_finds_the_study_that_was_begun(tmp_path: Path) -> None:
    assert key_of(tmp_path).begun() is None
    begun = begin(tmp_path)
    assert begun.folder.path == tmp_path / "studies" / "key-night"
    found = key_of(tmp_path).begun()
    assert found is not None
    assert found.path == begun.folder.path


@pytest.mark.parametrize(
    "words",
    [
        ["output_dir=elsewhere", "report=false", "dry_run=true", "hardware.address=auto"],
        ["tracking=server", "tracking.uri=http://who:secret@127.0.0.1:5000", "tracking.timeout_s=3"],
    ],
)
def test_settings_that_a_resume_may_change_are_no_differences(tmp_path: Path, words: list[str]) -> None:
    begin(tmp_path)
    assert key_of(tmp_path, *words).begun() is not None


def test_other_settings_are_refused_key_by_key_and_nothing_is_changed(tmp_path: Path) -> None:
    folder = begin(tmp_path).folder.path
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    code, _, said = command(tmp_path, "algorithm.training.lr=1e-5", "seeds=[0,1]")
    assert code == 2
    assert "error: study.key=night: the study was begun with other settings." in said
    assert re.search(r"^  algorithm\.training\.lr: [0-9.e-]+ then, 1e-05 now$", said, re.MULTILINE)
    assert re.search(r"^  seeds: \[0\] then, \[0, 1\] now$", said, re.MULTILINE)
    assert f"resume={folder}" in said
    assert said.count("\n") == 3
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before


def test_a_setting_that_only_another_choice_of_the_space_has_is_a_difference(tmp_path: Path) -> None:
    space = "study.space={algorithm:[ppo,dqn]}"
    begin(tmp_path, space)
    assert key_of(tmp_path, space).begun() is not None
    other = key_of(tmp_path, space)
    (_, dqn) = next((choice, composed) for choice, composed in other.given if choice == {"algorithm": "dqn"})
    assert isinstance(dqn["algorithm"], dict)
    dqn["algorithm"]["training"]["gamma"] = 0.5
    with pytest.raises(ConfigurationError, match=r"algorithm\.training\.gamma: .* then, 0\.5 now"):
        other.begun()


def test_many_differences_are_counted(tmp_path: Path) -> None:
    begin(tmp_path)
    with pytest.raises(ConfigurationError, match=r"and \d+ more$"):
        key_of(tmp_path, "algorithm=dqn").begun()


def test_a_driver_that_was_killed_before_it_wrote_the_plan_does_not_block_the_next(tmp_path: Path) -> None:
    plan, _ = composed_for(*WORDS)
    folder = tmp_path / "studies" / "key-night"
    folder.mkdir(parents=True)
    (folder / "lock").write_text("process 1 on a-host-that-is-gone")
    (folder / "study.json.partial").write_text('{"for')
    key = key_of(tmp_path)
    assert key.begun() is None
    key.folder.create(plan, key.given)
    assert key_of(tmp_path).begun() is not None
    key.folder.close()


def test_two_drivers_that_begin_at_once_make_one_study(tmp_path: Path) -> None:
    plan, _ = composed_for(*WORDS)
    first, second, third = key_of(tmp_path), key_of(tmp_path), key_of(tmp_path)
    assert first.begun() is second.begun() is None
    first.folder.create(plan, first.given)
    before = (first.folder.path / "study.json").read_bytes()
    with pytest.raises(
        ConfigurationError, match=f"study.key=night: the study is still running, in process {os.getpid()} on "
    ):
        second.folder.create(plan, second.given)
    first.folder.close()
    with pytest.raises(
        ConfigurationError, match=r"another process has begun the study meanwhile\. Give the command again"
    ):
        third.folder.create(plan, third.given)
    assert (first.folder.path / "study.json").read_bytes() == before
    assert first.folder.at_work() == ""


def test_a_second_driver_is_refused_with_the_host_and_the_process_of_the_first(tmp_path: Path) -> None:
    key = begin(tmp_path)
    key.folder.lock()
    code, _, said = command(tmp_path)
    assert code == 2
    assert (
        f"study.key=night: the study is still running, in process {os.getpid()} on {socket.gethostname()}, since "
        in said
    )
    code, printed, _ = command(tmp_path, "dry_run=true")
    assert code == 0
    assert re.search(rf"^at work +process {os.getpid()} on ", printed, re.MULTILINE)
    key.folder.close()
    assert key.folder.at_work() == ""


def test_a_dry_run_says_whether_the_study_was_begun_and_how_far_it_is(tmp_path: Path) -> None:
    code, printed, _ = command(tmp_path, "dry_run=true")
    assert code == 0
    assert f"key         night begins a study in {tmp_path}/studies/key-night" in printed
    assert not (tmp_path / "studies").exists()
    begin(tmp_path)
    code, printed, _ = command(tmp_path, "dry_run=true")
    assert code == 0
    assert "key         the study night was begun and goes on" in printed
    assert "0 trials are finished, 0 go on from a checkpoint, 2 start from the beginning" in printed


@pytest.mark.parametrize("damage", ["cut short", "missing", "another"])
def test_a_damaged_state_is_refused_with_the_fix(tmp_path: Path, damage: str) -> None:
    folder = begin(tmp_path).folder.path
    state = folder / "study.json"
    if damage == "cut short":
        os.truncate(state, state.stat().st_size // 2)
    elif damage == "missing":
        (folder / "trials").mkdir()
        state.unlink()
    else:  # a study without a key, put here by hand
        state.write_text(
            json.dumps({name: value for name, value in json.loads(state.read_text()).items() if name != "given"})
        )
    code, _, said = command(tmp_path)
    assert code == 2
    assert str(state) in said if damage != "another" else "is not the folder of a study with a key" in said
    assert "study.key" in said


def test_python_finds_the_study_that_a_command_began_and_is_refused_another(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    begin(tmp_path)
    assert plan_study([*WORDS, f"output_dir={tmp_path}"]).suite.study.key == "night"
    assert "key         the study night was begun and goes on" in capsys.readouterr().out
    with pytest.raises(ConfigurationError, match=r"seeds: \[0\] then, \[7\] now"):
        plan_study([*WORDS, f"output_dir={tmp_path}", "seeds=[7]"])


def test_a_damaged_log_of_a_trial_is_refused_with_the_fix(tmp_path: Path) -> None:
    folder = begin(tmp_path).folder
    log = folder.trial(composed_for(*WORDS)[0].trials[0]).path / "events.jsonl"
    log.parent.mkdir(parents=True)
    log.write_bytes(b"\xff\n")
    code, _, said = command(tmp_path)
    assert code == 2
    assert f"error: {log}: " in said
    assert f"Remove the folder {log.parent} to run its trial again" in said


def test_a_key_that_cannot_be_the_name_of_a_folder_is_refused(tmp_path: Path) -> None:
    code, _, said = command(tmp_path, "study.key=../night")
    assert code == 2
    assert "study.key='../night'" in said


def test_a_password_of_the_store_is_not_kept(tmp_path: Path) -> None:
    folder = begin(tmp_path, "tracking.uri=http://who:secret@127.0.0.1:5000").folder.path
    assert not [path for path in folder.rglob("*") if path.is_file() and b"secret" in path.read_bytes()]


def test_a_study_that_is_resumed_otherwise_needs_no_key(tmp_path: Path) -> None:
    begun = begin(tmp_path)
    code, _, said = command(tmp_path, f"resume={begun.folder.path}")
    assert code == 2
    assert "a study is resumed as it was begun" in said
    assert StudyFolder(begun.folder.path).is_begun
