"""Files of a line of JSON each, written whole or not at all. Standard library only."""

import errno
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any


def lines_of(content: bytes) -> tuple[list[Mapping[str, Any]], int]:
    """The whole lines in the content of a file, and their size in bytes.

    Raises:
        ValueError: A line is not JSON.
    """
    size = content.rfind(b"\n") + 1
    return [json.loads(line) for line in content[:size].splitlines()], size


def cut_torn_line(path: Path) -> None:
    """Remove what a kill left of a line."""
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        if not size or os.pread(file.fileno(), 1, size - 1) == b"\n":
            return
        file.seek(0)
        content = file.read()
    os.truncate(path, content.rfind(b"\n") + 1)


def add_line(path: Path, content: Mapping[str, Any]) -> None:
    """Add a line to a JSON Lines file.

    Raises:
        OSError: The disk takes no more; the file is as before.
    """
    line = (json.dumps(content) + "\n").encode()
    with path.open("ab", buffering=0) as file:
        end = file.tell()
        try:
            if file.write(line) < len(line):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
        except OSError as error:
            file.truncate(end)
            raise OSError(error.errno, error.strerror, str(path)) from None
