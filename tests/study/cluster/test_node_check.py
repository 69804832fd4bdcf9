"""Nodes on which a study cannot run, or would come to other results, are refused by name;
what changes last bits alone is said.
"""

import time
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, ClassVar

import pytest
import ray

from experiments.limits.arithmetic import PORTABLE
from experiments.study.cluster import node_check
from experiments.study.cluster.node_check import JoinCheck, check_nodes, differences, unfit
from experiments.study.cluster.node_report import SAME, NodeReport, own_machine, own_versions, report
from experiments.study.cluster.shared_storage import marked
from experiments.tracking.provenance import own_code
from tests.support.planning import plan_for
from tests.support.suite import ROOT

HERE = NodeReport("", {**dict.fromkeys(SAME, "1.0"), "torch": "2.13.0+cpu"}, "code")
EPYC = {
    "host": {"cpu": "AMD EPYC"},
    "arithmetic": {"torch_cpu_capability": "AVX2"},
    "environment": {},
    "packages": {"torch": "2.13.0+cpu"},
}


def _node(lacks: str = "", code: str = "code", machine: Mapping[str, Any] = EPYC, **versions: str) -> NodeReport:
    return NodeReport("", {**HERE.versions, **versions}, code, lacks, machine)


def _report(tmp_path: Path, env: Mapping[str, Any], modules: Mapping[str, str] | None = None) -> NodeReport:
    with marked(tmp_path) as mark:
        return report("node", mark.write_back, mark.words, [env], modules or {})


def test_a_node_of_another_numpy_is_refused_with_both_versions_and_the_fix() -> None:
    said = unfit(HERE, {"one (192.0.2.1)": _node(), "two (192.0.2.2)": _node(numpy="0.9")})
    assert "two (192.0.2.2): numpy 0.9, and 1.0 here" in said and "pip install" in said
    assert "one (192.0.2.1)" not in said


def test_another_build_of_one_torch_is_no_other_version() -> None:
    assert unfit(HERE, {"one": _node(torch="2.13.0+cu128"), "two": _node(torch="2.13.0")}) == ""


def test_a_node_with_other_code_of_the_suite_is_refused() -> None:
    assert "two: other, and code here" in unfit(HERE, {"one": _node(), "two": _node(code="other")})


def test_a_node_that_lacks_a_package_is_refused_with_the_reason() -> None:
    assert "two: Box2D is not installed" in unfit(HERE, {"one": _node(), "two": _node("Box2D is not installed")})


def test_nodes_that_are_alike_are_not_mentioned() -> None:
    assert unfit(HERE, {"one": _node(), "two": _node()}) == ""
    assert differences({"one": _node(), "two": _node()}) == []


def test_kinds_of_cpu_and_builds_of_torch_are_said_once_for_all_nodes_alike() -> None:
    xeon = {**EPYC, "host": {"cpu": "Intel Xeon"}, "packages": {"torch": "2.13.0+cu128", "one-more": "1"}}
    (line,) = differences({"one": _node(), **{f"x{number}": _node(machine=xeon) for number in range(5)}})
    assert "CPU AMD EPYC -> Intel Xeon, torch 2.13.0+cpu -> 2.13.0+cu128 on x0, x1, x2 and 2 more" in line
    assert "one-more" not in line


def test_unlike_cpus_are_nothing_to_what_portable_trials_learn() -> None:
    nodes = {"one": _node(), "two": _node(machine={**EPYC, "host": {"cpu": "Intel Xeon"}})}
    assert "may not be the same to the bit as on one" in differences(nodes)[0]
    assert differences(nodes, PORTABLE) == []


def test_gpus_of_one_node_alone_are_no_difference() -> None:
    assert (
        differences(
            {"one": _node(), "two": _node(machine={**EPYC, "host": {"cpu": "AMD EPYC", "gpus": ["NVIDIA H200"]}})}
        )
        == []
    )


def test_a_node_answers_for_its_folder_its_versions_and_its_code(tmp_path: Path) -> None:
    env = asdict(plan_for().configurations[0].suite.env)
    assert _report(tmp_path, env) == NodeReport("", own_versions(), own_code(), machine=own_machine())


def test_a_node_names_the_environment_that_it_cannot_make(tmp_path: Path) -> None:
    env = asdict(plan_for().configurations[0].suite.env)
    assert "nowhere" in _report(tmp_path, {**env, "id": "nowhere:Env-v0"}).lacks


def test_a_node_names_the_module_that_it_does_not_have(tmp_path: Path) -> None:
    env = asdict(plan_for().configurations[0].suite.env)
    assert _report(tmp_path, env, {"not_there": "0" * 16}).lacks == "ModuleNotFoundError: No module named 'not_there'"


def test_the_digest_of_code_tells_an_edit(tmp_path: Path) -> None:
    from experiments.tracking.provenance import code_digest

    (tmp_path / "a.py").write_text("x = 1")
    before = code_digest(tmp_path)
    (tmp_path / "a.py").write_text("x = 2")
    assert code_digest(tmp_path) != before
    assert own_code() == code_digest(ROOT / "experiments")


@pytest.mark.ray
def test_on_a_single_node_nothing_is_asked(ray_instance: None, tmp_path: Path) -> None:
    assert check_nodes(plan_for(), tmp_path / "out") == []
    assert not list(tmp_path.iterdir())


@pytest.mark.ray
@pytest.mark.nightly
def test_a_node_that_joins_is_asked_while_the_study_runs(ray_instance: None, tmp_path: Path) -> None:
    (node,) = ray.nodes()
    here, there = JoinCheck(plan_for(), tmp_path), JoinCheck(plan_for(), tmp_path)
    there._own = NodeReport("", {**own_versions(), "torch": "0.1"}, own_code(), machine=own_machine())
    for check, said in ((here, ""), (there, "torch")):
        check.ask({node["NodeID"]: "one"})
        answers: dict[str, str] = {}
        while not answers:
            time.sleep(0.1)
            answers, lines = check.answered()
        assert set(answers) == {node["NodeID"]} and not lines
        assert said in answers[node["NodeID"]] and bool(said) == bool(answers[node["NodeID"]])
        check.close()
    assert not list(tmp_path.iterdir())


class Question:
    """What one node is asked, and answers when the test says so."""

    made: ClassVar[dict[str, "Question"]] = {}

    def __init__(self, plan: object, names: Mapping[str, str], mark: object) -> None:
        self.names = names
        self.answer: NodeReport | None = None
        self.late = False
        self.made.update(dict.fromkeys(names, self))

    def is_answered(self) -> bool:
        return self.answer is not None

    def is_late(self) -> bool:
        late, self.late = self.late, False
        return late

    def answers(self) -> tuple[dict[str, NodeReport | None], dict[str, str]]:
        return dict.fromkeys(self.names.values(), self.answer), {}


def test_a_node_that_joins_and_is_slow_to_answer_is_said_once_and_used_when_it_does(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(node_check, "_Question", Question)
    check = JoinCheck(plan_for(), tmp_path)
    check.ask({"a": "quick (10.0.0.1)", "b": "slow (10.0.0.2)"})
    fit = NodeReport("", own_versions(), own_code(), machine=own_machine())
    Question.made["a"].answer = fit
    assert check.answered() == ({"a": ""}, [])
    Question.made["b"].late = True
    assert check.answered() == (
        {},
        ["node        slow (10.0.0.2) gives no answer within 120 s: not used until it does"],
    )
    assert check.answered() == ({}, [])
    Question.made["b"].answer = fit
    assert check.answered() == ({"b": ""}, [])
    assert not list(tmp_path.iterdir())
