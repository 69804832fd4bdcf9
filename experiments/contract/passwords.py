"""Addresses as they may be shown. Standard library only."""

import re


def without_passwords(text: str) -> str:
    """The text with *** in place of the user and password of each address in it: a token may be either."""
    return re.sub(r"://[^/\s]+@", "://***@", text)
