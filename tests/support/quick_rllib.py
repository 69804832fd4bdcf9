"""What makes plans and trials slow in a process of tests, which has a deep stack and much in memory;
other processes are as they are.
"""

import contextlib
import gc
import inspect
import sys
from collections.abc import Iterator
from types import SimpleNamespace
from unittest import mock

from ray.rllib.connectors import connector_v2


def _two_frames(context: int = 1) -> list[SimpleNamespace]:
    """Of `inspect.stack()`, which looks for the source of each."""
    own = sys._getframe(1)
    return [SimpleNamespace(frame=own), SimpleNamespace(frame=own.f_back)]


@contextlib.contextmanager
def quick_rllib() -> Iterator[None]:
    """Without RLlib's reading of the sources of all callers of a connector (40 ms under pytest; an algorithm has
    twenty), of which `ConnectorV2.__init__` takes the second's frame, and without a trial's freezing of what is there:
    see `pytest_collection_finish`. Plans time environments and networks for a moment that is shorter.
    """
    with (
        mock.patch.object(
            connector_v2, "inspect", SimpleNamespace(stack=_two_frames, getargvalues=inspect.getargvalues)
        ),
        mock.patch("experiments.trial.usage.process_memory.freeze", gc.collect),
        mock.patch("experiments.rllib.probe.PROBE_S", 0.01),
    ):
        yield
