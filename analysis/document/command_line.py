"""Command lines of words of the form key=value."""

from collections.abc import Sequence

from analysis import AnalysisError


def help_asked(arguments: Sequence[str]) -> bool:
    """Whether a command line asks what the command does."""
    return not {"-h", "--help", "help"}.isdisjoint(arguments)


def settings_of(arguments: Sequence[str], known: Sequence[str], usage: str) -> dict[str, str]:
    """Words of the form key=value.

    Args:
        arguments: The command line's.
        known: The keys there are.
        usage: Said if a word is not understood.

    Raises:
        AnalysisError: A word is of another form, or its key is unknown.
    """
    found = {}
    for word in arguments:
        key, equals, value = word.partition("=")
        if not equals or key not in known:
            raise AnalysisError(f"{word!r} is not understood. Usage: {usage}")
        found[key] = value
    return found


def words_of(text: str) -> list[str]:
    """The words of a list as it is typed: `[a,b]`, or `a,b`."""
    return [word for part in text.strip("[]").split(",") if (word := part.strip(" '\""))]
