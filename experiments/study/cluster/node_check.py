"""Makes sure that a study can run on every node of a cluster, and comes out the same on each:
one task a node, before the start.
"""

import json
import math
import time
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import ray
from ray.exceptions import GetTimeoutError, RayError, RayTaskError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from experiments.config.errors import ConfigurationError, first_line, reason_of
from experiments.contract.words import labelled, some
from experiments.limits.arithmetic import NATIVE, Bits
from experiments.planning.plan import Plan
from experiments.study.cluster import node_report
from experiments.study.cluster.node_report import NodeReport
from experiments.study.cluster.shared_storage import Mark, marked
from experiments.tracking.provenance import own_code
from experiments.tracking.provenance_changes import changes_of_bits

_WAIT_S = 120.0
"""For the answer of a node: it may have to start a process, and to unpack the suite's modules first."""
_MOST = 3
"""Differences, or nodes, that are named."""


def check_nodes(plan: Plan, folder: Path, setting: str = "output_dir") -> list[str]:
    """Ask every node that can run a trial whether it has the study's folder, and what trials run with.

    Costs nothing on a single node.

    Args:
        plan: The study.
        folder: Where it writes, absolute; made if need be.
        setting: What chose it.

    Returns:
        Lines for the terminal: in what nodes differ that may change the last bits of a result.

    Raises:
        ConfigurationError: Some cannot run the study, or would come to other results; names each and the fix.
            Nothing is left behind.
    """
    alive = _alive()
    if len(alive) < 2:
        return []
    nodes = {id: named(node) for id, node in alive.items() if node["Resources"].get("CPU")}
    with marked(folder, setting) as mark:
        question = _Question(plan, nodes, mark)
        question.wait()
        reports, silent = question.answers()
        cluster = f"hardware.address={plan.suite.hardware.address}"
        if silent:
            raise ConfigurationError(
                f"{cluster}: a node cannot be used ({_listed(silent)}). Mend it, or take it out of the cluster."
            )
        if problems := {name: report.folder for name, report in reports.items() if report.folder}:
            raise ConfigurationError(mark.refusal(problems))
        if problem := unfit(_own_report(), reports):
            raise ConfigurationError(f"{cluster}: {problem}")
    return differences(reports, plan.suite.bits)


class JoinCheck:
    """Asks nodes that join a study what those were asked that were there before it, while it runs."""

    def __init__(self, plan: Plan, folder: Path) -> None:
        """Ask for a study.

        Args:
            plan: The study.
            folder: Its own, absolute.
        """
        self._plan, self._folder = plan, folder
        self._asked: list[_Question] = []
        self._marks = ExitStack()
        self._own = replace(_own_report(), machine=node_report.own_machine())

    def ask(self, nodes: Mapping[str, str]) -> None:
        """Ask nodes, by id, with their names and addresses.

        Each by itself: one that is slow keeps no other from being used.

        Raises:
            ConfigurationError: The study's folder cannot be written here.
        """
        mark = self._marks.enter_context(marked(self._folder))
        self._asked += [_Question(self._plan, {node: name}, mark) for node, name in nodes.items()]

    def answered(self) -> tuple[dict[str, str], list[str]]:
        """The news since the last call.

        A node that takes long to answer is waited for as long as it is there.

        Returns:
            Id of each node that has answered, or cannot, to why it cannot be used, "" if it can;
            and lines for the terminal.
        """
        over = [question for question in self._asked if question.is_answered()]
        late = [
            name
            for question in self._asked
            if question not in over and question.is_late()
            for name in question.names.values()
        ]
        said = [
            labelled("node", f"{name} gives no answer within {_WAIT_S:g} s: not used until it does") for name in late
        ]
        why: dict[str, str] = {}
        fit = {"the driver's node": self._own}
        for question in over:
            self._asked.remove(question)
            reports, silent = question.answers()
            for node, name in question.names.items():
                report = reports.get(name)  # None: it is silent, or gone
                why[node] = silent.get(name, "") if report is None else self._why_not(name, report)
                if report is not None and not why[node]:
                    fit[name] = report
        if not self._asked:
            self._marks.close()
        return why, [*differences(fit, self._plan.suite.bits), *said]

    def _why_not(self, name: str, report: NodeReport) -> str:
        return f"{report.folder}: {self._folder}" if report.folder else unfit(self._own, {name: report})

    def close(self) -> None:
        """Wait for no answer any more."""
        self._marks.close()


def _own_report() -> NodeReport:
    return NodeReport("", node_report.own_versions(), own_code())


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
            f"not every node has the versions that the driver has, and results depend on them ({_listed(other)}). "
            "Install the same on all nodes: pip install -r requirements.txt."
        )
    other = {
        node: f"{report.code}, and {here.code} here" for node, report in reports.items() if report.code != here.code
    }
    if other:
        return (
            f"some nodes import another version of the suite than the driver sends them ({_listed(other)}). "
            "Uninstall it there: pip uninstall rl-scaling-suite."
        )
    return ""


def differences(reports: Mapping[str, NodeReport], bits: Bits = NATIVE) -> list[str]:
    """In what nodes differ from the first one that may change the last bits of a result, as lines for the terminal.

    Args:
        reports: Node, by name and address, to its answer.
        bits: Of the study. `portable` ones do not depend on processors and their libraries, which are left out then.
    """
    if not reports:
        return []
    machines = {node: report.machine for node, report in reports.items()}
    first, *_ = machines.values()
    alike: dict[tuple[str, ...], list[str]] = {}
    for node, machine in machines.items():
        if found := changes_of_bits(first, machine, bits):
            alike.setdefault(tuple(map(str, found)), []).append(node)
    return [
        labelled(
            "differs",
            f"{some(found, _MOST)} on {some(nodes, _MOST)}. Trials there may not be the same to the bit "
            f"as on {next(iter(reports))}.",
        )
        for found, nodes in alike.items()
    ]


def _other_versions(here: NodeReport, there: NodeReport) -> str:
    """The versions that differ, in words.

    CPU and CUDA builds of one version (`2.13.0+cpu`) differ in libraries, which are said.
    """
    versions = [(name, here.versions.get(name, "none"), there.versions.get(name, "none")) for name in node_report.SAME]
    return ", ".join(
        f"{name} {own}, and {driver} here" for name, driver, own in versions if _public(own) != _public(driver)
    )


def _public(version: str) -> str:
    return version.partition("+")[0]


def _listed(by_node: Mapping[str, str]) -> str:
    return "; ".join(f"{node}: {words}" for node, words in by_node.items())


def named(node: Mapping[str, Any]) -> str:
    """A node's name and address, as Ray lists it."""
    return f"{node['NodeManagerHostname']} ({node['NodeManagerAddress']})"


def _alive() -> dict[str, Mapping[str, Any]]:
    return {node["NodeID"]: node for node in ray.nodes() if node["Alive"]}


class _Question:
    """The questions to nodes, each by a task of its own.

    Attributes:
        names: Id of each node to its name and address.
    """

    def __init__(self, plan: Plan, names: Mapping[str, str], mark: Mark) -> None:
        self.names = names
        self._mark, self._late_at = mark, time.monotonic() + _WAIT_S
        environments = {json.dumps(asdict(c.suite.env)): asdict(c.suite.env) for c in plan.configurations}
        words = mark.write_back, mark.words, list(environments.values()), dict(plan.suite.modules)
        # max_calls: Ray would give the process to a trial next, and environments were made in it.
        task = ray.remote(num_cpus=0, max_retries=0, max_calls=1)(node_report.report)
        self._asked = {
            task.options(scheduling_strategy=NodeAffinitySchedulingStrategy(node, soft=False)).remote(
                node, *words
            ): node
            for node in self.names
        }

    def wait(self) -> None:
        """Until all have answered, or had the time to."""
        ray.wait(list(self._asked), num_returns=len(self._asked), timeout=max(0.0, self._late_at - time.monotonic()))

    def is_answered(self) -> bool:
        """True if nothing more will come: all have answered, or are gone."""
        return not ray.wait(list(self._asked), num_returns=len(self._asked), timeout=0)[1]

    def is_late(self) -> bool:
        """True once, when they have had the time to answer."""
        if late := time.monotonic() >= self._late_at:
            self._late_at = math.inf
        return late

    def answers(self) -> tuple[dict[str, NodeReport], dict[str, str]]:
        """The answers of nodes, and why some did not, by name and address.

        One that is lost meanwhile is left out: it runs no trial.
        """
        reports: dict[str, NodeReport] = {}
        silent: dict[str, str] = {}
        alive = _alive()
        for answer, node in self._asked.items():
            name = self.names[node]
            try:
                report: NodeReport = ray.get(answer, timeout=0)
                reports[name] = replace(report, folder=self._mark.problem(node, report.folder))
            except GetTimeoutError:
                ray.cancel(answer, force=True)
                silent[name] = f"gives no answer within {_WAIT_S:g} s"
            except RayTaskError as error:
                silent[name] = f"cannot run the suite ({reason_of(error.cause)})"
            except RayError as error:
                silent[name] = f"gives no answer ({first_line(error)})"
            if node not in alive:
                reports.pop(name, None)
                silent.pop(name, None)
        return reports, silent
