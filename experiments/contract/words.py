"""Counts in words, for both trees."""


def plural(number: float, what: str) -> str:
    """`1 trial`, `2 trials`, `0.5 GPUs`."""
    count = f"{number:g}" if isinstance(number, float) else str(number)
    return f"{count} {what}" + ("" if number == 1 else "s")
