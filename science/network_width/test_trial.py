"""Trials whose weights and learning rates follow the width."""

from pathlib import Path

import pytest

from tests.support.interrupted import PPO, REPLAY, assert_same_when_interrupted
from tests.support.suite import TINY, PlanOf
from tests.support.trials import WEIGHTS, Make, learned, run

pytestmark = [pytest.mark.ray, pytest.mark.usefixtures("ray_instance")]

MUP = "extension.network_width.parametrization=mup"
HERE = ("seeds=[0]", "study.space={}", "hardware.num_env_runners=0", "hardware.num_envs_per_env_runner=4")


def test_at_the_base_width_a_trial_learns_what_it_would_have_learned_and_elsewhere_something_else(
    plan_of: PlanOf, make: Make
) -> None:
    narrow = "algorithm.rl_module.fcnet_hiddens=[16,16]"
    off, on, at_16 = (
        plan_of(*TINY, *HERE, *more).trials[0]
        for more in ((narrow,), (narrow, MUP, "extension.network_width.base_width=16"), (narrow, MUP))
    )
    assert len({trial.config_id for trial in (off, on, at_16)}) == 3
    expected, found, other = (run(make(trial)) for trial in (off, on, at_16))
    assert found[-1][WEIGHTS] == expected[-1][WEIGHTS] != other[-1][WEIGHTS]
    assert list(map(learned, found)) == list(map(learned, expected))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("algorithm", "env", "settings"),
    [
        ("ppo", "cartpole", PPO),
        pytest.param("sac", "pendulum", ("budget_env_steps=600", *REPLAY), marks=pytest.mark.nightly),
    ],
)
def test_an_interrupted_trial_goes_on_with_the_learning_rate_of_each_layer(
    plan_of: PlanOf, tmp_path: Path, algorithm: str, env: str, settings: tuple[str, ...]
) -> None:
    wide = (MUP, "algorithm.rl_module.fcnet_hiddens=[32,32]")
    assert_same_when_interrupted(plan_of, tmp_path, algorithm, env, (*settings, *wide))
