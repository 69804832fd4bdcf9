"""Where Ray keeps the sockets of a session: Unix limits the length of their paths. No Ray is imported."""

import os
import sys
from collections.abc import Mapping

from experiments.config.errors import ConfigurationError

MOST_BYTES = 103 if sys.platform == "darwin" else 107
"""Of a socket's path."""
_BELOW = "/ray/session_2026-01-01_00-00-00_000000_4194304/sockets/plasma_store.9"
"""The longest path of a socket that Ray puts below a folder for temporary files (`ray._private.node`)."""
_SHORT = "/tmp"


def session_folder(environment: Mapping[str, str] = os.environ) -> str | None:
    """Ray's `_temp_dir`, where its own choice would be too long for sockets; None where it is not.

    Raises:
        ConfigurationError: What was chosen for Ray is too long, or there is no other folder.
    """
    if "RAY_TMPDIR" in environment:
        chosen, variable = environment["RAY_TMPDIR"], "RAY_TMPDIR"
    elif sys.platform.startswith("linux") and "TMPDIR" in environment:
        chosen, variable = environment["TMPDIR"], "TMPDIR"
    else:
        return None
    longest = MOST_BYTES - len(_BELOW)
    if len(os.fsencode(chosen)) <= longest:
        return None
    if variable == "TMPDIR" and os.access(_SHORT, os.W_OK | os.X_OK):
        return f"{_SHORT}/ray"
    raise ConfigurationError(
        f"{variable}={chosen}: is too long for the sockets of Ray's processes. "
        f"Name a folder of at most {longest} bytes: RAY_TMPDIR=/tmp."
    )
