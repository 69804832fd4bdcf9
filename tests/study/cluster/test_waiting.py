"""What a study waits for before it starts, without Ray."""

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, cast

import pytest
from ray.tune import PlacementGroupFactory

from experiments.planning.machines import Cluster, Node
from experiments.planning.plan import Plan
from experiments.planning.resources import DoesNotFitError, check_fits
from experiments.study.cluster import waiting
from experiments.study.cluster.waiting import planned
from tests.support.suite import PlanOf

REQUEST = PlacementGroupFactory([{"CPU": 2}])


def joined(*num_cpus: float, num_coming: int = 0) -> Cluster:
    return Cluster(tuple(Node(cpus, 0) for cpus in num_cpus), is_joined=True, num_coming=num_coming)


def make(cluster: Cluster) -> Plan:
    check_fits(REQUEST, cluster, "auto")
    return cast(Plan, SimpleNamespace(configurations=[SimpleNamespace(request=REQUEST)], cluster=cluster))


@pytest.fixture
def wanted(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """What an autoscaler hears: `asked` and `let go` in turn."""
    heard: list[str] = []
    monkeypatch.setattr(waiting, "_LOOK_EVERY_S", 0.0)
    monkeypatch.setattr(PlacementGroupFactory, "to_placement_group", lambda request: heard.append("asked"))
    monkeypatch.setattr(waiting, "remove_placement_group", lambda group: heard.append("let go"))
    yield heard
    assert heard == ["asked", "let go"] * (len(heard) // 2)


def plan(cluster: Cluster, *later: Cluster, wait_s: float = 1000.0) -> tuple[Cluster, list[str]]:
    """The cluster of the plan, and what was said."""
    said: list[str] = []
    seen = iter(later)
    return planned(make, cluster, lambda: next(seen), wait_s, said.append).cluster, said


def test_a_cluster_with_room_is_not_waited_for(wanted: list[str]) -> None:
    assert plan(joined(2)) == (joined(2), [])
    assert not wanted


def test_a_head_without_cpus_waits_for_a_node_with_room_and_says_for_what(wanted: list[str]) -> None:
    found, said = plan(joined(0), joined(0), joined(0, 1), joined(0, 1), joined(0, 1, 2))
    assert found == joined(0, 1, 2)
    assert len(said) == len(wanted) // 2 == 2
    assert said[0] == "waiting     for 2 CPUs and 0 GPUs, at most 1000 s in all (hardware.wait_for_nodes_s)"


def test_a_node_that_an_autoscaler_may_add_is_asked_for_and_planned_with(wanted: list[str]) -> None:
    found, said = plan(joined(0, 2, num_coming=1), joined(0, 2))
    assert found == joined(0, 2)
    assert len(said) == 1 and wanted


def test_a_kind_of_accelerator_that_no_node_has_yet_is_waited_for(plan_of: PlanOf, wanted: list[str]) -> None:
    words, said = ("study=single", "hardware.num_gpus_per_learner=1", "hardware.accelerator_type=A100"), list[str]()
    grown = Cluster((Node(8, 0), Node(8, 1, ("A100",))), is_joined=True)
    found = planned(lambda cluster: plan_of(*words, cluster=cluster), joined(8), lambda: grown, 1000.0, said.append)
    assert found.configurations[0].request.bundles[0]["GPU"] == 1
    assert said == ["waiting     for 1 CPU and 1 GPU (A100), at most 1000 s in all (hardware.wait_for_nodes_s)"]
    assert wanted == ["asked", "let go"]


def test_what_no_node_of_the_autoscaler_can_hold_is_refused_at_once(wanted: list[str]) -> None:
    with pytest.raises(DoesNotFitError, match=r"needs 2 CPUs and 0 GPUs per trial.* may grow to 1 CPU and 0 GPUs"):
        plan(joined(0, 1, num_coming=1))
    assert not wanted


@pytest.mark.parametrize("cluster", [Cluster((Node(1, 0),)), joined(1)])
def test_what_does_not_fit_is_refused_at_once_on_one_machine_and_where_nothing_is_waited_for(
    cluster: Cluster, wanted: list[str]
) -> None:
    with pytest.raises(DoesNotFitError) as refused:
        plan(cluster, wait_s=1000.0 if not cluster.is_joined else 0.0)
    assert ("hardware.num_cpus=" in str(refused.value)) != cluster.is_joined  # nothing can be declared in a cluster
    assert not wanted


def test_what_does_not_come_in_time_is_refused_with_the_setting(
    wanted: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    times: Any = iter([0.0, 1.0, 2.0, 11.0, 11.0])
    monkeypatch.setattr(waiting.time, "monotonic", lambda: next(times))
    with pytest.raises(DoesNotFitError, match=r"No such node joined within 10 s \(hardware\.wait_for_nodes_s\)"):
        plan(joined(1), joined(1), joined(1), wait_s=10.0)
