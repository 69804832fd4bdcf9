"""The two nodes of the tests leave nothing behind, however the tests end."""

import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from tests.support.driver import left_of
from tests.support.suite import ROOT
from tests.support.two_nodes import HEAD, SECOND, SECOND_ADDRESS, Machine, TwoNodes, linked_machines

_HOLDS_TWO = """
import sys, time
from pathlib import Path
from tests.support.two_nodes import linked_machines
with linked_machines(Path(sys.argv[1]), shared=False) as nodes:
    print(nodes.head.pid, nodes.second.pid, flush=True)
    time.sleep(300)
"""


def _hears(nodes: TwoNodes) -> bool:
    ping = ["python", "-c", f"import socket; socket.create_connection(('{SECOND_ADDRESS}', 1), timeout=2)"]
    said = subprocess.run(nodes.on_head(*ping), capture_output=True, text=True, check=False).stderr
    return "ConnectionRefusedError" in said  # by the other machine, where nothing listens


def _printed(machine: Machine, *words: str) -> str:
    return subprocess.run(machine.command(words), capture_output=True, text=True, check=True).stdout.strip()


@pytest.mark.parametrize("shared", [True, False])
def test_two_machines_have_names_and_disks_of_their_own_and_a_link(shared: bool, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with linked_machines(tmp_path, shared) as nodes:
        assert [_printed(machine, "hostname") for machine in (nodes.head, nodes.second)] == [HEAD, SECOND]
        assert _printed(nodes.head, "ls", str(tmp_path)) == "file"
        assert _printed(nodes.second, "ls", str(tmp_path)) == ("file" if shared else "")
        assert _hears(nodes)
        nodes.set_link(up=False)
        assert not _hears(nodes)
        nodes.set_link(up=True)
        assert _hears(nodes)
        processes = [psutil.Process(machine.pid) for machine in (nodes.head, nodes.second)]
    assert not left_of(processes)


def test_the_machines_of_a_killed_process_are_gone(tmp_path: Path) -> None:
    with linked_machines(tmp_path, shared=False):
        pass  # else skipped
    holder = subprocess.Popen(
        [sys.executable, "-c", _HOLDS_TWO, str(tmp_path)], cwd=ROOT, stdout=subprocess.PIPE, text=True
    )
    assert holder.stdout is not None
    machines = [psutil.Process(int(pid)) for pid in holder.stdout.readline().split()]
    assert len(machines) == 2
    holder.send_signal(signal.SIGKILL)
    holder.communicate()
    assert not left_of(machines)
