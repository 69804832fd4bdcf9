"""The events of a study's trials to TensorBoard's files."""

import socket
import struct
import time
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

from tensorboardX.proto import event_pb2, summary_pb2
from tensorboardX.record_writer import masked_crc32c

from experiments.config.trial_config import TrialConfig
from experiments.trial.events import Ended, Event, Reported


class TensorBoardListener:
    """A folder of TensorBoard's for each trial that reports in this execution of the study; over env steps.

    Written at once, without tensorboardX's thread: where a disk takes no more, that thread ends, and whoever writes
    waits for it for ever. And without its writer, which waits for the disk after each event.
    """

    def __init__(self, folder: Path) -> None:
        """Write below `folder`."""
        self._folder = folder
        self._files: dict[str, BinaryIO] = {}
        self._last: dict[str, tuple[int, bool]] = {}

    def on_event(self, trial: TrialConfig, event: Event) -> None:
        """Write a report's metrics, and the final ones. What a full disk does not take is lost: MLflow has it."""
        if not isinstance(event, Reported | Ended):
            return
        name, at = trial.folder_name, (event.env_steps, isinstance(event, Ended))
        if at <= self._last.get(name, (0, False)):
            return
        self._last[name] = at
        try:
            self._write(name, event)
        except OSError:  # the next report begins a new file: this one may end in half a record
            self._close(name)
        if isinstance(event, Ended):
            self._close(name)

    def _write(self, name: str, event: Reported | Ended) -> None:
        if name not in self._files:
            (self._folder / name).mkdir(parents=True, exist_ok=True)
            named = f"events.out.tfevents.{int(time.time())}.{socket.gethostname()}.{time.monotonic_ns()}"
            self._files[name] = (self._folder / name / named).open("wb")
            self._files[name].write(_record(event_pb2.Event(wall_time=time.time(), file_version="brain.Event:2")))
        values = [summary_pb2.Summary.Value(tag=metric, simple_value=value) for metric, value in event.metrics.items()]
        summary = summary_pb2.Summary(value=values)
        self._files[name].write(
            _record(event_pb2.Event(wall_time=event.at_ms / 1000, step=event.env_steps, summary=summary))
        )
        self._files[name].flush()

    def _close(self, name: str) -> None:
        if name in self._files:
            with suppress(OSError):
                self._files.pop(name).close()


def _record(event: event_pb2.Event) -> bytes:
    """An event as its files hold it: size, event, and the checksum of each (tensorboardX/record_writer.py)."""
    data: bytes = event.SerializeToString()
    size = struct.pack("<Q", len(data))
    return size + struct.pack("<I", masked_crc32c(size)) + data + struct.pack("<I", masked_crc32c(data))
