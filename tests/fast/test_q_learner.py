"""Lean updates of DQN and SAC beside RLlib's own: the same weights, TD errors and results, to the bit."""

import logging
import math
from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from ray.rllib.algorithms.dqn.torch.default_dqn_torch_rl_module import DefaultDQNTorchRLModule
from ray.rllib.algorithms.dqn.torch.dqn_torch_learner import DQNTorchLearner
from ray.rllib.algorithms.sac.torch.default_sac_torch_rl_module import DefaultSACTorchRLModule
from ray.rllib.algorithms.sac.torch.sac_torch_learner import SACTorchLearner
from ray.rllib.core import DEFAULT_MODULE_ID
from ray.rllib.core.rl_module.rl_module import RLModuleSpec
from ray.rllib.policy.sample_batch import MultiAgentBatch, SampleBatch
from ray.rllib.utils.metrics import TD_ERROR_KEY
from ray.rllib.utils.torch_utils import convert_to_torch_tensor

from experiments.fast.q_learner import FastDQNTorchLearner
from experiments.fast.sac_learner import FastSACTorchLearner
from experiments.rllib.sac import SACConfig
from tests.support.fast_off_policy import STEPS, assert_same_learners, dqn, leaves, sac, same
from tests.support.matrix import matrix

pytestmark = pytest.mark.filterwarnings("ignore")


def learners(make: Callable[[bool], Any]) -> tuple[Any, Any]:
    found = []
    for fast in (True, False):
        config = make(fast)
        torch.manual_seed(0)
        found.append(config.build_learner(env=gym.make(config.env)))
    assert isinstance(found[0], FastDQNTorchLearner | FastSACTorchLearner)
    assert isinstance(found[1], DQNTorchLearner | SACTorchLearner)
    return found[0], found[1]


def columns(learner: Any, rng: np.random.Generator, rows: int = 24) -> dict[str, Any]:
    module = learner.module[DEFAULT_MODULE_ID]
    observations, discrete = module.observation_space.shape, isinstance(module.action_space, gym.spaces.Discrete)
    actions = rng.integers(0, module.action_space.n, rows) if discrete else rng.uniform(-1, 1, (rows, 1))
    return {
        "obs": rng.normal(size=(rows, *observations)).astype(np.float32),
        "new_obs": rng.normal(size=(rows, *observations)).astype(np.float32),
        "actions": actions.astype(np.int32 if discrete else np.float32),
        "rewards": rng.normal(size=rows) * 20,
        "terminateds": rng.random(rows) < 0.1,
        "truncateds": rng.random(rows) < 0.1,
        "weights": rng.random(rows),
        "n_step": rng.integers(1, 4, rows),
    }


def update(learner: Any, batch: dict[str, Any], t: int, seed: int) -> Any:
    """RLlib's way."""
    torch.manual_seed(seed)
    rows = MultiAgentBatch(
        {DEFAULT_MODULE_ID: SampleBatch(convert_to_torch_tensor(batch))}, env_steps=len(batch["rewards"])
    )
    return learner.update(batch=rows, timesteps={STEPS: t})


def lean(learner: Any, batch: dict[str, Any], t: int, seed: int) -> torch.Tensor:
    torch.manual_seed(seed)
    return learner.lean_update(batch, {STEPS: t})


def assert_same_updates(fast: Any, stock: Any) -> None:
    assert fast.why_stock() is None
    rng = np.random.default_rng(1)
    results = []
    for number in range(14):
        batch, t = columns(stock, rng), 25 * number
        if number == 6:  # RLlib's own way in between
            results_of_lean = fast.lean_results()
            update(fast, batch, t, number)
            update(stock, batch, t, number)
            continue
        if number in (0, 7):
            fast.begin_lean()
        found = lean(fast, batch, t, number)
        expected = update(stock, batch, t, number)
        same(found.double().numpy(), np.array(expected[DEFAULT_MODULE_ID].pop(TD_ERROR_KEY).peek()[0]))
        if number < 6:
            results.append(expected)
    fast.lean_results()
    assert_same_learners(fast, stock)
    assert_same_results(results_of_lean, results)


def assert_same_results(found: Any, expected: list[Any]) -> None:
    """One result of many updates beside those of each of them."""
    ours, theirs = leaves(found), [leaves(result) for result in expected]
    assert set(ours) == set(theirs[-1])
    for path, stats in ours.items():
        each = np.ravel([result[path].peek() for result in theirs if path in result]).tolist()
        if type(stats).__name__ == "MeanStats":
            assert list(stats.values) == [value for value in each if not math.isnan(value)] or math.isnan(each[0]), path
        elif type(stats).__name__ in ("SumStats", "LifetimeSumStats"):
            assert stats.peek() == sum(each), path
        elif type(stats).__name__ == "MaxStats":
            assert stats.peek() == np.nanmax(each), path


DEFAULT = {"fcnet_hiddens": [256, 256], "head_fcnet_hiddens": [256]}
MIXED = {"fcnet_activation": "relu", "head_fcnet_hiddens": [8], "head_fcnet_activation": "tanh"}
UNKNOWN = {"fcnet_activation": "silu"}
CLIPS: dict[str, dict[str, Any]] = {
    "default": {},
    "norm": {"grad_clip": 0.5},
    "each norm": {"grad_clip": 0.05, "grad_clip_by": "norm"},
    "value": {"grad_clip": 0.01, "grad_clip_by": "value"},
}


@matrix(
    model=[{}, MIXED, UNKNOWN], double=[True, False], dueling=[True, False], loss=["huber", "mse"], clip=list(CLIPS)
)
def test_lean_updates_of_dqn_are_those_of_rllib(
    model: dict[str, Any], double: bool, dueling: bool, loss: str, clip: str
) -> None:
    fast, stock = learners(
        lambda fast: dqn(fast, model, double_q=double, dueling=dueling, td_error_loss_fn=loss, **CLIPS[clip])
    )
    assert_same_updates(fast, stock)
    assert (fast._networks is None) == (model is UNKNOWN)  # the others' gradients are without autograd


def test_lean_updates_of_default_networks_are_those_of_rllib() -> None:
    assert_same_updates(*learners(lambda fast: dqn(fast, DEFAULT)))


def test_lean_updates_with_a_distribution_of_returns_are_those_of_rllib() -> None:
    assert_same_updates(*learners(lambda fast: dqn(fast, num_atoms=5)))


def test_learning_rates_that_fall_and_targets_that_move_slowly_are_those_of_rllib() -> None:
    lr, actor_lr = [[0, 1e-2], [300, 1e-4]], [[0, 1e-2], [300, 1e-4]]
    assert_same_updates(*learners(lambda fast: dqn(fast, lr=lr, tau=0.3, target_network_update_freq=7)))
    assert_same_updates(*learners(lambda fast: sac(fast, actor_lr=actor_lr, tau=0.3)))


SAC: dict[str, dict[str, Any]] = {
    "two critics": {},
    "one critic": {"twin_q": False},
    "two critics of the suite": {"config_class": SACConfig},
    "one critic of the suite": {"config_class": SACConfig, "twin_q": False},
    "squared errors, two critics of the suite": {"config_class": SACConfig, "td_error_loss_fn": "mse"},
    "squared errors, one critic of the suite": {
        "config_class": SACConfig,
        "td_error_loss_fn": "mse",
        "twin_q": False,
    },
    "discrete actions": {"env": "CartPole-v1", "target_entropy": 0.5},  # RLlib's need two critics
}


@matrix(strength=1, kind=list(SAC), clip=[None, 0.5])
def test_lean_updates_of_sac_are_those_of_rllib(kind: str, clip: float | None) -> None:
    fast, stock = learners(lambda fast: sac(fast, grad_clip=clip, **SAC[kind]))
    assert_same_updates(fast, stock)
    assert fast._backward == fast._backward_together  # one pass for the four losses
    assert (fast._networks is not None) == (kind.endswith("of the suite"))  # whose gradients are without autograd


@pytest.mark.parametrize("clip", [None, 0.5])
def test_an_optimizer_that_is_no_plain_adam_steps_as_in_rllib(clip: float | None) -> None:
    def make(fast: bool) -> Any:
        base = FastDQNTorchLearner if fast else DQNTorchLearner

        def configure_optimizers_for_module(self: Any, module_id: str, config: Any = None) -> None:
            parameters = self.get_parameters(self._module[module_id])
            optimizer = torch.optim.SGD(parameters, momentum=0.9)
            self.register_optimizer(
                module_id=module_id, optimizer=optimizer, params=parameters, lr_or_lr_schedule=config.lr
            )

        own = {"configure_optimizers_for_module": configure_optimizers_for_module}
        return dqn(fast, grad_clip=clip).learners(learner_class=type("Own", (base,), own))

    assert_same_updates(*learners(make))


class UnusedQ(DefaultDQNTorchRLModule):
    """With a layer that no loss depends on."""

    def setup(self) -> None:
        super().setup()
        self.encoder.unused = torch.nn.Linear(3, 3)


class UnusedSAC(DefaultSACTorchRLModule):
    """The same, in a network of each optimizer."""

    def setup(self) -> None:
        super().setup()
        for network in ("pi_encoder", "qf_encoder", "qf_twin_encoder"):
            getattr(self, network).unused = torch.nn.Linear(3, 3)


UNTRAINED: dict[str, tuple[Any, str, Any]] = {
    "an encoder of DQN": (dqn, "encoder", None),
    "all of DQN": (dqn, "", None),
    "the policy's encoder of SAC": (sac, "pi_encoder", None),
    "unused parameters of DQN": (dqn, "none", UnusedQ),
    "unused parameters of SAC": (sac, "none", UnusedSAC),
}


@pytest.mark.parametrize("clip", [40.0, None])
@pytest.mark.parametrize("which", UNTRAINED)
def test_parameters_without_a_gradient_stay_as_in_rllib(which: str, clip: float | None) -> None:
    base, frozen, module = UNTRAINED[which]

    def make(fast: bool) -> Any:
        config = base(fast, grad_clip=clip)
        return config if module is None else config.rl_module(rl_module_spec=RLModuleSpec(module_class=module))

    found = learners(make)
    for learner in found:
        for name, parameter in learner.module[DEFAULT_MODULE_ID].named_parameters():
            parameter.requires_grad_(parameter.requires_grad and not name.startswith(frozen))
    assert_same_updates(*found)


def test_what_is_not_finite_is_dealt_with_as_in_rllib(caplog: pytest.LogCaptureFixture) -> None:
    fast, stock = learners(lambda fast: dqn(fast, td_error_loss_fn="mse", grad_clip=None))
    rng = np.random.default_rng(1)
    for name in ("ray", "ray.rllib"):
        caplog.set_level(logging.WARNING, logger=name)
    fast.begin_lean()
    for number in range(12):
        batch = columns(stock, rng)
        if number in (4, 7, 8):
            batch["rewards"][3] = math.inf if number == 4 else math.nan
        if number == 10:
            batch["new_obs"][5, 0] = math.inf
        caplog.clear()
        lean(fast, batch, number, number)
        ours = [record.getMessage() for record in caplog.records]
        caplog.clear()
        update(stock, batch, number, number)
        assert ours == [record.getMessage() for record in caplog.records]
        assert bool(ours) == (number in (4, 7, 8, 10))
    fast.lean_results()
    assert_same_learners(fast, stock)


def test_a_loss_of_ones_own_is_called_with_what_it_needs() -> None:
    class Regularised:
        def compute_loss_for_module(self, *, module_id: str, config: Any, batch: Any, fwd_out: Any) -> torch.Tensor:
            loss = super().compute_loss_for_module(module_id=module_id, config=config, batch=batch, fwd_out=fwd_out)  # type: ignore[misc]
            return loss + sum((p**2).sum() for p in self.module[module_id].encoder.parameters())  # type: ignore[attr-defined]

    def make(fast: bool) -> Any:
        base = FastDQNTorchLearner if fast else DQNTorchLearner
        return dqn(fast).learners(learner_class=type("Own", (Regularised, base), {}))

    fast, stock = (make(one).build_learner(env=gym.make("CartPole-v1")) for one in (True, False))
    stock.module.set_state(fast.module.get_state())
    rng = np.random.default_rng(1)
    fast.begin_lean()
    for number in range(6):
        batch = columns(stock, rng)
        lean(fast, batch, number, number)
        update(stock, batch, number, number)
    fast.lean_results()
    assert_same_learners(fast, stock)


@pytest.mark.parametrize(
    "hook", ["postprocess_gradients", "compute_gradients", "after_gradient_based_update", "_uncompiled_update"]
)
def test_a_learner_with_hooks_of_its_own_is_left_to_rllib(hook: str) -> None:
    own = type(
        "Own",
        (FastDQNTorchLearner,),
        {hook: lambda self, *args, **kwargs: getattr(super(own, self), hook)(*args, **kwargs)},
    )
    learner = dqn(True).learners(learner_class=own).build_learner(env=gym.make("CartPole-v1"))
    assert learner.why_stock() == f"a {hook} of its own"


def test_every_value_reaches_a_logger_that_someone_has_wrapped() -> None:
    fast, _ = learners(dqn)
    seen: list[Any] = []
    log_value = fast.metrics.log_value

    def wrapped(key: Any, value: Any, **how: Any) -> None:
        log_value(key, value, **how)
        if key[-1] == "qf_loss":
            seen.append(value)

    fast.metrics.log_value = wrapped
    rng = np.random.default_rng(1)
    fast.begin_lean()
    for number in range(5):
        lean(fast, columns(fast, rng), number, number)
    results = fast.lean_results()
    assert results[DEFAULT_MODULE_ID]["qf_loss"].values == seen
    assert len(set(seen)) == 5
