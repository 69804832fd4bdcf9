"""Coloured action noise: its series, the actions that are made of it, and where it is refused."""

from typing import Any

import numpy as np
import pytest
import torch
import tree
from ray.rllib.algorithms.ppo.torch.default_ppo_torch_rl_module import DefaultPPOTorchRLModule
from ray.rllib.core.columns import Columns
from ray.rllib.core.rl_module.rl_module import RLModuleSpec
from torch import distributions

from experiments.config.errors import ConfigurationError
from experiments.fast.networks.sac import SACNetworks
from experiments.rllib.action_noise import restart_noise
from experiments.rllib.building import build_algorithm_config
from experiments.rllib.coloured_noise import (
    EXPONENT,
    STEPS,
    NoisyPPOModule,
    NoisyPreprocessedPPOModule,
    NoisySACModule,
    coloured_noise,
)
from experiments.rllib.ppo import PPOConfig
from experiments.rllib.sac import SACConfig
from tests.support.exported import LSTM, SMALL, policy_of
from tests.support.fast_sampling import ACTIONS, ODD, Spaces, assert_same_samples, assert_same_steps, config_of
from tests.support.noisy_modules import ONE, module_of, observations
from tests.support.suite import PlanOf

PINK = f"++algorithm.training.{EXPONENT}=1.0"


# ---------------------------------------------------------------------------------------------------------- the series


@pytest.mark.parametrize("exponent", [0.0, 0.5, 1.0, 2.0])
def test_a_series_is_a_sum_of_waves_whose_power_falls_with_their_frequency(exponent: float) -> None:
    torch.manual_seed(1)
    found = coloured_noise(exponent, (2, 3))
    torch.manual_seed(1)
    of_cosine, of_sine = torch.randn(2, STEPS // 2 + 1, 2, 3, dtype=torch.float64).numpy()
    wave, step = np.arange(STEPS // 2 + 1), np.arange(STEPS)[:, np.newaxis]
    power = np.maximum(wave, 1.0) ** -exponent  # of each cosine and each sine
    number = np.where((wave == 0) | (wave == STEPS // 2), 1, 2)
    # A cosine and a sine of half the power each have that of one wave at every step.
    amplitude = np.sqrt(number * power / (number * power).sum())
    angle = 2 * np.pi * step * wave / STEPS
    expected = np.einsum("tf,fij->tij", amplitude * np.cos(angle), of_cosine)
    expected -= np.einsum("tf,fij->tij", amplitude * np.sin(angle), of_sine)
    assert found.dtype == torch.float32
    np.testing.assert_allclose(found.numpy(), expected, atol=1e-5)


@pytest.mark.parametrize("exponent", [0.0, 0.5, 1.0, 2.0])
def test_each_number_by_itself_is_standard_normal(exponent: float) -> None:
    torch.manual_seed(2)
    drawn = coloured_noise(exponent, (4000,))[[0, 1, STEPS // 2, STEPS - 1]].numpy()
    np.testing.assert_allclose(drawn.mean(axis=1), 0, atol=4 / 4000**0.5)
    np.testing.assert_allclose(drawn.var(axis=1), 1, atol=4 * (2 / 4000) ** 0.5)
    fourth = np.mean(drawn**4, axis=1)  # 3 of a normal number, whose eighth moment is 105
    np.testing.assert_allclose(fourth, 3, atol=4 * (96 / 4000) ** 0.5)


def test_neighbours_of_white_noise_have_nothing_in_common_and_those_of_pink_noise_much() -> None:
    torch.manual_seed(3)
    white, pink = (float((noise[:-1] * noise[1:]).mean()) for noise in map(_many, (0.0, 1.0)))
    assert abs(white) < 0.01 and pink > 0.5


def _many(exponent: float) -> torch.Tensor:
    return coloured_noise(exponent, (200,))


# --------------------------------------------------------------------------------------------------------- the actions


def test_an_action_is_the_policys_mean_and_deviation_with_the_number_of_its_step(plan_of: PlanOf) -> None:
    module, batch = module_of(plan_of, PINK), observations(4)
    assert type(module) is NoisyPPOModule
    torch.manual_seed(5)
    noise = coloured_noise(1.0, (4, 1))
    torch.manual_seed(5)
    for step in range(3):
        found = module.forward_exploration(batch, t=0)
        mean, log_std = found[Columns.ACTION_DIST_INPUTS].chunk(2, dim=-1)
        torch.testing.assert_close(found[Columns.ACTIONS], mean + log_std.exp() * noise[step])
        plain: Any = distributions.Independent(distributions.Normal(mean, log_std.exp()), 1)
        torch.testing.assert_close(found[Columns.ACTION_LOGP], plain.log_prob(found[Columns.ACTIONS]))
        ours = module.get_train_action_dist_cls().from_logits(found[Columns.ACTION_DIST_INPUTS])
        torch.testing.assert_close(ours.entropy(), plain.entropy())


def test_sacs_is_squashed(plan_of: PlanOf) -> None:
    module, batch = module_of(plan_of, "algorithm=sac", PINK), observations(4)
    assert type(module) is NoisySACModule
    torch.manual_seed(5)
    noise = coloured_noise(1.0, (4, 1))[0]
    torch.manual_seed(5)
    found = module.forward_exploration(batch, t=0)
    mean, log_std = found[Columns.ACTION_DIST_INPUTS].detach().chunk(2, dim=-1)
    torch.testing.assert_close(found[Columns.ACTIONS], torch.tanh(mean + log_std.exp() * noise))
    plain: Any = distributions.TransformedDistribution(
        distributions.Independent(distributions.Normal(mean, log_std.exp()), 1), distributions.TanhTransform()
    )
    torch.testing.assert_close(found[Columns.ACTION_LOGP], plain.log_prob(found[Columns.ACTIONS]))


def test_a_series_goes_on_from_step_to_step_and_is_followed_by_another(plan_of: PlanOf) -> None:
    module, batch = module_of(plan_of, PINK), observations(2)
    torch.manual_seed(6)
    first, second = coloured_noise(1.0, (2, 1)), coloured_noise(1.0, (2, 1))
    torch.manual_seed(6)
    drawn = [module._next_noise(torch.zeros(2, 1)) for _ in range(STEPS + 1)]
    torch.testing.assert_close(torch.stack(drawn), torch.cat([first, second[:1]]), rtol=0, atol=0)
    torch.manual_seed(6)
    restart_noise(module)
    assert torch.equal(module._next_noise(torch.zeros(2, 1)), first[0])
    assert module._next_noise(torch.zeros(3, 1)).shape == (3, 1)  # of another number of environments
    assert not any("noise" in name for name in module.get_state())
    module.forward_inference(batch)
    assert module._step == 1  # which draws nothing


def test_the_deterministic_policy_and_what_is_trained_stay_rllibs(plan_of: PlanOf) -> None:
    ours, plain = (module_of(plan_of, *more) for more in ((PINK,), ()))
    assert type(plain) is DefaultPPOTorchRLModule and type(ours)._forward_train is type(plain)._forward_train
    for name, values in plain.get_state().items():
        np.testing.assert_array_equal(ours.get_state()[name], values)
    found, expected = (module.forward_inference(observations(4)) for module in (ours, plain))
    assert found.keys() == expected.keys() == {Columns.ACTION_DIST_INPUTS}
    assert torch.equal(found[Columns.ACTION_DIST_INPUTS], expected[Columns.ACTION_DIST_INPUTS])
    sac = module_of(plan_of, "algorithm=sac", PINK)
    sac.make_target_networks()
    assert SACNetworks.parameters(sac)  # their gradients are written out


def test_it_goes_with_preprocessing_and_with_memory(plan_of: PlanOf) -> None:
    module = module_of(plan_of, "preprocessing=normalize", PINK)
    assert type(module) is NoisyPreprocessedPPOModule
    recurrent = module_of(plan_of, PINK, *LSTM)
    state = tree.map_structure(lambda first: first.expand(4, *first.shape), recurrent.get_initial_state())
    batch = {Columns.OBS: observations(4)[Columns.OBS].unsqueeze(1), Columns.STATE_IN: state}
    assert recurrent.forward_exploration(batch, t=0)[Columns.ACTIONS].shape == (4, 1, 1)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("config_class", "module_class"), [(PPOConfig, NoisyPPOModule), (SACConfig, NoisySACModule)])
def test_fast_parts_sample_as_rllibs_do(config_class: Any, module_class: Any) -> None:
    config = config_of(config_class, env=lambda context: Spaces(ACTIONS["box"]), envs=3)
    config.rl_module(
        model_config={**config.model_config, EXPONENT: 1.0}, rl_module_spec=RLModuleSpec(module_class=module_class)
    )
    fast = assert_same_samples(config, ODD)
    assert fast.why_stock(explore=True, random_actions=False) is None
    assert_same_steps(config, 40)


def test_an_exploring_evaluation_is_the_same_each_time(plan_of: PlanOf) -> None:
    policy = policy_of(plan_of(*SMALL, "env=pendulum", PINK).trials[0])
    first, second = (policy.evaluate([1, 2, 3], explore=True).returns for _ in range(2))
    np.testing.assert_array_equal(first, second)
    assert (first != policy.evaluate([1, 2, 3]).returns).all()


# -------------------------------------------------------------------------------------------------------- the settings


def test_without_it_networks_and_ids_are_as_they_were(plan_of: PlanOf) -> None:
    plain, white = (plan_of(*ONE, "env=pendulum", *more).trials[0] for more in ((), (PINK.replace("1.0", "0.0"),)))
    assert EXPONENT not in plain.algorithm["training"]
    for trial in (plain, white):
        config = build_algorithm_config(trial)
        assert config.rl_module_spec.module_class is DefaultPPOTorchRLModule
        assert EXPONENT not in config.model_config


def test_a_study_can_search_it(plan_of: PlanOf) -> None:
    plan = plan_of("seeds=[0]", "env=pendulum", f"study.space={{algorithm.training.{EXPONENT}:[0,0.5,1]}}")
    assert len({c.config_id for c in plan.configurations}) == 3
    assert [c.label for c in plan.configurations] == [f"{EXPONENT}={value}" for value in ("0", "0.5", "1")]


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (
            ("env=cartpole", PINK),
            f"algorithm.training.{EXPONENT}=1: env=cartpole has actions Discrete(2), and only continuous ones have "
            f"noise. Try algorithm.training.{EXPONENT}=0.",
        ),
        (
            ("env=pendulum", PINK, "algorithm.rl_module.module_class=tests.support.filtering.OwnModule"),
            f"algorithm.training.{EXPONENT}=1: the module class is OwnModule, and only RLlib's default ones draw",
        ),
        (("algorithm=dqn", "env=cartpole", PINK), f"algorithm.training.{EXPONENT}: algorithm=dqn has no such setting."),
        (("env=pendulum", PINK.replace("1.0", "3")), f"algorithm.training.{EXPONENT}=3: must be between 0 and 2."),
        (("env=pendulum", PINK.replace("1.0", "pink")), f"algorithm.training.{EXPONENT}='pink': must be a number"),
    ],
)
def test_what_cannot_be_done_is_refused_with_the_fix(plan_of: PlanOf, overrides: tuple[str, ...], message: str) -> None:
    with pytest.raises(ConfigurationError) as error:
        plan_of(*ONE, *overrides)
    assert message in str(error.value)
