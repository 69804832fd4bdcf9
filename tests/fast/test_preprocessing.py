"""The fast parts with preprocessing: the bits of RLlib's own with the same modules, and none of it left to RLlib."""

from typing import Any

import numpy as np
import pytest
from ray.rllib.connectors.common import NumpyToTensor
from ray.rllib.core import DEFAULT_MODULE_ID
from ray.rllib.core.columns import Columns

from experiments.fast.networks.ppo import DefaultNetworks, plain_policy
from experiments.fast.networks.q import QNetworks
from experiments.fast.preprocessing.rewards import ScaleRewards, scale_rewards
from tests.support.fast_off_policy import dqn, sac
from tests.support.fast_pairs import assert_same_off_policy, assert_same_on_policy
from tests.support.fast_ppo import batches_of, both, config_of, update
from tests.support.preprocessed import NORMALIZE, SYMLOG, begin, with_preprocessing

SETTINGS = {"normalize": NORMALIZE, "symlog": SYMLOG, "rewards": {"normalize_rewards": True}}
NETWORKS: dict[str, dict[str, Any]] = {"separate": {}, "shared": {"vf_share_layers": True, "fcnet_activation": "relu"}}
UPDATE = {"num_epochs": 2, "minibatch_size": 16, "shuffle_batch_per_epoch": True}

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.mark.parametrize("settings", SETTINGS)
@pytest.mark.parametrize("network", NETWORKS)
def test_ppo_trains_as_with_rllib(settings: str, network: str) -> None:
    config = with_preprocessing(config_of(model=NETWORKS[network], grad_clip=0.5), SETTINGS[settings])
    runner, learner = assert_same_on_policy(
        config, prepare=begin if settings == "normalize" else scale_rewards, **UPDATE
    )
    assert runner.why_stock(True, False) is None
    assert not learner._logged_reasons
    assert plain_policy(runner.module) is not None
    module = learner.module[DEFAULT_MODULE_ID]
    assert DefaultNetworks.is_known(module, list(module.parameters()))


@pytest.mark.parametrize("settings", SETTINGS)
@pytest.mark.parametrize("algorithm", [dqn, sac])
def test_replay_algorithms_train_as_with_rllib(settings: str, algorithm: Any) -> None:
    config = with_preprocessing(algorithm(False), SETTINGS[settings])
    assert_same_off_policy(config, prepare=begin if settings == "normalize" else scale_rewards)


def test_dqns_networks_are_known() -> None:
    config = with_preprocessing(dqn(True), NORMALIZE)
    learner = config.build_learner(env=config.env_runner_cls(config=config, worker_index=0).env)
    scale_rewards(learner)
    learner._begin_adams()
    assert isinstance(learner._networks, QNetworks)


def test_rewards_are_scaled_between_tensors_and_advantages_and_once() -> None:
    config = with_preprocessing(config_of(), {"clip_rewards": 0.25})
    stock, fast = both(config)
    for learner in (stock, fast):
        scale_rewards(learner)
        scale_rewards(learner)
        kinds = [type(connector) for connector in learner._learner_connector.connectors]
        assert kinds.count(ScaleRewards) == 1
        assert kinds[kinds.index(ScaleRewards) - 1] is NumpyToTensor
    episodes = batches_of(config)[0]
    seen: list[Any] = []
    fast.last_minibatch = lambda module_id, rows, outputs: seen.append(rows[Columns.REWARDS].numpy())
    update(fast, episodes, num_epochs=1, minibatch_size=1000)
    assert set(np.unique(seen[0])) == {0.0, 0.25}  # CartPole's are 1; the rows to bootstrap with have none
    assert all(set(episode.get_rewards()) == {1.0} for episode in episodes)
