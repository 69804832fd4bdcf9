"""The folder that a study writes to, or the address in an object store that it is kept at."""

import os
import re
import secrets
import sys
import tempfile
from collections.abc import Callable, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

from experiments.config.errors import ConfigurationError
from experiments.limits.disk import free_bytes
from experiments.storage.objects import SCHEMES, Objects

_RAY_JOB = "RAY_JOB_CONFIG_JSON_ENV_VAR"
"""Set by Ray, to the job's settings, in the driver of a job: `ray._private.runtime_env.constants`,
without the seconds of its import."""


_PATIENCE_S = 4.0
"""For the answer of an object store before a study starts."""
_CREDENTIALS = {
    "s3": (
        "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or the role of a machine or pod; AWS_REGION; "
        "AWS_ENDPOINT_URL of another store"
    ),
    "gs": "GOOGLE_APPLICATION_CREDENTIALS, or the service account of a machine or pod",
    "az": "AZURE_STORAGE_ACCOUNT_NAME and AZURE_STORAGE_ACCOUNT_KEY, or the identity of a machine or pod",
}
"""Where each takes them from."""
_COPY = "copy-of"
"""Folder of the copies of what is in object stores."""


def check_stays(output_dir: str, tracking_uri: str | None, environment: Mapping[str, str] = os.environ) -> None:
    """Make sure that what a study writes outlives the Ray job in which it runs, if it runs in one (`ray job submit`).

    Raises:
        ConfigurationError: The folder, or MLflow's default store, is in the job's working directory,
            a copy that Ray removes.
    """
    if _RAY_JOB not in environment:
        return
    if _address(output_dir) is not None:
        if tracking_uri is None:
            raise ConfigurationError(
                f"output_dir={output_dir}: MLflow's own store would be in the working directory of a Ray job, "
                "which is a temporary copy. Name one that stays: tracking.uri=http://host:port."
            )
    elif not Path(output_dir).expanduser().is_absolute():
        raise ConfigurationError(
            f"output_dir={output_dir}: is relative to the working directory of a Ray job, which is a temporary copy. "
            "Name a folder that stays, and that all nodes share: output_dir=/path."
        )


def absolute(output_dir: str) -> Path:
    """The folder that a person named; of an address, the one with this machine's copy of what is there.

    Args:
        output_dir: The setting as it was written; relative ones are of the folder where the command was typed.

    Raises:
        ConfigurationError: It is an address that nothing can be kept at.
    """
    found = _address(output_dir)
    if found is None:
        return Path(output_dir).expanduser().absolute()
    scheme, _, rest = found.partition("://")
    parts = rest.strip("/").split("/")
    if scheme == "file" and rest.startswith("/"):
        return Path("/", *parts)
    if scheme not in SCHEMES:
        raise ConfigurationError(
            f"output_dir={output_dir}: {scheme}:// is none of the addresses that results can be kept at, "
            f"which are {', '.join(f'{known}://' for known in SCHEMES)}. Mount the store as a file system, "
            "on a cluster at the same path on all nodes, and name a folder on it: output_dir=/path."
        )
    if "@" in rest:  # it would be shown, and logged with the settings
        raise ConfigurationError(
            f"output_dir={scheme}://...@...: credentials are those of the environment ({_CREDENTIALS[scheme]})."
        )
    if "" in parts or {".", ".."} & {*parts} or "?" in rest or "#" in rest:
        raise ConfigurationError(f"output_dir={output_dir}: must be {scheme}://bucket/folder.")
    return Path("outputs", _COPY, scheme, *parts).absolute()


def stored_at(path: Path) -> str | None:
    """The address in an object store of what is at a path; None if it is kept on this machine's file systems alone.

    Args:
        path: Absolute; `absolute` gave it, or it is below.
    """
    parts = path.parts
    for at, (name, scheme) in enumerate(pairwise(parts)):
        if name == _COPY and scheme in SCHEMES and len(parts) > at + 2:
            return f"{scheme}://{'/'.join(parts[at + 2 :])}"
    return None


def is_within(path: Path, output_dir: Path) -> bool:
    """True if the file or folder at a path belongs to an output folder.

    The copies in it of what is in object stores do not: anyone may own these.
    """
    real, own = path.resolve(), output_dir.resolve()
    return real.is_relative_to(own) and (stored_at(real) is None or stored_at(own) is not None)


def _address(output_dir: str) -> str | None:
    """With a scheme in small letters; None of a path."""
    found = re.match(r"([A-Za-z][A-Za-z0-9+.-]*)://", output_dir)
    return None if found is None else found[1].lower() + output_dir[found.end(1) :]


def check_writable(folder: Path, setting: str = "", other: str = "output_dir=/path") -> None:
    """Make sure that results can be written to a folder that need not be there yet.

    Args:
        folder: The folder, absolute.
        setting: The setting that chose it, as in a command line.
        other: The setting that chooses another.

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
    free_mib = free_bytes(existing) / 2**20
    if free_mib < 0.1 * 1024:
        print(f"{setting}: only {free_mib:.0f} MiB of disk are left.", file=sys.stderr)


def check_kept(folder: Path) -> None:
    """Make sure that objects can be written, read and removed at the address that a folder is a copy of,
    if it is one, and none by two.

    Raises:
        ConfigurationError: They cannot, or the store writes over an object that was to be left.
    """
    if (uri := stored_at(folder)) is None:
        return
    mark = f".check-{secrets.token_hex(8)}"
    try:
        objects = Objects(uri, patience_s=_PATIENCE_S)
        version = objects.create(mark, b"first")
        objects.replace(mark, b"second", version)
        is_conditional = _is_refused(objects.create, mark, b"third") and _is_refused(
            objects.replace, mark, b"fourth", version
        )
        objects.names()
        objects.remove([mark])
    except OSError as error:
        raise ConfigurationError(
            f"output_dir={uri}: cannot be written ({error.strerror}). Make sure that the bucket is there, "
            "that the environment of this command and of all nodes has the credentials "
            f"({_CREDENTIALS[uri.partition('://')[0]]}), and that they may list, read, write and remove objects there."
        ) from None
    if not is_conditional:
        raise ConfigurationError(
            f"output_dir={uri}: this store writes over an object although it was asked not to (If-None-Match, "
            "If-Match), so that two drivers or two attempts at a trial would destroy each other's results. "
            "Name another store, or mount it: output_dir=/path."
        )


def _is_refused(put: Callable[..., str], *arguments: Any) -> bool:
    try:
        put(*arguments)
    except FileExistsError:
        return True
    return False
