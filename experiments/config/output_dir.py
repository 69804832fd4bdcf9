"""The folder that a study writes to."""

import re
import shutil
import sys
import tempfile
from pathlib import Path

from experiments.config.errors import ConfigurationError


def absolute(output_dir: str) -> Path:
    """The folder that a person named.

    Args:
        output_dir: As it was written; relative ones are of the folder where the command was typed.

    Raises:
        ConfigurationError: It is the address of an object store, and no folder.
    """
    if re.match(r"[A-Za-z][A-Za-z0-9+.-]*://", output_dir):
        raise ConfigurationError(
            f"output_dir={output_dir}: is an address, and results can be written to folders only. Mount the store as a file system, on a "
            "cluster at the same path on all nodes, and name a folder on it: output_dir=/path."
        )
    return Path(output_dir).expanduser().absolute()


def check_writable(folder: Path, setting: str = "", other: str = "output_dir=/path") -> None:
    """Make sure that results can be written to a folder that need not be there yet.

    Args:
        folder: Absolute.
        setting: What chose it, as in a command line.
        other: What chooses another.

    Raises:
        ConfigurationError: They cannot.
    """
    setting, existing = setting or f"output_dir={folder}", folder
    while not existing.exists():
        existing = existing.parent
    try:
        if not existing.is_dir():
            raise NotADirectoryError(f"{existing} is not a folder")
        with tempfile.TemporaryFile(dir=existing):
            pass
    except OSError as error:
        raise ConfigurationError(f"{setting}: cannot be written ({error}). Choose another: {other}.") from None
    free_gib = shutil.disk_usage(existing).free / 2**30
    if free_gib < 0.1:
        print(f"{setting}: only {free_gib * 1024:.0f} MiB of disk are left.", file=sys.stderr)
