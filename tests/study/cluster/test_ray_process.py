"""What is checked before Ray starts, what its processes are told, and what is said if they do not start."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from experiments.config.errors import ConfigurationError
from experiments.config.schema import HardwareSettings
from experiments.limits.arithmetic import NATIVE, PORTABLE, VARIABLES
from experiments.limits.cpus import Cpus
from experiments.planning import machines
from experiments.study.cluster import ray_process
from experiments.trial import ready as ready_module
from experiments.trial.ready import IS_LIGHT
from tests.support.suite import ROOT


def test_gpus_that_torch_cannot_use_are_not_declared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machines, "usable_gpus", lambda: 1)
    monkeypatch.setattr(ray_process.ray, "init", lambda **how: pytest.fail("Ray was started"))
    with pytest.raises(
        ConfigurationError, match=r"hardware.num_gpus=2: torch can use 1 GPU here.*Try hardware.num_gpus=1"
    ):
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


@pytest.mark.parametrize(("cores", "cpus", "ready"), [(2, 2, True), (16, 16, True), (64, 64, False), (2, 4, False)])
def test_rays_processes_get_ready_for_trials_where_there_are_few_and_each_has_a_core(
    monkeypatch: pytest.MonkeyPatch, cores: int, cpus: int, ready: bool
) -> None:
    told: dict[str, str] = {}
    monkeypatch.setattr(os, "environ", dict(os.environ))
    monkeypatch.setattr(ray_process, "usable_cpus", lambda: Cpus(cores, cores))
    monkeypatch.setattr(ray_process.ray, "init", lambda **how: told.update(os.environ))
    for _ in range(2):  # nothing is left of an earlier start
        monkeypatch.setitem(os.environ, ray_process.PRELOADED, "of.an.earlier.start")
        ray_process._start_ray(HardwareSettings("auto", num_cpus=cpus))
        assert (told.pop(ray_process.PRELOADED, None) == ready_module.__name__) == ready


def test_what_the_shell_says_of_arithmetic_stands_again_after_a_portable_study(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[dict[str, str]] = []
    shells = {name: value for name, value in os.environ.items() if name not in VARIABLES} | {"MKL_CBWR": "COMPATIBLE"}
    monkeypatch.setattr(os, "environ", dict(shells))
    monkeypatch.setattr(ray_process.ray, "init", lambda **how: told.append(dict(os.environ)))
    for bits in (PORTABLE, NATIVE, PORTABLE, NATIVE):
        ray_process._start_ray(HardwareSettings("auto", num_cpus=1, bits=bits))
    for portable, native in (told[:2], told[2:]):
        assert portable.items() >= VARIABLES.items()
        assert {name: native.get(name) for name in VARIABLES} == {name: shells.get(name) for name in VARIABLES}


def test_trials_import_the_suite_and_not_a_folder_of_its_name_where_the_command_was_typed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(ray_process.own_modules, "folder", lambda: None)  # of another test's study
    (tmp_path / "lib").mkdir()
    assert ray_process.worker_path(None, ["", "/elsewhere"]) == []
    assert ray_process.worker_path("lib", [""]) == [tmp_path / "lib"]
    where = []
    monkeypatch.setattr(os, "environ", {**os.environ, "PYTHONPATH": "lib"})
    monkeypatch.setattr(ray_process.ray, "init", lambda **how: where.append((Path.cwd(), os.environ["PYTHONPATH"])))
    ray_process._start_ray(HardwareSettings("auto", num_cpus=1))
    (tmp_path / "lib" / "analysis").mkdir()
    ray_process._start_ray(HardwareSettings("auto", num_cpus=1))
    (tmp_path / "experiments").mkdir()
    # what a notebook imports, trials can
    assert ray_process.worker_path("lib", ["", "/elsewhere"]) == [ROOT, tmp_path / "lib", tmp_path]
    assert where == [(folder, f"{ROOT}{os.pathsep}{tmp_path / 'lib'}") for folder in (tmp_path, ROOT)]
    assert ray_process.worker_path(str(ROOT), [str(ROOT)])[0] == ROOT


def test_a_light_process_does_not_import_what_trials_need() -> None:
    code = (
        "import sys, experiments.trial.ready; sys.exit('experiments.trial.trainable' in sys.modules "
        "or 'torch' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], env={**os.environ, IS_LIGHT: "1"}, check=True)


OUTLIVED = """
import time
import ray
from experiments.study.cluster.ray_process import ending

ray.init("local", num_cpus=1, include_dashboard=False, log_to_driver=False)
references = [ray.put(number) for number in range(1000)]
with ending():
    while references:
        references.pop()
        time.sleep(0.001)
print("the end")
"""


@pytest.mark.ray
@pytest.mark.slow
def test_what_still_refers_to_rays_objects_can_go_out_of_scope_while_ray_ends() -> None:
    done = subprocess.run([sys.executable, "-c", OUTLIVED], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "the end\n"), done.stderr


@pytest.mark.parametrize(
    ("has_token", "home", "made"), [(True, "gone", False), (False, "there", False), (False, "gone", True)]
)
def test_ray_gets_its_token_without_a_home(
    has_token: bool, home: str, made: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    loader = SimpleNamespace(reset_cache=lambda: None, has_token=lambda ignore_auth_mode: has_token)
    monkeypatch.setattr(ray_process, "AuthenticationTokenLoader", SimpleNamespace(instance=lambda: loader))
    (tmp_path / "there").mkdir()
    (tmp_path / "gone").touch()  # a file, in which nothing can be kept
    monkeypatch.setenv("HOME", str(tmp_path / home))
    assert bool(ray_process._token()) == made


@pytest.mark.parametrize(
    "words",
    [
        ("run.py", "study=smoke", "dry_run=true"),
        ("autotune.py", "algorithm=ppo", "env=cartpole", "--config-dir={folder}"),  # the clone may be read-only
        ("evaluate.py", f"run={'0' * 32}"),
        ("delete.py", "study=any"),
    ],
    ids=lambda words: words[0],
)
def test_a_python_without_docstrings_is_refused(words: tuple[str, ...], tmp_path: Path) -> None:
    asked = [sys.executable, "-OO", f"experiments/{words[0]}", *words[1:], "output_dir={folder}"]
    asked = [word.format(folder=tmp_path) for word in asked]
    refused = subprocess.run(asked, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert refused.returncode == 2
    assert "Ray needs the docstrings that it leaves out. Unset it" in refused.stderr


def test_a_signal_whose_exception_python_drops_still_ends_ray_and_is_not_printed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Interrupted:
        def __del__(self) -> None:  # as in what is called after a fork: an exception is printed and lost
            signal.raise_signal(signal.SIGINT)

    class Broken:
        def __del__(self) -> None:
            raise ValueError("of somebody else")

    monkeypatch.setattr(ray_process, "_start_ray", lambda hardware: [Interrupted(), Broken()].clear())
    told: list[type[BaseException] | None] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda lost: told.append(lost.exc_type))
    before = sys.unraisablehook, signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        ray_process.start_ray(HardwareSettings("test", num_cpus=1, num_gpus=0))
    assert (sys.unraisablehook, signal.getsignal(signal.SIGINT)) == before
    assert told == [ValueError]
