"""Shared by all tests: composing plans without Ray, one Ray instance for the tests that need it,
and running the command line.
"""

import gc
import importlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.support.suite import ROOT, PlanOf, RunSuite

if TYPE_CHECKING:
    from experiments.config.trial_config import TrialConfig
    from tests.support.trials import Make

_OF_THE_SHELL = (
    *("MLFLOW_", "RAY_", "TUNE_", "RLLIB_", "HYDRA_", "OMP_", "MKL_", "MPL", "XDG_", "RL_SCALING_", "SLURM_", "CUDA_"),
    *(
        "COLUMNS",
        "LINES",
        "FORCE_COLOR",
        "NO_COLOR",
        "LC_",
        "TZ",
        "PYTHONHASHSEED",
        "PYTHONIOENCODING",
        "PYTHONOPTIMIZE",
        "PYTHONUTF8",
    ),
)
"""How variables begin that a person may have set, and that no test may depend on."""
for name in [name for name in os.environ if name.startswith(_OF_THE_SHELL)]:
    del os.environ[name]
signal.signal(signal.SIGHUP, signal.SIG_DFL)  # which is ignored under nohup
importlib.import_module("experiments")  # before a test imports torch: experiments/limits/mkl.py
os.environ["OPENBLAS_NUM_THREADS"] = "1"  # matrices here are small: threads only get into each other's way
if "PYTEST_XDIST_WORKER" not in os.environ:  # nor what there is at home; workers share one
    os.environ["HOME"] = tempfile.mkdtemp(prefix="home-of-tests-")
os.environ["PYTHONPATH"] = os.pathsep.join(
    [str(ROOT / "tests/support"), str(ROOT), os.environ.get("PYTHONPATH", "")]
)  # Ray's workers find tiny_envs


def pytest_unconfigure() -> None:
    """At the end. Only the process that hands the tests out made the home."""
    if "PYTEST_XDIST_WORKER" not in os.environ:
        shutil.rmtree(os.environ["HOME"], ignore_errors=True)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """What the bits that were found are those of."""
    from experiments.limits.processor import this_processor

    processor = this_processor()
    terminalreporter.write_line(
        f"on {processor.name}: {processor.vendor} {processor.family} {processor.model}, "
        f"{' '.join(processor.vector_instructions)}"
    )


def pytest_collection_finish(session: pytest.Session) -> None:
    """Before the first test.

    The suite is imported with the tests, and not here: the process that hands the tests out needs none of it.
    """
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(1)
    gc.collect()
    gc.freeze()  # modules and tests, which stay: a full collection took 0.3 s


@pytest.fixture(scope="session", autouse=True)
def quick() -> Iterator[None]:
    """Plans and trials in the tests' own process are made quickly."""
    from tests.support.quick_rllib import quick_rllib

    with quick_rllib():
        yield


@pytest.fixture
def plan_of() -> PlanOf:
    """Command-line overrides to a checked plan."""
    from tests.support.planning import plan_for

    return plan_for


@pytest.fixture(scope="session")
def no_ray_afterwards() -> Iterator[None]:
    """Stops Ray at the end of the tests."""
    import ray

    yield
    ray.shutdown()


@pytest.fixture
def ray_instance(no_ray_afterwards: None) -> None:
    """One Ray instance for all tests that need one; another one after a test that runs a command, which stops it."""
    import ray

    from experiments.config.schema import HardwareSettings
    from experiments.study.cluster.ray_process import start_ray

    if not ray.is_initialized():
        start_ray(HardwareSettings("test", num_cpus=4, num_gpus=0))


@pytest.fixture
def run_suite(tmp_path: Path) -> RunSuite:
    """Runs `python experiments/run.py` with its output under tmp_path."""

    def run(*arguments: str, timeout_s: float = 240) -> subprocess.CompletedProcess[str]:
        output = [] if any(a.startswith("output_dir=") for a in arguments) else [f"output_dir={tmp_path / 'out'}"]
        report = [] if any(a.startswith("report=") for a in arguments) else ["report=false"]  # it takes seconds
        command = [sys.executable, "experiments/run.py", *arguments, *output, *report]
        return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=timeout_s, check=False)

    return run


@pytest.fixture
def suite_here(tmp_path: Path) -> RunSuite:
    """As `run_suite`, in the test's own process: seconds less, for what needs no process of its own."""
    from tests.support.commands import run_here

    def run(*arguments: str, with_ray: bool = False) -> subprocess.CompletedProcess[str]:
        asks = any(a.startswith("--") and not a.startswith("--config-dir") for a in arguments)  # as --help
        output = (
            [] if asks or any(a.startswith("output_dir=") for a in arguments) else [f"output_dir={tmp_path / 'out'}"]
        )
        report = [] if asks or any(a.startswith("report=") for a in arguments) else ["report=false"]
        return run_here("experiments/run.py", *arguments, *output, *report, with_ray=with_ray)

    return run


@pytest.fixture
def make(tmp_path: Path) -> "Iterator[Make]":
    """Makes trials in the test's own process, and cleans them up."""
    from experiments.trial.trainable import Trial
    from experiments.trial.tune_keys import MEASURE_SYSTEM
    from tests.support.trials import with_folder

    started: list[Trial] = []

    def start(config: "TrialConfig", system: bool = False, folder: Path | None = None) -> Trial:
        folder = folder or tmp_path / f"trial-{len(started)}"
        started.append(Trial({**with_folder(config, folder), MEASURE_SYSTEM: system}))
        return started[-1]

    yield start
    for trial in started:
        trial.cleanup()
