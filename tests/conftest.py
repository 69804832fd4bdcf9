"""Shared by all tests: composing plans without Ray, one Ray instance for the tests that need it, and running the command line."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import hydra
import pytest
import torch

ROOT = Path(__file__).resolve().parent.parent
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # matrices here are small: threads only get into each other's way
os.environ["PYTHONPATH"] = os.pathsep.join(
    [str(ROOT / "tests/support"), str(ROOT), os.environ.get("PYTHONPATH", "")]
)  # Ray's workers find tiny_envs

from experiments.config.compose import check_axes_are_free, composer, split_space  # noqa: E402
from experiments.config.schema import HardwareSettings, parse  # noqa: E402
from experiments.planning.plan import Plan, plan_study  # noqa: E402
from experiments.planning.resources import Cluster, Node  # noqa: E402
from tests.support.commands import run_here  # noqa: E402
from tests.support.suite import PlanOf, RunSuite  # noqa: E402

torch.set_num_threads(1)


@pytest.fixture
def plan_of() -> PlanOf:
    """Command-line overrides to a checked plan, as `run.py` makes it."""

    def plan(*overrides: str, cluster: Cluster | None = None) -> Plan:
        with hydra.initialize_config_dir(str(ROOT / "conf"), version_base="1.3"):
            compose = composer(hydra.compose("config", overrides=split_space(overrides)[0]), overrides)
            check_axes_are_free(compose({}), overrides)
            return plan_study(parse(compose({})), compose, cluster or Cluster((Node(2, 0),)))

    return plan


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

    from experiments.study.driver import start_ray

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

    def run(*arguments: str, with_ray: bool = False) -> subprocess.CompletedProcess[str]:
        output = [] if any(a.startswith(("output_dir=", "--")) for a in arguments) else [f"output_dir={tmp_path / 'out'}"]
        report = [] if any(a.startswith(("report=", "--")) for a in arguments) else ["report=false"]
        return run_here("experiments/run.py", *arguments, *output, *report, with_ray=with_ray)

    return run
