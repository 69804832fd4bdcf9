"""Room for a study's checkpoints: refused with the setting that saves most, or warned of."""

import shutil
from pathlib import Path

import pytest

from experiments.config.errors import ConfigurationError
from experiments.planning.disk import (
    check_disk,
    check_store_disk,
    disk_line,
    full_line,
    kept_bytes,
    needed_bytes,
    store_bytes,
)
from experiments.planning.terminal import plan_lines
from tests.support.suite import PlanOf

GIB = 2**30


def test_a_replay_buffer_of_pictures_that_does_not_fit_is_refused_with_a_capacity_that_does(plan_of: PlanOf) -> None:
    words = "study=lr_batch", "algorithm=dqn", "env=pong"
    plan = plan_of(*words)
    (each,) = {c.checkpoint_bytes for c in plan.configurations}
    assert each > 3 * GIB > 100 * kept_bytes(plan) / plan.num_trials  # what has finished has no buffer any more
    with pytest.raises(ConfigurationError, match=r"GiB at a time, and 2.0 GiB are free.*capacity=\d+, or") as refused:
        check_disk(plan, 2 * GIB)
    fits = str(refused.value).partition("capacity=")[2].partition(",")[0]
    smaller = plan_of(*words, f"++algorithm.training.replay_buffer_config.capacity={fits}")
    check_disk(smaller, 2 * GIB)
    assert "Leave it out: checkpoint.replay=false" in str(refused.value)
    without = plan_of(*words, "checkpoint.replay=false")
    check_disk(without, 2 * GIB)
    assert any("reproducible=false" in line for line in plan_lines(without))
    with pytest.raises(ConfigurationError, match=r"checkpoint\.replay=false with scheduler=pbt"):
        plan_of("scheduler=pbt", "search=random", "checkpoint.replay=false")
    assert "are free" in disk_line(smaller, 2 * GIB)
    assert disk_line(smaller, 100 * GIB) == ""


def test_while_one_is_written_the_one_before_is_still_there(plan_of: PlanOf) -> None:
    plan = plan_of("study=smoke")
    each = plan.configurations[0].checkpoint_bytes
    assert needed_bytes(plan) == kept_bytes(plan) + plan.concurrency * each
    assert plan.configurations[0].final_bytes == each  # PPO has no replay buffer
    with pytest.raises(ConfigurationError, match=r"checkpoint\.keep=1"):
        check_disk(plan_of("study=smoke", "checkpoint.keep=5"), each)
    with pytest.raises(ConfigurationError, match=r"Run fewer trials: seeds="):
        check_disk(plan, each)


def test_where_throughput_is_measured_nothing_is_kept(plan_of: PlanOf) -> None:
    check_disk(plan_of("study=smoke", "+measurement=throughput"), 0)


def test_the_store_and_rays_own_files_need_room_as_well(
    plan_of: PlanOf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = plan_of("study=smoke")
    check_store_disk(plan, tmp_path)
    assert full_line(tmp_path) == "" or shutil.disk_usage(tmp_path).free < 0.06 * shutil.disk_usage(tmp_path).total
    few = shutil.disk_usage(tmp_path)._replace(used=99 * GIB, free=store_bytes(plan) / 2)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: few)
    with pytest.raises(ConfigurationError, match=r"the store of MLflow takes about .* tracking.uri="):
        check_store_disk(plan, tmp_path / "not" / "there")
    assert "is 100% full: from 95% on" in full_line(tmp_path) and "RAY_TMPDIR=/path" in full_line(tmp_path)
