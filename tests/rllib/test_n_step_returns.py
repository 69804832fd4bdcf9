"""Returns of several env steps, and the replay buffers that make them."""

import pytest

from experiments.config.errors import ConfigurationError
from experiments.fast.off_policy import BUFFERS
from experiments.fast.replay import NStepEpisodeReplayBuffer
from experiments.rllib.building import build_algorithm_config
from tests.support.suite import PlanOf

ASKED = ("study=smoke", "study.space={}", "seeds=[0]")


def of_type(kind: str) -> str:
    return f"++algorithm.training.replay_buffer_config={{type:{kind}}}"


@pytest.mark.parametrize("n_step", ["4", "10"])
def test_a_buffer_that_would_draw_for_ever_is_refused_with_the_one_that_does_not(n_step: str, plan_of: PlanOf) -> None:
    with pytest.raises(ConfigurationError) as error:
        plan_of(*ASKED, "algorithm=dqn", of_type("EpisodeReplayBuffer"), f"++algorithm.training.n_step={n_step}")
    assert "EpisodeReplayBuffer draws more rows than asked" in str(error.value)
    assert "Try algorithm.training.replay_buffer_config.type=NStepEpisodeReplayBuffer." in str(error.value)


@pytest.mark.parametrize(("kind", "n_step"), [("EpisodeReplayBuffer", 3), ("PrioritizedEpisodeReplayBuffer", 10)])
def test_rllibs_others_are_taken(kind: str, n_step: int, plan_of: PlanOf) -> None:
    plan_of(*ASKED, "algorithm=dqn", of_type(kind), f"++algorithm.training.n_step={n_step}")


@pytest.mark.parametrize("fast", ["true", "false"])
def test_dqn_takes_the_suites_own_fast_or_not(fast: str, plan_of: PlanOf) -> None:
    own = of_type("NStepEpisodeReplayBuffer")
    plan = plan_of(*ASKED, "algorithm=dqn", own, "++algorithm.training.n_step=5", f"fast={fast}")
    kind = build_algorithm_config(plan.configurations[0].trial(0)).replay_buffer_config["type"]
    assert BUFFERS[kind] is NStepEpisodeReplayBuffer


@pytest.mark.parametrize("algorithm", ["sac", "tqc"])
def test_who_takes_rllibs_alone_is_refused_the_suites(algorithm: str, plan_of: PlanOf) -> None:
    with pytest.raises(ConfigurationError, match="take no buffer but RLlib's own"):
        plan_of(*ASKED, f"algorithm={algorithm}", "env=pendulum", of_type("NStepEpisodeReplayBuffer"))
