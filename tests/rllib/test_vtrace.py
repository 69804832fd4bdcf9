"""IMPALA and APPO whose returns go on where a fragment ends: their targets of a known process, beside RLlib's."""

import contextlib
import queue
from types import SimpleNamespace
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
import tree
from ray.rllib.algorithms import appo, impala
from ray.rllib.core import DEFAULT_MODULE_ID
from ray.rllib.core.columns import Columns
from ray.rllib.env.single_agent_episode import SingleAgentEpisode

from experiments.rllib.vtrace import APPOConfig, IMPALAConfig, _Bootstrapping

GAMMA, VALUE, FRAGMENT = 0.99, 50.0, 5


def loss(config_class: Any, fragments: int, ended: bool = False, truncated: bool = False, **model: Any) -> float:
    """Of networks that say `VALUE` everywhere, after fragments with the reward that makes it right
    if they do not end the episode.
    """
    env = gym.make("CartPole-v1")
    config = config_class().environment("CartPole-v1").training(gamma=GAMMA, entropy_coeff=0.0, vf_loss_coeff=1.0)
    config.env_runners(rollout_fragment_length=FRAGMENT).rl_module(model_config=model).debugging(log_level="ERROR")
    learner = config.build_learner(env=env)
    module = learner.module[DEFAULT_MODULE_ID].unwrapped()
    with torch.no_grad():
        for name, weights in module.named_parameters():
            weights.fill_(VALUE if name.startswith("vf") and name.endswith("bias") else 0.0)
    states = {}
    if module.is_stateful():
        states[Columns.STATE_OUT] = [tree.map_structure(np.asarray, module.get_initial_state())] * FRAGMENT
    episodes = [
        SingleAgentEpisode(
            observations=[env.observation_space.sample() for _ in range(FRAGMENT + 1)],
            actions=[0] * FRAGMENT,
            rewards=[VALUE * (1 - GAMMA)] * FRAGMENT,
            terminated=ended,
            truncated=truncated,
            extra_model_outputs={Columns.ACTION_LOGP: [np.float32(np.log(0.5))] * FRAGMENT} | states,
            len_lookback_buffer=0,
        ).to_numpy()
        for _ in range(fragments)
    ]
    batch = learner._learner_connector(
        rl_module=learner.module, batch={}, episodes=episodes, shared_data={}, metrics=learner.metrics
    )
    rows = batch[DEFAULT_MODULE_ID]
    given = rows[Columns.ACTION_LOGP].clone()
    outputs = module.forward_train(rows)
    found = learner.compute_loss_for_module(
        module_id=DEFAULT_MODULE_ID, config=learner.config, batch=rows, fwd_out=outputs
    )
    learner.shutdown()
    assert torch.equal(rows[Columns.ACTION_LOGP], given)  # APPO uses a batch several times
    return float(found)


@pytest.mark.parametrize("config_class", [IMPALAConfig, APPOConfig])
@pytest.mark.parametrize("fragments", [1, 4, 7])
def test_values_that_are_right_have_no_loss_where_fragments_end(config_class: Any, fragments: int) -> None:
    assert loss(config_class, fragments) == pytest.approx(0.0, abs=1e-3)


@pytest.mark.parametrize("config_class", [IMPALAConfig, APPOConfig])
def test_values_that_are_right_have_no_loss_where_a_time_limit_ends_the_episode(config_class: Any) -> None:
    assert loss(config_class, 4, truncated=True) == pytest.approx(0.0, abs=1e-3)


@pytest.mark.parametrize("config_class", [IMPALAConfig, APPOConfig])
@pytest.mark.parametrize("max_seq_len", [FRAGMENT + 1, 20])
def test_recurrent_values_that_are_right_have_no_loss(config_class: Any, max_seq_len: int) -> None:
    assert loss(config_class, 4, use_lstm=True, lstm_cell_size=4, max_seq_len=max_seq_len) == pytest.approx(
        0.0, abs=1e-3
    )


@pytest.mark.parametrize("config_class", [impala.IMPALAConfig, appo.APPOConfig])
def test_rllibs_own_learners_take_the_end_of_a_fragment_for_the_end_of_all(config_class: Any) -> None:
    assert loss(config_class, 7) > 100.0


class Updating:
    """Stands in for RLlib's learner, which takes weights out of its queue before an update puts others there."""

    def __init__(self, broadcast_interval: int) -> None:
        self.config = SimpleNamespace(broadcast_interval=broadcast_interval)
        self._learner_state_queue: queue.Queue[str] = queue.Queue(maxsize=1)
        self.updates = 0

    def update(self, training_data: Any, *, return_state: bool = False, **how: Any) -> dict[str, Any]:
        results = {}
        if return_state and self.updates:
            results["_rl_module_state_after_update"] = self._learner_state_queue.get_nowait()
        self.updates += 1
        with contextlib.suppress(queue.Empty):
            self._learner_state_queue.get_nowait()
        self._learner_state_queue.put_nowait(f"after {self.updates}")
        return results


def test_runners_are_sent_the_weights_after_the_last_update() -> None:
    class Learner(_Bootstrapping, Updating):
        pass

    def sent(learner: Any) -> list[Any]:
        # RLlib asks with the first of the batches that arrived together
        results = [learner.update(None, return_state=number == 0, timesteps={}) for number in range(3)]
        return [result.get("_rl_module_state_after_update") for result in results]

    ours, theirs, seldom = Learner(1), Updating(1), Learner(2)
    assert [sent(learner) for learner in (ours, theirs, seldom)] == [
        ["after 1", "after 2", "after 3"],
        [None, None, None],
        [None, None, None],
    ]
    assert [sent(learner)[0] for learner in (ours, theirs, seldom)] == ["after 4", "after 3", "after 3"]


@pytest.mark.parametrize(("ours", "theirs"), [(IMPALAConfig, impala.IMPALAConfig), (APPOConfig, appo.APPOConfig)])
def test_an_episode_that_ends_is_worth_what_it_is_with_rllib(ours: Any, theirs: Any) -> None:
    assert loss(ours, 1, ended=True) == pytest.approx(loss(theirs, 1, ended=True), rel=1e-6) != 0.0
