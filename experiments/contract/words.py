"""Counts, sizes and times as a person reads them, for both trees."""

from collections.abc import Sequence

LABEL_WIDTH = 12
"""Columns of a terminal's line that say what it is about."""
_LIMITED = {
    "failure_probability": "{:.3g}% of seeds that fail",
    "memory_gib": "{:.3g} GiB of memory",
    "hours": "{:.3g} h of training",
    "cost": "a cost of {:.3g}",
}


def labelled(label: str, text: object) -> str:
    """A line for the terminal whose first columns say what it is about; "" where the line before says it."""
    return f"{label:<{LABEL_WIDTH}}{text}"


def plural(number: float, what: str) -> str:
    """`1 trial`, `2 trials`, `0.5 GPUs`."""
    count = f"{number:g}" if isinstance(number, float) else str(number)
    return f"{count} {what}" + ("" if number == 1 else "s")


def some(words: Sequence[str], most: int) -> str:
    """The first of many words: `a, b and 3 more`."""
    more = len(words) - most
    return ", ".join(words[:most]) + (f" and {more} more" if more > 0 else "")


def amount(cpus: float, gpus: float) -> str:
    """`4 CPUs and 1 GPU`."""
    return f"{plural(cpus, 'CPU')} and {plural(gpus, 'GPU')}"


def limited(name: str, value: float) -> str:
    """What a constraint limits, and how much of it: `20% of seeds that fail`, `4 GiB of memory`.

    Args:
        name: Of `CONSTRAINTS`.
        value: In its unit.
    """
    return _LIMITED[name].format(100 * value if name == "failure_probability" else value)


def mib(size: float) -> str:
    """Bytes as they are shown: `0.8 MiB`, `1.2 GiB`."""
    return f"{size / 2**20:.1f} MiB" if size < 2**30 else f"{size / 2**30:.1f} GiB"


def duration(seconds: float) -> str:
    """`42 s`, `3 min 10 s`, `2 h 5 min`."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


def span(low: float, high: float) -> str:
    """A rough range of seconds, the unit once where both ends have it: `20 to 90 s`, `50 s to 4 min`, `3 to 13 h`; one
    number where they are the same.
    """
    ends = [_rough(seconds) for seconds in (low, high)]
    (first, unit), (last, of_last) = ends
    if ends[0] == ends[1]:
        return f"{last} {of_last}"
    return f"{first} to {last} {unit}" if unit == of_last else f"{first} {unit} to {last} {of_last}"


def rough(seconds: float) -> str:
    """`50 s`, `4 min`, `1.7 h`."""
    return " ".join(_rough(seconds))


def _rough(seconds: float) -> tuple[str, str]:
    """To two digits, one below ten, in the unit that fits."""
    size, unit = next(
        ((size, unit) for limit, size, unit in ((90, 1, "s"), (5400, 60, "min")) if seconds < limit), (3600, "h")
    )
    value = seconds / size
    return (f"{value:.1f}".removesuffix(".0") if unit == "h" and value < 10 else f"{value:,.0f}"), unit
