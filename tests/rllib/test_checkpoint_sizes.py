"""The sizes of networks, which are built once for all configurations that have the same."""

import pytest
from ray.rllib.algorithms.algorithm_config import AlgorithmConfig

from experiments.config.trial_config import TrialConfig
from experiments.rllib import checkpoint_sizes
from experiments.rllib.building import build_algorithm_config, networks_of
from experiments.rllib.checkpoint_sizes import Networks, networks_sizes
from tests.support.planning import plan_for


def sizes(*words: str) -> Networks:
    trial = trial_of(*words)
    return networks_sizes(trial, build_algorithm_config(trial))


def trial_of(*words: str) -> TrialConfig:
    return plan_for("study=single", "seeds=[0]", *words).trials[0]


@pytest.fixture
def built(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    found: list[str] = []

    def counted(trial: TrialConfig, config: AlgorithmConfig) -> object:
        found.append(trial.env.name)
        return networks_of(trial, config)

    monkeypatch.setattr(checkpoint_sizes, "networks_of", counted)
    monkeypatch.setattr(checkpoint_sizes, "_sizes", {})
    return found


@pytest.mark.parametrize(
    "other",
    [
        "env=acrobot",  # of other observations and actions
        "++algorithm.rl_module.fcnet_hiddens=[64,32]",
        "++algorithm.rl_module.use_lstm=true",
        "env=pendulum preprocessing=frame_stack",
        "algorithm=dqn",
    ],
)
def test_they_are_those_of_networks_that_are_built_for_it(other: str, built: list[str]) -> None:
    sizes("env=cartpole")
    found = sizes(*other.split())
    assert len(built) == 2
    trial = trial_of(*other.split())
    alone = networks_of(trial, build_algorithm_config(trial))
    assert found.bytes == sum(values.nbytes for values in alone.state_dict().values())


def test_other_settings_of_training_have_the_same_and_build_none(built: list[str]) -> None:
    assert len({sizes(f"algorithm.training.lr={lr}") for lr in (1e-4, 1e-3, 1e-2)}) == 1
    assert len(built) == 1
