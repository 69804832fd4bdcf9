"""What a cluster's autoscaler hears of, without Ray."""

from collections.abc import Set
from typing import Any

import pytest
from ray.tune import PlacementGroupFactory

from experiments.study.cluster import demand
from experiments.study.cluster.demand import Demand
from experiments.study.tune.listed_trials import ListedTrials
from experiments.trial.tune_keys import TRIAL
from tests.support.suite import PlanOf

REQUESTS = [PlacementGroupFactory([{"CPU": cpus}]) for cpus in (1, 2, 3)]


class Asked:
    """Where Ray keeps what is asked for: CPUs and the nodes that are left out."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.groups: list[tuple[float, Set[str]]] = []

        def place(placement: Any) -> tuple[float, Set[str]]:
            self.groups.append((placement.required_resources["CPU"], placement._unused()))
            return self.groups[-1]

        monkeypatch.setattr(demand.StudyPlacement, "to_placement_group", place)
        monkeypatch.setattr(demand, "remove_placement_group", self.groups.remove)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Asked:
    return Asked(monkeypatch)


def test_trials_are_asked_for_on_nodes_that_are_not_there_yet(asked: Asked) -> None:
    wanted = Demand()
    wanted.ask(REQUESTS, {"head"})
    assert asked.groups == [(1, {"head"}), (2, {"head"}), (3, {"head"})]
    wanted.ask(REQUESTS, {"head"})
    assert len(asked.groups) == 3


def test_a_node_that_came_holds_nothing_that_was_asked_for(asked: Asked) -> None:
    wanted = Demand()
    wanted.ask(REQUESTS, {"head"})
    wanted.ask(REQUESTS[:1], {"head", "new"})
    assert asked.groups == [(1, {"head", "new"})]


def test_what_is_not_wanted_any_more_is_let_go(asked: Asked) -> None:
    wanted = Demand()
    wanted.ask(REQUESTS, {"head"})
    wanted.ask(REQUESTS[:2], {"head"})
    assert asked.groups == [(1, {"head"}), (2, {"head"})]
    wanted.close()
    assert asked.groups == []


def test_the_trials_that_wait_for_no_room_are_those_that_tune_has_not_asked_for(plan_of: PlanOf) -> None:
    planned = plan_of("seeds=[0,1,2]", "study.space={}").trials
    trials = ListedTrials(planned, lambda trial: {"seed": trial.seed}, max_concurrent=2)
    assert trials.left == planned and len(planned) == 3
    given = trials._trials({"run": "PPO", "config": {}})
    assert next(given).config[TRIAL] == {"seed": 0}
    assert trials.left == planned[1:]
    assert len(list(given)) == 2
    assert not trials.left
