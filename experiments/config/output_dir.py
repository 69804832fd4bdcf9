"""The folder that a study writes to."""

import os
import re
import shutil
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from experiments.config.errors import ConfigurationError

_RAY_JOB = "RAY_JOB_CONFIG_JSON_ENV_VAR"
"""Set by Ray, to the job's settings, in the driver of a job: `ray._private.runtime_env.constants`, without the seconds of its import."""


def check_stays(output_dir: str, environment: Mapping[str, str] = os.environ) -> None:
    """Make sure that what a study writes outlives the Ray job in which it runs, if it runs in one (`ray job submit`).

    Raises:
        ConfigurationError: The folder is relative to the job's working directory, a copy that Ray removes.
    """
    if _RAY_JOB in environment and not Path(output_dir).expanduser().is_absolute():
        raise ConfigurationError(
            f"output_dir={output_dir}: is relative to the working directory of a Ray job, which is a temporary copy. Name a folder that "
            "stays, and that all nodes share: output_dir=/path."
        )


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
