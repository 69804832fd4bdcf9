"""Finished and killed studies that many tests look at, made once for all workers."""

import fcntl
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest
import ray

from experiments.config.schema import HardwareSettings
from experiments.study.cluster.ray_process import start_ray
from tests.support.commands import run_here
from tests.support.driver import Driver, left_of
from tests.support.outputs import SMALL, Killed, is_halfway


def made_once(factory: pytest.TempPathFactory, name: str, make: Callable[[Path], None]) -> Path:
    """A folder that the first worker that needs it makes, and the others wait for."""
    own = factory.getbasetemp()
    folder = (own.parent if "PYTEST_XDIST_WORKER" in os.environ else own) / name
    with folder.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "made").exists():
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            make(folder)
            (folder / "made").touch()
    return folder


def run_to_the_end(out: Path, *words: str, report: bool = False) -> str:
    """What a study says, by the command in the tests' own process."""
    if not ray.is_initialized():
        start_ray(HardwareSettings("test", num_cpus=4, num_gpus=0))
    done = run_here("experiments/run.py", *words, f"output_dir={out}", f"report={report}", with_ray=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="session")
def reference(tmp_path_factory: pytest.TempPathFactory, no_ray_afterwards: None) -> Path:
    """Output of a study that was never touched, to read only."""

    def make(folder: Path) -> None:
        run_to_the_end(folder / "out", *SMALL)

    return made_once(tmp_path_factory, "reference", make) / "out"


@pytest.fixture(scope="session")
def store(tmp_path_factory: pytest.TempPathFactory, no_ray_afterwards: None) -> str:
    """The tracking URI of a real small study that ran each seed twice."""

    def make(folder: Path) -> None:
        run_to_the_end(folder / "out", "study=smoke", "repeats=2")

    return f"sqlite:///{made_once(tmp_path_factory, 'notebooks', make)}/out/mlflow.db"


@pytest.fixture(scope="session")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Killed:
    def make(folder: Path) -> None:
        driver = Driver(folder / "out", *SMALL).until(lambda: is_halfway(folder / "out"))
        below = psutil.Process(driver.process.pid).children(recursive=True)
        driver.kill()
        assert not left_of(below)  # trials write on for a moment
        shutil.copytree(folder / "out", folder / "kept")

    folder = made_once(tmp_path_factory, "killed", make)
    return Killed(folder / "out", folder / "kept")
