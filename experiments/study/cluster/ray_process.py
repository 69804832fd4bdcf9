"""Starts Ray on this machine, or joins a cluster.

Imported while the rest of a study's driver is not: no torch, no RLlib.
"""

import contextlib
import importlib
import logging
import os
import re
import signal
import site
import socket
import sys
import threading
import time
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import FrameType
from typing import Any

import ray
from ray._private import ray_logging
from ray._private.authentication.authentication_token_generator import generate_new_authentication_token
from ray._private.authentication.authentication_token_setup import (
    AuthenticationTokenLoader,
    maybe_enable_token_auth_if_token_available,
)
from ray.exceptions import AuthenticationError

import experiments
from experiments.config import own_modules
from experiments.config.errors import ConfigurationError
from experiments.config.schema import HardwareSettings
from experiments.contract.words import plural
from experiments.limits import mkl
from experiments.limits.arithmetic import VARIABLES, Arithmetic
from experiments.limits.cpus import usable_cpus
from experiments.planning import machines
from experiments.signals import received_by
from experiments.study.cluster.address import why_not_joined
from experiments.study.cluster.session_folder import session_folder

START_S = "RAY_raylet_start_wait_time_s"
"""Variable by which Ray is told how long it may take to start on this machine."""
PRELOADED = "RAY_preload_python_modules"
"""Ray's setting of the modules that its processes import at their start."""
_MOST_READY = 16
"""Processes, one a CPU, that import what a trial needs before they are given one: of more,
some may never be, at 0.3 GiB each."""

_MKL = f"{mkl.__name__}.{mkl.answer.__name__}"
"""What processes of a joined cluster do at their start, before torch is imported."""
_ROOT, _PACKAGES = Path(experiments.__file__).resolve().parents[1], ("experiments", "analysis", "conf", "science")
"""Where the suite's packages are."""
_replaced: dict[str, str | None] = {}
"""Variables of the shell's that the Ray that runs here was started without, with the values that they had."""
_OF_LOSSES = re.compile("A worker died|has been marked dead|Raylet is terminated")
"""Ray's lines on nodes and processes that are lost, in up to forty lines each: the suite says it in one."""


def start_ray(hardware: HardwareSettings) -> None:
    """Start Ray on this machine, or join the cluster at `hardware.address`.

    Raises:
        ConfigurationError: No cluster answers there, or this machine has not the GPUs that were declared, or is too
            busy to start Ray.
    """
    prepare()
    came: list[int] = []

    def end(number: int, frame: FrameType | None = None) -> None:
        came.append(number)
        raise KeyboardInterrupt if number == signal.SIGINT else SystemExit(128 + number)

    def unraisable(lost: "sys.UnraisableHookArgs") -> None:
        if not (came and isinstance(lost.exc_value, KeyboardInterrupt | SystemExit)):  # which is raised again below
            before(lost)

    before, sys.unraisablehook = sys.unraisablehook, unraisable
    try:
        with received_by(end):
            _start_ray(hardware)  # with a handler of its own for SIGTERM, which exits with the signal's number
    except SystemExit:
        sys.exit(128 + (came[0] if came else signal.SIGTERM))
    finally:
        sys.unraisablehook = before
    if came:  # where an exception is lost: Python drops those that are raised in a callback
        end(came[0])


def start_beside_imports(hardware: HardwareSettings, module: str) -> None:
    """Start Ray, which is mostly waiting for its processes, while another thread imports a module of the suite.

    Raises:
        ConfigurationError: Ray cannot be started or joined, as in `start_ray`.
    """
    thread = threading.Thread(target=_import, args=(module,), name="imports")
    thread.start()
    try:
        start_ray(hardware)
    finally:
        thread.join()


@contextlib.contextmanager
def ending() -> Iterator[None]:
    """End Ray in another thread, which mostly waits for Ray's processes, while this one does what is left to do.

    But not before Ray has left this process: an `ObjectRef` that goes out of scope beside that ends the process with 1,
    often without a word (`EnsureInitialized` in Ray's core_worker_process.cc, called for its `__dealloc__`).
    """
    thread = threading.Thread(target=ray.shutdown, name="end of Ray")
    thread.start()
    while thread.is_alive() and hasattr(ray._private.worker.global_worker, "core_worker"):
        time.sleep(0.01)
    try:
        yield
    finally:
        thread.join()


def _import(module: str) -> None:
    with contextlib.suppress(Exception):  # whoever needs it imports it again, and is told why that fails
        importlib.import_module(module)


def cluster_of(hardware: HardwareSettings) -> machines.Cluster:
    """The machines that a profile is for: the cluster at its address, which is joined, or this machine,
    where Ray is not started yet.

    Raises:
        ConfigurationError: No cluster answers there.
    """
    if hardware.address is None:
        return machines.local_machine(hardware)
    start_ray(hardware)
    return machines.joined_cluster()


def _start_ray(hardware: HardwareSettings) -> None:
    environment = {
        **Arithmetic(hardware.threads_per_process, hardware.bits).variables,  # threads: else Ray sets them by CPUs
        "PYTHONHASHSEED": "0",
        "PYTHONWARNINGS": "ignore::DeprecationWarning,ignore::UserWarning",
    }
    copies = own_modules.folder()
    path = worker_path(os.environ.get("PYTHONPATH"), sys.path)
    is_hidden = path[:1] == [_ROOT]
    is_installed = str(_ROOT) in site.getsitepackages()
    if hardware.address is None and not is_hidden and not is_installed:  # what is may be another clone
        path = [_ROOT, *path]
    if path and (copies or path[0] == _ROOT):
        environment["PYTHONPATH"] = os.pathsep.join(map(str, path))
    # Ray puts the working directory first on its workers' path. There they find the modules
    # that were copied at the start.
    where = contextlib.chdir(copies or (_ROOT if is_hidden else Path.cwd()))
    common: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR}
    if hardware.address is None:
        if hardware.num_gpus and hardware.num_gpus > (there := machines.usable_gpus()):
            raise ConfigurationError(
                f"hardware.num_gpus={hardware.num_gpus}: torch can use {plural(there, 'GPU')} here. "
                f"GPUs cannot be declared as logical CPUs can. Try hardware.num_gpus={there}."
            )
        machine = machines.local_machine(hardware)
        num_cpus = int(machine.num_cpus)
        environment[PRELOADED] = experiments.__name__  # which has something to do before torch is imported
        if num_cpus > usable_cpus().usable:
            # else a process for each CPU that was declared, at once
            environment["RAY_prestart_worker_first_driver"] = "0"
        elif num_cpus <= _MOST_READY:
            # in the processes that Ray starts, while the plan is made
            environment[PRELOADED] = "experiments.trial.ready"
            # where trials wait for nothing but a process, there is one
            environment["RAY_idle_worker_killing_time_threshold_ms"] = "60000"
        os.environ.pop(PRELOADED, None)
        _give_back()
        _replaced.update({name: os.environ.get(name) for name in VARIABLES if name in environment})
        os.environ.update(environment | _token())  # inherited by Ray's processes
        try:
            with where:
                ray.init(
                    address="local",  # never join a cluster that happens to run here: its size was not checked
                    num_cpus=num_cpus,
                    num_gpus=int(machine.num_gpus),  # not what Ray finds: torch may not be able to use it
                    _memory=int(machine.memory),
                    include_dashboard=False,
                    _temp_dir=session_folder(),
                    **common,
                )
        except Exception as error:
            if "timed out during startup" not in str(error):  # Ray has no class for it (ray/_private/node.py)
                raise
            raise ConfigurationError(
                f"Ray's processes did not start on this machine in {os.environ[START_S]} s ({START_S}): "
                "other programs keep it busy. Give the command again when they are done."
            ) from None
        return
    _check_address(hardware.address)
    own_modules.check_sent()
    # Clusters ask for a token by default, and `ray start` leaves it in ~/.ray; ray.init() looks for it only
    # when it starts Ray itself.
    maybe_enable_token_auth_if_token_available(warn_if_disabled=False)
    try:
        # The cluster's other nodes need not have the suite installed, only Ray and what it trains with.
        shipped = (
            _ROOT / "experiments",
            *filter(Path.is_dir, (_ROOT / "analysis", _ROOT / "science")),
            *own_modules.copies(),
        )
        modules = [str(path) for path in shipped]
        if mkl.VARIABLE in os.environ:
            environment.setdefault(mkl.VARIABLE, os.environ[mkl.VARIABLE])
        with where:
            runtime_env = {"env_vars": environment, "py_modules": modules, "worker_process_setup_hook": _MKL}
            ray.init(address=hardware.address, runtime_env=runtime_env, **common)
    except (ConnectionError, TimeoutError, RuntimeError, ValueError, AuthenticationError) as error:
        raise ConfigurationError(f"hardware.address={hardware.address}: {why_not_joined(error)}") from None


def _give_back() -> None:
    """Give the shell's variables back that a Ray that ran here before was started without."""
    while _replaced:
        name, value = _replaced.popitem()
        os.environ.pop(name, None)
        os.environ.update({} if value is None else {name: value})


def _token() -> dict[str, str]:
    """Ray's token, as a variable, where there is none and no home to keep one in, as for a container's own user."""
    loader = AuthenticationTokenLoader.instance()
    loader.reset_cache()
    if loader.has_token(ignore_auth_mode=True):
        return {}
    try:
        folder = Path.home() / ".ray"
        folder.mkdir(parents=True, exist_ok=True)
        is_writable = os.access(folder, os.W_OK)
    except (OSError, RuntimeError):  # of a user that the system does not know there is no home
        is_writable = False
    return {} if is_writable else {"RAY_AUTH_TOKEN": generate_new_authentication_token()}


def worker_path(pythonpath: str | None, own: Sequence[str]) -> list[Path]:
    """PYTHONPATH of the processes of trials, entries as absolute paths, first the suite's folder
    where another has its packages' names.

    Args:
        pythonpath: The variable in the driver's environment; None without one. Relative entries are of the folder
            where the command was typed.
        own: What the driver itself imports from, its `sys.path`.
    """
    entries = [] if not pythonpath else [Path(entry).absolute() for entry in pythonpath.split(os.pathsep)]
    given, here = [entry for entry in entries if entry != _ROOT], Path.cwd()
    if not any((folder / name).is_dir() for folder in (here, *given) if folder != _ROOT for name in _PACKAGES):
        return given
    in_reach = {"", str(here)} & {*own}
    return [_ROOT, *given, *([here] if in_reach and here not in given else [])]


def _check_address(address: str) -> None:
    """Make sure that something listens at `host:port`: Ray would try for minutes.

    Raises:
        ConfigurationError: Nothing does.
    """
    host, _, port = address.rpartition(":")
    if not port.isdigit():  # auto
        return
    try:
        socket.create_connection((host, int(port)), timeout=5).close()
    except OSError as error:
        raise ConfigurationError(
            f"hardware.address={address}: no Ray cluster answers there ({error}). Start one with `ray start --head`, "
            "or run on this machine: hardware.address=local."
        ) from None


def prepare() -> None:
    """Set this process up for Ray: what a user can do nothing about is kept from the terminal; errors still pass.

    Raises:
        ConfigurationError: This Python leaves out docstrings, without which Ray cannot be imported.
    """
    if sys.flags.optimize > 1:
        raise ConfigurationError(
            f"PYTHONOPTIMIZE={sys.flags.optimize} (python -OO): Ray needs the docstrings that it leaves out. "
            "Unset it, or set it to 1."
        )
    warnings.filterwarnings("ignore", category=DeprecationWarning)
    warnings.filterwarnings("ignore", module="gymnasium")
    for name in ("ray", "ray.rllib", "ray.tune", "ray.train", "gymnasium", "mujoco", "mlflow", "alembic"):
        logging.getLogger(name).setLevel(logging.ERROR)
    # failed trials are reported by the suite, with their cause
    logging.getLogger("ray.tune").setLevel(logging.CRITICAL)
    ray_logging.stdout_deduplicator.skip_re = _OF_LOSSES  # and so is this; the raylet's lines know no other switch
    os.environ.setdefault(START_S, "120")  # for its node process: 30 s are too short on a machine with much else to do
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # nothing is sent anywhere unless the user asks
    os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
    os.environ.setdefault("TUNE_DISABLE_AUTO_CALLBACK_LOGGERS", "1")
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    os.environ.setdefault("TUNE_PRINT_ALL_TRIAL_ERRORS", "0")
    # Tune's own snapshots, of all trials every time: a resume has their logs
    os.environ.setdefault("TUNE_GLOBAL_CHECKPOINT_S", "inf")
    os.environ.setdefault("RAY_AIR_NEW_OUTPUT", "0")  # Tune's tables; the old output is silent at verbosity 0
