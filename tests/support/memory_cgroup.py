"""A machine with little memory: a command and its children in a memory cgroup, of version 1 or 2."""

import os
import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

_ROOT = Path("/sys/fs/cgroup")


@dataclass(frozen=True)
class MemoryCgroup:
    """A cgroup.

    Attributes:
        folder: The folder by which the kernel shows the cgroup.
        mounted: Where the root of such cgroups is.
    """

    folder: Path
    mounted: Path

    def command(self, words: Sequence[str], is_machine: bool) -> list[str]:
        """A command in the cgroup.

        Args:
            words: The command.
            is_machine: Whether its limit is also what the command takes for the machine's memory, as in a container.
        """
        enter = ["sh", "-c", 'echo $$ > "$0/cgroup.procs" && exec "$@"', str(self.folder)]
        mount = ["unshare", "--mount", "sh", "-c", f'mount --bind "$0" {self.mounted} && exec "$@"', str(self.folder)]
        return [*enter, *(mount if is_machine else []), *words]


@contextmanager
def memory_cgroup(name: str, limit_bytes: int) -> Iterator[MemoryCgroup]:
    """A memory cgroup, whose processes are ended at the end; skips the test where none can be made."""
    mounted, limit = (
        (_ROOT / "memory", "memory.limit_in_bytes") if (_ROOT / "memory").is_dir() else (_ROOT, "memory.max")
    )
    folder = mounted / f"{name}-{os.getpid()}"
    try:
        folder.mkdir()
        (folder / limit).write_text(str(limit_bytes))
    except OSError as error:
        with suppress(OSError):
            folder.rmdir()
        pytest.skip(f"no memory cgroup can be made here: {error}")
    try:
        yield MemoryCgroup(folder, mounted)
    finally:
        give_up = time.monotonic() + 30
        while time.monotonic() < give_up:
            for pid in (folder / "cgroup.procs").read_text().split():
                with suppress(ProcessLookupError):
                    os.kill(int(pid), signal.SIGKILL)
            try:
                folder.rmdir()
                break
            except OSError:
                time.sleep(0.2)
