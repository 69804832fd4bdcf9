"""Environments under bits=portable, played on processors that this machine does not have."""

import json
import re

import pytest

from experiments.config.errors import ConfigurationError
from experiments.limits.arithmetic import lacking
from experiments.planning import emulated as playing
from experiments.planning.emulated import AGAIN, HERE
from tests.support.processors import emulated
from tests.support.suite import ROOT, PlanOf

OURS = sorted(path.stem for path in (ROOT / "conf/env").glob("*.yaml") if path.stem != "gym")
FIRST = ("cartpole", "lunarlander")
COUNT = ("study=single", "env=gym", "env.id=tiny_envs:tiny/Count-v0", "bits=portable")

pytestmark = pytest.mark.skipif(bool(lacking()), reason=lacking())


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(playing, "TIMEOUT_S", 280.0)


@pytest.mark.slow
@pytest.mark.timeout(400)
@pytest.mark.usefixtures("patient")
@emulated
@pytest.mark.parametrize(
    # one of each kind at every change; Pong's imports take two minutes there
    "env",
    [pytest.param(env, marks=() if env in FIRST else pytest.mark.nightly) for env in OURS],
)
def test_environments_of_the_suite_are_the_same_on_another_makers_processor(env: str, plan_of: PlanOf) -> None:
    settings = plan_of("study=single", f"env={env}").suite.env
    found = playing.played(settings.id, json.dumps(settings.make_arguments))
    assert len(set(found.values())) == 1 and found[HERE], found


@pytest.mark.nightly
@pytest.mark.timeout(400)
@pytest.mark.usefixtures("patient")
@emulated
def test_an_environment_with_arithmetic_of_its_own_is_refused(plan_of: PlanOf) -> None:
    said = "Approximate-v0 gives other numbers on an Intel Haswell and on an AMD EPYC"
    with pytest.raises(ConfigurationError, match=said):
        plan_of("study=single", "env=gym", "env.id=tiny_envs:tiny/Approximate-v0", "bits=portable")


@pytest.mark.parametrize(
    ("found", "remark"),
    [
        (("ab", "ab", "ab", "ab"), "tiny-count-v0: 200 env steps are the same .* an Intel Haswell and an AMD EPYC"),
        (("ab", "ab", "", "ab"), "tiny-count-v0: 200 env steps are the same to the bit here and on an AMD EPYC"),
        (("ab", "cd", "ef", "ef"), "tiny-count-v0: whether .* not known: reset.seed=. does not determine"),
        (("", "", "", ""), "tiny-count-v0: whether .* not known: it could not be played"),
        (("ab", "ab", "", ""), "tiny-count-v0: whether .* not known: qemu-x86_64 did not play it"),
        (None, "tiny-count-v0: whether its arithmetic is portable is not known: qemu-x86_64.*is not installed"),
    ],
)
def test_what_is_known_of_ones_own_environment_is_said(
    found: tuple[str, ...] | None, remark: str, plan_of: PlanOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(playing, "is_there", lambda: found is not None)
    monkeypatch.setattr(
        playing, "played", lambda *env: dict(zip((HERE, AGAIN, *playing.PROCESSORS), found or (), strict=True))
    )
    (note,) = plan_of(*COUNT).notes
    assert re.match(remark, note)


def test_one_that_differs_is_refused(plan_of: PlanOf, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(playing, "is_there", lambda: True)
    monkeypatch.setattr(playing, "played", lambda *env: {HERE: "ab", AGAIN: "ab", "Haswell": "cd", "EPYC": "ab"})
    said = "Count-v0 gives other numbers on an Intel Haswell, as QEMU has it .*Leave bits=portable out"
    with pytest.raises(ConfigurationError, match=said):
        plan_of(*COUNT)


def test_an_environment_whose_kind_was_tried_is_not_tried_again(
    plan_of: PlanOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(playing, "played", lambda *env: pytest.fail("played"))
    assert not plan_of("study=single", "env=cartpole", "bits=portable").notes
