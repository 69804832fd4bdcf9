"""The study of widths, and what the parametrization refuses."""

import json

import pytest

from experiments.config.errors import ConfigurationError
from tests.support.suite import PlanOf

MUP = "extension.network_width.parametrization=mup"


def test_the_base_width_is_run_once_for_both_parametrizations(plan_of: PlanOf) -> None:
    plan = plan_of("study=width")
    assert (len(plan.configurations), plan.num_trials) == (5 * 5 * 2 - 5, 225)
    seen: dict[tuple[int, str], int] = {}
    for configuration in plan.configurations:
        (units,) = set(configuration.suite.algorithm["rl_module"]["fcnet_hiddens"])
        way = configuration.suite.extension["network_width"].parametrization if configuration.suite.extension else ""
        seen[units, way] = seen.get((units, way), 0) + 1
    assert seen == {
        (units, way): 5 for units in (16, 64, 128, 256, 512) for way in (("", "mup") if units != 64 else ("",))
    }


def test_a_study_that_does_not_use_it_is_as_it_was(plan_of: PlanOf) -> None:
    (plain,), (off,), (on,) = (
        plan_of("study=single", "seeds=[0]", *more).trials
        for more in ((), ("extension.network_width.parametrization=standard",), (MUP,))
    )
    assert plain.config_id == off.config_id != on.config_id
    assert "network_width" not in json.dumps(plain.to_mapping())


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("algorithm=dqn",), "algorithm=dqn has networks or weights that it does not know"),
        (("algorithm=ppo_ewma",), "algorithm=ppo_ewma has networks"),
        (("algorithm.rl_module.fcnet_kernel_initializer=xavier_uniform_",), "xavier_uniform_ draws weights"),
        (("++algorithm.rl_module.use_lstm=true",), "the policy is recurrent"),
        (("extension.network_width.base_width=0",), "base_width"),
    ],
)
def test_networks_whose_dependence_on_the_width_is_not_known_are_refused(
    plan_of: PlanOf, words: tuple[str, ...], message: str
) -> None:
    with pytest.raises(ConfigurationError, match=message):
        plan_of("study=single", MUP, *words)
