"""What is checked before Ray starts."""

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
