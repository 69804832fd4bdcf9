"""The memory that processes may use, and the kernel's count of those that it killed for want of it."""

from pathlib import Path

import psutil
import pytest

from experiments.limits.memory import oom_kills, usable_memory
from tests.support.files import write_files


def test_the_smallest_limit_on_the_way_to_the_root_holds(tmp_path: Path) -> None:
    there = psutil.virtual_memory().total
    assert usable_memory([tmp_path]) == there
    files = {
        "memory.max": "max\n",
        "pod/memory.max": "2147483648\n",
        "pod/own/memory.max": "max\n",
        "v1/memory.limit_in_bytes": "9223372036854771712\n",
        "v1/own/memory.limit_in_bytes": "1073741824\n",
    }
    write_files(tmp_path, files)
    assert usable_memory([tmp_path / "pod/own", tmp_path / "pod", tmp_path]) == 2 * 2**30
    assert usable_memory([tmp_path / "v1"]) == there
    assert usable_memory([tmp_path / "v1/own", tmp_path / "v1"]) == 2**30


def test_of_this_machine_processes_may_use_no_more_than_there_is() -> None:
    assert 0 < usable_memory() <= psutil.virtual_memory().total


@pytest.mark.parametrize(
    ("name", "text", "count"),
    [
        ("memory.events", "low 0\nhigh 12\nmax 7\noom 5\noom_kill 3\noom_group_kill 1\n", 3),
        ("memory.oom_control", "oom_kill_disable 0\nunder_oom 1\noom_kill 2\n", 2),
        ("memory.oom_control", "oom_kill_disable 0\nunder_oom 0\n", 4),  # before Linux 4.13: the machine's count
        ("memory.current", "7", 4),
    ],
)
def test_the_count_of_the_nearest_cgroup_comes_before_the_machines(
    name: str, text: str, count: int, tmp_path: Path
) -> None:
    (tmp_path / "near").mkdir()
    (tmp_path / "near" / name).write_text(text)
    (tmp_path / "vmstat").write_text("pgfault 1\noom_kill 4\nnuma_hit 9\n")
    assert oom_kills([tmp_path / "near", tmp_path], tmp_path / "vmstat") == count


def test_nobody_may_know_the_count(tmp_path: Path) -> None:
    assert oom_kills([], tmp_path / "vmstat") is None


def test_the_count_of_this_machine_is_read() -> None:
    count = oom_kills()
    assert count is None or count >= 0
