"""Trials in an environment that raises where an action is ruled out."""

import pytest

from tests.support.suite import TINY, PlanOf
from tests.support.trials import FAILURE, REPLAY, WEIGHTS, Make, run

RULED = ("env.id=masked_envs:masked/Ruled-v0", "env.vectorize_mode=sync", "seeds=[0]", "study.space={}")

pytestmark = [pytest.mark.slow, pytest.mark.ray, pytest.mark.usefixtures("ray_instance")]


@pytest.mark.parametrize(
    "settings", [(*TINY, "algorithm=ppo", "preprocessing=normalize"), (*REPLAY, "algorithm=dqn")], ids=["ppo", "dqn"]
)
def test_what_is_allowed_is_learned_the_same_with_the_fast_parts_as_with_rllibs_own(
    plan_of: PlanOf, make: Make, settings: tuple[str, ...]
) -> None:
    trials = [plan_of(*settings, *RULED, f"fast={fast}").trials[0] for fast in ("true", "false")]
    fast, stock = (run(make(trial))[-1] for trial in trials)
    assert FAILURE not in fast
    assert fast["progress/updates"] > 0
    assert fast[WEIGHTS] == stock[WEIGHTS]
    assert fast["eval/return_mean"] == stock["eval/return_mean"]


@pytest.mark.parametrize("algorithm", ["appo", pytest.param("impala", marks=pytest.mark.nightly)])
def test_asynchronous_algorithms_learn_what_is_allowed(plan_of: PlanOf, make: Make, algorithm: str) -> None:
    last = run(make(plan_of(*TINY, *RULED, f"algorithm={algorithm}").trials[0]))[-1]
    assert FAILURE not in last
    assert last["progress/updates"] > 0
