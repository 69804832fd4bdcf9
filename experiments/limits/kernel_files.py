"""Files in which the kernel tells something, which need not be there."""

from pathlib import Path


def text_of(file: Path) -> str:
    """What a file says; "" if it is not there or may not be read."""
    try:
        return file.read_text()
    except OSError:
        return ""
