"""`rl-scaling`: the suite's commands as they are installed."""

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from experiments import delete
from experiments.completion import BASH
from experiments.rl_scaling import commands, main
from tests.support.suite import ROOT

PROGRAM = '#!/bin/sh\nexec {python} -m experiments.rl_scaling "$@"\n'


def test_it_lists_its_commands_and_what_each_does(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == main(["--help"]) == 0
    said = capsys.readouterr().out
    assert all(f" {name} " in said for name in commands())


@pytest.mark.parametrize("name", sorted({*commands()} - {"run"}))
def test_every_command_says_what_it_does(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([name, "--help"]) == 0
    said = capsys.readouterr().out
    if name not in ("ui", "completion"):
        assert "Exit codes: 0 " in said and f"rl-scaling {name}" in said and "key=value" in said


def test_what_it_does_not_know_is_refused_with_what_is_like_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["evaluat"]) == 2
    assert "evaluate" in capsys.readouterr().err


def test_options_are_words_whatever_their_values_hold() -> None:
    read = delete.COMMAND.read
    asked = {"study": "a=b", "yes": True, "output_dir": "/x"}
    assert read(["--study", "a=b", "--yes", "--output_dir=/x"]) == asked
    assert read(["study=a=b", "--yes", "true", "output_dir=/x"]) == asked
    assert read(["--yes", "false"]) == {"yes": False}


@pytest.mark.parametrize("words", ["study=none_of_that_name", "--study none_of_that_name", "--study=none_of_that_name"])
def test_words_are_key_and_value_or_options(words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list", *words.split(), "tracking_uri=sqlite:////nowhere/mlflow.db"]) == 2
    assert "/nowhere/mlflow.db" in capsys.readouterr().err


def test_the_words_of_run_go_to_hydra_as_they_are(tmp_path: Path) -> None:
    words = ["study=smoke", "algorithm=dqn", "++algorithm.training.n_step=2", "~study.space", "--cfg", "job"]
    by_entry, by_file = (
        subprocess.run(
            [sys.executable, *command, *words], cwd=ROOT, capture_output=True, text=True, check=False, timeout=120
        )
        for command in (["-m", "experiments.rl_scaling", "run"], ["experiments/run.py"])
    )
    assert by_entry.returncode == 0, by_entry.stderr
    assert by_entry.stdout == by_file.stdout
    assert "n_step: 2" in by_entry.stdout


@pytest.fixture(scope="module")
def shell(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The environment of a shell that finds the program."""
    folder = tmp_path_factory.mktemp("bin")
    program = folder / "rl-scaling"
    program.write_text(PROGRAM.format(python=shlex.quote(sys.executable)))
    program.chmod(0o755)
    return {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT)}


COMPLETE = """
COMP_LINE={line} COMP_POINT=${{#COMP_LINE}}
_rl_scaling
printf '%s\\n' "${{COMPREPLY[@]}}"
"""


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("rl-scaling ev", ["evaluate"]),
        ("rl-scaling evaluate st", ["study="]),
        ("rl-scaling run algorithm=imp", ["impala"]),
        ("rl-scaling run study=smoke bud", ["budget_env_steps="]),
        ("rl-scaling run algorithm=dqn algorithm.training.double", ["algorithm.training.double_q="]),
    ],
)
def test_bash_completes_commands_groups_and_keys(line: str, expected: list[str], shell: dict[str, str]) -> None:
    done = subprocess.run(
        ["bash", "-c", BASH + COMPLETE.format(line=shlex.quote(line))],
        env=shell,
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    assert done.stdout.split() == expected
