"""The folders of a process' cgroups, in both versions, nested, and as a container sees them."""

from pathlib import Path

import pytest

from experiments.limits.cgroups import folders

THERE = ("memory/docker/ab", "cpu", "unified/session", "user.slice/session-1.scope")


@pytest.mark.parametrize(
    ("controller", "cgroup", "expected"),
    [
        ("memory", "0::/user.slice/session-1.scope\n", ["user.slice/session-1.scope", "user.slice", "", "unified"]),
        ("memory", "4:memory:/docker/ab\n3:cpu,cpuacct:/docker\n", ["memory/docker/ab", "memory/docker", "memory"]),
        ("cpu", "4:memory:/docker/ab\n3:cpu,cpuacct:/only/the/host/knows\n", ["cpu"]),
        ("cpu", "0::/session\n", ["", "unified/session", "unified"]),
        ("cpu", "1:name=systemd:/\n", []),
    ],
)
def test_all_cgroups_that_hold_are_found_the_nearest_first(
    controller: str, cgroup: str, expected: list[str], tmp_path: Path
) -> None:
    for folder in THERE:
        (tmp_path / folder).mkdir(parents=True)
    assert list(folders(controller, tmp_path, cgroup)) == [tmp_path / folder for folder in expected]
