"""Studies on a cluster of two nodes, each with its own network, processes, host name and /tmp."""

from pathlib import Path

import pytest

from tests.support.outputs import SMALL, assert_same, checkpoints, left_in
from tests.support.two_nodes import SECOND, SECOND_ADDRESS, two_nodes

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
