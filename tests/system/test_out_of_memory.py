"""Trials that take more memory than there is, for real, on a machine of 3.5 GiB."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from experiments.limits.memory import oom_kills, usable_memory
from tests.support.memory_cgroup import MemoryCgroup, memory_cgroup
from tests.support.studies import query
from tests.support.suite import ROOT, TINY
from tests.support.two_nodes import CLUSTER, two_nodes

pytestmark = [pytest.mark.nightly, pytest.mark.ray, pytest.mark.timeout(1200)]

LIMIT_BYTES = 3584 * 2**20
HOARDING = (
    "env.id=tiny_envs:tiny/Faulty-v0",
    "env.vectorize_mode=sync",
    "study.space={env.env_config.fault:[hoard,null]}",
    "hardware.num_env_runners=0",
    "seeds=[0,1]",
)
DECLARED = ("hardware.num_cpus=2", "hardware.memory_gib=16")
SIZE = r"\d+\.\d [MG]iB"
TOLD = rf"(?:it had {SIZE}, (?:{SIZE}|no other trial) beside it|how much it had is not known)"
"""One that is killed as it starts has no time to say anything."""


def run(cgroup: MemoryCgroup, out: Path, *words: str, by_ray: bool) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "experiments/run.py", *words, "report=true", f"output_dir={out}"]
    watched = {} if by_ray else {"RAY_memory_monitor_refresh_ms": "0"}
    environment = {**os.environ, **watched}
    words = tuple(cgroup.command(command, is_machine=by_ray))
    done = subprocess.run(words, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=600, check=False)
    print(done.stdout, done.stderr)
    return done


@pytest.mark.parametrize("by_ray", [True, False], ids=["ray", "the kernel"])
def test_trials_that_take_more_memory_than_there_is_fail_alone(tmp_path: Path, by_ray: bool) -> None:
    out = tmp_path / "out"
    with memory_cgroup("out-of-memory", LIMIT_BYTES) as cgroup:
        done = run(cgroup, out, *TINY, *HOARDING, *DECLARED, by_ray=by_ray)
        assert done.returncode == 1 and "Traceback" not in done.stdout + done.stderr
        assert re.search(rf"seed \d is run again with no other trial under way: out of memory: {TOLD}", done.stdout)
        assert_as_they_should(out)
        assert len(list((out / "reports").glob("*.html"))) == 1
        if by_ray:  # goes on, and ends
            ((study_run,),) = query(
                out / "mlflow.db", "SELECT run_uuid FROM tags WHERE key = 'kind' AND value = 'study'"
            )
            done = run(cgroup, out, f"resume={study_run}", by_ray=by_ray)
            assert done.returncode == 1 and "Traceback" not in done.stdout + done.stderr
            assert_as_they_should(out)


def test_on_two_nodes_they_fail_alone_too(tmp_path: Path) -> None:
    out = tmp_path / "out"
    words = (*(word for word in TINY if not word.startswith("hardware.")), *HOARDING, f"hardware.address={CLUSTER}")
    with two_nodes(tmp_path, shared=True, memory_bytes=LIMIT_BYTES) as nodes:
        command = nodes.on_head("python", "experiments/run.py", *words, "report=true", f"output_dir={out}")
        done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
        print(done.stdout, done.stderr)
    assert done.returncode == 1 and "Traceback" not in done.stdout + done.stderr
    assert_as_they_should(out)
    assert len(list((out / "reports").glob("*.html"))) == 1


def assert_as_they_should(out: Path) -> None:
    alone = rf"run again: it had {SIZE}, no other trial beside it"
    failed = rf"out of memory: {TOLD}; {alone}\. .*num_envs_per_env_runner=\d+"
    rows = query(
        out / "mlflow.db",
        "SELECT runs.name, status, failure.value FROM runs JOIN tags kind USING (run_uuid) LEFT JOIN tags failure ON "
        "failure.run_uuid = runs.run_uuid AND failure.key = 'failure' WHERE kind.key = 'kind' AND kind.value = 'trial'",
    )
    assert len(rows) == 4
    for name, status, reason in rows:
        if "hoard" in name:
            assert status == "FAILED" and re.fullmatch(failed, reason), reason
        else:
            assert (status, reason) == ("FINISHED", None), name


def test_trials_that_are_large_from_the_start_run_as_many_at_once_as_there_is_memory_for(tmp_path: Path) -> None:
    """An environment that takes 1 GiB when it is made; 16 CPUs, which are declared."""
    if usable_memory() < 16 * 2**30:
        pytest.skip("takes 16 GiB")
    out = tmp_path / "out"
    words = (
        *TINY,
        "env.id=odd_envs:odd/Odd-v0",
        "+env.env_config.holds=1024",
        "study.space={}",
        "env.vectorize_mode=sync",
        "evaluation.episodes=1",
        "evaluation.final_episodes=1",
        "hardware.num_cpus=16",
        "hardware.total_envs=1",
        f"seeds={list(range(16))}".replace(" ", ""),
        f"output_dir={out}",
    )
    command = [sys.executable, "experiments/run.py", *words]
    kills = oom_kills()
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=900, check=False)
    print(done.stdout, done.stderr)
    assert done.returncode == 0 and oom_kills() == kills
    at_once = re.search(r"no more than (\d+) side by side by it, where CPUs would do for 16", done.stdout)
    assert at_once is not None and 1 < int(at_once[1]) <= 13
    restarted = "SELECT count(*) FROM tags WHERE key = 'restarts' AND value <> '0'"
    assert query(out / "mlflow.db", restarted) == [(0,)]
    peaks = [mib for (mib,) in query(out / "mlflow.db", "SELECT value FROM metrics WHERE key = 'final/memory_mib'")]
    assert len(peaks) == 16 and min(peaks) > 1024
