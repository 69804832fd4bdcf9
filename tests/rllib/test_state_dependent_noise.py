"""State-dependent action noise: its standard deviations, the actions that are made of it, and where it is refused."""

import math
from typing import Any

import numpy as np
import pytest
import torch
import tree
from ray.rllib.core.columns import Columns
from ray.rllib.core.rl_module.rl_module import RLModuleSpec
from torch import distributions

from experiments.config.errors import ConfigurationError
from experiments.fast.networks.ppo import DefaultNetworks
from experiments.fast.networks.sac import SACNetworks
from experiments.fast.networks.state_dependent import StateDependentStds
from experiments.rllib import state_dependent_noise as noise
from experiments.rllib.action_noise import restart_noise
from experiments.rllib.coloured_noise import EXPONENT
from experiments.rllib.ppo import PPOConfig
from experiments.rllib.sac import SACConfig
from experiments.rllib.state_dependent_noise import HELD, LOG_STD
from tests.support.exported import LSTM
from tests.support.fast_sampling import ACTIONS, ODD, Spaces, assert_same_samples, assert_same_steps, config_of
from tests.support.noisy_modules import ONE, module_of, observations
from tests.support.suite import PlanOf

HOLD_3 = f"++algorithm.training.{HELD}=3"
LEARNING = 10_000
"""Env steps after which no action is taken at random any more."""
KINDS = {
    "ppo": noise.StateDependentPPOModule,
    "sac": noise.StateDependentSACModule,
    "tqc": noise.StateDependentTQCModule,
}


def parts(found: dict[str, Any]) -> tuple[torch.Tensor, torch.Tensor]:
    mean, log_std = found[Columns.ACTION_DIST_INPUTS].detach().chunk(2, dim=-1)
    return mean, log_std.exp()


@pytest.mark.parametrize("algorithm", KINDS)
def test_deviations_are_those_of_a_random_function_of_the_features(plan_of: PlanOf, algorithm: str) -> None:
    module = module_of(plan_of, f"algorithm={algorithm}", HOLD_3, f"++algorithm.training.{LOG_STD}=-1")
    assert type(module) is KINDS[algorithm]
    assert torch.equal(module.pi.log_std, torch.full_like(module.pi.log_std, -1.0))
    with torch.no_grad():
        module.pi.log_std += torch.randn_like(module.pi.log_std)
        _, std = parts(module.forward_inference(observations(4)))
        features, weights = module.pi.features, module.pi.log_std.exp()
        drawn = torch.einsum("nf,fa,sfa->sna", features, weights, torch.randn(40_000, *weights.shape))
    torch.testing.assert_close(drawn.std(dim=0), std, rtol=0.02, atol=0.001)
    torch.testing.assert_close(std**2, (features**2) @ (weights**2) + 1e-6)


@pytest.mark.parametrize("algorithm", KINDS)
def test_the_deterministic_policy_is_at_first_the_one_without_it(plan_of: PlanOf, algorithm: str) -> None:
    ours, plain = (module_of(plan_of, f"algorithm={algorithm}", *more) for more in ((HOLD_3,), ()))
    found, expected = (parts(module.forward_inference(observations(4)))[0] for module in (ours, plain))
    torch.testing.assert_close(found, expected)
    assert not any("features" in name or "noise" in name for name in ours.get_state())


@pytest.mark.parametrize("algorithm", KINDS)
def test_an_action_is_the_mean_and_a_function_of_the_features_that_is_held(plan_of: PlanOf, algorithm: str) -> None:
    module, batch = module_of(plan_of, f"algorithm={algorithm}", HOLD_3), observations(4)
    shape = (4, *module.pi.log_std.shape)
    torch.manual_seed(5)
    first, second = (torch.randn(shape) * module.pi.log_std.detach().exp() for _ in range(2))
    torch.manual_seed(5)
    for step in range(5):
        batch = {Columns.OBS: batch[Columns.OBS] + 0.1}
        found = module.forward_exploration(batch, t=LEARNING)
        mean, std = parts(found)
        added = torch.einsum("nf,nfa->na", module.pi.features, first if step < 3 else second)
        plain: Any = distributions.Independent(distributions.Normal(mean, std), 1)
        expected = mean + added
        if algorithm != "ppo":
            plain, expected = (
                distributions.TransformedDistribution(plain, distributions.TanhTransform()),
                expected.tanh(),
            )
        torch.testing.assert_close(found[Columns.ACTIONS], expected)
        torch.testing.assert_close(
            found[Columns.ACTION_LOGP], plain.log_prob(found[Columns.ACTIONS]), rtol=1e-3, atol=1e-4
        )
    torch.manual_seed(5)
    restart_noise(module)
    module.forward_exploration(batch, t=LEARNING)
    assert torch.equal(module._weights, first)
    module.forward_inference(batch)
    assert module._step == 1  # which draws nothing
    assert module.forward_exploration(observations(3), t=LEARNING)[Columns.ACTIONS].shape == (3, 1)


@pytest.mark.parametrize("algorithm", KINDS)
def test_algorithms_that_replay_act_at_random_until_they_learn(plan_of: PlanOf, algorithm: str) -> None:
    random = 0 if algorithm == "ppo" else 1_000
    given = [f"++algorithm.training.num_steps_sampled_before_learning_starts={random}"] if random else []
    module = module_of(plan_of, f"algorithm={algorithm}", HOLD_3, *given)
    batch = observations(2_000)
    deviations = []
    for t in (random - 1, random):
        found = module.forward_exploration(batch, t=t)
        deviations.append(float(found[Columns.ACTIONS].std()))
        assert found[Columns.ACTIONS].shape == found[Columns.ACTION_DIST_INPUTS].chunk(2, dim=-1)[0].shape
        assert found[Columns.ACTION_LOGP].shape == (2_000,)
    assert deviations[1] < 0.3  # as it begins
    if random:
        assert deviations[0] == pytest.approx(3**-0.5, rel=0.05)  # of a uniform number in [-1, 1]
        assert torch.equal(
            module.forward_exploration(batch, t=0)[Columns.ACTION_LOGP], torch.full((2_000,), -math.log(2.0))
        )


def test_it_goes_with_preprocessing_and_with_memory(plan_of: PlanOf) -> None:
    for algorithm in KINDS:
        module = module_of(plan_of, f"algorithm={algorithm}", "preprocessing=normalize_observations", HOLD_3)
        assert isinstance(module, noise._StateDependentNoise) and hasattr(module, "preprocessing")
    recurrent = module_of(plan_of, HOLD_3, *LSTM)
    state = tree.map_structure(lambda first: first.expand(4, *first.shape), recurrent.get_initial_state())
    batch = {Columns.OBS: observations(4)[Columns.OBS].unsqueeze(1), Columns.STATE_IN: state}
    assert recurrent.forward_exploration(batch, t=LEARNING)[Columns.ACTIONS].shape == (4, 1, 1)


def test_its_gradients_are_written_out_as_those_of_rllibs_networks(plan_of: PlanOf) -> None:
    sac = module_of(plan_of, "algorithm=sac", HOLD_3)
    sac.make_target_networks()
    assert sac.pi.log_std in (SACNetworks.parameters(sac) or ())
    ppo = module_of(plan_of, HOLD_3)
    assert DefaultNetworks.is_known(ppo, list(ppo.parameters()))
    gradients = {parameter: torch.zeros_like(parameter) for parameter in ppo.parameters()}
    batch, upstream = observations(5), torch.randn(5, 2)
    networks = DefaultNetworks(ppo, gradients)
    with torch.no_grad():
        found, _ = networks.forward(batch[Columns.OBS])
        networks.backward(upstream, torch.ones(5))
    out = ppo.forward_train(batch)
    assert torch.equal(out[Columns.ACTION_DIST_INPUTS], found)
    torch.autograd.backward([out[Columns.ACTION_DIST_INPUTS], ppo.compute_values(batch)], [upstream, torch.ones(5)])
    for parameter, gradient in gradients.items():
        np.testing.assert_array_equal(gradient.numpy(), parameter.grad.numpy())
    assert gradients[ppo.pi.log_std].abs().min() > 0


@pytest.mark.parametrize("algorithm", KINDS)
def test_deviations_train_the_features_of_algorithms_that_replay(plan_of: PlanOf, algorithm: str) -> None:
    head = module_of(plan_of, f"algorithm={algorithm}", HOLD_3).pi
    inputs = torch.randn(5, head.net.mlp[0].in_features, requires_grad=True)
    log_stds = head(inputs).chunk(2, dim=-1)[1]
    log_stds.sum().backward()
    assert (inputs.grad is not None and bool(inputs.grad.any())) == (algorithm != "ppo")
    assert head.log_std.grad.any()


@pytest.mark.parametrize("algorithm", KINDS)
def test_means_of_algorithms_that_replay_end_where_noise_would_make_no_difference(
    plan_of: PlanOf, algorithm: str
) -> None:
    head = module_of(plan_of, f"algorithm={algorithm}", HOLD_3).pi
    with torch.no_grad():
        head.net.mlp[-1].weight *= 100
    inputs, upstream = torch.randn(50, head.net.mlp[0].in_features), torch.randn(50, 2)
    found = head(inputs)
    largest = found.detach()[:, 0].abs().max()
    assert largest > 2.0 if algorithm == "ppo" else largest == 2.0
    found.backward(upstream)
    stds = StateDependentStds(head, {head.log_std: torch.zeros_like(head.log_std)})
    with torch.no_grad():
        means = head.net.mlp[-1](head.features)
        assert torch.equal(stds.complete(means, head.features), found)
        of_means = stds.backward(upstream)
    assert torch.equal(of_means.sum(dim=0), head.net.mlp[-1].bias.grad)
    assert torch.equal(of_means.ravel() == 0, means.ravel().abs() >= head.largest_mean)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("config_class", "module_class"),
    [(PPOConfig, noise.StateDependentPPOModule), (SACConfig, noise.StateDependentSACModule)],
)
def test_fast_parts_sample_as_rllibs_do(config_class: Any, module_class: Any) -> None:
    config = config_of(config_class, env=lambda context: Spaces(ACTIONS["box"]), envs=3)
    config.rl_module(
        model_config={**config.model_config, HELD: 3, LOG_STD: -1.0},
        rl_module_spec=RLModuleSpec(module_class=module_class),
    )
    assert assert_same_samples(config, ODD).why_stock(explore=True, random_actions=False) is None
    assert_same_steps(config, 40)


def test_a_study_can_search_it(plan_of: PlanOf) -> None:
    plan = plan_of("seeds=[0]", "env=pendulum", f"study.space={{algorithm.training.{HELD}:[0,8,64]}}")
    assert [c.label for c in plan.configurations] == [f"{HELD}={value}" for value in ("0", "8", "64")]


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (("env=cartpole", HOLD_3), f"algorithm.training.{HELD}=3: env=cartpole has actions Discrete(2), and only"),
        (
            ("env=pendulum", HOLD_3, f"++algorithm.training.{EXPONENT}=1.0"),
            f"algorithm.training.{EXPONENT}=1: actions have one kind of noise, and {HELD} gives them another.",
        ),
        (
            ("env=pendulum", HOLD_3, "algorithm.rl_module.module_class=tests.support.filtering.OwnModule"),
            f"algorithm.training.{HELD}=3: the module class is OwnModule, and only RLlib's default ones draw",
        ),
        (("algorithm=dqn", "env=cartpole", HOLD_3), f"algorithm.training.{HELD}: algorithm=dqn has no such setting."),
        (("env=pendulum", f"++algorithm.training.{HELD}=-1"), f"algorithm.training.{HELD}=-1: must be"),
    ],
)
def test_what_cannot_be_done_is_refused_with_the_fix(plan_of: PlanOf, overrides: tuple[str, ...], message: str) -> None:
    with pytest.raises(ConfigurationError) as error:
        plan_of(*ONE, *overrides)
    assert message in str(error.value)
