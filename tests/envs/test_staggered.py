"""Environments whose first episodes end at different times."""

from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from experiments.envs.staggered import CUT, FIRST_SHARE, ID, Staggered, first_shares, staggered

MADE = f"{staggered.__module__}:{ID}"


def lengths(env: gym.Env[Any, Any], episodes: int) -> list[tuple[int, bool]]:
    """Env steps of episodes, and whether each was cut short."""
    found = []
    for _ in range(episodes):
        env.reset()
        steps, ended, info = 0, False, {}
        while not ended:
            _, _, terminated, truncated, info = env.step(env.action_space.sample())
            steps, ended = steps + 1, terminated or truncated
        found.append((steps, info.get(CUT, False)))
    return found


def test_the_first_episode_ends_at_its_share_of_the_limit_and_the_others_at_the_limit() -> None:
    env = staggered("Pendulum-v1", {"max_episode_steps": 30}, 30)
    assert lengths(env, 2) == [(30, False), (30, False)]  # nothing was said
    env.first_share = 0.35  # type: ignore[attr-defined]
    assert lengths(env, 3) == [(11, True), (30, False), (30, False)]  # 10.5 steps


def test_a_cut_is_a_truncation_as_at_the_limit() -> None:
    env = staggered("Pendulum-v1", {}, 200)
    env.first_share = 1 / 200  # type: ignore[attr-defined]
    env.reset(seed=0)
    _, _, terminated, truncated, info = env.step(np.zeros(1, np.float32))
    assert (terminated, truncated, info[CUT]) == (False, True, True)


def test_a_first_episode_that_ends_by_itself_is_not_cut_and_no_later_one_is() -> None:
    env = Staggered(gym.make("tiny_envs:tiny/Count-v0", length=5), 20)
    env.first_share = 0.5
    assert lengths(env, 3) == [(5, False)] * 3


def test_first_episodes_end_evenly_over_all_runners() -> None:
    assert first_shares(4, 0, 1) == [0.25, 0.5, 0.75, 1.0]
    assert [first_shares(2, runner, 2) for runner in (0, 1)] == [[0.25, 0.75], [0.5, 1.0]]


@pytest.mark.parametrize("mode", ["sync", "async"])
def test_environments_that_are_vectorised_end_apart_for_ever(mode: str) -> None:
    env = gym.make_vec(
        MADE,
        num_envs=3,
        vectorization_mode=mode,
        gym_id="Pendulum-v1",
        env_config={"max_episode_steps": 6},
        time_limit=6,
    )
    try:
        env.unwrapped.set_attr(FIRST_SHARE, [1 / 3, 2 / 3, 1.0])
        env.reset(seed=[0, 1, 2])
        ended = [np.flatnonzero(env.step(np.zeros((3, 1), np.float32))[3]).tolist() for _ in range(20)]
        # Of the 20 steps, each first step after an end is a reset.
        assert [step for step, which in enumerate(ended) if 0 in which] == [1, 8, 15]
        assert [step for step, which in enumerate(ended) if 1 in which] == [3, 10, 17]
        assert [step for step, which in enumerate(ended) if 2 in which] == [5, 12, 19]
    finally:
        env.close()
