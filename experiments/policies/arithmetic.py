"""A process that computes as a trial did."""

import os
import sys

from experiments.config.errors import ConfigurationError
from experiments.limits.arithmetic import PORTABLE, Arithmetic, differences, missing


def start_as(arithmetic: Arithmetic, named: str) -> None:
    """Start this command anew, with the variables that a portable trial had, unless it has them.

    Args:
        arithmetic: How each process of the trial computed: its torch threads, and natively or portably.
        named: The person's words for the policy, for messages.

    Raises:
        ConfigurationError: It has them, and computes otherwise all the same.
    """
    if arithmetic.bits != PORTABLE or not (found := differences()):
        return
    if not missing():
        raise ConfigurationError(f"{named}: bits=portable: {found}.")
    sys.stdout.flush()
    words = [sys.executable, *sys.orig_argv[1:]]
    os.execve(sys.executable, words, {**os.environ, **arithmetic.variables})
