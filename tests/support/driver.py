"""A study's driver as a real process: started, watched, killed, and what it printed followed."""

import contextlib
import os
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import psutil

from tests.support.suite import ROOT


class Driver:
    """`python experiments/run.py`, in a process group of its own as a shell makes it, with its output in files."""

    def __init__(self, out: Path, *arguments: str, report: bool = False) -> None:
        words = [sys.executable, "experiments/run.py", *arguments, f"output_dir={out}", f"report={report}"]
        self._start(out.with_name(f"{out.name}-{time.monotonic_ns()}"), words)

    @classmethod
    def typed(cls, line: str, log: Path) -> "Driver":
        """As it is typed into a shell."""
        driver = cls.__new__(cls)
        driver._start(log, shlex.split(line))
        return driver

    def _start(self, log: Path, words: Sequence[str]) -> None:
        log.parent.mkdir(parents=True, exist_ok=True)
        self._stdout, self._stderr = log.with_suffix(".out"), log.with_suffix(".err")
        environment = {**os.environ, "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])}
        with self._stdout.open("w") as out, self._stderr.open("w") as err:
            self.process = subprocess.Popen(
                words, cwd=ROOT, env=environment, stdout=out, stderr=err, start_new_session=True
            )

    @property
    def stdout(self) -> str:
        return self._stdout.read_text()

    @property
    def stderr(self) -> str:
        return self._stderr.read_text()

    def until(self, condition: Callable[[], bool]) -> "Driver":
        """Wait, while it runs."""
        give_up = time.monotonic() + 600
        while not condition():
            assert self.process.poll() is None, self.stdout + self.stderr
            assert time.monotonic() < give_up, self.stdout + self.stderr
            time.sleep(0.01)
        return self

    def kill(self) -> None:
        """SIGKILL, to this process alone."""
        self.process.kill()
        self.process.wait()

    def end(self, timeout_s: float = 600) -> int:
        """Its exit code, in the end; nothing that it started is left."""
        below = [psutil.Process(self.process.pid), *psutil.Process(self.process.pid).children(recursive=True)]
        try:
            self.process.wait(timeout_s)
            assert not left_of(below)
        finally:
            print(self.stdout, self.stderr)
            for process in below:
                with contextlib.suppress(psutil.Error):
                    process.kill()
        return self.process.returncode


def left_of(processes: Sequence[psutil.Process]) -> list[psutil.Process]:
    """Those that have not ended by themselves after some seconds."""
    give_up = time.monotonic() + 20
    while (left := [process for process in processes if is_alive(process)]) and time.monotonic() < give_up:
        time.sleep(0.1)
    return left


def is_alive(process: psutil.Process) -> bool:
    """Whether it is still there; Ray's two agents of a node are left out, which look for a lost control store
    for a minute.
    """
    with contextlib.suppress(psutil.NoSuchProcess):
        return process.status() != psutil.STATUS_ZOMBIE and not process.name().startswith(
            ("ray::Dashboard", "ray::RuntimeEnv")
        )
    return False


def printed_command(stdout: str, what: str) -> str:
    """The command that a study printed to be typed: `resume`, or `deliver`."""
    printed = re.search(rf"^{what} +(python \S*experiments/run.py .*)$", stdout, re.MULTILINE)
    assert printed, stdout
    return printed[1]
