"""Settings of extensions: checked, hashed, recorded, and read back."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import pytest
from pydantic.dataclasses import dataclass

from experiments.config import extension
from experiments.config.errors import ConfigurationError
from experiments.config.extension import Absent, Training
from experiments.config.fields import STRICT
from experiments.config.schema import EnvSettings
from experiments.config.trial_config import TrialConfig
from experiments.contract import extensions
from experiments.contract.extensions import Extension, Manifest
from tests.support.suite import PlanOf


@dataclass(frozen=True, config=STRICT)
class Changing(Training):
    """Lets episodes end early, and learns with another discount."""

    limit: int = 0

    def environment(self, env: EnvSettings) -> EnvSettings:
        return type(env)(**{**vars(env), "max_episode_steps": self.limit})

    def configure(self, config: Any, trial: Any) -> None:
        config.training(gamma=0.5)


@dataclass(frozen=True, config=STRICT)
class Silent(Training):
    """Changes nothing."""

    on: bool = False
    changes_results: ClassVar[bool] = False


class OfTests(Extension):
    """One of this module's."""

    def load(self, reference: str) -> Any:
        return globals()[reference]


@pytest.fixture
def two(monkeypatch: pytest.MonkeyPatch) -> None:
    """Extensions that change results and that do not."""
    manifests = (Manifest("changing", training="Changing"), Manifest("silent", training="Silent", formerly="quiet"))
    own = {one.name: OfTests(one, "science.tests", Path()) for one in manifests}
    monkeypatch.setattr(extensions, "_own", own)


def trial_of(plan_of: PlanOf, **settings: Mapping[str, Any]) -> TrialConfig:
    words = [f"++extension.{name}.{key}={value}" for name, of in settings.items() for key, value in of.items()]
    return plan_of("study=single", *words).trials[0]


@pytest.mark.usefixtures("two")
def test_what_changes_results_tells_configurations_apart_and_nothing_else_does(plan_of: PlanOf) -> None:
    plain, silent, off = (
        trial_of(plan_of, **of) for of in ({}, {"silent": {"on": "true"}}, {"changing": {"limit": 0}})
    )
    assert plain.config_id == silent.config_id == off.config_id
    assert silent.extension["silent"] == Silent(on=True) and not off.extension and not silent.extensions
    changed = trial_of(plan_of, changing={"limit": 40})
    assert changed.config_id != plain.config_id and changed.extensions == {"changing": "1"}
    assert changed.env.max_episode_steps == 40
    assert changed.config_id != trial_of(plan_of, changing={"limit": 41}).config_id


@pytest.mark.usefixtures("two")
def test_a_trial_is_read_back_with_its_settings_also_under_their_former_name(plan_of: PlanOf) -> None:
    trial = trial_of(plan_of, changing={"limit": 40}, silent={"on": "true"})
    mapping = json.loads(json.dumps(trial.to_mapping()))
    assert TrialConfig.from_mapping(mapping) == trial
    former = {**mapping, "quiet": {"on": True}, "extension": {"changing": {"limit": 40}}}
    assert TrialConfig.from_mapping(former) == trial


def test_a_trial_of_an_extension_that_is_not_here_keeps_its_settings_and_cannot_be_trained(plan_of: PlanOf) -> None:
    mapping = plan_of("study=single").trials[0].to_mapping()
    gone = {**mapping, "extension": {"gone": {"x": 1}}, "extensions": {"gone": "1"}}
    trial = TrialConfig.from_mapping(gone)
    assert isinstance(trial.extension["gone"], Absent) and trial.to_mapping() == gone
    with pytest.raises(ConfigurationError, match=r"extension.gone: .* modules=\[path/to/gone\]"):
        trial.extension["gone"].configure(None, trial)  # type: ignore[arg-type]


@pytest.mark.usefixtures("two")
def test_its_part_in_rllibs_configuration_comes_last(plan_of: PlanOf) -> None:
    from experiments.rllib.building import build_algorithm_config

    assert build_algorithm_config(trial_of(plan_of, changing={"limit": 40})).gamma == 0.5


@pytest.mark.usefixtures("two")
@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("++extension.silent.on=7", r"extension.silent.on=7: "),
        ("extension=0", r"extension=0: must have settings, by name"),
        ("++quiet=3", r"quiet=3: must have settings, by name"),
        ("++extension.silent.of=true", r"extension.silent.of"),
        (
            "++extension.sillent.on=true",
            r"extension.sillent: there is no such extension. There are: .*changing, silent",
        ),
    ],
)
def test_a_wrong_setting_is_refused_by_its_whole_name(plan_of: PlanOf, word: str, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        plan_of("study=single", word)


@pytest.mark.usefixtures("two")
def test_another_version_here_than_where_the_trial_was_planned_is_refused() -> None:
    extension.check_versions({"changing": "1", "of a person's own": "0123"})
    with pytest.raises(RuntimeError, match="changing has version 1 here, and the study began with 2"):
        extension.check_versions({"changing": "2"})
