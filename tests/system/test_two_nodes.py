"""Studies on a cluster of two nodes, each with its own network, processes, host name and /tmp."""

import time
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from analysis.load import load_study
from experiments.limits.processor import this_processor
from experiments.trial.folder import TrialFolder
from tests.support.driver import Driver
from tests.support.outputs import SMALL, TRIALS, Left, assert_same, checkpoints, left_in
from tests.support.own_files import own_file
from tests.support.two_nodes import HEAD, SECOND, SECOND_ADDRESS, TwoNodes, linked_machines, two_nodes
from tests.system.test_search_study import SEARCHES, asked, ended
from tests.system.test_search_study import SMALL as SEARCHED

pytestmark = [pytest.mark.ray, pytest.mark.timeout(900)]


SMALL_THERE = [word for word in SMALL if not word.startswith("hardware.")]
SECOND_NODE = f"{SECOND} ({SECOND_ADDRESS})"


LONG = "budget_env_steps=49152"
"""Of a study that lasts until a node is missed, has started, or is back, on a fast machine as well."""
MIDDLE = "budget_env_steps=16384"
"""Of a shorter one: until a node is missed by a head that asks as often as `ASKS_OFTEN` says."""
ASKS_OFTEN = {
    f"RAY_health_check_{name}": value
    for name, value in (("period_ms", "500"), ("timeout_ms", "2000"), ("failure_threshold", "2"))
}

HANG = f"self.t += 1\n        time.sleep(0 if socket.gethostname() != {SECOND!r} else 10_000)"
"""In place of the first line of an environment's step: it never returns on the second node."""


@pytest.fixture(scope="module")
def middle_reference(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """As `reference`, of the one between."""
    return alone(tmp_path_factory.mktemp("middle") / "out", MIDDLE)


@pytest.fixture(scope="module")
def long_reference(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """As `reference`, of the long study."""
    return alone(tmp_path_factory.mktemp("long") / "out", LONG)


def alone(out: Path, *words: str) -> Path:
    """A study with some settings, on one machine and left alone."""
    assert Driver(out, *SMALL, *words).end() == 0
    return out


def said_of_nodes(study: Driver) -> list[str]:
    """What the terminal says of nodes; Ray itself says nothing of them there."""
    lines = (study.stdout + study.stderr).splitlines()
    assert not [line for line in lines if "raylet" in line]
    return [line.partition(" ")[2].strip() for line in lines if line.startswith(("node ", "waiting "))]


def ended_as(reference: Path, out: Path) -> Left:
    """What a study left that must have come to the same as one that was left alone."""
    found = left_in(out / "mlflow.db")
    assert_same(found, left_in(reference / "mlflow.db"))
    return found


@pytest.mark.nightly
def test_a_study_trains_on_both_nodes_to_the_same_bits_as_on_one(tmp_path: Path, reference: Path) -> None:
    out = tmp_path / "out"
    with two_nodes(tmp_path, shared=True) as nodes:
        study = nodes.study(out, *SMALL_THERE).until(lambda: nodes.head.trains() and nodes.second.trains())
        assert study.end() == 0
    assert sum(ended_as(reference, out).restarts.values()) == 0
    assert said_of_nodes(study) == []


def lose_second(
    tmp_path: Path, lose: Callable[[TwoNodes], None], budget: str = LONG, environment: Mapping[str, str] | None = None
) -> tuple[Path, Driver]:
    """A study whose second node is lost in the midst of a trial there."""
    out = tmp_path / "out"
    with two_nodes(tmp_path, shared=True, environment=environment) as nodes:
        study = nodes.study(out, *SMALL_THERE, budget).until(
            lambda: nodes.second.trains() and len(checkpoints(out)) == 2
        )
        lose(nodes)
        assert study.end() == 0
    return out, study


@pytest.mark.nightly
def test_a_study_whose_node_is_killed_and_soon_missed_ends_to_the_same_bits_on_the_other(
    tmp_path: Path, middle_reference: Path
) -> None:
    out, study = lose_second(tmp_path, lambda nodes: nodes.second.kill(), MIDDLE, ASKS_OFTEN)
    assert_lost(middle_reference, out, study)


@pytest.mark.nightly
@pytest.mark.parametrize("turn", range(5))
def test_a_study_whose_node_is_killed_ends_to_the_same_bits_on_the_other(
    turn: int, tmp_path: Path, long_reference: Path
) -> None:
    out, study = lose_second(tmp_path, lambda nodes: nodes.second.kill())
    assert_lost(long_reference, out, study)


def assert_lost(reference: Path, out: Path, study: Driver) -> None:
    """A study has lost a node and nothing else."""
    assert sum(ended_as(reference, out).restarts.values()) == 1
    assert said_of_nodes(study) == [
        f"{SECOND_NODE} is gone: what ran there goes on elsewhere, from its last checkpoint"
    ]


@pytest.mark.nightly
def test_a_study_whose_node_is_cut_off_ends_to_the_same_bits_on_the_other(tmp_path: Path, long_reference: Path) -> None:
    out, study = lose_second(tmp_path, lambda nodes: nodes.set_link(up=False))
    assert sum(ended_as(long_reference, out).restarts.values()) == 1
    assert (
        said_of_nodes(study)[0]
        == f"{SECOND_NODE} does not answer: what ran there goes on elsewhere, from its last checkpoint"
    )


@pytest.mark.nightly
def test_a_study_whose_node_is_cut_off_for_a_minute_ends_to_the_same_bits(tmp_path: Path, long_reference: Path) -> None:
    out = tmp_path / "out"
    with two_nodes(tmp_path, shared=True) as nodes:
        study = nodes.study(out, *SMALL_THERE, LONG).until(lambda: nodes.second.trains() and len(checkpoints(out)) == 2)
        nodes.set_link(up=False)
        time.sleep(60)
        assert study.process.poll() is None
        nodes.set_link(up=True)
        assert study.end() == 0
    assert sum(ended_as(long_reference, out).restarts.values()) >= 1
    assert said_of_nodes(study)[0].startswith(f"{SECOND_NODE} does not answer")
    for path in out.glob("studies/*/trials/*/events.jsonl"):  # what the process there wrote on was refused
        attempts = [event.attempt for event in TrialFolder(path.parent).log.all()]
        assert attempts == sorted(attempts)


@pytest.mark.nightly
def test_a_driver_that_is_killed_on_a_cluster_goes_on_by_the_same_command(tmp_path: Path, long_reference: Path) -> None:
    out, words = tmp_path / "out", [*SMALL_THERE, LONG, "study.key=night"]
    with two_nodes(tmp_path, shared=True) as nodes:
        killed = nodes.study(out, *words).until(lambda: nodes.second.trains() and len(checkpoints(out)) >= 3)
        nodes.head.run("pkill", "--signal", "KILL", "--full", "experiments/run.py")
        assert killed.end() != 0
        assert nodes.study(out, *words).end() == 0
    ended_as(long_reference, out)
    assert len(list(out.glob("studies/*"))) == 1


@pytest.mark.nightly
def test_a_node_that_joins_a_running_study_is_used_to_the_same_bits(tmp_path: Path, long_reference: Path) -> None:
    out = tmp_path / "out"
    with linked_machines(tmp_path, shared=True) as nodes:
        nodes.start_head()
        study = nodes.study(out, *SMALL_THERE, LONG).until(nodes.head.trains)
        time.sleep(10)
        nodes.start_second()
        study.until(nodes.second.trains)
        assert study.end() == 0
    assert sum(ended_as(long_reference, out).restarts.values()) == 0
    assert said_of_nodes(study) == [f"{SECOND_NODE}, 1 CPU and 0 GPUs joined: up to 2 trials at once"]


@pytest.mark.nightly
def test_a_head_without_cpus_waits_for_a_node_that_comes(tmp_path: Path, reference: Path) -> None:
    out = tmp_path / "out"
    with linked_machines(tmp_path, shared=True) as nodes:
        nodes.start_head(num_cpus=0)
        study = nodes.study(out, *SMALL_THERE)
        study.until(lambda: "waiting" in study.stdout)
        assert not list(out.glob("studies/*"))
        nodes.start_second()
        assert study.end() == 0
    assert sum(ended_as(reference, out).restarts.values()) == 0
    assert said_of_nodes(study) == ["for 1 CPU and 0 GPUs, at most 600 s in all (hardware.wait_for_nodes_s)"]


@pytest.mark.nightly
def test_an_autoscaler_that_tells_nobody_what_it_may_add_hears_of_every_trial(
    tmp_path: Path, long_reference: Path
) -> None:
    out = tmp_path / "out"
    with linked_machines(tmp_path, shared=True) as nodes:
        nodes.start_growing_head(2)
        study = nodes.study(out, *SMALL_THERE, LONG)
        assert study.end() == 0
    assert sum(ended_as(long_reference, out).restarts.values()) == 0
    first, second = said_of_nodes(study)
    assert first == "for 1 CPU and 0 GPUs, at most 600 s in all (hardware.wait_for_nodes_s)"
    assert second.endswith(", 1 CPU and 0 GPUs joined: up to 2 trials at once")


@pytest.mark.nightly
def test_a_node_that_joins_without_the_studys_files_is_not_used(tmp_path: Path, long_reference: Path) -> None:
    out = tmp_path / "out"
    with linked_machines(tmp_path, shared=False) as nodes:
        nodes.start_head()
        study = nodes.study(out, *SMALL_THERE, LONG).until(nodes.head.trains)
        nodes.start_second()
        assert study.end() == 0
        assert not list(Path(f"/proc/{nodes.second.pid}/root{tmp_path}").iterdir())
    ended_as(long_reference, out)
    (refused,) = said_of_nodes(study)
    assert refused.startswith(f"{SECOND_NODE} is not used from now on: what the driver writes is not there: {out}")


@pytest.mark.nightly
def test_a_study_that_no_node_has_room_for_is_refused_when_its_time_is_over(tmp_path: Path) -> None:
    out = tmp_path / "out"
    with linked_machines(tmp_path, shared=True) as nodes:
        nodes.start_head(num_cpus=0)
        study = nodes.study(out, "study=smoke", "hardware.wait_for_nodes_s=5")
        assert study.end() == 2
    assert "No such node joined within 5 s (hardware.wait_for_nodes_s)" in study.stderr
    assert not out.exists()


@pytest.mark.slow
def test_a_folder_that_the_second_node_does_not_share_is_refused_before_anything_is_started(tmp_path: Path) -> None:
    out = tmp_path / "out"
    with two_nodes(tmp_path, shared=False) as nodes:
        study = nodes.study(out, "study=smoke")
        assert study.end() == 2
        in_second = Path(f"/proc/{nodes.second.pid}/root{tmp_path}")
        assert not list(in_second.iterdir())
    assert f"output_dir={out}: is not shared by all nodes" in study.stderr
    assert f"({SECOND_NODE}: what the driver writes is not there)" in study.stderr
    assert not out.exists()


@pytest.mark.nightly
def test_a_module_of_ones_own_travels_to_a_node_that_does_not_have_the_file_to_the_same_bits(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    out, own = tmp_path / "out", tmp_path_factory.mktemp("own")
    words = "env=gym", *own_file(own, "travels")
    with two_nodes(tmp_path, shared=True) as nodes:
        assert not Path(f"/proc/{nodes.second.pid}/root{own}").exists()
        study = nodes.study(out, *SMALL_THERE, *words).until(lambda: nodes.head.trains() and nodes.second.trains())
        assert study.end() == 0
    ended_as(alone(tmp_path / "alone", *words), out)


@pytest.mark.nightly
def test_a_trial_that_hangs_on_the_other_node_is_ended_as_stalled_and_leaves_no_process_there(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    out, own = tmp_path / "out", tmp_path_factory.mktemp("own")
    words = "env=gym", *own_file(own, "hangs")
    module = own / "hangs.py"
    module.write_text(f"import socket, time\n{module.read_text()}".replace("self.t += 1", HANG))
    with two_nodes(tmp_path, shared=True) as nodes:
        study = nodes.study(out, *SMALL_THERE, *words, "faults.stall_after_s=20").until(lambda: nodes.second.trains())
        assert study.end() == 1
        assert not nodes.second.trains()
    found = left_in(out / "mlflow.db")
    failed = {run for run, tags in found.tags.items() if tags["host"] == SECOND}
    assert failed and {run for run in TRIALS if found.statuses[run] == "FAILED"} == failed
    assert {found.tags[run]["failure"] for run in failed} == {
        "stalled: no sign of life for 20 s (faults.stall_after_s)"
    }
    assert set(found.weights) == set(TRIALS) - failed


@pytest.mark.nightly
def test_a_node_that_lacks_a_package_or_has_another_numpy_is_refused_by_name_before_anything_is_started(
    tmp_path: Path,
) -> None:
    import Box2D
    import numpy as np

    out, box2d = tmp_path / "out", Path(Box2D.__file__).parent
    numpy_metadata = box2d.parent / f"numpy-{np.__version__}.dist-info" / "METADATA"
    another = tmp_path / "METADATA"
    another.write_text(numpy_metadata.read_text().replace(f"Version: {np.__version__}", "Version: 1.99.0", 1))
    with linked_machines(tmp_path, shared=True) as nodes:
        nodes.second.run("mount", "-t", "tmpfs", "tmpfs", str(box2d))
        nodes.start_head()
        nodes.start_second()
        study = nodes.study(out, "study=smoke", "env=lunarlander")
        assert study.end() == 2
        assert f"{SECOND_NODE}: env=lunarlander" in study.stderr and "pip install" in study.stderr
        assert not (out / "studies").exists()
        nodes.second.run("mount", "--bind", str(another), str(numpy_metadata))
        study = nodes.study(out, "study=smoke")
        assert study.end() == 2
    assert f"({SECOND_NODE}: numpy 1.99.0, and {np.__version__} here)" in study.stderr
    assert not (out / "studies").exists()


@pytest.mark.nightly
@pytest.mark.timeout(900)
def test_a_trial_with_processes_on_both_nodes_tells_their_machines_and_what_they_use(tmp_path: Path) -> None:
    out = tmp_path / "out"
    spread = (
        "hardware.placement=SPREAD",
        "hardware.num_env_runners=1",
        "seeds=[0]",
        "study.space={}",
        "tracking.system_metrics=true",
    )
    with two_nodes(tmp_path, shared=True) as nodes:
        assert nodes.study(out, *SMALL_THERE, *spread).end() == 0
    study = load_study("smoke", f"sqlite:///{out / 'mlflow.db'}")
    (trial,) = study.runs.to_dict("records")
    assert sorted(trial["host"].split(", ")) == sorted([HEAD, SECOND])
    assert trial["cpu"] == this_processor().name and trial["exclusive"]
    used = study.curves.groupby("metric", observed=True)["value"].last()
    assert used["system/runners_memory_mib"] > 50 and used["system/runners_cpu_percent"] > 0
    assert used["system/memory_mib"] == pytest.approx(
        used["system/runners_memory_mib"] + used["system/driver_memory_mib"]
    )


def is_under_way_on_second(out: Path) -> bool:
    """Whether a trial has reported from the second node, and not ended."""
    logs = [log.read_text() for log in out.glob("studies/*/trials/*/events.jsonl")]
    return any(
        f'"hosts": ["{SECOND}"]' in log and '"kind": "reported"' in log and '"kind": "ended"' not in log for log in logs
    )


LAST = {"racing": ("budget_env_steps=16384",), "pbt": ("budget_env_steps=16384", "scheduler.interval_env_steps=8192")}
"""What makes a search's trials last until a process has started on the second node:
else all of them are handed the one on the first."""


@pytest.mark.nightly
@pytest.mark.parametrize("name", ["racing", "pbt"])
def test_a_search_on_both_nodes_that_loses_one_asks_for_the_same_trials_to_the_same_bits(
    name: str, tmp_path: Path
) -> None:
    words = (*SEARCHED, *SEARCHES[name], *LAST[name])
    there = [word for word in words if not word.startswith("hardware.")]
    out, whole = tmp_path / "out", tmp_path / "whole"
    with two_nodes(tmp_path, shared=True) as nodes:
        study = nodes.study(out, *there).until(lambda: is_under_way_on_second(out) and ended(out) >= 2)
        nodes.second.kill()
        assert study.end() == 0
    assert Driver(whole, *words).end() == 0
    assert asked(out) == asked(whole)
    found, alone = left_in(out / "mlflow.db"), left_in(whole / "mlflow.db")
    assert found.learned == alone.learned
    assert found.weights == alone.weights
    assert set(found.statuses.values()) == {"FINISHED"}
    # it ended before the kill
    assert sum(found.restarts.values()) == 1 or SECOND in {tags["host"] for tags in found.tags.values()}
