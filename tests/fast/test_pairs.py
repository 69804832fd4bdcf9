"""Pairs of trainings, RLlib's and the fast one, that give the same bits: each setting with every other,
and settings that are drawn.
"""

import math
from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, assume, given, settings
from hypothesis import strategies as st
from ray.rllib.algorithms.ppo.torch.default_ppo_torch_rl_module import DefaultPPOTorchRLModule
from ray.rllib.connectors.env_to_module import MeanStdFilter
from ray.rllib.core.columns import Columns
from ray.rllib.core.rl_module.rl_module import RLModuleSpec

from experiments.fast.env_runner import deferrable
from experiments.rllib.sac import SACConfig
from tests.support.fast_off_policy import dqn, sac
from tests.support.fast_pairs import assert_same_off_policy, assert_same_on_policy
from tests.support.fast_ppo import config_of
from tests.support.fast_sampling import Spaces
from tests.support.matrix import matrix
from tests.support.suite import ROOT

pytestmark = pytest.mark.filterwarnings("ignore")


class Halved(DefaultPPOTorchRLModule):
    """Puts out half of what the default network does, and an output of its own."""

    def _forward(self, batch: dict[str, Any], **how: Any) -> dict[str, Any]:
        found = super()._forward(batch, **how)
        inputs = found[Columns.ACTION_DIST_INPUTS] * 0.5
        return {**found, Columns.ACTION_DIST_INPUTS: inputs, "largest": inputs.amax(dim=-1)}


class Env(Spaces):
    """Takes any action."""

    def __init__(self, actions: gym.Space[Any], shape: tuple[int, ...] = (3,), dtype: Any = np.float32) -> None:
        super().__init__(actions, dtype, shape=shape, checks=False)


DISCRETE, BOX = gym.spaces.Discrete(5), gym.spaces.Box(-2, 3, (2,), np.float32)
SPACES: dict[str, Callable[[], Env]] = {
    "discrete": lambda: Env(DISCRETE),
    "box": lambda: Env(BOX, dtype=np.float64),
    "unbounded box": lambda: Env(gym.spaces.Box(0, np.inf, (2,), np.float32)),
    "multi-discrete": lambda: Env(gym.spaces.MultiDiscrete([3, 2])),
    "images": lambda: Env(DISCRETE, (12, 12, 2)),
}
NETWORKS: dict[str, dict[str, Any]] = {
    "separate, tanh": {"vf_share_layers": False},
    "shared, relu": {"vf_share_layers": True, "fcnet_activation": "relu"},
    "a module of one's own": {"vf_share_layers": True},
}
CLIPS: dict[str, dict[str, Any]] = {
    "none": {},
    "global norm": {"grad_clip": 0.5},
    "norm": {"grad_clip": 0.05, "grad_clip_by": "norm"},
    "value": {"grad_clip": 0.01, "grad_clip_by": "value"},
}
SCHEDULES: dict[str, dict[str, Any]] = {
    "constant": {},
    "learning rate and entropy": {"lr": [[0, 1e-2], [300, 1e-4]], "entropy_coeff": [[0, 0.1], [300, 0.0]]},
}
CONNECTORS = {"default": None, "mean and std": lambda env, spaces, device: MeanStdFilter()}
CALLBACKS = {
    "none": {},
    "deferrable end": {"on_episode_end": deferrable(lambda *, episode, **kwargs: episode.get_return())},
    "step": {"on_episode_step": lambda *, episode, **kwargs: episode.get_rewards(-1)},
}
RUNNERS: dict[str, dict[str, Any]] = {
    "3 environments": {"num_envs_per_env_runner": 3},
    "1 environment, long lookback": {"num_envs_per_env_runner": 1, "episode_lookback_horizon": 4},
    "2 environments, no lookback": {"num_envs_per_env_runner": 2, "episode_lookback_horizon": 0},
}
PPO_AXES = {
    "network": NETWORKS,
    "space": SPACES,
    "clip": {name: CLIPS[name] for name in ("none", "global norm", "value")},
    "schedule": SCHEDULES,
    "connector": CONNECTORS,
    "callback": CALLBACKS,
    "runner": RUNNERS,
}
UPDATE = {"num_epochs": 2, "minibatch_size": 16, "shuffle_batch_per_epoch": True}


@matrix(**{axis: list(values) for axis, values in PPO_AXES.items()})
def test_ppo_trains_as_with_rllib(
    network: str, space: str, clip: str, schedule: str, connector: str, callback: str, runner: str
) -> None:
    images = {"conv_filters": [[4, 4, 2], [8, 4, 2]], "head_fcnet_hiddens": [16]} if space == "images" else {}
    model = {**NETWORKS[network], "fcnet_hiddens": [16, 16], **images}
    config = config_of(lambda context: SPACES[space](), model, **CLIPS[clip], **SCHEDULES[schedule])
    config.env_runners(**RUNNERS[runner], env_to_module_connector=CONNECTORS[connector])
    config.callbacks(**CALLBACKS[callback])
    if network == "a module of one's own":
        config.rl_module(rl_module_spec=RLModuleSpec(module_class=Halved, model_config=config.model_config))
    fast_runner, fast_learner = assert_same_on_policy(config, **UPDATE)
    reason = fast_runner.why_stock(True, False)
    assert (reason is None) == (connector == "default" and callback != "step"), reason
    assert not fast_learner._logged_reasons


REPLAYING: dict[str, Callable[..., Any]] = {
    "DQN": lambda **training: dqn(False, **training),
    "DQN, distribution of returns": lambda **training: dqn(False, num_atoms=3, **training),
    "SAC": lambda **training: sac(False, **training),
    "SAC, the suite's critics": lambda **training: sac(False, config_class=SACConfig, **training),
    "SAC, squared errors": lambda **training: sac(False, config_class=SACConfig, td_error_loss_fn="mse", **training),
    "SAC, discrete actions": lambda **training: sac(False, env="CartPole-v1", target_entropy=0.5, **training),
}
BUFFERS: dict[str, dict[str, Any]] = {
    "uniform": {"type": "EpisodeReplayBuffer", "capacity": 1000},
    "prioritised": {"type": "PrioritizedEpisodeReplayBuffer", "capacity": 1000, "alpha": 0.6, "beta": 0.4},
}
RATES = {
    "DQN": {"lr": [[0, 1e-2], [30, 1e-4]], "epsilon": [[0, 1.0], [30, 0.1]]},
    "SAC": {"actor_lr": [[0, 1e-2], [30, 1e-4]]},
}
REPLAY_AXES: dict[str, Any] = {
    "algorithm": list(REPLAYING),
    "clip": ["none", "global norm"],
    "buffer": list(BUFFERS),
    "schedule": ["constant", "falling"],
    "n_step": [1, 3],
    "envs": [1, 3],
}


@matrix(**REPLAY_AXES)
def test_dqn_and_sac_train_as_with_rllib(
    algorithm: str, clip: str, buffer: str, schedule: str, n_step: int, envs: int
) -> None:
    rates = RATES[algorithm[:3]] if schedule == "falling" else {}
    clips = {"grad_clip": None, **CLIPS[clip]}
    training = {
        **clips,
        **rates,
        "n_step": n_step,
        "replay_buffer_config": BUFFERS[buffer],
        "train_batch_size_per_learner": 16,
    }
    assert_same_off_policy(REPLAYING[algorithm](envs=envs, tau=0.3, target_network_update_freq=7, **training))


def test_the_documentation_has_the_tables_of_the_full_products() -> None:
    page = (ROOT / "experiments/fast/README.md").read_text()
    for axes in (PPO_AXES, REPLAY_AXES):
        rows = [f"| {axis.replace('_', ' ')} | {'; '.join(map(str, values))} |" for axis, values in axes.items()]
        assert "\n".join(rows) in page
        assert f"{math.prod(map(len, axes.values())):,}" in page


WIDTHS = st.lists(st.sampled_from([1, 3, 8, 17, 64]), min_size=1, max_size=3)
ACTIVATIONS = st.sampled_from(["tanh", "relu", "silu"])
LIMITS = st.one_of(st.none(), st.floats(1e-4, 100.0))
BOUNDS = st.sampled_from([(-1.0, 1.0), (-3000.0, 1.0), (0.0, np.inf), (-np.inf, np.inf)])
DTYPES = st.sampled_from([np.float32, np.float64])
ACTIONS = st.one_of(
    st.builds(gym.spaces.Discrete, st.integers(2, 9)),
    st.builds(gym.spaces.MultiDiscrete, st.lists(st.integers(2, 5), min_size=1, max_size=3)),
    st.builds(lambda bounds, size: gym.spaces.Box(*bounds, (size,), np.float32), BOUNDS, st.integers(1, 3)),
)
FRACTIONS = st.floats(0.0, 1.0)


def examples(few: int, many: int) -> Callable[[Any], Any]:
    """Few drawn configurations in every run of the tests, many in the nightly ones."""
    return pytest.mark.parametrize("number", [few, pytest.param(many, marks=pytest.mark.nightly)])


def drawn(number: int, arguments: dict[str, Any]) -> Callable[[Callable[..., None]], Callable[[], None]]:
    slow = [HealthCheck.too_slow, HealthCheck.data_too_large]
    # Without shrinking: a failure says its settings, and each try costs a training.
    how = settings(
        max_examples=number, deadline=None, derandomize=True, phases=[Phase.generate], suppress_health_check=slow
    )
    return lambda test: how(given(**arguments)(test))


@examples(4, 400)
def test_ppo_of_any_settings_trains_as_with_rllib(number: int) -> None:
    runner = {
        "num_envs_per_env_runner": st.integers(1, 5),
        "episode_lookback_horizon": st.integers(0, 3),
        "explore": st.booleans(),
        "gym_env_vectorize_mode": st.just("sync"),
    }
    training = {
        "gamma": FRACTIONS,
        "lambda_": FRACTIONS,
        "lr": st.floats(1e-6, 0.1),
        "grad_clip": LIMITS,
        "grad_clip_by": st.sampled_from(["value", "norm", "global_norm"]),
        "use_kl_loss": st.booleans(),
        "entropy_coeff": FRACTIONS,
        "vf_loss_coeff": FRACTIONS,
        "clip_param": st.floats(0.01, 1.0),
        "vf_clip_param": st.floats(0.01, 100.0),
    }
    model = {
        # fewer, or fewer rows: rounded by where they lie, see experiments/fast/README.md
        "fcnet_hiddens": WIDTHS.filter(lambda widths: widths[0] > 8),
        "fcnet_activation": ACTIVATIONS,
        "vf_share_layers": st.booleans(),
        "free_log_std": st.booleans(),  # of a Box alone
        "log_std_clip_param": st.sampled_from([0.1, 20.0]),
    }
    updates = {
        "num_epochs": st.integers(1, 3),
        "minibatch_size": st.one_of(st.none(), st.integers(7, 40)),
        "shuffle_batch_per_epoch": st.booleans(),
    }

    @drawn(
        number,
        {
            "runner": st.fixed_dictionaries(runner),
            "training": st.fixed_dictionaries(training),
            "model": st.fixed_dictionaries(model),
            "update": st.fixed_dictionaries(updates),
            "how": st.fixed_dictionaries({"normalize_actions": st.booleans(), "clip_actions": st.booleans()}),
            "actions": ACTIONS,
            "shape": st.tuples(st.integers(1, 5)),
            "dtype": DTYPES,
            "sizes": st.lists(st.integers(7, 40), min_size=1, max_size=3),
        },
    )
    def trains(
        runner: Any,
        training: Any,
        model: Any,
        update: Any,
        how: Any,
        actions: Any,
        shape: tuple[int],
        dtype: Any,
        sizes: list[int],
    ) -> None:
        assume(runner["explore"] or isinstance(actions, gym.spaces.Discrete))  # RLlib's own learner fails on these
        model["free_log_std"] &= isinstance(actions, gym.spaces.Box)
        config = config_of(lambda context: Env(actions, shape, dtype), model, **training)
        config.environment(**how).env_runners(**runner)
        assert_same_on_policy(config, sizes, **update)

    trains()


@examples(3, 400)
def test_dqn_and_sac_of_any_settings_train_as_with_rllib(number: int) -> None:
    training = {
        "gamma": FRACTIONS,
        "tau": FRACTIONS,
        "target_network_update_freq": st.integers(1, 30),
        "n_step": st.integers(1, 3),
        "grad_clip": LIMITS,
        "grad_clip_by": st.sampled_from(["value", "norm", "global_norm"]),
        "train_batch_size_per_learner": st.integers(1, 40),
        "replay_buffer_config": st.sampled_from(list(BUFFERS.values())),
    }
    model = {
        "fcnet_hiddens": WIDTHS,
        "fcnet_activation": ACTIVATIONS,
        "head_fcnet_hiddens": st.one_of(st.just([]), WIDTHS),
    }

    @drawn(
        number,
        {
            "algorithm": st.sampled_from(list(REPLAYING)),
            "training": st.fixed_dictionaries(training),
            "model": st.fixed_dictionaries(model),
            "envs": st.integers(1, 3),
        },
    )
    def trains(algorithm: str, training: Any, model: Any, envs: int) -> None:
        # one row and one unit: rounded by where they lie, see experiments/fast/README.md
        assume(
            training["train_batch_size_per_learner"] > 1 or 1 not in model["fcnet_hiddens"] or algorithm[:3] != "SAC"
        )
        assert_same_off_policy(REPLAYING[algorithm](model=model, envs=envs, **training), steps=14)

    trains()
