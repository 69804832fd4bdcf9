"""What is checked before Ray starts, and what is said if it does not."""

import pytest

from experiments.config.errors import ConfigurationError
from experiments.config.schema import HardwareSettings
from experiments.planning import machines
from experiments.study import ray_process


def test_gpus_that_torch_cannot_use_are_not_declared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machines, "usable_gpus", lambda: 1)
    monkeypatch.setattr(ray_process.ray, "init", lambda **how: pytest.fail("Ray was started"))
    with pytest.raises(ConfigurationError, match=r"hardware.num_gpus=2: torch can use 1 GPU here.*Try hardware.num_gpus=1"):
        ray_process._start_ray(HardwareSettings("auto", num_cpus=2, num_gpus=2))


@pytest.mark.parametrize(
    ("raised", "said"), [("The current node timed out during startup.", ConfigurationError), ("another", RuntimeError)]
)
def test_a_machine_that_is_too_busy_to_start_ray_is_told_so_in_a_line(
    raised: str, said: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    def init(**how: object) -> None:
        raise RuntimeError(raised)

    monkeypatch.setattr(ray_process.ray, "init", init)
    monkeypatch.setenv(ray_process.START_S, "120")
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "PYTHONHASHSEED", "PYTHONWARNINGS"):
        monkeypatch.setenv(name, "1")  # restored afterwards
    with pytest.raises(said, match=r"Give the command again when they are done|another"):
        ray_process._start_ray(HardwareSettings("auto", num_cpus=1))
