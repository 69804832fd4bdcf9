"""The one exception for wrong input: its message is all that a person sees."""

INVALID = 2
"""Exit code: nothing was started."""


class ConfigurationError(ValueError):
    """Something the user asked for cannot be done; the message names the key and the fix.

    Raised before anything is started. `experiments/run.py` prints the message and exits with code 2.
    """


def first_line(error: BaseException) -> str:
    """The first line of an error's message that says anything."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return (lines[0] if lines else type(error).__name__)[:500]


def reason_of(error: BaseException) -> str:
    """An error's class and the first line of its message."""
    return f"{type(error).__name__}: {first_line(error)}"


def root_cause(error: BaseException) -> BaseException:
    """The cause of an error of the network or the database: `Connection refused` and not a page around it."""
    while (deeper := error.__cause__ or error.__context__) is not None:
        error = deeper
    return error
