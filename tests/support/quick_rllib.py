"""What makes plans and trials slow in a process of tests, which has a deep stack and much in memory;
other processes are as they are.
"""

import contextlib
import functools
import gc
import inspect
import sys
from collections.abc import Iterator
from types import SimpleNamespace
from typing import IO, Any
from unittest import mock

import yaml
from omegaconf._utils import get_yaml_loader
from ray.rllib.connectors import connector_v2


def _two_frames(context: int = 1) -> list[SimpleNamespace]:
    """Of `inspect.stack()`, which looks for the source of each."""
    own = sys._getframe(1)
    return [SimpleNamespace(frame=own), SimpleNamespace(frame=own.f_back)]


def _load(file: str | IO[str], Loader: object) -> Any:  # noqa: N803  # as in PyYAML; OmegaConf has one alone
    return _parsed(file if isinstance(file, str) else file.read())


@functools.cache
def _parsed(text: str) -> Any:
    """To read only, as OmegaConf does."""
    return yaml.load(text, Loader=get_yaml_loader())  # a safe one


@contextlib.contextmanager
def quick_rllib() -> Iterator[None]:
    """Without RLlib's reading of the sources of all callers of a connector (40 ms under pytest; an algorithm has
    twenty), of which `ConnectorV2.__init__` takes the second's frame, and without a trial's freezing of what is there:
    see `pytest_collection_finish`. Plans time environments and networks for a moment that is shorter, and the files
    that Hydra reads anew for each, in pure Python, are parsed once.
    """
    with (
        mock.patch.object(
            connector_v2, "inspect", SimpleNamespace(stack=_two_frames, getargvalues=inspect.getargvalues)
        ),
        mock.patch("experiments.trial.usage.process_memory.freeze", gc.collect),
        mock.patch("experiments.rllib.probe.PROBE_S", 0.01),
        mock.patch("omegaconf.omegaconf.yaml", SimpleNamespace(load=_load, dump=yaml.dump)),
    ):
        yield
