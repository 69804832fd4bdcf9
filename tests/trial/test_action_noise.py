"""Trials that explore with noise that lasts: their bits."""

import pytest

from experiments.rllib.coloured_noise import EXPONENT
from experiments.rllib.state_dependent_noise import HELD
from tests.support.suite import TINY, PlanOf
from tests.support.trials import FAILURE, REPLAY, WEIGHTS, Make, learned, run

PINK, STATE_DEPENDENT = f"++algorithm.training.{EXPONENT}=1.0", f"++algorithm.training.{HELD}=8"
ONE = ("study.space={}", "seeds=[0]", "env=pendulum", "hardware.num_env_runners=0")
PPO = (*TINY, *ONE, "hardware.num_envs_per_env_runner=4", "checkpoint.every_env_steps=1024", "preprocessing=normalize")
SAC = (*REPLAY, *ONE, "algorithm=sac")


@pytest.mark.ray
@pytest.mark.usefixtures("ray_instance")
@pytest.mark.parametrize(
    ("settings", "noise"),
    [
        pytest.param(PPO, PINK, id="ppo, coloured", marks=pytest.mark.slow),
        pytest.param(SAC, PINK, id="sac, coloured", marks=pytest.mark.nightly),
        pytest.param(PPO, STATE_DEPENDENT, id="ppo, state-dependent", marks=pytest.mark.nightly),
        pytest.param(SAC, STATE_DEPENDENT, id="sac, state-dependent", marks=pytest.mark.slow),
    ],
)
def test_they_are_the_same_again_and_with_rllibs_own_parts(
    plan_of: PlanOf, make: Make, settings: tuple[str, ...], noise: str
) -> None:
    once, again, stock, white = (
        run(make(plan_of(*settings, *more).trials[0])) for more in ((noise,), (noise,), (noise, "fast=false"), ())
    )
    assert FAILURE not in once[-1]
    assert [learned(report) for report in again] == [learned(report) for report in once]
    assert stock[-1][WEIGHTS] == again[-1][WEIGHTS] == once[-1][WEIGHTS] != white[-1][WEIGHTS]
