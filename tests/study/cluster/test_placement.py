"""Where a trial's processes may be."""

import pickle
from typing import Any

import pytest
from ray.tune import PlacementGroupFactory

from experiments.study.cluster import placement
from experiments.study.cluster.placement import StudyPlacement

REQUEST = PlacementGroupFactory([{"CPU": 2}, {"CPU": 1}], strategy="STRICT_PACK")


def asked(request: PlacementGroupFactory, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What Ray is asked for."""
    calls: list[dict[str, Any]] = []
    monkeypatch.setattr(placement, "ask_ray", lambda **arguments: calls.append(arguments))
    request.to_placement_group()
    (call,) = calls
    return call


def test_nodes_that_are_not_used_are_left_out_at_the_moment_of_the_request(monkeypatch: pytest.MonkeyPatch) -> None:
    unused: set[str] = set()
    request = StudyPlacement(REQUEST, lambda: unused)
    assert asked(request, monkeypatch) == {"bundles": [{"CPU": 2.0}, {"CPU": 1.0}], "strategy": "STRICT_PACK"}
    unused |= {"b", "a"}
    assert asked(request, monkeypatch)["bundle_label_selector"] == [{"ray.io/node-id": "!in(a,b)"}] * 2


def test_what_else_was_asked_of_the_nodes_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    on_a_kind = PlacementGroupFactory([{"CPU": 1}], bundle_label_selector=[{"ray.io/accelerator-type": "A100"}])
    selectors = asked(StudyPlacement(on_a_kind, lambda: {"a"}), monkeypatch)["bundle_label_selector"]
    assert selectors == [{"ray.io/accelerator-type": "A100", "ray.io/node-id": "!in(a)"}]


def test_a_request_stays_equal_to_itself_and_can_be_saved() -> None:
    unused: set[str] = set()
    request = StudyPlacement(REQUEST, lambda: unused)
    before = hash(request)
    unused.add("a")
    assert request == REQUEST == pickle.loads(pickle.dumps(request))
    assert hash(request) == before == hash(REQUEST)
