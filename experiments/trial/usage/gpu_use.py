"""The load of the GPUs that a process sees."""

import threading
from contextlib import suppress

import torch


class GpuUse:
    """The mean use of the GPUs that this process sees, from samples that a thread takes.

    A GPU says how busy it was in the last second or less. Asked at a report, it would tell of the evaluation before it,
    when it idles.
    """

    def __init__(self, every_s: float = 0.5) -> None:
        self._samples: list[float] = []
        self._closed = threading.Event()
        if torch.cuda.is_available():
            threading.Thread(target=self._sample, args=(every_s,), name="GpuUse", daemon=True).start()

    def _sample(self, every_s: float) -> None:
        # no nvidia-ml-py, or a GPU that does not say it, as a slice of one (MIG): NVML has errors of its own
        with suppress(Exception):
            while not self._closed.wait(every_s):
                gpus = range(torch.cuda.device_count())
                self._samples.append(sum(torch.cuda.utilization(gpu) for gpu in gpus) / len(gpus))

    def take(self) -> float | None:
        """The mean since the last call, in percent; None if there was no sample."""
        taken, self._samples = self._samples, []
        return sum(taken) / len(taken) if taken else None

    def close(self) -> None:
        """End the thread."""
        self._closed.set()
