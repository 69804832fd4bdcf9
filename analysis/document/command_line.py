"""Command lines: what all of them ask, and how values are typed."""

from collections.abc import Mapping, Sequence
from typing import Any

REFUSED, INTERRUPTED = 2, 130
"""Exit codes."""


def help_asked(arguments: Sequence[str]) -> bool:
    """True if a command line asks what the command does."""
    return not {"-h", "--help", "help"}.isdisjoint(arguments)


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
