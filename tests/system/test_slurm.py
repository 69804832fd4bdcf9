"""deploy/slurm/study.sh on a Slurm cluster of two nodes."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.slurm import Slurm, slurm
from tests.support.studies import query
from tests.support.suite import TINY

pytestmark = [pytest.mark.nightly, pytest.mark.ray, pytest.mark.timeout(3600)]


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Slurm]:
    with slurm(tmp_path) as running:
        yield running


def statuses(database: Path) -> list[tuple[str, str]]:
    """(name, status) of the trials' runs."""
    return query(
        database,
        "SELECT name, status FROM runs JOIN tags USING (run_uuid) WHERE key = 'kind' AND value = 'trial' ORDER BY 1",
    )


def test_a_job_whose_time_is_over_saves_the_study_and_is_queued_again_until_it_is_finished(
    cluster: Slurm, tmp_path: Path
) -> None:
    out, store = tmp_path / "out", tmp_path / "mlflow.db"
    settings = [
        *TINY,
        "budget_env_steps=8192",
        "checkpoint.every_env_steps=1024",
        "study.key=slurm",
        f"output_dir={out}",
        f"tracking.uri=sqlite:///{store}",
        "report=false",
    ]
    job = cluster.submit("--cpus-per-task=1", "deploy/slurm/study.sh", *settings)
    cluster.wait_for(lambda: len(list(out.glob("studies/*/trials/*/checkpoints/*"))) >= 1, timeout_s=900)
    assert "this cluster of 2 nodes has 2 CPUs" in cluster.output(job)
    cluster.command("scancel", "--batch", "--signal=TERM", job)  # as Slurm does three minutes before the end
    cluster.wait_for(lambda: cluster.state(job) == "PENDING", timeout_s=300)
    assert {status for _, status in statuses(store)} <= {"KILLED", "FINISHED"}
    assert "KILLED" in {status for _, status in statuses(store)}
    # Slurm waits for two minutes before it starts a job again
    cluster.command("scontrol", "update", f"JobId={job}", "StartTime=now")
    cluster.wait_for(lambda: cluster.state(job) in ("COMPLETED", "FAILED"), timeout_s=900)
    assert cluster.state(job) == "COMPLETED", cluster.output(job)
    assert statuses(store) == [(f"gamma={gamma} s={seed}", "FINISHED") for gamma in (0.98, 0.99) for seed in (0, 1)]
