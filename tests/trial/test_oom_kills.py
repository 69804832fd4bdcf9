"""The kernel's count of those that it killed for want of memory."""

from pathlib import Path

import pytest

from experiments.trial.oom_kills import count_of, counters, oom_kills


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("low 0\nhigh 12\nmax 7\noom 5\noom_kill 3\noom_group_kill 1\n", 3),  # version 2: memory.events
        ("oom_kill_disable 0\nunder_oom 1\noom_kill 2\n", 2),  # version 1: memory.oom_control
        ("pgfault 1\noom_kill 4\nnuma_hit 9\n", 4),  # /proc/vmstat
        ("oom_kill_disable 0\nunder_oom 0\n", None),  # version 1 before Linux 4.13
        ("", None),
    ],
)
def test_the_count_is_found_in_each_of_the_kernels_files(text: str, count: int | None) -> None:
    assert count_of(text) == count


@pytest.mark.parametrize(
    ("cgroup", "files"),
    [
        ("0::/user.slice/session-1.scope\n", ["r/user.slice/session-1.scope/memory.events", "r/memory.events"]),
        ("0::/\n", ["r/memory.events"]),
        (
            "4:memory:/docker/ab:cd\n3:cpu,cpuacct:/docker\n0::/\n",
            ["r/memory/docker/ab:cd/memory.oom_control", "r/memory/memory.oom_control", "r/memory.events"],
        ),
        ("1:name=systemd:/\n", []),
    ],
)
def test_the_nearest_cgroup_is_asked_first_and_the_machine_last(cgroup: str, files: list[str]) -> None:
    assert counters(cgroup, Path("r")) == [*map(Path, files), Path("/proc/vmstat")]


def test_the_count_of_this_machine_is_read() -> None:
    count = oom_kills()
    assert count is None or count >= 0
    assert (count is None) == all(
        "oom_kill " not in file.read_text() for file in counters(Path("/proc/self/cgroup").read_text()) if file.exists()
    )
