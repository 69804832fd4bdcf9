"""A study as a Ray job, with Ray's own commands, on a node of its own."""

import json
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.driver import Driver
from tests.support.outputs import SMALL, assert_same, left_in
from tests.support.studies import query
from tests.support.two_nodes import CLUSTER, HEAD_ADDRESS, TwoNodes, linked_machines

DASHBOARD = f"http://{HEAD_ADDRESS}:8265"


@pytest.fixture
def head(tmp_path: Path) -> Iterator[TwoNodes]:
    """A head with a dashboard, which takes jobs."""
    pytest.importorskip(
        "aiohttp_cors", reason="Ray's dashboard is not installed: pip install -r requirements-cluster.txt"
    )
    with linked_machines(tmp_path, shared=True) as nodes:
        words = [
            "ray",
            "start",
            "--head",
            f"--node-ip-address={HEAD_ADDRESS}",
            "--port=6379",
            f"--dashboard-host={HEAD_ADDRESS}",
        ]
        words += [
            "--num-cpus=2",
            "--num-gpus=0",
            "--temp-dir=/mnt/ray",
            "--object-store-memory=100000000",
            "--disable-usage-stats",
        ]
        # goes on without `--block`, which ends all when Ray's client server, unused here, is late
        started = answer(nodes, *words)
        assert started.returncode == 0, started.stdout + started.stderr
        wait_for(
            lambda: answer(nodes, "ray", "job", "list", f"--address={DASHBOARD}").returncode == 0, "Ray takes no jobs"
        )
        yield nodes


def answer(nodes: TwoNodes, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(nodes.on_head(*words), capture_output=True, text=True, timeout=900, check=False)


def wait_for(condition: Callable[[], bool], otherwise: str) -> None:
    give_up = time.monotonic() + 600
    while not condition():
        assert time.monotonic() < give_up, otherwise
        time.sleep(0.5)


@pytest.mark.nightly
@pytest.mark.ray
@pytest.mark.timeout(1800)
def test_a_job_that_is_stopped_leaves_nothing_running_and_submitted_again_goes_on_to_the_same_bits(
    head: TwoNodes, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    longer = [*SMALL, "budget_env_steps=8192"]
    there = ["study.key=job", f"output_dir={out}", f"tracking.uri=sqlite:///{tmp_path}/mlflow.db", "report=false"]
    command = ["python", "experiments/run.py", *(word for word in longer if not word.startswith("hardware.")), *there]
    environment = json.dumps({"env_vars": {"RAY_JOB_STOP_WAIT_TIME_S": "60"}})
    submit = [
        "ray",
        "job",
        "submit",
        f"--address={DASHBOARD}",
        "--working-dir=.",
        "--no-wait",
        f"--runtime-env-json={environment}",
    ]
    submitted = answer(head, *submit, "--submission-id=first", "--", *command)
    assert submitted.returncode == 0, submitted.stdout + submitted.stderr
    wait_for(lambda: len(list(out.glob("studies/*/trials/*/checkpoints/*"))) >= 2, "no checkpoint is written")
    stopped = answer(head, "ray", "job", "stop", f"--address={DASHBOARD}", "first")
    assert stopped.returncode == 0, stopped.stdout + stopped.stderr
    logs = answer(head, "ray", "job", "logs", f"--address={DASHBOARD}", "first").stdout
    assert f"RAY_ADDRESS={CLUSTER}, joined" in logs
    assert "`ray job stop` kills it" not in logs
    statuses = query(tmp_path / "mlflow.db", "SELECT DISTINCT status FROM runs")
    assert statuses in ([("KILLED",)], [("FINISHED",), ("KILLED",)], [("KILLED",), ("FINISHED",)]), logs

    again = answer(head, *[word for word in submit if word != "--no-wait"], "--submission-id=second", "--", *command)
    assert again.returncode == 0, again.stdout + again.stderr
    assert Driver(tmp_path / "alone", *longer).end() == 0
    assert_same(left_in(tmp_path / "mlflow.db"), left_in(tmp_path / "alone" / "mlflow.db"))
