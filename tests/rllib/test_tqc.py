"""TQC as its file has it: RLlib's own learner and critics, whose settings reach the networks."""

from typing import Any

import gymnasium as gym
import pytest
from ray.rllib.algorithms.tqc import TQC
from ray.rllib.algorithms.tqc.torch.tqc_torch_learner import TQCTorchLearner

from experiments.config.errors import ConfigurationError
from experiments.rllib.building import build_algorithm_config
from tests.support.suite import PlanOf
from tests.support.trials import REPLAY, Make, learned, run

PENDULUM = ("study=single", "algorithm=tqc", "env=pendulum", "seeds=[0]")


def config_of(plan_of: PlanOf, *overrides: str) -> Any:
    return build_algorithm_config(plan_of(*PENDULUM, *overrides).trials[0])


def module_of(config: Any) -> Any:
    return config.get_rl_module_spec(env=gym.make("Pendulum-v1")).build()


def test_a_study_takes_rllibs_learner_and_two_critics_of_the_size_of_the_papers(plan_of: PlanOf) -> None:
    config = config_of(plan_of, "~tuned")
    assert (config.algo_class, config.learner_class) == (TQC, TQCTorchLearner)
    module = module_of(config)
    sizes = [
        sum(weights.numel() for network in critic for weights in network.parameters())
        for critic in zip(module.qf_encoders, module.qf_heads, strict=True)
    ]
    assert sizes == [664_601, 664_601]
    # as conf/algorithm/tqc.yaml says
    assert (4 * 512 + 512) + 2 * (512 * 512 + 512) + (512 * 25 + 25) == 540_697


@pytest.mark.parametrize("preprocessing", ["none", "normalize"])
def test_the_number_of_critics_and_quantiles_is_that_of_the_settings(plan_of: PlanOf, preprocessing: str) -> None:
    given = ("algorithm.training.n_critics=3", "algorithm.training.n_quantiles=7")
    module = module_of(config_of(plan_of, *given, f"preprocessing={preprocessing}"))
    assert [list(head.parameters())[-1].shape for head in module.qf_heads] == [(7,)] * 3


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("algorithm.training.n_quantiles=0", r"algorithm\.training\.n_quantiles=0: must be 1 or more"),
        ("algorithm.training.n_critics=0", r"algorithm\.training\.n_critics=0: must be 1 or more"),
        ("algorithm.training.top_quantiles_to_drop_per_net=25", "algorithm=tqc env=pendulum: Cannot drop 50 quantiles"),
    ],
)
def test_what_leaves_no_quantiles_is_refused(plan_of: PlanOf, override: str, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        config_of(plan_of, override)


@pytest.mark.slow
@pytest.mark.ray
@pytest.mark.usefixtures("ray_instance")
def test_a_trial_reports_what_one_of_sac_reports(plan_of: PlanOf, make: Make) -> None:
    words = (*REPLAY, "study.space={}", "env=pendulum", "seeds=[0]", "hardware.num_env_runners=0")
    of_sac, of_tqc = (run(make(plan_of(*words, f"algorithm={name}").trials[0]))[-1] for name in ("sac", "tqc"))
    assert set(learned(of_tqc)) == set(learned(of_sac)) > {"learner/policy_loss", "learner/value_loss"}
    assert of_tqc["progress/updates"] == of_sac["progress/updates"] > 0
