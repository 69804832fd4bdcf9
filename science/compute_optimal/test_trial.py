"""A trial that counts its operations learns what it would have learned."""

import pytest

from science.compute_optimal.flops import dqn_update, forward, sac_update
from tests.support.suite import PlanOf
from tests.support.trials import REPLAY, WEIGHTS, Make, run

pytestmark = [pytest.mark.ray, pytest.mark.usefixtures("ray_instance")]

ON = "extension.compute_optimal.measure=true"
HERE = ("seeds=[0]", "study.space={}", "hardware.num_env_runners=0", "hardware.num_envs_per_env_runner=4")
SMALL = ("algorithm.rl_module.fcnet_hiddens=[16,8]", "algorithm.training.train_batch_size_per_learner=32")
POLICY, CRITIC = [(3, 16), (16, 8), (8, 2)], [(4, 16), (16, 8), (8, 1)]
Q = [(4, 16), (16, 8), (8, 2)]


@pytest.mark.parametrize(
    ("settings", "update", "action"),
    [
        (
            ("algorithm=dqn", "++algorithm.training.double_q=false", "++algorithm.training.dueling=false"),
            dqn_update(Q, 32, double_q=False),
            forward(Q),
        ),
        pytest.param(
            ("algorithm=sac", "env=pendulum"),
            sac_update(POLICY, CRITIC, 32, num_critics=2),
            forward(POLICY),
            marks=pytest.mark.slow,
        ),
    ],
    ids=["dqn", "sac"],
)
def test_counting_changes_nothing_that_is_learned(
    plan_of: PlanOf, make: Make, settings: tuple[str, ...], update: int, action: int
) -> None:
    off, on = (plan_of(*REPLAY, *settings, *SMALL, *HERE, *more).trials[0] for more in ((), (ON,)))
    expected, found = run(make(off)), run(make(on))
    assert found[-1][WEIGHTS] == expected[-1][WEIGHTS]
    assert (found[-1]["final/update_flops"], found[-1]["final/action_flops"]) == (update, action)
    assert "final/update_flops" not in expected[-1]
