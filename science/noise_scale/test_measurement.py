"""The gradient noise scale of a learner's batches: right, and without a trace in what is learned."""

import math
from typing import Any

import numpy as np
import pytest
import torch
from ray.rllib.algorithms.appo import APPOConfig
from ray.rllib.algorithms.dqn import DQNConfig
from ray.rllib.algorithms.impala import IMPALAConfig
from ray.rllib.algorithms.ppo import PPOConfig
from ray.rllib.core import DEFAULT_MODULE_ID
from ray.rllib.core.columns import Columns

from experiments.fast.learner import FastPPOTorchLearner
from science.noise_scale.measurement import (
    LOGGED,
    PARTS,
    NoiseSums,
    fragments,
    noise_of,
    part_gradients,
    updates_between,
)
from tests.support.fast_off_policy import dqn, sac
from tests.support.fast_ppo import batches_of, config_of, learner_of, update

CLIP, VALUE_WEIGHT = 0.2, 0.5


def frozen() -> tuple[Any, dict[str, torch.Tensor]]:
    """A learner that has learned a little from CartPole, and its next batch."""
    config = config_of(
        clip_param=CLIP,
        vf_loss_coeff=VALUE_WEIGHT,
        vf_clip_param=math.inf,
        use_kl_loss=False,
        entropy_coeff=0.0,
        lr=1e-3,
    )
    learner, batches, seen = learner_of(FastPPOTorchLearner, config), batches_of(config), []
    update(learner, batches[0])
    learner.whole_batch = lambda module_id, batch: seen.append(batch)
    state = learner.module.get_state()
    update(learner, batches[1])
    learner.module.set_state(state)
    return learner, seen[0]


def per_sample(learner: Any, batch: dict[str, torch.Tensor]) -> np.ndarray:
    """[rows that count, weights]: the gradient of each row's loss, by PPO's formula and `torch.func`."""
    module = learner.module[DEFAULT_MODULE_ID].unwrapped()
    weights = {name: tensor.detach() for name, tensor in module.named_parameters()}

    class Networks(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = module

        def forward(self, rows: dict[str, torch.Tensor]) -> tuple[torch.Tensor, torch.Tensor]:
            return module.forward_train(rows)[Columns.ACTION_DIST_INPUTS], module.compute_values(rows)

    networks = Networks()

    def loss(
        weights: dict[str, torch.Tensor], observation: Any, action: Any, logp: Any, advantage: Any, target: Any
    ) -> torch.Tensor:
        named = {f"inner.{name}": tensor for name, tensor in weights.items()}
        logits, value = torch.func.functional_call(networks, named, ({Columns.OBS: observation[None]},))
        ratio = torch.exp(torch.log_softmax(logits[0], dim=-1).gather(0, action.view(1))[0] - logp)
        gain = torch.minimum(advantage * ratio, advantage * ratio.clamp(1 - CLIP, 1 + CLIP))
        return -gain + VALUE_WEIGHT * (value[0] - target) ** 2

    counted = batch[Columns.LOSS_MASK]
    names = (Columns.OBS, Columns.ACTIONS, Columns.ACTION_LOGP, "advantages", "value_targets")
    columns = [batch[name][counted] for name in names]
    found = torch.func.vmap(torch.func.grad(loss), in_dims=(None, 0, 0, 0, 0, 0))(
        weights, columns[0], columns[1].long(), *columns[2:]
    )
    return torch.cat([gradient.flatten(1) for gradient in found.values()], dim=1).numpy().astype(np.float64)


def test_the_estimates_agree_with_per_sample_gradients_of_a_frozen_policy_on_real_data() -> None:
    learner, batch = frozen()
    samples = per_sample(learner, batch)
    rows = len(samples)
    noise = samples.var(axis=0, ddof=1).sum()
    square = (samples.mean(axis=0) ** 2).sum() - noise / rows
    alone = noise_of(
        learner, DEFAULT_MODULE_ID, batch, np.random.default_rng(0), num_parts=len(batch[Columns.LOSS_MASK])
    )
    assert alone["gradient_noise"] == pytest.approx(noise, rel=1e-4), "parts of one row each are the samples"
    assert alone["gradient_square"] == pytest.approx(square, rel=1e-3)
    assert alone["gradient_noise_policy"] + alone["gradient_noise_value"] == pytest.approx(noise, rel=1e-4)
    drawn = [noise_of(learner, DEFAULT_MODULE_ID, batch, np.random.default_rng(seed)) for seed in range(40)]
    for name, truth in (("gradient_noise", noise), ("gradient_square", square)):
        values = np.array([one[name] for one in drawn])
        assert abs(values.mean() - truth) < 4 * values.std() / math.sqrt(len(values)), (
            f"{PARTS} parts, on average: {name}"
        )


def test_measuring_leaves_no_trace_in_a_learner() -> None:
    learner, batch = frozen()
    module = learner.module[DEFAULT_MODULE_ID]
    before = [tensor.clone() for tensor in module.state_dict().values()]
    gradients = [None if p.grad is None else p.grad.clone() for p in module.parameters()]
    generators, metrics = (torch.get_rng_state(), np.random.get_state()[1].copy()), learner.metrics.peek()
    noise_of(learner, DEFAULT_MODULE_ID, batch, np.random.default_rng(0))
    assert all(torch.equal(a, b) for a, b in zip(before, module.state_dict().values(), strict=True))
    for old, parameter in zip(gradients, module.parameters(), strict=True):
        assert (old is None and parameter.grad is None) or torch.equal(old, parameter.grad)
    assert torch.equal(generators[0], torch.get_rng_state()) and (generators[1] == np.random.get_state()[1]).all()
    assert learner.metrics.peek() == metrics


def whole_and_parts(learner: Any, batch: dict[str, torch.Tensor]) -> tuple[torch.Tensor, torch.Tensor, list[int]]:
    """The whole batch's gradient at once, and the mean of its parts', weighted by rows."""
    (one, _), (several, rows) = (
        part_gradients(learner, DEFAULT_MODULE_ID, batch, np.random.default_rng(0), num) for num in (1, PARTS)
    )
    weights = torch.tensor(rows)[:, None] / sum(rows)
    together = [
        torch.cat([(gradient * weight).sum(0) for gradient in g.values()])
        for g, weight in ((one, torch.ones(1, 1)), (several, weights))
    ]
    return together[0], together[1], rows


@pytest.mark.parametrize("config_class", [IMPALAConfig, APPOConfig])
def test_fragments_stay_whole_where_vtrace_needs_them(config_class: Any) -> None:
    config = config_class().environment("CartPole-v1").training(train_batch_size_per_learner=200, lr=1e-3)
    config.env_runners(rollout_fragment_length=20).rl_module(
        model_config={"fcnet_hiddens": [16], "vf_share_layers": False}
    )
    config.debugging(seed=3, log_level="ERROR")
    learner = learner_of(config.get_default_learner_class(), config)
    episodes = batches_of(config_of(), sizes=(200,))[0]
    batch = learner._learner_connector(
        rl_module=learner.module, batch={}, episodes=episodes, shared_data={}, metrics=learner.metrics
    )
    rows = dict(batch[DEFAULT_MODULE_ID])
    whole, parts, num_rows = whole_and_parts(learner, rows)
    learner.shutdown()
    assert len(num_rows) == PARTS and sum(num_rows) == int(rows[Columns.LOSS_MASK].sum())
    assert torch.allclose(whole, parts, rtol=1e-3, atol=1e-5 * float(whole.abs().max()))


@pytest.mark.usefixtures("ray_instance")
@pytest.mark.parametrize("config", [dqn(fast=True), sac(fast=True)], ids=["dqn", "sac"])
def test_replayed_rows_are_dealt_out_with_their_weights(config: Any) -> None:
    algorithm, seen = config.build_algo(), []
    learner = algorithm.learner_group._learner
    learner.whole_batch = lambda module_id, batch: seen.append(batch)
    while not seen:
        algorithm.train()
    found = noise_of(learner, DEFAULT_MODULE_ID, seen[-1], np.random.default_rng(0))
    is_sac = "actor_lr" in config.to_dict()
    assert set(found) == {
        f"gradient_{what}{suffix}"
        for what in ("square", "noise")
        for suffix in (("", "_policy", "_value") if is_sac else ("",))
    }
    assert found["gradient_noise"] > 0
    if not is_sac:  # whose loss draws actions
        whole, parts, rows = whole_and_parts(learner, seen[-1])
        assert len(rows) == PARTS and torch.allclose(whole, parts, rtol=1e-3, atol=1e-6)
    algorithm.stop()


def test_fragments_are_dealt_out_whole_by_hand() -> None:
    # the last one has no row after it
    mask = np.array([True, True, False, True, False, True, True, True, False, True, True])
    dealt = fragments(mask, np.random.default_rng(0), 2)
    ids = np.array([0, 0, 0, 1, 1, 2, 2, 2, 2, 3, 3])
    assert len(dealt) == 2 and (dealt[0] ^ dealt[1]).all()
    assert not set(ids[dealt[0]]) & set(ids[dealt[1]])
    assert len(fragments(np.array([True, True, False]), np.random.default_rng(0), 4)) == 1


@pytest.mark.parametrize(
    ("config", "updates"),
    [
        # (6 ms + 2048 * 3.5 us) / 2% of (2048 * 60 us + 48 * 1 ms)
        (PPOConfig().training(train_batch_size_per_learner=2048, minibatch_size=256, num_epochs=6), 4),
        # 9.5 ms / 2% of 8.5 ms
        (APPOConfig().training(train_batch_size_per_learner=1000, circular_buffer_iterations_per_batch=8), 56),
        # 9.5 ms / 2% of (1000 * 60 us + 8 * 1 ms)
        (APPOConfig().training(train_batch_size_per_learner=1000, use_circular_buffer=False, num_epochs=8), 7),
        (DQNConfig().training(train_batch_size_per_learner=32), 289),  # 6.112 ms / 2% of 1.06 ms
    ],
    ids=["ppo", "appo, circular buffer", "appo, epochs", "dqn"],
)
def test_measurements_are_so_far_apart_that_they_take_2_percent_by_hand(config: Any, updates: int) -> None:
    assert updates_between(config) == updates


def test_sums_become_averages_and_their_ratio() -> None:
    def iteration(**sums: float) -> dict[str, Any]:
        return {"learners": {DEFAULT_MODULE_ID: {LOGGED: sums}}}

    sums = NoiseSums()
    sums.add({})
    sums.add(iteration(count=math.nan, gradient_square=math.nan, gradient_noise=math.nan))
    assert sums.report() == {}
    sums.add(iteration(count=2.0, gradient_square=1.0, gradient_noise=60.0))
    sums.add(iteration(count=1.0, gradient_square=2.0, gradient_noise=30.0))
    averages = {"learner/gradient_square": 1.0, "learner/gradient_noise": 30.0, "learner/noise_scale": 30.0}
    assert sums.report() == averages
    assert sums.report() == {}, "nothing was measured since"
    sums.add(iteration(count=1.0, gradient_square=-9.0, gradient_noise=30.0))
    sums.report()
    resumed = NoiseSums()
    resumed.state = sums.state
    without_scale = {"final/gradient_square": -1.5, "final/gradient_noise": 30.0}
    assert sums.final() == resumed.final() == without_scale, "no noise scale below zero"
