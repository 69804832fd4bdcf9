"""A trial is the same to the bit wherever and beside whatever it runs;
and a process that runs hundreds of them does not grow.
"""

import threading
from pathlib import Path
from statistics import median

import psutil
import pytest

from experiments.planning.machines import Cluster, Node
from tests.support.studies import Study, curve, learned, query
from tests.support.suite import TINY, PlanOf, RunSuite

pytestmark = [pytest.mark.ray, pytest.mark.slow, pytest.mark.usefixtures("ray_instance")]

FOUR_CPUS = Cluster((Node(4, 0),))
ONE_SEED = ("study.space={}", "seeds=[0]")
NORMALIZE = "preprocessing=normalize"
"""Statistics that are merged over runners are part of what must be the same."""
MIB = 2**20


def run_ids(database: Path) -> list[str]:
    """Of the trials, in the order in which they ended."""
    runs = (
        "SELECT run_uuid FROM runs JOIN tags USING (run_uuid) WHERE key = 'kind' AND value = 'trial' ORDER BY end_time"
    )
    return [run for (run,) in query(database, runs)]


def bits(database: Path) -> list[tuple[str, str]]:
    """Of each trial: the digest of its final weights, and everything it logged that does not depend on the clock."""
    weights = dict(query(database, "SELECT run_uuid, value FROM tags WHERE key = 'weights'"))
    return [(weights[run], repr(sorted(learned(curve(database, run)).items()))) for run in run_ids(database)]


def test_trials_side_by_side_are_the_same_to_the_bit_as_one_alone(plan_of: PlanOf, tmp_path: Path) -> None:
    overrides = (*TINY, *ONE_SEED, NORMALIZE, "hardware.num_env_runners=0", "hardware.num_envs_per_env_runner=4")
    alone = Study(plan_of(*overrides, "hardware.max_concurrent_trials=1", cluster=FOUR_CPUS), tmp_path / "alone")
    packed = Study(plan_of(*overrides, "repeats=4", cluster=FOUR_CPUS), tmp_path / "packed")
    assert packed.plan.concurrency == 4
    assert bits(packed.out / "mlflow.db") == 4 * bits(alone.out / "mlflow.db")


@pytest.mark.nightly
def test_trials_with_runners_side_by_side_are_the_same_to_the_bit_as_one_alone(
    run_suite: RunSuite, tmp_path: Path
) -> None:
    overrides = (
        *TINY,
        *ONE_SEED,
        NORMALIZE,
        "hardware.num_env_runners=2",
        "hardware.num_envs_per_env_runner=4",
        "hardware.num_cpus=6",
    )
    found = {}
    for name, more in (("alone", "repeats=1"), ("packed", "repeats=2")):
        done = run_suite(*overrides, more, f"output_dir={tmp_path / name}")
        assert done.returncode == 0, done.stdout + done.stderr
        found[name] = bits(tmp_path / name / "mlflow.db")
    assert found["packed"] == 2 * found["alone"]
    assert "2 at once" in done.stdout


@pytest.mark.nightly
def test_sixty_trials_in_one_process_are_the_same_to_the_bit_and_do_not_fill_its_memory(
    plan_of: PlanOf, tmp_path: Path
) -> None:
    short = ("budget_env_steps=512", "report_every_env_steps=512", "repeats=60", "hardware.max_concurrent_trials=1")
    overrides = (*TINY, *ONE_SEED, "hardware.num_env_runners=0", "hardware.num_envs_per_env_runner=4", *short)
    driver_mib: list[float] = []
    ended = threading.Event()

    def watch() -> None:
        while not ended.wait(0.5):
            driver_mib.append(psutil.Process().memory_info().rss / MIB)

    threading.Thread(target=watch, daemon=True).start()
    study = Study(plan_of(*overrides, cluster=FOUR_CPUS), tmp_path / "out")
    ended.set()
    database = study.out / "mlflow.db"
    assert len(set(bits(database))) == 1
    trial_mib = [curve(database, run)["system/memory_mib"][-1][1] for run in run_ids(database)]
    assert len(trial_mib) == 60
    # Measured: 0.1 MiB a trial. An algorithm that stays alive costs 3 to 4.
    assert median(trial_mib[-10:]) - median(trial_mib[20:30]) < 0.5 * 30
    # Measured: 0.2 MiB a trial, of what Tune keeps of each.
    third = len(driver_mib) // 3
    assert median(driver_mib[-10:]) - median(driver_mib[third : third + 10]) < 0.5 * 40
    points = query(database, "SELECT DISTINCT count(*) FROM metrics WHERE key NOT LIKE 'best/%' GROUP BY run_uuid")
    assert len(points) == 1
