"""Trials with preprocessing: their statistics, their bits, and what RLlib makes of their checkpoints."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from ray.rllib.algorithms.algorithm import Algorithm
from ray.rllib.algorithms.dqn import DQN
from ray.rllib.algorithms.ppo import PPO
from ray.rllib.algorithms.sac import SAC
from ray.rllib.env.single_agent_env_runner import SingleAgentEnvRunner

from experiments.planning.machines import Cluster, Node
from experiments.rllib.checkpoints import RLLIB, weights, weights_digest
from tests.support.policies import assert_acts_as_evaluated
from tests.support.suite import TINY, PlanOf
from tests.support.trials import COUNT, FAILURE, REPLAY, WEIGHTS, Make, learned, run, step

pytestmark = [pytest.mark.ray, pytest.mark.usefixtures("ray_instance")]

ONE = ("study.space={}", "seeds=[0]")
LOCAL = (*ONE, "hardware.num_env_runners=0", "hardware.num_envs_per_env_runner=4")
PENDULUM = (*TINY, *LOCAL, "env=pendulum")


def statistics_of(trial: Any) -> dict[str, Any]:
    module = trial._training.algorithm.learner_group._learner.module["default_policy"]
    found: dict[str, Any] = module.preprocessing.statistics()
    return found


@pytest.mark.parametrize(
    ("runners", "fast"),
    [
        (0, "true"),
        (0, "false"),
        pytest.param(2, "true", marks=pytest.mark.slow),
        pytest.param(2, "false", marks=pytest.mark.nightly),
    ],
)
def test_every_env_step_counts_once(plan_of: PlanOf, make: Make, fast: str, runners: int) -> None:
    local = (f"hardware.num_env_runners={runners}", "hardware.num_envs_per_env_runner=4")
    config = plan_of(
        *TINY, *ONE, "env=pendulum", "preprocessing=normalize", f"fast={fast}", *local, cluster=Cluster((Node(4, 0),))
    ).trials[0]
    trial = make(config)
    said = [step(trial), step(trial)]
    found, env_steps = statistics_of(trial), said[-1]["progress/env_steps"]
    assert found["of_returns.count"] == env_steps
    # Pendulum's episodes have 200 steps
    begun = max(1, runners) * 4 * (1 + (env_steps // (max(1, runners) * 4)) // 200)
    assert begun - max(1, runners) * 4 <= found["of_observations.count"] - env_steps <= begun
    squares = np.square(found["of_observations.mean"]) + found["of_observations.variance"]
    assert squares[0] + squares[1] == pytest.approx(1, abs=1e-6)  # sine and cosine of an angle


@pytest.mark.parametrize(
    "settings",
    [
        pytest.param(
            (*PENDULUM, "preprocessing=normalize", "checkpoint.every_env_steps=1024"), marks=pytest.mark.nightly
        ),
        (*PENDULUM, "preprocessing=normalize", "preprocessing.frame_stack=3", "checkpoint.every_env_steps=1024"),
        pytest.param(
            (*REPLAY, *ONE, "hardware.num_env_runners=0", "algorithm=dqn", "env=acrobot", "preprocessing=normalize"),
            marks=pytest.mark.slow,
        ),
        pytest.param(
            (*REPLAY, *ONE, "hardware.num_env_runners=0", "algorithm=sac", "env=pendulum", "preprocessing=normalize"),
            marks=pytest.mark.slow,
        ),
    ],
    ids=["ppo", "ppo, stacked", "dqn", "sac"],
)
def test_fast_parts_give_the_results_of_rllibs_own(plan_of: PlanOf, make: Make, settings: tuple[str, ...]) -> None:
    found, expected = (run(make(plan_of(*settings, f"fast={fast}").trials[0])) for fast in ("true", "false"))
    assert FAILURE not in found[-1]
    assert found[-1][WEIGHTS] == expected[-1][WEIGHTS]
    for ours, theirs in zip(found, expected, strict=True):
        assert learned(ours) == pytest.approx(learned(theirs), rel=1e-5, abs=1e-6)


def test_returns_are_the_environments_own_and_an_evaluation_changes_no_statistics(plan_of: PlanOf, make: Make) -> None:
    config = plan_of(*TINY, *LOCAL, *COUNT, "++env.env_config.length=50", "preprocessing=normalize_rewards").trials[0]
    trial = make(config)
    said = step(trial)
    assert (said["train/return_mean"], said["eval/return_mean"]) == (50.0, 50.0)
    algorithm = trial._training.algorithm
    assert statistics_of(trial)["of_returns.variance"][0] > 0
    before = weights_digest(weights(algorithm))
    trial._training.evaluate()
    assert weights_digest(weights(algorithm)) == before


@pytest.mark.parametrize(
    ("settings", "of_rllib"),
    [
        (PENDULUM, PPO),
        ((*REPLAY, *ONE, "hardware.num_env_runners=0", "algorithm=dqn", "env=acrobot"), DQN),
        ((*REPLAY, *ONE, "hardware.num_env_runners=0", "algorithm=sac", "env=pendulum"), SAC),
    ],
    ids=["ppo", "dqn", "sac"],
)
def test_rllib_acts_from_a_checkpoint_as_the_trial_does(
    settings: tuple[str, ...], of_rllib: type[Algorithm], plan_of: PlanOf, make: Make, tmp_path: Path
) -> None:
    trial = make(plan_of(*settings, "preprocessing=normalize").trials[0])
    step(trial)
    trial.save_checkpoint(str(tmp_path))
    training = trial._training
    config = training.algorithm.config.copy(copy_frozen=False)
    config.env_runners(env_runner_cls=SingleAgentEnvRunner).learners(learner_class=config.get_default_learner_class())
    config.callbacks(on_algorithm_init=None, on_environment_created=None, on_episode_end=None)
    stock = of_rllib(config=config)
    stock.restore_from_path(str(tmp_path / RLLIB))
    for algorithm in (stock, Algorithm.from_checkpoint(str(tmp_path / RLLIB))):
        assert weights_digest(weights(algorithm)) == weights_digest(weights(training.algorithm))
        assert_acts_as_evaluated(training, algorithm.env_runner)
        algorithm.stop()


@pytest.mark.nightly
@pytest.mark.parametrize("algorithm", ["impala", "appo"])
def test_asynchronous_algorithms_merge_what_has_arrived(plan_of: PlanOf, make: Make, algorithm: str) -> None:
    # RLlib's learners give away their weights with every twentieth batch at most.
    many_batches = (
        "budget_env_steps=12288",
        "report_every_env_steps=4096",
        "algorithm.training.train_batch_size_per_learner=128",
    )
    settings = (*TINY, *ONE, f"algorithm={algorithm}", "env=cartpole", "preprocessing=normalize", *many_batches)
    trial = make(plan_of(*settings, cluster=Cluster((Node(4, 0),))).trials[0])
    env_steps = [step(trial), step(trial)][-1]["progress/env_steps"]
    groups = trial._training.algorithm.learner_group, trial._training.algorithm.env_runner_group
    trial._training.end_segment()  # as before a checkpoint: waits for the runners
    (learned_from,) = (result.get() for result in groups[0].foreach_learner(_count))
    assert 0.5 * env_steps < learned_from
    assert min(groups[1].foreach_env_runner(_runners_count, local_env_runner=False)) > 0


def _count(learner: Any) -> float:
    return float(learner.module["default_policy"].unwrapped().preprocessing.of_returns.count)


def _runners_count(runner: Any) -> float:
    return float(runner.module.preprocessing.of_returns.count)
