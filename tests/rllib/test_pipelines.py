"""Connectors of one's own in evaluations: the actions of RLlib's env runners, and nothing learned from what is seen."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from ray.rllib.connectors.env_to_module import MeanStdFilter

from experiments.planning.machines import Cluster, Node
from experiments.rllib.pipelines import PipelinePolicy, own_pipelines
from experiments.trial.evaluation import acting
from experiments.trial.trainable import Trial
from tests.support.suite import TINY, PlanOf
from tests.support.trials import FAILURE, Make, step, with_folder

pytestmark = [pytest.mark.ray, pytest.mark.usefixtures("ray_instance")]

FILTERING = (
    *TINY,
    "study.space={}",
    "seeds=[0]",
    "env=pendulum",
    "algorithm.config_class=tests.support.filtering.FilteringPPOConfig",
    "hardware.num_env_runners=0",
    "hardware.num_envs_per_env_runner=2",
)


FOUR_CPUS = Cluster((Node(4, 0),))


@pytest.fixture
def make(tmp_path: Path) -> Any:
    trials: list[Trial] = []

    def start(config: Any) -> Trial:
        trials.append(Trial(with_folder(config, tmp_path / "trial")))
        return trials[-1]

    yield start
    for trial in trials:
        trial.cleanup()


@pytest.mark.parametrize("runners", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_default_pipelines_are_nobodys_own(plan_of: PlanOf, make: Make, runners: int) -> None:
    trial = make(
        plan_of(*TINY, "study.space={}", "seeds=[0]", f"hardware.num_env_runners={runners}", cluster=FOUR_CPUS).trials[
            0
        ]
    )
    trial._start()
    assert own_pipelines(trial._training.algorithm) is None


@pytest.mark.slow
def test_with_remote_runners_evaluations_know_what_these_have_learned(plan_of: PlanOf, make: Make) -> None:
    trial = make(
        plan_of(
            *(o for o in FILTERING if "num_env_runners" not in o), "hardware.num_env_runners=1", cluster=FOUR_CPUS
        ).trials[0]
    )
    assert FAILURE not in step(trial)
    (env_to_module, _) = own_pipelines(trial._training.algorithm) or ((), ())
    (mean_std,) = (c for c in env_to_module.connectors if isinstance(c, MeanStdFilter))
    assert all(filter_.running_stats.num_pushes > 500 for filter_ in mean_std._filters.values())


def test_evaluations_go_through_them_and_they_learn_nothing_there(plan_of: PlanOf, make: Make) -> None:
    trial = make(plan_of(*FILTERING).trials[0])
    said = step(trial)
    assert FAILURE not in said
    training = trial._training
    algorithm = training.algorithm
    runner = algorithm.env_runner
    pipelines = own_pipelines(algorithm)
    assert pipelines is not None
    before = str(runner._env_to_module.get_state())
    metrics = training.evaluate()[0]
    assert np.isfinite(metrics["eval/return_mean"])
    assert str(runner._env_to_module.get_state()) == before

    (mean_std,) = (c for c in runner._env_to_module.connectors if isinstance(c, MeanStdFilter))
    (filter_,) = mean_std._filters.values()
    spaces = runner.env.single_observation_space, runner.env.single_action_space
    policy, plain = PipelinePolicy(runner.module, *pipelines, *spaces), acting(runner.module, spaces[1], True, False, 3)
    random = np.random.default_rng(0)
    observations = random.normal(size=(3, 3)).astype(np.float32)
    for number in range(6):
        filtered = np.stack([filter_(one, update=False) for one in observations]).astype(np.float32)
        np.testing.assert_allclose(policy(observations), plain(filtered), atol=1e-5)
        observations = random.normal(size=(3, 3)).astype(np.float32)
        ended = np.arange(3) == number % 3  # after which comes the next episode's first observation
        policy.on_step(observations, np.ones(3), ended, np.zeros(3, bool))
