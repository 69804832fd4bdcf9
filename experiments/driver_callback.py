"""Callbacks of Tune that live in the driver alone."""

from typing import Any

from ray.tune import Callback


class DriverCallback(Callback):  # type: ignore[misc]  # Tune ships no type information
    """A callback with threads and open terminals, which Tune's pickle of the whole Tuner must leave out."""

    def __reduce__(self) -> tuple[Any, tuple[()]]:
        return Callback, ()
