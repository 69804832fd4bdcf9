"""The suite's commands in the test's own process: all that `python experiments/run.py` does,
without a new interpreter and its imports.
"""

import contextlib
import importlib
import io
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

import ray
from hydra.core.global_hydra import GlobalHydra
from mlflow.store.model_registry.sqlalchemy_store import SqlAlchemyStore as ModelsStore
from mlflow.store.tracking.sqlalchemy_store import SqlAlchemyStore as RunsStore

from experiments.study.cluster import ray_process
from tests.support.suite import ROOT


def type_here(line: str) -> subprocess.CompletedProcess[str]:
    """Run a command line of the suite as a shell would, with the tests' own Ray instance."""
    _, script, *arguments = shlex.split(line)
    return run_here(script.removeprefix(f"{ROOT}/"), *arguments, with_ray=True)


def _exit_code(main: Callable[[], object]) -> int:
    try:
        returned = main()
    except SystemExit as ended:
        returned = ended.code
    assert returned is None or isinstance(returned, int)
    return returned or 0


def _main_of(module: str) -> Callable[[], object]:
    return lambda: importlib.import_module(module).main(sys.argv[1:])


_OTHERS = (
    *(f"experiments.{name}" for name in ("run", "reproduce", "autotune", "evaluate", "list", "delete")),
    *(f"analysis.{name}" for name in ("report", "plan", "forecast", "sensitivity", "transfer")),
)
_MAINS: dict[str, Callable[[], object]] = {f"{module.replace('.', '/')}.py": _main_of(module) for module in _OTHERS}


def run_here(script: str, *arguments: str, with_ray: bool = False) -> subprocess.CompletedProcess[str]:
    """Run a command as `python <script> <arguments>` does.

    Args:
        script: One of the suite's commands.
        arguments: Its command line.
        with_ray: Whether it may run trials, on the Ray instance of the tests. Otherwise a start of Ray fails the test.
    """
    command, out, err = [sys.executable, script, *arguments], io.StringIO(), io.StringIO()
    with _kept_process(command[1:], with_ray), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = _exit_code(_MAINS[script])
    return subprocess.CompletedProcess(command, code, out.getvalue(), err.getvalue())


@contextlib.contextmanager
def _kept_process(argv: list[str], with_ray: bool) -> Iterator[None]:
    """What a command changes of its process is undone, and Ray stays as it is."""

    def start(*_: object, **__: object) -> None:
        raise AssertionError("Ray was started")

    assert ray.is_initialized() or not with_ray
    composing = GlobalHydra.instance().hydra
    GlobalHydra.instance().clear()
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    with (
        mock.patch.object(sys, "argv", argv),
        mock.patch.dict(os.environ),
        mock.patch.object(ray_process, "start_beside_imports"),  # it may: the plan is not known yet
        mock.patch.object(ray, "init", start),
        mock.patch.object(ray, "shutdown"),
        contextlib.chdir(ROOT),
    ):
        try:
            yield
        finally:
            GlobalHydra.instance().hydra = composing  # another instance than before, once Hydra has composed
            for number, handler in handlers.items():
                signal.signal(number, handler)
            _close_stores()


def _close_stores() -> None:
    """Close MLflow's connections, as the end of a process does.

    SQLite's locks are the process's: once it has copied the file of a store to which it still has a connection,
    another worker takes itself to be alone with the store and removes its log (sqlite.org/howtocorrupt.html, 2.2).
    """
    for store in (RunsStore, ModelsStore):
        for engine in store._engine_map.values():
            engine.dispose()


def assert_refused(main: Callable[[list[str]], int], arguments: list[str], message: str, capsys: Any) -> None:
    """Make sure that a command refuses its arguments in one line, which has a message."""
    assert main(arguments) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert message in said.err
    assert said.err.count("\n") == 1
