"""PPO-EWMA: what it comes to where it is PPO, its objective, its settings at other batches, and old samples."""

import math
from typing import Any

import numpy as np
import pytest
import torch
from ray.rllib.algorithms.ppo.torch.ppo_torch_learner import PPOTorchLearner
from ray.rllib.core import DEFAULT_MODULE_ID
from ray.rllib.core.columns import Columns
from ray.rllib.evaluation.postprocessing import Postprocessing

from experiments.config.errors import ConfigurationError
from experiments.fast.learner import FastPPOTorchLearner
from experiments.fast.switch import make_fast
from experiments.rllib.ppo import PPOConfig
from experiments.rllib.ppo_ewma import PPOEWMAConfig
from experiments.rllib.ppo_ewma_learner import FastPPOEWMATorchLearner, PPOEWMATorchLearner
from tests.support.fast_ppo import assert_same_learners, batches_of, learner_of, update
from tests.support.fast_ppo import config_of as stock_config_of
from tests.support.suite import PlanOf

pytestmark = pytest.mark.filterwarnings("ignore")
LEARNERS = [(PPOTorchLearner, PPOEWMATorchLearner), (FastPPOTorchLearner, FastPPOEWMATorchLearner)]
each_learner = pytest.mark.parametrize(("ppo", "ewma"), LEARNERS, ids=["RLlib's", "fast"])


def config_of(config_class: type = PPOEWMAConfig, env: str = "CartPole-v1", **training: Any) -> Any:
    config = config_class().environment(env)
    config.env_runners(num_env_runners=0, num_envs_per_env_runner=4, gym_env_vectorize_mode="sync")
    config.training(
        **{
            "lr": 1e-3,
            "grad_clip": 0.5,
            "grad_clip_by": "global_norm",
            "minibatch_size": 64,
            "use_kl_loss": False,
            **training,
        }
    )
    config.rl_module(model_config={"fcnet_hiddens": [16, 16], "vf_share_layers": False})
    config.debugging(seed=3, log_level="ERROR")
    return config.reporting(log_gradients=True)


def batches(env: str = "CartPole-v1") -> list[Any]:
    return batches_of(stock_config_of(env))


def weights(learner: Any) -> torch.Tensor:
    return torch.cat([p.detach().reshape(-1) for p in learner.module[DEFAULT_MODULE_ID].parameters()])


@each_learner
def test_with_the_policy_that_sampled_as_proximal_policy_it_is_ppo_to_the_bit(ppo: Any, ewma: Any) -> None:
    theirs = learner_of(ppo, config_of(PPOConfig))
    ours = learner_of(ewma, config_of(proximal_policy="sampling", base_minibatch_size=64))
    for number, episodes in enumerate(batches()):
        update(theirs, episodes, number)
        update(ours, episodes, number)
        assert_same_learners(ours, theirs)


@each_learner
@pytest.mark.parametrize("env", ["CartPole-v1", "Pendulum-v1"])
def test_while_the_average_stays_at_the_policy_that_sampled_it_is_ppo_within_rounding(
    ppo: Any, ewma: Any, env: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    theirs, ours = (
        learner_of(ppo, config_of(PPOConfig, env)),
        learner_of(ewma, config_of(env=env, base_minibatch_size=64)),
    )
    episodes = batches(env)[0]
    for episode in episodes:
        _relabel(theirs, episode)
    monkeypatch.setattr(ours, "add_to_averages", lambda: None)
    for learner in (theirs, ours):
        update(learner, episodes)
    torch.testing.assert_close(weights(ours), weights(theirs), rtol=1e-3, atol=1e-5)


def _relabel(learner: Any, episode: Any) -> None:
    """Give an episode the log-probabilities that a learner's policy has for its actions."""
    module = learner.module[DEFAULT_MODULE_ID]
    with torch.no_grad():
        inputs = module._forward_train(
            {Columns.OBS: torch.from_numpy(np.asarray(episode.get_observations(slice(0, len(episode))), np.float32))}
        )
        policy = module.get_train_action_dist_cls().from_logits(inputs[Columns.ACTION_DIST_INPUTS])
        logps = policy.logp(torch.from_numpy(np.asarray(episode.get_actions())))
    first = episode.extra_model_outputs[Columns.ACTION_LOGP].lookback
    episode.extra_model_outputs[Columns.ACTION_LOGP].data[first : first + len(episode)] = logps.numpy()


@pytest.mark.parametrize("env", ["CartPole-v1", "Pendulum-v1"])
def test_the_fast_learner_gives_the_others_weights_and_averages_to_the_bit(env: str) -> None:
    config = config_of(env=env, base_minibatch_size=256, num_epochs=2)
    stock, fast = learner_of(PPOEWMATorchLearner, config), learner_of(FastPPOEWMATorchLearner, config)
    for number, episodes in enumerate(batches(env)):
        assert fast.why_stock(episodes) is None
        for learner in (stock, fast):
            update(learner, episodes, number)
        assert_same_learners(fast, stock)
        assert torch.equal(
            fast.proximal_weights_per_module[DEFAULT_MODULE_ID], stock.proximal_weights_per_module[DEFAULT_MODULE_ID]
        )
        assert torch.equal(
            fast.advantage_sums_per_module[DEFAULT_MODULE_ID], stock.advantage_sums_per_module[DEFAULT_MODULE_ID]
        )
        assert float(stock.advantage_sums_per_module[DEFAULT_MODULE_ID][0]) > 0


def test_the_loss_is_that_of_the_papers_code() -> None:
    config = config_of(vf_loss_coeff=0.0, clip_param=0.1, base_minibatch_size=64)
    learner = learner_of(PPOEWMATorchLearner, config)
    update(learner, batches()[0])
    learner._proximal.clear()
    learner.before_gradient_based_update(timesteps={})
    rng = torch.Generator().manual_seed(0)
    rows = {
        Columns.OBS: torch.randn(32, 4, generator=rng),
        Columns.ACTIONS: torch.randint(2, (32,), generator=rng),
        Columns.ACTION_LOGP: -4 * torch.rand(32, generator=rng),
        Columns.ACTION_DIST_INPUTS: torch.zeros(32, 2),
        Postprocessing.ADVANTAGES: torch.randn(32, generator=rng),
        Postprocessing.VALUE_TARGETS: torch.zeros(32),
    }
    rows[Columns.ACTION_LOGP][:3] = -20.0  # as good as impossible when they were sampled
    outputs = learner.module[DEFAULT_MODULE_ID]._forward_train(rows)
    found = learner.compute_loss_for_module(module_id=DEFAULT_MODULE_ID, config=config, batch=rows, fwd_out=outputs)

    def logps(module: Any) -> torch.Tensor:
        logits = module._forward_train(rows)[Columns.ACTION_DIST_INPUTS]
        return torch.log_softmax(logits, -1)[torch.arange(32), rows[Columns.ACTIONS]]

    # github.com/openai/ppo-ewma, ppo_ewma/ppo.py: compute_losses.
    new, proximal = logps(learner.module[DEFAULT_MODULE_ID]), logps(learner.averages[DEFAULT_MODULE_ID].module)
    assert not torch.allclose(new, proximal)
    behaviour = torch.max(rows[Columns.ACTION_LOGP], new.detach() - math.log(100.0))
    advantages = rows[Postprocessing.ADVANTAGES]
    clipped = torch.clamp(new - proximal, math.log(0.9), math.log(1.1))
    expected = torch.max(
        -advantages * torch.exp(new - behaviour), -advantages * torch.exp(clipped + proximal - behaviour)
    ).mean()
    assert float(found) == pytest.approx(float(expected), rel=1e-5)
    gradients = [
        torch.autograd.grad(loss, list(learner.module[DEFAULT_MODULE_ID].pi.parameters())) for loss in (found, expected)
    ]
    for ours, theirs in zip(*gradients, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-6)


def test_settings_are_those_of_the_paper_for_a_minibatch_a_16th_as_large() -> None:
    config = config_of(lr=8e-3, minibatch_size=4, base_minibatch_size=64, proximal_center_of_mass=8.0)
    assert config.adjusted_lr == pytest.approx(2e-3)
    assert config.proximal_decay == pytest.approx(128 / 129)
    assert config.advantage_decay == pytest.approx(15 / 16)
    (optimizer,) = learner_of(PPOEWMATorchLearner, config)._named_optimizers.values()
    assert optimizer.param_groups[0]["betas"] == pytest.approx((144 / 145, 999 * 16 / (1 + 999 * 16)))
    assert optimizer.param_groups[0]["lr"] == pytest.approx(2e-3)
    config.training(lr=[[0, 8e-3], [100, 4e-3]])
    assert config.adjusted_lr == [[0, pytest.approx(2e-3)], [100, pytest.approx(1e-3)]]
    config.training(lr=8e-3, adjusted=False)
    assert (config.adjusted_lr, config.proximal_decay, config.advantage_decay) == (8e-3, pytest.approx(8 / 9), 0)


def test_make_fast_takes_its_fast_learner_and_leaves_a_persons_own() -> None:
    class Own(PPOEWMATorchLearner):
        pass

    assert make_fast(PPOEWMAConfig()).learner_class is FastPPOEWMATorchLearner
    assert make_fast(PPOEWMAConfig().learners(learner_class=Own)).learner_class is Own


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("algorithm.training.proximal_policy=old", r"proximal_policy='old': must be ewma or sampling"),
        ("algorithm.training.proximal_center_of_mass=-1.0", r"proximal_center_of_mass=-1.0: must be 0 or more"),
        ("algorithm.training.staleness=-1", r"staleness=-1: must be 0 or more"),
        ("algorithm.training.base_minibatch_size=0", r"base_minibatch_size=0: must be 1 or more"),
        ("algorithm.training.use_kl_loss=true", "PPO-EWMA's objective clips"),
        ("algorithm.learners.num_learners=2", "averages in one learner"),
        ("+algorithm.rl_module.use_lstm=true", "has no memory. Try algorithm=ppo"),
    ],
)
def test_a_setting_that_makes_no_sense_is_refused_with_its_key_and_the_fix(
    plan_of: PlanOf, override: str, message: str
) -> None:
    with pytest.raises(ConfigurationError, match=message):
        plan_of("algorithm=ppo_ewma", "study.space={}", "hardware.num_cpus=8", override)
