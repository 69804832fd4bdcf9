"""What `make` says where something that it needs is missing."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from tests.support.suite import ROOT


def make_study(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    # What `make test VENV=...` was told goes to every make below it.
    environment = {name: value for name, value in os.environ.items() if name not in ("MAKEFLAGS", "MFLAGS")}
    return subprocess.run(
        ["make", "study", *words],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_a_python_that_cannot_make_an_environment_is_told_of_in_a_line(tmp_path: Path) -> None:
    for name in ("Makefile", "requirements.txt", "pyproject.toml"):
        shutil.copy(ROOT / name, tmp_path)
    bare = tmp_path / "bare-python"  # as Debian's without python3-venv
    bare.write_text(f'#!/bin/sh\ncase "$*" in *ensurepip*) exit 1;; *) exec {sys.executable} "$@";; esac\n')
    bare.chmod(0o755)
    made = make_study(tmp_path, f"PYTHON={bare}")
    assert made.returncode == 2
    assert made.stderr.startswith(f"error: {bare} cannot make an environment. On Debian and Ubuntu: apt install")
    assert not (tmp_path / ".venv").exists()


def test_an_environment_that_cannot_be_written_is_told_of_in_a_line(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    environment = tmp_path / "file/venv"
    made = make_study(ROOT, f"VENV={environment}", f"PYTHON={sys.executable}")
    assert made.returncode == 2
    assert made.stderr.startswith(f"error: {environment} cannot be written. Name folders of yours: make study VENV=")
