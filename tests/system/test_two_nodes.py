"""Studies on a cluster of two nodes, each with its own network, processes, host name and /tmp."""

from pathlib import Path

import pytest

from tests.support.outputs import SMALL, assert_same, left_in
from tests.support.two_nodes import two_nodes

pytestmark = [pytest.mark.ray]


@pytest.mark.nightly
def test_a_study_trains_on_both_nodes_to_the_same_bits_as_on_one(tmp_path: Path, reference: Path) -> None:
    out = tmp_path / "out"
    with two_nodes(tmp_path, shared=True) as nodes:
        small = [word for word in SMALL if not word.startswith("hardware.")]
        study = nodes.study(out, *small).until(lambda: nodes.head.trains() and nodes.second.trains())
        assert study.end() == 0
    assert_same(left_in(out / "mlflow.db"), left_in(reference / "mlflow.db"))
