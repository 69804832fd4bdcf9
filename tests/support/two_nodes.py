"""Two Ray nodes on this machine, each in a network, process, host-name and mount namespace of its own,
as if they were two machines.

The namespaces have no names: they are there as long as the process that holds them, which ends with the tests, even if
these are killed. The kernel then ends every process in them and removes the link between them. The network of the
machine itself is not touched.
"""

import contextlib
import json
import os
import secrets
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import psutil
import pytest

from experiments.study.cluster.ray_process import START_S
from tests.support.driver import Driver
from tests.support.memory_cgroup import MemoryCgroup, memory_cgroup
from tests.support.suite import ROOT

HEAD, SECOND = "head-node", "second-node"
HEAD_ADDRESS, SECOND_ADDRESS = "192.0.2.1", "192.0.2.2"  # RFC 5737: of no real network
CLUSTER = f"{HEAD_ADDRESS}:6379"
"""The cluster's address, for `hardware.address`."""

_NAMESPACES = ("--mount", "--uts", "--net", "--pid")
# Ray's files are in a memory file system of the node's own in /mnt: paths of sockets must be short.
_HOLD = (
    'hostname "$0" && mount -t tmpfs tmpfs /dev/shm && mount -t tmpfs tmpfs /mnt && ip link set lo '
    "up && echo ready && exec cat"
)
_NOT_SHARED = 'mount -t tmpfs tmpfs /tmp && mkdir -p "$1" && mount -t tmpfs tmpfs "$1" && '
_SHARED = 'mount --bind "$1" /mnt && mount -t tmpfs tmpfs /tmp && mkdir -p "$1" && mount --move /mnt "$1" && '
_START_S = 120.0


class Machine:
    """One node's namespaces."""

    def __init__(self, name: str, setup: str = "", folder: Path = Path()) -> None:
        unshare = ["unshare", *_NAMESPACES, "--mount-proc", "--fork", "--kill-child"]
        self._holder = subprocess.Popen(
            [*unshare, "sh", "-c", setup + _HOLD, name, str(folder)],
            # closed with this process, whatever ends it: `cat` ends, and with the first process all others
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        assert self._holder.stdout is not None and self._holder.stderr is not None
        if self._holder.stdout.readline() != b"ready\n":
            problem = self._holder.stderr.read().decode().strip()
            self.kill()
            raise OSError(problem)
        self.pid = psutil.Process(self._holder.pid).children()[0].pid

    def command(self, words: Sequence[str], **environment: str) -> list[str]:
        """The command line that runs a command there, in the repository's folder."""
        enter = ["nsenter", f"--target={self.pid}", *_NAMESPACES, "--", "env", f"--chdir={ROOT}"]
        return [*enter, *(f"{name}={value}" for name, value in environment.items()), *words]

    def run(self, *words: str) -> None:
        """Run a command there that takes no time."""
        subprocess.run(self.command(words), check=True, capture_output=True, timeout=60)

    def trains(self) -> bool:
        """Whether a trial is at work there."""
        here = f"/proc/{self.pid}/ns/pid"
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error, OSError):
                if process.name().startswith("ray::Trial.") and Path(f"/proc/{process.pid}/ns/pid").samefile(here):
                    return True
        return False

    def kill(self) -> None:
        """End every process there at once, and the namespaces with them."""
        self._holder.kill()
        self._holder.communicate()


class TwoNodes:
    """A head node, with the driver's files, and a second one, with an empty /tmp and /dev/shm."""

    def __init__(self, head: Machine, second: Machine, logs: Path) -> None:
        self.head, self.second = head, second
        self._logs = logs
        self._memory: dict[Machine, MemoryCgroup] = {}
        self._environment = {
            "RAY_AUTH_MODE": "token",
            "RAY_AUTH_TOKEN": secrets.token_hex(16),
            START_S: "120",
            "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
        }
        # The head node's address is on a bridge, which stays when the second node goes, and the link with it.
        head.run("ip", "link", "add", "bridge0", "type", "bridge")
        port = [
            "link",
            "add",
            "port0",
            "netns",
            str(head.pid),
            "type",
            "veth",
            "peer",
            "name",
            "link0",
            "netns",
            str(second.pid),
        ]
        subprocess.run(["ip", *port], check=True, capture_output=True)
        head.run("ip", "link", "set", "port0", "up", "master", "bridge0")
        for machine, address, device in ((head, HEAD_ADDRESS, "bridge0"), (second, SECOND_ADDRESS, "link0")):
            machine.run("ip", "address", "add", f"{address}/24", "dev", device)
            machine.run("ip", "link", "set", device, "up")

    def start_head(self, num_cpus: int = 1, *arguments: str) -> None:
        """Start Ray on the head node, with so many CPUs."""
        words = ("--head", "--port=6379", "--temp-dir=/mnt/ray", "--include-dashboard=false", *arguments)
        self._ray_start(self.head, HEAD_ADDRESS, num_cpus, *words)

    def start_growing_head(self, most: int) -> None:
        """Start Ray on the head node, without CPUs, with an autoscaler that adds up to `most` nodes of one CPU,
        all on this machine.

        Its nodes are by Ray's own `FakeMultiNodeProvider`, and as KubeRay's it tells nobody in the cluster what it
        may add. It is the first version of the autoscaler: for the second one, the provider needs a file that is
        not in Ray's wheel.
        """
        kind = {
            "resources": {"CPU": 1, "object_store_memory": 100_000_000},
            "node_config": {},
            "min_workers": 0,
            "max_workers": most,
        }
        head = {"resources": {"CPU": 0}, "node_config": {}, "max_workers": 0}
        provider = {"type": "fake_multinode", "gcs_address": CLUSTER}
        lists = (
            "initialization_commands",
            "setup_commands",
            "head_setup_commands",
            "worker_setup_commands",
            "head_start_ray_commands",
        )
        settings = {
            "cluster_name": "growing",
            "max_workers": most,
            "upscaling_speed": 1.0,
            "idle_timeout_minutes": 5,
            "provider": {
                **provider,
                "use_node_id_as_ip": True,
                "disable_node_updaters": True,
                "disable_launch_config_check": True,
            },
            "available_node_types": {"ray.head.default": head, "worker": kind},
            "head_node_type": "ray.head.default",
            **{name: {} for name in ("auth", "docker", "file_mounts")},
            **{
                name: []
                for name in (
                    *lists,
                    "worker_start_ray_commands",
                    "cluster_synced_files",
                    "rsync_exclude",
                    "rsync_filter",
                )
            },
            "file_mounts_sync_continuously": False,
        }
        file = self._logs / "autoscaler.json"
        file.write_text(json.dumps(settings))
        self._environment |= {"RAY_FAKE_CLUSTER": "1", "AUTOSCALER_UPDATE_INTERVAL_S": "1"}
        self.start_head(0, f"--autoscaling-config={file}")

    def start_second(self, num_cpus: int = 1) -> None:
        """Start Ray on the second node, which joins the first."""
        self._ray_start(self.second, SECOND_ADDRESS, num_cpus, f"--address={CLUSTER}")

    def _ray_start(self, machine: Machine, address: str, num_cpus: int, *arguments: str) -> None:
        words = ["ray", "start", *arguments, f"--node-ip-address={address}", f"--num-cpus={num_cpus}", "--num-gpus=0"]
        words += ["--object-store-memory=100000000", "--disable-usage-stats", "--block"]
        if machine in self._memory:
            words = self._memory[machine].command(words, is_machine=True)
        log = self._logs / f"ray-{address}.log"
        with log.open("w") as file:
            ray = subprocess.Popen(machine.command(words, **self._environment), stdout=file, stderr=subprocess.STDOUT)
        give_up = time.monotonic() + _START_S
        while "Ray runtime started" not in log.read_text():
            assert ray.poll() is None and time.monotonic() < give_up, log.read_text()
            time.sleep(0.1)

    def on_head(self, *words: str) -> list[str]:
        """The command line that runs a command on the head node, as a person who is logged in there would."""
        return self.head.command(words, **self._environment)

    def study(self, out: Path, *arguments: str) -> Driver:
        """`python experiments/run.py` on the head node, in this cluster, with its output in a folder."""
        words = [
            "python",
            "experiments/run.py",
            *arguments,
            f"output_dir={out}",
            f"hardware.address={CLUSTER}",
            "report=false",
        ]
        return Driver.typed(shlex.join(self.on_head(*words)), out.with_name(f"{out.name}-{time.monotonic_ns()}"))

    def set_link(self, up: bool) -> None:
        """Take the second node's link up or down: nothing passes, and nobody is told."""
        self.second.run("ip", "link", "set", "link0", "up" if up else "down")


@contextlib.contextmanager
def linked_machines(folder: Path, shared: bool) -> Iterator[TwoNodes]:
    """Two nodes without Ray, ended afterwards with everything that runs on them;
    skips the test where this machine does not allow them.

    Args:
        folder: An existing folder, where the head node also keeps what `ray start` prints.
        shared: Whether the second node sees that folder; else it has an empty one of its own there.
    """
    if missing := [tool for tool in ("ip", "unshare", "nsenter", "mount", "hostname") if shutil.which(tool) is None]:
        pytest.skip(f"two nodes on one machine need {shlex.join(missing)}")
    if any(Path(path).resolve().is_relative_to("/tmp") for path in (ROOT, sys.prefix)):
        pytest.skip("the suite or its Python is in /tmp, which the second node has for itself")
    with contextlib.ExitStack() as ended:
        try:
            head = Machine(HEAD)
            ended.callback(head.kill)
            second = Machine(SECOND, _SHARED if shared else _NOT_SHARED, folder)
            ended.callback(second.kill)
            nodes = TwoNodes(head, second, folder)
        except (OSError, subprocess.CalledProcessError) as error:
            reason = error.stderr.decode() if isinstance(error, subprocess.CalledProcessError) else str(error)
            pytest.skip(f"two nodes on one machine need root and namespaces of one's own: {reason.strip()}")
        yield nodes


@contextlib.contextmanager
def two_nodes(
    folder: Path,
    shared: bool,
    num_cpus: int = 1,
    environment: Mapping[str, str] | None = None,
    memory_bytes: int | None = None,
) -> Iterator[TwoNodes]:
    """Two nodes with Ray, of `num_cpus` and, if it is given, `memory_bytes` each, whose processes have an environment
    beside their own; otherwise as `linked_machines`.
    """
    with contextlib.ExitStack() as ended, linked_machines(folder, shared) as nodes:
        nodes._environment.update(environment or {})
        for machine in (nodes.head, nodes.second) if memory_bytes else ():
            nodes._memory[machine] = ended.enter_context(memory_cgroup(f"node-{machine.pid}", memory_bytes))
        nodes.start_head(num_cpus)
        nodes.start_second(num_cpus)
        yield nodes
