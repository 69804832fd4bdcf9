"""The end of a command's process."""

import atexit
import gc


def end_quickly() -> None:
    """Leave this process' objects to the system when it ends: Python would look through all of them again and again,
    for 2 s with Ray and torch among them.
    """
    atexit.register(gc.freeze)
