"""Slurm on two nodes of this machine (see `two_nodes`), each with its own network, processes and host name."""

import contextlib
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.suite import ROOT
from tests.support.two_nodes import HEAD, HEAD_ADDRESS, SECOND, SECOND_ADDRESS, Machine, TwoNodes, linked_machines

_PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch")
_CPUS = 2
# What a daemon keeps is in a memory file system of each node's own. Processes are followed by their parents:
# there are no cgroups here.
_CONFIGURATION = f"""
ClusterName=tests
SlurmctldHost={HEAD}({HEAD_ADDRESS})
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket=/mnt/munge.socket
CryptoType=crypto/munge
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
MpiDefault=none
ReturnToService=2
StateSaveLocation=/mnt/slurmctld
SlurmdSpoolDir=/mnt/slurmd
SlurmctldPidFile=/mnt/slurmctld.pid
SlurmdPidFile=/mnt/slurmd.pid
NodeName={HEAD} NodeAddr={HEAD_ADDRESS} CPUs={_CPUS}
NodeName={SECOND} NodeAddr={SECOND_ADDRESS} CPUs={_CPUS}
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""


class Slurm:
    """A Slurm cluster of two nodes."""

    def __init__(self, nodes: TwoNodes, folder: Path) -> None:
        self._nodes, self._folder = nodes, folder
        # The first node has this machine's /tmp, where other Rays may have their files.
        self._environment = {"SLURM_CONF": str(folder / "slurm.conf"), "RAY_TMPDIR": "/mnt"}
        (folder / "slurm.conf").write_text(_CONFIGURATION)
        (folder / "cgroup.conf").write_text("CgroupPlugin=cgroup/v1\nCgroupAutomount=no\n")
        (folder / "hosts").write_text(f"127.0.0.1 localhost\n{HEAD_ADDRESS} {HEAD}\n{SECOND_ADDRESS} {SECOND}\n")
        key = folder / "munge.key"
        key.write_bytes(bytes(range(256)) * 4)  # of no use to anybody outside these two networks
        key.chmod(0o600)
        for machine in (nodes.head, nodes.second):
            machine.run("mount", "--bind", str(folder / "hosts"), "/etc/hosts")
            machine.run("mkdir", "/mnt/slurmctld", "/mnt/slurmd")
            machine.run("chmod", "755", "/mnt")
            files = (
                "--socket=/mnt/munge.socket",
                "--pid-file=/mnt/munge.pid",
                "--seed-file=/mnt/munge.seed",
                "--log-file=/mnt/munge.log",
            )
            self._start(machine, "munged", "--foreground", "--force", f"--key-file={key}", *files)
        self._start(nodes.head, "slurmctld", "-D")
        for machine in (nodes.head, nodes.second):
            self._start(machine, "slurmd", "-D")
        self.wait_for(lambda: self.command("sinfo", "--noheader", "--format=%T %D") == "idle 2", timeout_s=120)

    def command(self, *words: str) -> str:
        """What one of Slurm's commands prints on the first node."""
        command = self._nodes.head.command(words, **self._environment)
        return subprocess.run(command, check=True, capture_output=True, text=True, timeout=60).stdout.strip()

    def submit(self, *words: str) -> str:
        """`sbatch` with these words; the job's number."""
        return self.command("sbatch", "--parsable", f"--output={self._folder}/job-%j.out", *words)

    def state(self, job: str) -> str:
        """Of a job: RUNNING, COMPLETED, ..."""
        shown = self.command("scontrol", "--oneliner", "show", "job", job)
        return next(word.partition("=")[2] for word in shown.split() if word.startswith("JobState="))

    def output(self, job: str) -> str:
        """What a job printed."""
        file = self._folder / f"job-{job}.out"
        return file.read_text() if file.exists() else ""

    def _start(self, machine: Machine, *words: str) -> None:
        with (self._folder / f"{words[0]}.log").open("a") as log:
            subprocess.Popen(machine.command(words, **self._environment), stdout=log, stderr=log)

    def wait_for(self, condition: Callable[[], bool], timeout_s: float) -> None:
        """Wait; with what the daemons and the jobs said if it takes too long."""
        give_up = time.monotonic() + timeout_s
        while True:
            with contextlib.suppress(subprocess.CalledProcessError):  # a daemon is not there yet
                if condition():
                    return
            assert time.monotonic() < give_up, "\n".join(
                file.read_text()[-3000:] for file in sorted(self._folder.glob("*.[lo]*"))
            )
            time.sleep(0.5)


@contextlib.contextmanager
def slurm(folder: Path) -> Iterator[Slurm]:
    """A cluster that is ended afterwards with everything that runs on it; skips the test where Slurm
    or the namespaces are missing.

    Args:
        folder: An existing folder, which both nodes see.
    """
    if missing := [program for program in _PROGRAMS if shutil.which(program) is None]:
        pytest.skip(f"Slurm is not installed ({', '.join(missing)}): apt-get install slurm-wlm munge")
    if not (ROOT / ".venv").exists():
        pytest.skip("the script takes the environment in .venv: make test makes it")
    with linked_machines(folder, shared=True) as nodes:
        yield Slurm(nodes, folder)
