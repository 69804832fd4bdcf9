"""Where a result comes from: git state, package versions, host."""

import os
import platform
import re
import shlex
import subprocess
import sys
from dataclasses import dataclass
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

PACKAGES = ("ray", "torch", "gymnasium", "numpy", "mlflow", "optuna", "hydra-core")


@dataclass(frozen=True)
class GitState:
    """The commit of the code, and what differs from it."""

    commit: str | None
    dirty_diff: str


@cache
def git_state() -> GitState:
    """The state of the repository that this code is in; no commit outside one."""
    root = Path(__file__).resolve().parent.parent

    def git(*args: str) -> str | None:
        try:
            done = subprocess.run(["git", "-C", str(root), *args], capture_output=True, text=True, timeout=10, check=True)
        except (OSError, subprocess.SubprocessError):
            return None
        return done.stdout

    commit = git("rev-parse", "HEAD")
    return GitState(commit.strip() if commit else None, git("diff", "HEAD") or "")


@cache
def versions() -> dict[str, str]:
    """Python's and the packages' versions."""
    found = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return found


@cache
def host() -> dict[str, Any]:
    """The machine that the driver runs on."""
    return {
        "host": platform.node(),
        "platform": platform.platform(),
        "cpu": _cpu_model(),
        "cpu_count": os.cpu_count(),
    }


def _cpu_model() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.processor())


def command_line() -> str:
    """The command that started this process, as one could type it, without passwords."""
    return without_passwords(shlex.join(["python", *sys.orig_argv[1:]]))


def without_passwords(text: str) -> str:
    """The text with the credentials of its URLs (`scheme://user:password@host`) replaced by ***."""
    return re.sub(r"://[^/@\s]+@", "://***@", text)
