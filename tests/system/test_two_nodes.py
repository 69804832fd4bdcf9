"""Studies on a cluster of two nodes, each with its own network, processes, host name and /tmp."""

from pathlib import Path

import pytest

from analysis.load import load_study
from experiments.trial.machine import cpu_model
from tests.support.outputs import SMALL, assert_same, checkpoints, left_in
from tests.support.own_files import own_file
from tests.support.two_nodes import HEAD, SECOND, SECOND_ADDRESS, linked_machines, two_nodes

pytestmark = [pytest.mark.ray]


SMALL_THERE = [word for word in SMALL if not word.startswith("hardware.")]


@pytest.mark.nightly
def test_a_study_trains_on_both_nodes_to_the_same_bits_as_on_one(tmp_path: Path, reference: Path) -> None:
    out = tmp_path / "out"
    with two_nodes(tmp_path, shared=True) as nodes:
        study = nodes.study(out, *SMALL_THERE).until(lambda: nodes.head.trains() and nodes.second.trains())
        assert study.end() == 0
    assert_same(left_in(out / "mlflow.db"), left_in(reference / "mlflow.db"))


@pytest.mark.nightly
@pytest.mark.timeout(900)
@pytest.mark.parametrize("lost", ["killed", "link down"])
def test_a_study_that_loses_a_node_ends_to_the_same_bits_on_the_other(lost: str, tmp_path: Path, reference: Path) -> None:
    out = tmp_path / "out"
    with two_nodes(tmp_path, shared=True) as nodes:
        study = nodes.study(out, *SMALL_THERE).until(lambda: nodes.second.trains() and len(checkpoints(out)) == 2)
        nodes.second.kill() if lost == "killed" else nodes.set_link(up=False)
        assert study.end() == 0
    found = left_in(out / "mlflow.db")
    assert_same(found, left_in(reference / "mlflow.db"))
    assert sum(found.restarts.values()) == 1


@pytest.mark.slow
def test_a_folder_that_the_second_node_does_not_share_is_refused_before_anything_is_started(tmp_path: Path) -> None:
    out = tmp_path / "out"
    with two_nodes(tmp_path, shared=False) as nodes:
        study = nodes.study(out, "study=smoke")
        assert study.end() == 2
        in_second = Path(f"/proc/{nodes.second.pid}/root{tmp_path}")
        assert not list(in_second.iterdir())
    assert f"output_dir={out}: is not shared by all nodes" in study.stderr
    assert f"({SECOND}, {SECOND_ADDRESS}: what the driver writes is not there)" in study.stderr
    assert not out.exists()


@pytest.mark.nightly
def test_a_module_of_ones_own_travels_to_a_node_that_does_not_have_the_file(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    out, own = tmp_path / "out", tmp_path_factory.mktemp("own")
    words = own_file(own, "travels")
    with two_nodes(tmp_path, shared=True) as nodes:
        assert not Path(f"/proc/{nodes.second.pid}/root{own}").exists()
        study = nodes.study(out, *SMALL_THERE, "env=gym", *words).until(lambda: nodes.head.trains() and nodes.second.trains())
        assert study.end() == 0


@pytest.mark.nightly
def test_a_node_that_lacks_a_package_or_has_another_numpy_is_refused_by_name_before_anything_is_started(tmp_path: Path) -> None:
    import Box2D
    import numpy as np

    out, box2d = tmp_path / "out", Path(Box2D.__file__).parent
    numpy_metadata = box2d.parent / f"numpy-{np.__version__}.dist-info" / "METADATA"
    another = tmp_path / "METADATA"
    another.write_text(numpy_metadata.read_text().replace(f"Version: {np.__version__}", "Version: 1.99.0", 1))
    with linked_machines(tmp_path, shared=True) as nodes:
        nodes.second.run("mount", "-t", "tmpfs", "tmpfs", str(box2d))
        nodes.start(num_cpus=1)
        study = nodes.study(out, "study=smoke", "env=lunarlander")
        assert study.end() == 2
        assert f"{SECOND}, {SECOND_ADDRESS}: env=lunarlander" in study.stderr and "pip install" in study.stderr
        assert not (out / "studies").exists()
        nodes.second.run("mount", "--bind", str(another), str(numpy_metadata))
        study = nodes.study(out, "study=smoke")
        assert study.end() == 2
    assert f"({SECOND}, {SECOND_ADDRESS}: numpy 1.99.0, and {np.__version__} here)" in study.stderr
    assert not (out / "studies").exists()


@pytest.mark.nightly
@pytest.mark.timeout(900)
def test_a_trial_with_processes_on_both_nodes_tells_their_machines_and_what_they_use(tmp_path: Path) -> None:
    out = tmp_path / "out"
    spread = ("hardware.placement=SPREAD", "hardware.num_env_runners=1", "seeds=[0]", "study.space={}", "tracking.system_metrics=true")
    with two_nodes(tmp_path, shared=True) as nodes:
        assert nodes.study(out, *SMALL_THERE, *spread).end() == 0
    study = load_study("smoke", f"sqlite:///{out / 'mlflow.db'}")
    (trial,) = study.runs.to_dict("records")
    assert sorted(trial["host"].split(", ")) == sorted([HEAD, SECOND])
    assert trial["cpu"] == cpu_model() and trial["exclusive"]
    used = study.curves.groupby("metric", observed=True)["value"].last()
    assert used["system/runners_memory_mib"] > 50 and used["system/runners_cpu_percent"] > 0
    assert used["system/memory_mib"] == pytest.approx(used["system/runners_memory_mib"] + used["system/driver_memory_mib"])
