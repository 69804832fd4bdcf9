"""The use of a GPU, as one that is not there says it."""

import sys
import threading
import time
from collections.abc import Callable

import psutil
import pytest
import torch

from experiments.trial.usage.gpu_use import GpuUse
from experiments.trial.usage.resource_usage import ProcessMonitor, waiting_seconds


class NVMLError(Exception):
    """As NVML's: no RuntimeError."""


def fails(gpu: int) -> int:
    raise NVMLError("Not Supported")


@pytest.fixture
def gpus(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[int], float]], None]:
    def pretend(utilization: Callable[[int], float]) -> None:
        monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
        monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
        monkeypatch.setattr(torch.cuda, "utilization", utilization)

    return pretend


def threads() -> int:
    return sum(thread.name == "GpuUse" for thread in threading.enumerate())


def wait_until(is_so: Callable[[], bool]) -> None:
    for _ in range(500):
        if is_so():
            return
        time.sleep(0.01)
    pytest.fail("it did not come true")


def test_the_mean_over_the_time_and_the_gpus_is_told(gpus: Callable[..., None]) -> None:
    loads = iter([80, 100, 10, 10, *[0] * 10_000])  # a report asks when the GPU idles
    gpus(lambda gpu: next(loads))
    use = GpuUse(every_s=0.01)
    wait_until(lambda: len(use._samples) >= 4)
    use.close()
    wait_until(lambda: not threads())
    assert use._samples[:2] == [90, 10]
    samples = len(use._samples)
    assert use.take() == 100 / samples
    assert use.take() is None


def test_a_gpu_that_does_not_tell_its_use_fails_no_trial(gpus: Callable[..., None]) -> None:
    gpus(fails)
    use = GpuUse(every_s=0.01)
    wait_until(lambda: not threads())
    assert use.take() is None


def test_a_machine_without_gpus_has_no_thread_and_no_value() -> None:
    monitor = ProcessMonitor({"driver": []})
    if not torch.cuda.is_available():
        assert threads() == 0
        assert "system/gpu_percent" not in monitor.metrics()
    monitor.close()


def test_seconds_of_waiting_for_a_cpu_are_read_from_the_kernels_file() -> None:
    pressure = (
        "some avg10=93.60 avg60=92.98 avg300=81.32 total=22160575954\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=0\n"
    )
    assert waiting_seconds(pressure) == pytest.approx(22160.575954)
    assert waiting_seconds("") is None  # a kernel that does not tell


@pytest.mark.skipif(sys.platform != "linux", reason="other kernels do not tell")
@pytest.mark.parametrize(("stolen", "percent"), [((0.0, 0.0), None), ((5.0, 7.0), 200)])
def test_stolen_cpu_time_is_told_where_there_is_some(
    monkeypatch: pytest.MonkeyPatch, stolen: tuple[float, ...], percent: float | None
) -> None:
    times, clock = iter([psutil.cpu_times()._replace(steal=seconds) for seconds in stolen]), iter([10.0, 11.0])
    monkeypatch.setattr(psutil, "cpu_times", lambda: next(times))
    monkeypatch.setattr("experiments.trial.usage.resource_usage.perf_counter", lambda: next(clock))
    assert ProcessMonitor({"driver": []}).metrics().get("system/stolen_cpu_percent") == percent
