"""EnvPool's environments beside Gymnasium's."""

from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from experiments.config.errors import ConfigurationError
from experiments.envs import envpool as ours
from experiments.trial.trainable import Trial
from experiments.trial.tune_keys import MEASURE_SYSTEM
from tests.support.suite import TINY, PlanOf
from tests.support.trials import REPRODUCIBLE, WEIGHTS, step, with_folder

envpool = pytest.importorskip("envpool", reason="needs the extra `envpool`")

pytestmark = pytest.mark.filterwarnings("ignore")


def pool(gym_id: str, num_envs: int = 4, **arguments: Any) -> Any:
    made = gym.make_vec(
        f"{ours.__name__}:{ours.ID}",
        num_envs=num_envs,
        vectorization_mode="vector_entry_point",
        gym_id=gym_id,
        **arguments,
    )
    made.action_space.seed(0)
    return made


def rolled(env: Any, seeds: Any, steps: int = 300) -> list[np.ndarray]:
    env.action_space.seed(0)
    found = [env.reset(seed=seeds)[0]]
    for _ in range(steps):
        found += env.step(env.action_space.sample())[:4]
    return found


@pytest.mark.parametrize("gym_id", ["CartPole-v1", "Pendulum-v1", "Acrobot-v1", "MountainCarContinuous-v0"])
def test_its_spaces_types_and_episodes_are_gymnasiums(gym_id: str) -> None:
    env, theirs = pool(gym_id), gym.make_vec(gym_id, num_envs=4, vectorization_mode="sync")
    assert (env.observation_space, env.action_space) == (theirs.observation_space, theirs.action_space)
    assert (env.single_observation_space, env.single_action_space) == (
        theirs.single_observation_space,
        theirs.single_action_space,
    )
    for one, other in zip(rolled(env, 3, 5), rolled(theirs, 3, 5), strict=True):
        assert (one.dtype, one.shape) == (other.dtype, other.shape)
    limit = gym.spec(gym_id).max_episode_steps
    assert limit is not None
    env.reset(seed=0)
    still = np.zeros(env.action_space.shape, env.action_space.dtype)
    lengths = []
    for taken in range(limit + 2):
        _, rewards, terminated, truncated, infos = env.step(still)
        assert infos == {}
        if (terminated | truncated).any():
            lengths.append(taken + 1)
            _, rewards, terminated, truncated, _ = env.step(still)  # the reset comes with the next step
            break
    assert lengths == [limit] if gym_id != "CartPole-v1" else lengths[0] < limit
    assert not (terminated | truncated)[rewards == 0].any()


def cartpole(state: np.ndarray, action: Any) -> tuple[np.ndarray, float]:
    env: Any = gym.make("CartPole-v1").unwrapped
    env.reset()
    env.state = state.astype(np.float64)
    observation, reward, *_ = env.step(int(action))
    return observation, reward


def pendulum(state: np.ndarray, action: Any) -> tuple[np.ndarray, float]:
    env: Any = gym.make("Pendulum-v1").unwrapped
    env.reset()
    env.state = np.array([np.arctan2(state[1], state[0]), state[2]], np.float64)
    observation, reward, *_ = env.step(action)
    return observation, reward


@pytest.mark.parametrize(("gym_id", "step"), [("CartPole-v1", cartpole), ("Pendulum-v1", pendulum)])
def test_a_step_is_gymnasiums_within_rounding(
    gym_id: str, step: Callable[[np.ndarray, Any], tuple[np.ndarray, float]]
) -> None:
    env = pool(gym_id)
    before, _ = env.reset(seed=5)
    ended = np.zeros(4, bool)
    compared = 0
    for _ in range(60):
        actions = env.action_space.sample()
        after, rewards, terminated, truncated, _ = env.step(actions)
        for index in np.flatnonzero(~ended):
            expected, reward = step(before[index], actions[index])
            np.testing.assert_allclose(after[index], expected, rtol=1e-4, atol=1e-5)
            assert rewards[index] == pytest.approx(reward, rel=1e-3, abs=1e-4)
            compared += 1
        before, ended = after, terminated | truncated
    assert compared > 200


def test_every_environment_has_the_stream_of_its_seed() -> None:
    env = pool("CartPole-v1", 3)
    first = env.reset(seed=[7, 8, 9])[0]
    env.step(np.array([0, 1, 0]))
    again = env.reset(seed=[9, 7, 8])[0]
    assert np.array_equal(again, first[[2, 0, 1]])
    assert np.array_equal(env.reset(seed=7)[0], first)  # of one seed the others follow
    assert not np.array_equal(env.reset()[0], first)
    with pytest.raises(ValueError, match="3 environments need a seed each"):
        env.reset(seed=[1, 2])


def test_what_it_returned_is_not_written_over() -> None:
    env = pool("CartPole-v1", 3)
    kept, _ = env.reset(seed=1)
    copy = kept.copy()
    for _ in range(50):
        env.step(np.array([0, 1, 0]))
    assert np.array_equal(kept, copy)


@pytest.mark.parametrize("threads", [1, 2])
def test_the_same_seeds_give_the_same_episodes(threads: int) -> None:
    one, other = (rolled(pool("Acrobot-v1", num_threads=n), [1, 2, 3, 4]) for n in (1, threads))
    assert all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))


@pytest.mark.slow
@pytest.mark.ray
@pytest.mark.usefixtures("ray_instance")
def test_a_trial_trains_on_it_and_promises_no_bits(plan_of: PlanOf, tmp_path: Any) -> None:
    settings = (*TINY, "seeds=[0]", "study.space={}", "env.backend=envpool", "checkpoint.every_env_steps=1024")
    config = plan_of(*settings).trials[0]
    assert config.config_id != plan_of(*settings[:-2], settings[-1]).trials[0].config_id
    weights = []
    for folder in ("one", "other"):
        trial = Trial({**with_folder(config, tmp_path / folder), MEASURE_SYSTEM: False})
        try:
            assert isinstance(step(trial) and trial._training.algorithm.env_runner.env.unwrapped, ours.EnvPoolVector)
            last = step(trial)
        finally:
            trial.cleanup()
        assert last["done"]
        assert not last[REPRODUCIBLE]
        assert last["train/episodes"] > 10
        weights.append(last[WEIGHTS])
    assert weights[0] == weights[1]  # seen, if not promised


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (("env=pong",), "EnvPool's environments take none"),
        (
            ("env.id=tiny_envs:tiny/Count-v0", "env.vectorize_mode=sync"),
            "EnvPool has no tiny_envs:tiny/Count-v0. Try env.backend=gymnasium",
        ),
        (
            ("study=reproducibility",),
            "asks whether a trial comes out the same to the bit, which EnvPool does not promise",
        ),
        (("repeats=2",), "Try env.backend=gymnasium"),
    ],
)
def test_where_it_cannot_be_used_the_study_is_refused(plan_of: PlanOf, settings: tuple[str, ...], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        plan_of(*settings, "env.backend=envpool")


def test_without_it_the_study_is_refused(plan_of: PlanOf, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "envpool", None)
    with pytest.raises(
        ConfigurationError,
        match=r"env.backend=envpool: EnvPool is not installed. Install it: pip install -e '.\[envpool\]'",
    ):
        plan_of("env.backend=envpool")
