"""The kernel's count of those that it killed for want of memory."""

from pathlib import Path

import pytest

from experiments.limits.memory import oom_kills


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
