"""Every command in the README, and on the pages of the guide, works as written."""

import os
import re
import runpy
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from experiments.rl_scaling import MODULES, commands
from tests.support.commands import run_here
from tests.support.suite import ROOT


def commands_of(page: str) -> list[str]:
    """Of its shell blocks; those of the installed program as those of its files."""
    blocks = re.findall(r"```sh\n(.*?)```", (ROOT / page).read_text(), re.DOTALL)
    typed = [line.split("# ")[0].strip() for block in blocks for line in block.splitlines()]
    files = {name: f"python analysis/{name}.py" for name in commands()}  # extensions have theirs there
    files |= {name: f"python {module.replace('.', '/')}.py" for name, (module, _) in MODULES.items()}
    return [re.sub(r"^rl-scaling (\w+)", lambda word: files[word[1]], command) for command in typed if command]


README = (ROOT / "README.md").read_text()
COMMANDS = commands_of("README.md")
READING = [
    c
    for c in COMMANDS
    if c.startswith(("python analysis/report", "python experiments/list.py", "python experiments/evaluate.py"))
]
SUITE = [c for c in COMMANDS if c.startswith(("python experiments/", "python analysis/")) and c not in READING]
PAGES = (
    "docs/studies.md",
    "docs/spaces.md",
    "docs/joint.md",
    *sorted(path.relative_to(ROOT).as_posix() for path in ROOT.glob("science/*/README.md")),
)
QUICK = [
    c
    for c in (*SUITE, *(c for page in PAGES for c in commands_of(page)))
    if "dry_run" in c or "--cfg" in c or "--help" in c
]
REAL = [c for c in SUITE if c not in QUICK]
BY_HAND = {"git clone REPOSITORY rl-scaling && cd rl-scaling"}


def run(command: str, *more: str) -> subprocess.CompletedProcess[str]:
    _, *arguments = shlex.split(command)
    return subprocess.run(
        [sys.executable, *arguments, *more], cwd=ROOT, capture_output=True, text=True, timeout=280, check=False
    )


@pytest.mark.parametrize("command", QUICK)
def test_commands_that_start_nothing(command: str, tmp_path: Path) -> None:
    _, script, *arguments = shlex.split(command)
    asks = "--cfg" in command or "--help" in command
    done = run_here(script, *arguments, *([] if asks else [f"output_dir={tmp_path}"]))
    assert done.returncode == 0, done.stderr
    assert done.stdout


@pytest.mark.ray
@pytest.mark.slow
@pytest.mark.parametrize(
    "command",  # each change runs study=smoke before its tests (.ci/run)
    [pytest.param(c, marks=pytest.mark.nightly) if "algorithm=" in c or "smoke" in c else c for c in REAL],
)
def test_commands_that_run_a_study(command: str, tmp_path: Path) -> None:
    done = run(command, f"output_dir={tmp_path}", f"report={str(command == REAL[0]).lower()}")
    assert done.returncode == 0, done.stdout + done.stderr
    typed: set[str] = set()
    for read in READING if command == REAL[0] else []:
        _, script, *arguments = shlex.split(read)
        store = f"tracking_uri=sqlite:///{tmp_path}/mlflow.db"
        # each script as a person starts it, once
        done = run_here(script, *arguments, store) if script in typed else run(read, store)
        typed.add(script)
        assert done.returncode == 0, done.stdout + done.stderr
        assert list(tmp_path.glob("reports/*.html"))


def test_studies_that_are_read_are_run_by_a_command_before() -> None:
    named = [word for read in READING for word in shlex.split(read) if word.startswith("study=")]
    assert named
    assert all(word in REAL[0] for word in named)


@pytest.mark.parametrize("command", [c for c in COMMANDS if c.startswith("make ")])
def test_make_targets_exist(command: str) -> None:
    listed = subprocess.run(
        ["make", "--dry-run", *shlex.split(command)[1:]], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert listed.returncode == 0, listed.stderr


def test_the_ui_listens_on_this_machine_alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    listed = subprocess.run(["make", "--dry-run", "ui"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    (module,) = re.findall(r"-m (experiments\.\S+)", listed)
    started: list[list[str]] = []
    monkeypatch.setattr(os, "execv", lambda program, words: started.append(words))
    monkeypatch.setattr(sys, "argv", ["ui"])
    monkeypatch.chdir(tmp_path)
    for code in (2, 0):  # there is nothing to show, and then there is
        with pytest.raises(SystemExit, match=str(code)):
            runpy.run_module(module, run_name="__main__")
        (tmp_path / "outputs").mkdir(exist_ok=True)
        (tmp_path / "outputs/mlflow.db").touch()
    assert "ui --backend-store-uri" in " ".join(*started) and "--host 127.0.0.1" in " ".join(*started)


def test_every_command_is_covered() -> None:
    assert set(COMMANDS) - {*QUICK, *REAL, *READING, *(c for c in COMMANDS if c.startswith("make "))} == BY_HAND


def test_the_readme_is_one_that_is_read() -> None:
    assert len(README.split()) <= 1200
    assert len(README.splitlines()) <= 130


def test_files_that_the_readme_names_exist() -> None:
    paths = re.findall(r"`((?:conf|experiments|analysis|docs|tests)/[\w/.-]+)`|\]\(((?!http)[\w/.-]+)\)", README)
    missing = [p for pair in paths for p in pair if p and "<" not in p and not (ROOT / p).exists()]
    assert not missing


@pytest.mark.ray
@pytest.mark.usefixtures("ray_instance")
def test_the_lines_that_use_the_fast_parts_alone_train() -> None:
    (lines,) = re.findall(r"```python\n(.*?)```", (ROOT / "experiments/fast/README.md").read_text(), re.DOTALL)
    names: dict[str, Any] = {}
    exec(lines, names)
    result = names["algorithm"].train()
    names["algorithm"].stop()
    assert result["env_runners"]["num_env_steps_sampled_lifetime"] >= 4000
    assert result["learners"]["default_policy"]["num_module_steps_trained"] >= 4000
