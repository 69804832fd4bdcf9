"""An environment with any spaces, which takes no action that is none of its own,
and a draw of spaces: `drawn_spaces:drawn/Spaces-v0`.
"""

import functools
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from gymnasium import spaces
from hypothesis import strategies as st

from experiments.config.trial_config import TrialConfig
from experiments.envs import masked
from experiments.fast.off_policy import FastOffPolicy
from experiments.fast.stepping import DirectSampler
from experiments.policies.onnx_graph import _Policy, input_dtype
from experiments.rllib.building import build_algorithm_config, networks_of, observed_environment_of
from experiments.rllib.made_environments import spaces as spaces_of
from tests.support.algorithms import ON_POLICY, suits
from tests.support.exported import policy_of
from tests.support.planning import plan_for
from tests.support.suite import ALGORITHMS

VECTOR, TWO = spaces.Box(-1, 1, (3,), np.float32), spaces.Discrete(2)
_PAIRS: list[tuple[gym.Space[Any], gym.Space[Any]]] = []


class AnySpaces(gym.Env[Any, Any]):
    """Observations that are drawn, reward 1 a step; `taken` are the actions of all such environments
    in this process. Takes none that a mask rules out.
    """

    taken: list[Any] = []  # noqa: RUF012  # shared on purpose

    def __init__(self, index: int) -> None:
        self.observation_space, self.action_space = _PAIRS[index]

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.observation_space.seed(seed or 0)
        return self._observe(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        assert self.action_space.contains(action), (
            f"{action!r} ({getattr(action, 'dtype', type(action))}) is not in {self.action_space!r}"
        )
        assert self._mask is None or self._mask[int(action) - int(self.action_space.start)], f"{action!r} is ruled out"
        self.taken.append(action)
        return self._observe(), 1.0, False, False, {}

    def _observe(self) -> Any:
        """An observation, in which a mask that can be applied allows something."""
        space, observation = self.observation_space, self.observation_space.sample()
        self._mask = None
        if masked.has_action_mask(space) and not masked.why_not(space, self.action_space):
            self._mask = observation[masked.MASK]
            self._mask[self.np_random.integers(len(self._mask))] = 1
        return observation


gym.register("drawn/Spaces-v0", entry_point=AnySpaces, max_episode_steps=4, disable_env_checker=True)


@functools.cache
def _trial_of(algorithm: str) -> TrialConfig:
    env = "env=acrobot" if suits(algorithm, TWO) else "env=pendulum"
    networks = ("++algorithm.rl_module.fcnet_hiddens=[4]", "++algorithm.rl_module.fcnet_activation=tanh")
    how = ("study=single", "seeds=[0]", "evaluation.final_episodes=2", "preprocessing=none")
    return plan_for(*how, *networks, f"algorithm={algorithm}", env).trials[0]


def trial_with(
    algorithm: str, actions: gym.Space[Any], observations: gym.Space[Any] = VECTOR, **settings: Any
) -> TrialConfig:
    """A trial of an algorithm in an environment with these spaces.

    Args:
        algorithm: Its name.
        actions: Of the environment.
        observations: Of the environment.
        **settings: Others of the environment.
    """
    _PAIRS.append((observations, actions))
    trial = _trial_of(algorithm)
    own = {"id": "drawn/Spaces-v0", "name": "drawn", "env_config": {"index": len(_PAIRS) - 1}, "vectorize_mode": "sync"}
    return replace(trial, env=replace(trial.env, **{**own, **settings}))


def made_with(algorithm: str, actions: gym.Space[Any], wrapped: Callable[[int], gym.Env[Any, Any]]) -> TrialConfig:
    """The same, where a person wraps the environment with such an index."""
    trial = trial_with(algorithm, actions)
    gym.register(
        name := f"drawn/Wrapped{len(_PAIRS)}-v0", entry_point=wrapped, max_episode_steps=4, disable_env_checker=True
    )
    return replace(trial, env=replace(trial.env, id=name))


def sampled(trial: TrialConfig, fast: bool = True, env_steps: int = 12) -> list[Any]:
    """The actions that environments get in training, from an env runner with the trial's untrained networks.

    Raises:
        ConfigurationError: The trial is refused.
    """
    trial = replace(trial, fast=fast)
    config = build_algorithm_config(trial)
    networks_of(trial, config)
    config = config.copy(copy_frozen=False)
    config.env_runners(num_env_runners=0, num_envs_per_env_runner=3, rollout_fragment_length=4)
    runner = config.env_runner_cls(config=config, worker_index=0)
    AnySpaces.taken.clear()
    if issubclass(config.algo_class, FastOffPolicy):
        DirectSampler(runner).sample(env_steps)
    else:
        runner.sample(num_timesteps=env_steps, explore=True)
    runner.stop()
    return list(AnySpaces.taken)


def played(trial: TrialConfig) -> None:
    """Evaluate a policy with random weights, call it in a loop, and compare the graph that is exported of it."""
    policy = policy_of(trial)
    with torch.no_grad():
        for weights in policy.module.parameters():
            if weights.dim() == 1:
                # RLlib's DQN explores among actions whose value is not 0, which all are where nothing is seen
                weights.fill_(0.1)
    assert policy.evaluate([0, 1, 2]).returns.tolist() == [4.0, 4.0, 4.0]
    policy.evaluate([0, 1], explore=True)
    policy.reset()
    env, space = policy.environment(), spaces_of(trial.env)[1]
    assert env.action_space == space
    observation, _ = env.reset(seed=0)
    for _ in range(3):
        observation, *_ = env.step(policy(observation))
    seen = spaces_of(observed_environment_of(trial))[0]
    seen.seed(1)
    observations = np.stack([seen.sample() for _ in range(5)])
    graph = _Policy(policy.module, space, policy.normalize_actions, policy.clip_actions)
    with torch.no_grad():
        exported = graph(torch.as_tensor(observations.astype(input_dtype(seen))))[0].numpy()
    called = policy(observations)
    assert (exported.dtype, exported.shape) == (np.asarray(called).dtype, np.asarray(called).shape)
    np.testing.assert_allclose(exported, called, rtol=1e-4, atol=1e-4)
    for action in exported:
        assert space.contains(action), f"{action!r} is not in {space!r}"


_ENDS = (
    (-1, 1),
    (0, 5),
    (2, 2),
    (-0.3, 0.1),
    (-np.inf, np.inf),
    (0, np.inf),
    (-np.inf, -2),
    (-1e4, 1e4),
    (-np.inf, 1e30),
    (-3e38, 3e38),
)


@st.composite
def _floats(
    draw: Any, shapes: Sequence[tuple[int, ...]], types: Sequence[Any] = (np.float32, np.float64, np.float16)
) -> gym.Space[Any]:
    dtype, shape = draw(st.sampled_from(types)), draw(st.sampled_from(shapes))
    few = draw(st.lists(st.sampled_from(_ENDS), min_size=1, max_size=3))
    with np.errstate(over="ignore"):
        ends = np.resize(np.array(few, dtype), (int(np.prod(shape)), 2))
    return spaces.Box(ends[:, 0].reshape(shape), ends[:, 1].reshape(shape), shape, dtype)


@st.composite
def _choices(draw: Any) -> gym.Space[Any]:
    dtype, start = draw(st.sampled_from([np.int64, np.int32, np.int8])), draw(st.sampled_from([0, 1, -3]))
    kind, shape = draw(st.sampled_from(["one", "several", "bits"])), draw(st.sampled_from([(3,), (2, 2)]))
    if kind == "one":
        return spaces.Discrete(draw(st.integers(1, 4)), start=start, dtype=dtype)
    if kind == "bits":
        return spaces.MultiBinary(shape if len(shape) > 1 else 3)
    counts = np.resize(draw(st.lists(st.integers(1, 4), min_size=2, max_size=3)), shape)
    return spaces.MultiDiscrete(counts, dtype=dtype, start=np.full(shape, start))


def _integers(shapes: Sequence[tuple[int, ...]]) -> st.SearchStrategy[gym.Space[Any]]:
    kinds = st.sampled_from([(np.int64, 100), (np.uint8, 255), (np.int8, 9), (np.bool_, 1)])
    return st.builds(lambda kind, shape: spaces.Box(0, kind[1], shape, kind[0]), kinds, st.sampled_from(shapes))


def _nested(parts: st.SearchStrategy[gym.Space[Any]]) -> st.SearchStrategy[gym.Space[Any]]:
    """Several parts, at any depth, and what is no array at all."""
    keys = st.sampled_from(["at", "goal", "action_mask"])

    def of(inner: st.SearchStrategy[gym.Space[Any]]) -> st.SearchStrategy[gym.Space[Any]]:
        several = st.lists(inner, min_size=1, max_size=2).map(spaces.Tuple)
        return st.one_of(st.dictionaries(keys, inner, min_size=1, max_size=2).map(spaces.Dict), several)

    others = st.sampled_from(
        [spaces.Text(3), spaces.Sequence(spaces.Discrete(2)), spaces.OneOf((spaces.Discrete(2), spaces.Discrete(3)))]
    )
    return st.one_of(of(st.one_of(parts, of(parts))), others)


def _masked(parts: st.SearchStrategy[gym.Space[Any]]) -> st.SearchStrategy[gym.Space[Any]]:
    """A part, and a mask of the actions `TWO`."""
    bits = [spaces.MultiBinary(2), spaces.Box(0, 1, (2,), np.int8), spaces.Box(0, 1, (2,), np.float32)]
    names = st.sampled_from(["observations", "observation", "at"])
    return st.builds(
        lambda mask, name, part: spaces.Dict({masked.MASK: mask, name: part}), st.sampled_from(bits), names, parts
    )


_ACTIONS = st.one_of(_choices(), _floats([(1,), (2,), (), (2, 2)], [np.float32, np.float64]))
_OTHER_ACTIONS = st.one_of(_integers([(2,), ()]), _floats([(2,)], [np.float16]))
_VECTORS = st.one_of(_choices(), _floats([(3,), ()]), _integers([(3,), ()]))
_OTHER_OBSERVATIONS = st.one_of(_floats([(2, 2), (10, 10, 2), (2, 10, 10)]), _integers([(2, 2), (10, 10, 3)]))

Drawn = tuple[str, gym.Space[Any], gym.Space[Any]]
"""Algorithm, actions, observations."""


def _suiting(actions: gym.Space[Any]) -> tuple[str, ...]:
    return tuple(name for name in ALGORITHMS if suits(name, actions))


DRAWN_ACTIONS: st.SearchStrategy[Drawn] = _ACTIONS.flatmap(
    lambda actions: st.tuples(st.sampled_from(_suiting(actions)), st.just(actions), st.just(VECTOR))
)
"""Actions that are mostly taken."""
DRAWN_OBSERVATIONS: st.SearchStrategy[Drawn] = st.tuples(
    st.sampled_from(["ppo", "dqn"]), st.just(TWO), st.one_of(_VECTORS, _nested(_VECTORS), _OTHER_OBSERVATIONS)
)
"""Observations that are mostly taken."""
DRAWN_MASKS: st.SearchStrategy[Drawn] = st.tuples(
    st.sampled_from([*ON_POLICY, "dqn"]),
    st.just(TWO),
    _masked(st.one_of(_VECTORS, _nested(_VECTORS), _integers([(2, 2), (10, 10, 3)]))),
)
"""Observations beside a mask of actions that are mostly taken."""
ANYTHING: st.SearchStrategy[Drawn] = st.tuples(
    st.sampled_from(ALGORITHMS),
    st.one_of(_ACTIONS, _OTHER_ACTIONS, _nested(_ACTIONS)),
    st.one_of(_VECTORS, _nested(st.one_of(_VECTORS, _OTHER_OBSERVATIONS)), _OTHER_OBSERVATIONS),
)
