"""A real full disk: a command sees a file system of a few MiB in a folder, mounted for it and its children alone."""

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

_MOUNT = 'mount -t tmpfs -o "size=$0" tmpfs "$1" && shift && exec "$@"'
_FILLER = "filler"


def on_small_disk(folder: Path, mib: float, command: Sequence[str]) -> list[str]:
    """The command, with a file system of its own in an existing folder.

    Needs no rights; skips the test where users cannot mount.
    """
    prefix = ["unshare", "--map-root-user", "--mount", "sh", "-c", _MOUNT, f"{mib * 1024:.0f}k", str(folder)]
    if (
        shutil.which("unshare") is None
        or subprocess.run([*prefix, "true"], capture_output=True, check=False).returncode
    ):
        pytest.skip("this machine lets no user mount a file system (unshare --map-root-user --mount)")
    return [*prefix, *command]


def seen_from_outside(folder: Path, pid: int) -> Path:
    """The folder as the process of `on_small_disk`'s command sees it, for others."""
    return Path(f"/proc/{pid}/root{folder}")


def fill(folder: Path, leave: int = 0) -> None:
    """Leave so many bytes on the folder's file system."""
    with (folder / _FILLER).open("ab", buffering=0) as file:
        for size in (2**16, 1):
            try:
                while file.write(b"\0" * size):
                    pass
            except OSError:
                pass
        file.truncate(file.tell() - leave)


def make_room(folder: Path) -> None:
    """Undo `fill`."""
    (folder / _FILLER).unlink()
