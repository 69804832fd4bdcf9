"""An RLModule, and an algorithm's class, of a person's own."""

from pathlib import Path

import pytest

from experiments.config.errors import ConfigurationError
from experiments.rllib.building import build_algorithm_config
from tests.support.own_files import own_file, own_rl_module
from tests.support.suite import PlanOf

SINGLE = "study.space={}"


def test_it_is_built_with_what_it_is_given_beside_rllibs_fields(plan_of: PlanOf, tmp_path: Path) -> None:
    trial = plan_of(*own_rl_module(tmp_path, "built_module"), SINGLE).trials[0]
    spec = build_algorithm_config(trial).rl_module_spec
    assert spec.module_class.__name__ == "MyRLModule"
    assert (spec.model_config["width"], spec.model_config["fcnet_hiddens"]) == (8, [64, 64])


def test_its_settings_can_be_searched(plan_of: PlanOf, tmp_path: Path) -> None:
    plan = plan_of(
        *own_rl_module(tmp_path, "searched_module"), "study.space={algorithm.rl_module.model_config.width:[8,16]}"
    )
    assert [c.label for c in plan.configurations] == ["width=8", "width=16"]
    assert len({c.config_id for c in plan.configurations}) == 2


def test_a_class_of_an_algorithm_may_be_ones_own(plan_of: PlanOf, tmp_path: Path) -> None:
    trial = plan_of(
        "env=gym", *own_file(tmp_path, "own_algorithm"), "algorithm.config_class=own_algorithm.MyConfig", SINGLE
    ).trials[0]
    assert type(build_algorithm_config(trial)).__name__ == "MyConfig"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (("algorithm.rl_module.module_class=no_such.Module",), "module_class='no_such.Module': there is no such class"),
        (("algorithm.rl_module.module_class=Module",), "must be the dotted path of an RLlib RLModule"),
        (("algorithm.rl_module.module_class=3",), "must be the dotted path of an RLModule"),
        (("algorithm.rl_module.module_class=torch.nn.Linear",), "is not an RLlib RLModule"),
        (("algorithm.rl_module.model_config={width:8}",), "model_config.width: is for a module of your own"),
        (("algorithm.rl_module.model_config=3",), "must be a mapping"),
    ],
)
def test_a_wrong_one_is_refused_with_its_key(plan_of: PlanOf, given: tuple[str, ...], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        plan_of(*given, SINGLE)


def test_one_that_cannot_be_built_is_refused(plan_of: PlanOf, tmp_path: Path) -> None:
    *others, _ = own_rl_module(tmp_path, "needs_width")
    with pytest.raises(ConfigurationError, match=r"algorithm.rl_module .* cannot build these networks: 'width'"):
        plan_of(*others, SINGLE)


def test_settings_that_are_not_given_leave_ids_as_they_were(plan_of: PlanOf) -> None:
    trial = plan_of(SINGLE).trials[0]
    own = trial.algorithm["rl_module"]
    assert {name: own[name] for name in ("module_class", "model_config")} == {"module_class": None, "model_config": {}}
    before = {name: value for name, value in own.items() if name not in ("module_class", "model_config")}
    recorded = {**trial.to_mapping(), "algorithm": {**trial.algorithm, "rl_module": before}}
    assert type(trial).from_mapping(recorded).config_id == trial.config_id
