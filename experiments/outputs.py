"""The folder that a study writes to."""

import shutil
import sys
import tempfile
from pathlib import Path

from experiments.errors import ConfigurationError


def check_writable(output_dir: Path) -> None:
    """Make sure that results can be written.

    Raises:
        ConfigurationError: They cannot.
    """
    existing = output_dir
    while not existing.exists():
        existing = existing.parent
    try:
        if not existing.is_dir():
            raise NotADirectoryError(f"{existing} is not a folder")
        with tempfile.TemporaryFile(dir=existing):
            pass
    except OSError as error:
        raise ConfigurationError(f"output_dir={output_dir}: cannot be written ({error}). Choose another: output_dir=/path.") from None
    free_gib = shutil.disk_usage(existing).free / 2**30
    if free_gib < 0.1:
        print(f"output_dir={output_dir}: only {free_gib * 1024:.0f} MiB of disk are left.", file=sys.stderr)
