"""Makes sure that a study can run on every node of a cluster, and comes out the same on each: one task a node, before the start."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import ray
from ray.exceptions import GetTimeoutError, RayError, RayTaskError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from experiments.config.errors import ConfigurationError, first_line, reason_of
from experiments.planning.plan import Plan
from experiments.study import node_report
from experiments.study.node_report import NodeReport
from experiments.study.shared_storage import Mark, marked, refusal
from experiments.tracking.provenance_changes import changes

_WAIT_S = 120.0
"""For the answer of a node: it may have to start a process, and to unpack the suite's modules first."""
_MOST = 3
"""Differences, or nodes, that are named."""


def check_nodes(plan: Plan, folder: Path, setting: str = "output_dir") -> list[str]:
    """Ask every node that can run a trial whether it has the study's folder, and what trials run with. Costs nothing on a single node.

    Args:
        plan: The study.
        folder: Where it writes, absolute; made if need be.
        setting: What chose it.

    Returns:
        Lines for the terminal: in what nodes differ that may change the last bits of a result.

    Raises:
        ConfigurationError: Some cannot run the study, or would come to other results; names each and the fix. Nothing is left behind.
    """
    alive = _alive()
    if len(alive) < 2:
        return []
    nodes = [node for node in alive.values() if node["Resources"].get("CPU")]
    with marked(folder, setting) as mark:
        reports, silent = _ask(nodes, mark, plan)
        cluster = f"hardware.address={plan.suite.hardware.address}"
        if silent:
            raise ConfigurationError(f"{cluster}: a node cannot be used ({_listed(silent)}). Mend it, or take it out of the cluster.")
        if problems := {name: report.folder for name, report in reports.items() if report.folder}:
            raise ConfigurationError(refusal(f"{setting}={folder}", problems))
        if problem := unfit(NodeReport("", node_report.own_versions(), node_report.own_code()), reports):
            raise ConfigurationError(f"{cluster}: {problem}")
    return differences(reports)


def unfit(here: NodeReport, reports: Mapping[str, NodeReport]) -> str:
    """Why some nodes cannot run the study, or would come to other results; "" if there is none.

    Args:
        here: What the driver says of itself.
        reports: Node, by name and address, to its answer.
    """
    if lacking := {node: report.lacks for node, report in reports.items() if report.lacks}:
        return f"not every node has what the trials need ({_listed(lacking)}). Install the same packages on all nodes."
    other = {node: words for node, report in reports.items() if (words := _other_versions(here, report))}
    if other:
        return (
            f"not every node has the versions that the driver has, and results depend on them ({_listed(other)}). Install the same on all "
            "nodes: pip install -r requirements.txt."
        )
    other = {node: f"{report.code}, and {here.code} here" for node, report in reports.items() if report.code != here.code}
    if other:
        return (
            f"some nodes import another version of the suite than the driver sends them ({_listed(other)}). Uninstall it there: pip "
            "uninstall rl-scaling-suite."
        )
    return ""


def differences(reports: Mapping[str, NodeReport]) -> list[str]:
    """In what nodes differ from the first one that may change the last bits of a result, as lines for the terminal.

    Args:
        reports: Node, by name and address, to its answer.
    """
    if not reports:
        return []
    first, *_ = (report.machine for report in reports.values())
    alike: dict[tuple[str, ...], list[str]] = {}
    for node, report in reports.items():
        if found := changes(_common(first, report.machine), _common(report.machine, first)):
            alike.setdefault(tuple(map(str, found)), []).append(node)
    return [
        f"differs     {_some(found)} on {_some(nodes)}. Trials there may not be the same to the bit as on {next(iter(reports))}."
        for found, nodes in alike.items()
    ]


def _common(machine: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    """A node's facts, without GPUs and packages that another has not: what trials need, both have."""
    return {
        section: {name: fact for name, fact in facts.items() if section not in ("host", "packages") or name in other[section]}
        for section, facts in machine.items()
    }


def _other_versions(here: NodeReport, there: NodeReport) -> str:
    """The versions that differ, in words. CPU and CUDA builds of one version (`2.13.0+cpu`) differ in libraries, which are said."""
    versions = [(name, here.versions.get(name, "none"), there.versions.get(name, "none")) for name in node_report.SAME]
    return ", ".join(f"{name} {own}, and {driver} here" for name, driver, own in versions if _public(own) != _public(driver))


def _public(version: str) -> str:
    return version.partition("+")[0]


def _listed(by_node: Mapping[str, str]) -> str:
    return "; ".join(f"{node}: {words}" for node, words in by_node.items())


def _some(words: Sequence[str]) -> str:
    return ", ".join(words[:_MOST]) + (f" and {len(words) - _MOST} more" if len(words) > _MOST else "")


def _alive() -> dict[str, Mapping[str, Any]]:
    return {node["NodeID"]: node for node in ray.nodes() if node["Alive"]}


def _ask(nodes: Sequence[Mapping[str, Any]], mark: Mark, plan: Plan) -> tuple[dict[str, NodeReport], dict[str, str]]:
    """What nodes answer, and why some do not, by name and address. One that is lost meanwhile is left out: it runs no trial."""
    environments = {json.dumps(asdict(c.suite.env)): asdict(c.suite.env) for c in plan.configurations}
    task = ray.remote(num_cpus=0, max_retries=0)(node_report.report)
    asked = {}
    for node in nodes:
        there = NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)
        words = mark.write_back, mark.words, node["NodeID"], list(environments.values()), dict(plan.suite.modules)
        asked[task.options(scheduling_strategy=there).remote(*words)] = node
    ray.wait(list(asked), num_returns=len(asked), timeout=_WAIT_S)
    reports: dict[str, NodeReport] = {}
    silent: dict[str, str] = {}
    for answer, node in asked.items():
        name = f"{node['NodeManagerHostname']}, {node['NodeManagerAddress']}"
        try:
            report: NodeReport = ray.get(answer, timeout=0)
            reports[name] = replace(report, folder=mark.problem(node["NodeID"], report.folder))
        except GetTimeoutError:
            ray.cancel(answer, force=True)
            silent[name] = f"gives no answer within {_WAIT_S:g} s"
        except RayTaskError as error:
            silent[name] = f"cannot run the suite ({reason_of(error.cause)})"
        except RayError as error:
            silent[name] = f"gives no answer ({first_line(error)})"
        if node["NodeID"] not in _alive():
            reports.pop(name, None)
            silent.pop(name, None)
    return reports, silent
