"""Command lines of words of the form key=value."""

import logging
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from analysis import AnalysisError
from analysis.document.standard_streams import keep_streams
from experiments.contract.mlflow_environment import keep_out

REFUSED, INTERRUPTED = 2, 130
"""Exit codes."""


def exit_code_of(
    arguments: Sequence[str], help_text: str, act: Callable[[], int], *refusals: type[Exception], interrupted: str = ""
) -> int:
    """Do what a command line asks for, without what the shell would tell MLflow, and give its exit code.

    Args:
        arguments: The command line's.
        help_text: Printed if it asks what the command does; nothing is done then.
        act: Does it, and gives the exit code.
        *refusals: Exceptions beside `AnalysisError` by which it refuses: their message is the error.
        interrupted: Said at SIGINT.
    """
    keep_streams()
    if help_asked(arguments):
        print(help_text, end="")
        return 0
    logging.basicConfig(level=logging.WARNING, format="%(message)s")
    for line in keep_out():
        print(line, file=sys.stderr)
    refused: tuple[type[Exception], ...] = (AnalysisError, *refusals)
    try:
        return act()
    except refused as error:
        print(f"error: {error}", file=sys.stderr)
        return REFUSED
    except KeyboardInterrupt:
        if interrupted:
            print(interrupted, file=sys.stderr)
        return INTERRUPTED


def help_asked(arguments: Sequence[str]) -> bool:
    """True if a command line asks what the command does."""
    return not {"-h", "--help", "help"}.isdisjoint(arguments)


def settings_of(arguments: Sequence[str], known: Sequence[str], usage: str) -> dict[str, str]:
    """Words of the form key=value.

    Args:
        arguments: The command line's.
        known: The keys there are.
        usage: Said if a word is not understood.

    Raises:
        AnalysisError: A word is of another form, its key is unknown, or its value is empty.
    """
    found = {}
    for word in arguments:
        key, equals, value = word.partition("=")
        if not equals or key not in known:
            raise AnalysisError(f"{word!r} is not understood. Usage: {usage}")
        if not value:
            raise AnalysisError(f"{key}= is empty: give it a value, or leave it out. Usage: {usage}")
        found[key] = value
    return found


def words_of(text: str) -> list[str]:
    """The words of a list as it is typed: `[a,b]`, or `a,b`."""
    return [word for part in text.strip("[]").split(",") if (word := part.strip(" '\""))]


def hydra_value(value: Any) -> str:
    """A value as Hydra reads it back."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list | tuple):
        return f"[{','.join(hydra_value(v) for v in value)}]"
    if isinstance(value, Mapping):
        return "{" + ",".join(f"{k}:{hydra_value(v)}" for k, v in value.items()) + "}"
    return str(value)
