"""Python's collections of garbage, where they take time and find next to nothing."""

import atexit
import gc
from collections.abc import Iterator
from contextlib import contextmanager


def end_quickly() -> None:
    """Leave this process' objects to the system when it ends: Python would look through all of them again and again,
    for 2 s with Ray and torch among them.
    """
    atexit.register(gc.freeze)


@contextmanager
def without_collections() -> Iterator[None]:
    """While a page is built: to look for cycles takes a tenth of that time, and the objects are gone with the page."""
    were_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if were_on:
            gc.enable()
