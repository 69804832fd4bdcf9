"""CPUs that a process may use: affinity, quotas of nested cgroups, Slurm."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from experiments.limits.cpus import Cpus, least, quota, usable_cpus
from tests.support.files import write_files
from tests.support.suite import ROOT


@pytest.mark.parametrize(
    ("there", "bound", "of_cgroups", "of_slurm", "expected"),
    [
        (8, 8, None, "", "8 CPUs"),
        (1, 1, None, "", "1 CPU"),
        (2, 1, None, "", "1 of 2 CPUs (affinity)"),
        (8, 4, 2.5, "", "2 of 8 CPUs (cgroup quota)"),
        (8, 8, 0.5, "", "1 of 8 CPUs (cgroup quota)"),
        (8, 2, 4.0, "", "2 of 8 CPUs (affinity)"),
        (8, 8, 16.0, "", "8 CPUs"),
        (8, 8, None, "3", "3 of 8 CPUs (SLURM_CPUS_PER_TASK)"),
        (8, 2, None, "3", "2 of 8 CPUs (affinity)"),  # Slurm has bound it
        (8, 8, None, "12", "8 CPUs"),
    ],
)
def test_the_smallest_limit_counts_and_is_named(
    there: int, bound: int, of_cgroups: float | None, of_slurm: str, expected: str
) -> None:
    assert str(least(there, bound, of_cgroups, of_slurm)) == expected


def test_the_smallest_quota_on_the_way_to_the_root_holds(tmp_path: Path) -> None:
    assert quota([tmp_path]) is None
    files = {
        "cpu.max": "max 100000\n",
        "pod/cpu.max": "150000 100000\n",
        "pod/own/cpu.max": "max 100000\n",
        "v1/cpu.cfs_quota_us": "-1\n",
        "v1/own/cpu.cfs_quota_us": "50000\n",
        "v1/own/cpu.cfs_period_us": "100000\n",
    }
    write_files(tmp_path, files)
    assert quota([tmp_path / "pod/own", tmp_path / "pod", tmp_path]) == 1.5
    assert quota([tmp_path / "v1"]) is None
    assert quota([tmp_path / "v1/own", tmp_path / "v1"]) == 0.5


@pytest.mark.skipif((os.cpu_count() or 1) < 2, reason="takes two CPUs")
def test_a_process_that_is_bound_to_a_cpu_has_one() -> None:
    ask = "from experiments.limits.cpus import usable_cpus; print(usable_cpus())"
    bound = ["taskset", "-c", "0", sys.executable, "-c", ask]
    said = subprocess.run(bound, cwd=ROOT, capture_output=True, text=True, timeout=60, check=True).stdout
    assert said == f"1 of {os.cpu_count()} CPUs (affinity)\n"


def test_of_this_machine_there_is_one_at_least() -> None:
    found = usable_cpus({})
    assert found == Cpus(found.usable, os.cpu_count() or 1, found.limit) and 1 <= found.usable <= found.there
