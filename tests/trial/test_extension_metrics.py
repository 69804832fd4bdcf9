"""What extensions and modules of a person's own measure: named, reported, saved."""

import sys
from collections.abc import Mapping
from dataclasses import replace
from types import ModuleType
from typing import Any

import pytest

from experiments.config.extension import Measured, Training
from experiments.contract import extensions
from experiments.contract.extensions import Extension, Manifest
from experiments.trial.extension_metrics import ExtensionMetrics
from tests.support.suite import PlanOf


class Counted(Measured):
    """Iterations."""

    key = "iterations"

    def __init__(self) -> None:
        self.state = 0

    def add(self, result: Mapping[str, Any]) -> None:
        self.state += 1

    def report(self) -> dict[str, float]:
        return {"own/iterations": self.state}

    def final(self) -> dict[str, float]:
        return {"final/iterations": self.state}


class Counting(Training):
    """Counts iterations."""

    def measure_in(self, algorithm: Any) -> Measured:
        return Counted()


class Silent(Training):
    """Measures nothing."""


def measured(
    plan_of: PlanOf, monkeypatch: pytest.MonkeyPatch, metrics: Mapping[str, str], reserved: tuple[str, ...] = ()
) -> ExtensionMetrics:
    """Of a trial with the extension, and with a module that gives what it is told."""
    module = ModuleType("own_metric")
    module.METRICS, module.metrics = {"own/a": "a count"}, lambda result: result
    monkeypatch.setitem(sys.modules, "own_metric", module)
    manifest = Manifest("counting", metrics=metrics)
    monkeypatch.setattr(extensions, "_own", {"counting": Extension(manifest, "counting", None)})
    trial = plan_of("study=single").trials[0]
    parts = {"counting": Counting(), "silent": Silent()}
    return ExtensionMetrics(replace(trial, extension=parts, modules={"own_metric": "0123"}), None, reserved)


NAMED = {"own/iterations": "a count", "final/iterations": "a count"}


def test_reports_have_what_was_given_last_and_a_resumed_trial_goes_on(
    plan_of: PlanOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = measured(plan_of, monkeypatch, NAMED)
    found.add({"own/a": 1})
    found.add({"own/a": 2})
    assert found.report() == {"own/iterations": 2.0, "own/a": 2.0}
    assert found.report() == {"own/iterations": 2.0}
    resumed = measured(plan_of, monkeypatch, NAMED)
    resumed.restore({"iterations": found.states()["iterations"], "env_steps": 512})
    resumed.add({})
    assert resumed.final() == {"final/iterations": 3.0}


def test_a_metric_that_is_not_named_is_refused_with_the_place(plan_of: PlanOf, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(RuntimeError, match="counting gives the metric own/iterations, which its manifest"):
        measured(plan_of, monkeypatch, {}).report()
    found = measured(plan_of, monkeypatch, NAMED)
    found.add({"own/b": 1})
    with pytest.raises(RuntimeError, match=r"own_metric\.metrics gives the metric own/b, which METRICS of the module"):
        found.report()


def test_a_key_that_is_taken_is_refused(plan_of: PlanOf, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(RuntimeError, match="'iterations' is taken as the key"):
        measured(plan_of, monkeypatch, NAMED, reserved=("iterations",))
