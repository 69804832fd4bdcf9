"""Where a result comes from: git state, packages, machine, arithmetic, environment, command."""

import hashlib
import os
import platform
import re
import shlex
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

from threadpoolctl import threadpool_info

from experiments.contract import PROGRAM
from experiments.contract.passwords import without_passwords
from experiments.limits import mkl
from experiments.limits.processor import this_processor

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("ray", "torch", "gymnasium", "numpy", "mlflow", "optuna", "hydra-core")
"""Those that a person asks for first. All others are recorded too, `packages`."""

VARIABLES = (
    "OMP_NUM_THREADS",
    "MKL_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "PYTHONHASHSEED",
    "ATEN_CPU_CAPABILITY",
    "MKL_CBWR",
    mkl.VARIABLE,
    "MKL_ENABLE_INSTRUCTIONS",
    "ONEDNN_MAX_CPU_ISA",
    "DNNL_MAX_CPU_ISA",
    "OPENBLAS_CORETYPE",
    "NPY_DISABLE_CPU_FEATURES",
    "GLIBC_TUNABLES",
    "CUBLAS_WORKSPACE_CONFIG",
    "NVIDIA_TF32_OVERRIDE",
)
"""Environment variables that decide threads, instruction sets or the order of sums,
and so the last bits of a result."""

UNTRACKED = ("conf", "experiments")
"""Folders whose untracked files belong to the code of a trial; elsewhere they may be anything."""

DIFF = "uncommitted.diff"
"""The file that holds what differs from the commit."""


@dataclass(frozen=True)
class GitState:
    """The commit of the code, and what differs from it: a patch for `git apply`, new files included."""

    commit: str | None
    dirty_diff: str


@cache
def git_state(root: Path = ROOT) -> GitState:
    """The state of a repository, by default of the one that this code is in; no commit outside one."""
    commit = _git(root, "rev-parse", "HEAD")
    if commit is None:
        return GitState(None, "")
    untracked = _git(root, "ls-files", "--others", "--exclude-standard", "-z", "--", *UNTRACKED) or ""
    new = [
        _git(root, "diff", "--no-index", "--binary", "--", os.devnull, name, fine=(0, 1))
        for name in untracked.split("\0")
        if name
    ]
    return GitState(
        commit.strip(), "".join([_git(root, "diff", "--binary", "HEAD") or "", *(diff or "" for diff in new)])
    )


def _git(root: Path, *arguments: str, fine: Sequence[int] = (0,)) -> str | None:
    """The output of git; None if it is not there or fails."""
    # Whose code runs here is trusted already: git refuses a clone of another user's, as on a shared file system.
    git = ["git", "-c", f"safe.directory={root}", "-C", str(root)]
    try:
        done = subprocess.run([*git, *arguments], capture_output=True, timeout=10, check=False)
    except (OSError, subprocess.SubprocessError):
        return None
    # Decoded here: text mode would turn the ends of lines, and a patch would no longer fit.
    return done.stdout.decode(errors="replace") if done.returncode in fine else None


@cache
def versions() -> dict[str, str]:
    """Python's and the main packages' versions."""
    installed = packages()
    return {"python": platform.python_version(), **{name: installed[name] for name in PACKAGES if name in installed}}


@cache
def packages() -> dict[str, str]:
    """The version of every installed package, by its name in lower case: an environment may come from any of them."""
    found = {distribution.name: distribution.version for distribution in metadata.distributions()}
    return {name.lower(): found[name] for name in sorted(found, key=str.lower)}


def code_digest(package: Path) -> str:
    """The hash of a package's Python files and their names, 16 hexadecimal digits."""
    content = hashlib.sha256()
    for file in sorted(package.rglob("*.py")):
        data = file.read_bytes()
        content.update(f"{file.relative_to(package).as_posix()}\0{len(data)}\0".encode() + data)
    return content.hexdigest()[:16]


@cache
def own_code() -> str:
    """The digest of the suite's code that this process runs."""
    return code_digest(Path(__file__).parents[1])


@cache
def host() -> dict[str, Any]:
    """The machine that the driver runs on."""
    return {
        "host": platform.node(),
        "platform": platform.platform(),
        "cpu": this_processor().name,
        "cpu_instructions": " ".join(this_processor().vector_instructions),
        "cpu_count": os.cpu_count(),
        **({"gpus": gpus} if (gpus := _gpus()) else {}),
    }


def _gpus() -> list[str]:
    """Model and driver of each GPU. Not by torch, which would take memory of each of them."""
    query = ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"]
    try:
        done = subprocess.run(query, capture_output=True, text=True, timeout=10, check=True)
    except (OSError, subprocess.SubprocessError):
        return []
    return [line.strip() for line in done.stdout.splitlines() if line.strip()]


@cache
def arithmetic() -> dict[str, str]:
    """The instruction sets and math libraries of torch and NumPy, by which numbers are rounded.

    The same packages differ in them between machines.
    """
    import numpy as np
    import torch  # seconds of imports, which whoever asks for versions alone need not wait for

    libraries = re.findall(
        r"- (.*(?:Math Kernel Library|MKL-DNN|OpenBLAS|CUDA Runtime|CuDNN|Magma).*)", torch.__config__.show()
    )
    # NumPy's hint forgets the mode
    numpy_build: dict[str, Any] = np.show_config(mode="dicts")  # type: ignore[assignment]
    blas = numpy_build["Build Dependencies"]["blas"]
    instructions = numpy_build["SIMD Extensions"]
    of_numpy = (library for library in threadpool_info() if "numpy" in library["filepath"])  # SciPy has its own
    return {
        "torch_cpu_capability": torch.backends.cpu.get_cpu_capability(),
        "torch_libraries": "; ".join(" ".join(library.split()) for library in libraries),
        "numpy_cpu_features": " ".join([*instructions["baseline"], *instructions.get("found", [])]),
        "mkl_kernels": mkl.kernels(),
        "numpy_blas": f"{blas['name']} {blas.get('version', '')}".strip(),
        "numpy_blas_kernels": " ".join(str(library.get("architecture", "")) for library in of_numpy),
    }


def environment() -> dict[str, str]:
    """Those of `VARIABLES` that are set in this process."""
    return {name: os.environ[name] for name in VARIABLES if name in os.environ}


def record(command: str = "") -> dict[str, Any]:
    """All of it, as JSON takes it.

    Of this process, at this moment: ask once the threads are set and before the work begins.

    Args:
        command: The command line that does this work; "": the one that started this process.
    """
    git = git_state()
    return {
        "commit": git.commit,
        "dirty": bool(git.dirty_diff),
        "diff": hashlib.sha256(git.dirty_diff.encode()).hexdigest()[:16] if git.dirty_diff else "",
        "code": own_code(),
        "versions": versions(),
        "packages": packages(),
        "host": host(),
        "arithmetic": arithmetic(),
        "environment": environment(),
        "command": command or command_line(),
    }


def files() -> dict[str, str]:
    """The files beside the record, name to content: the uncommitted changes, if there are any."""
    diff = git_state().dirty_diff
    return {DIFF: diff} if diff else {}


def command_line() -> str:
    """The command that started this process, as one could type it, without passwords."""
    words = [PROGRAM, *sys.orig_argv[2:]] if by_program() else ["python", *sys.orig_argv[1:]]
    return without_passwords(shlex.join(words))


def by_program() -> bool:
    """True if what is installed started this process, and not a file of the suite's."""
    return len(sys.orig_argv) > 1 and Path(sys.orig_argv[1]).name == PROGRAM
