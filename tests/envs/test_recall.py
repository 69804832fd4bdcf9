"""The memory environment: what a policy with memory scores on it, what one without it does, and that these differ."""

import math
from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from scipy import stats

from experiments.config.errors import ConfigurationError
from experiments.envs import stacked
from experiments.envs.recall import ID, Recall
from experiments.rllib.environments import why_reset
from tests.support.suite import PlanOf

REGISTERED = f"{Recall.__module__}:{ID}"

Act = Callable[[list[np.ndarray]], Any]
"""From what was observed in an episode so far to an action."""


def played(env: gym.Env[Any, Any], seed: int | None, act: Act) -> tuple[list[np.ndarray], list[float]]:
    """The observations of an episode that actions followed, and the rewards."""
    observation, _ = env.reset(seed=seed)
    seen, rewards, over = [], [], False
    while not over:
        seen.append(observation)
        observation, reward, over, truncated, _ = env.step(act(seen))
        rewards.append(float(reward))
        assert not truncated
    return seen, rewards


def cue_of(first: np.ndarray) -> int:
    (cue,) = np.flatnonzero(first[:-2])
    return int(cue)


def middle_of(part: int, parts: int) -> np.ndarray:
    return np.array([(2 * part + 1) / parts - 1], np.float32)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("continuous", [False, True])
def test_it_passes_gymnasiums_checks(continuous: bool) -> None:
    check_env(gym.make(REGISTERED, continuous=continuous).unwrapped)


@pytest.mark.parametrize(("num_cues", "delay"), [(2, 0), (3, 1), (4, 4), (7, 12)])
@pytest.mark.parametrize("continuous", [False, True])
def test_who_remembers_the_cue_scores_1(num_cues: int, delay: int, continuous: bool) -> None:
    env = gym.make(REGISTERED, num_cues=num_cues, delay=delay, continuous=continuous)

    def remembered(seen: list[np.ndarray]) -> Any:
        cue = cue_of(seen[0])
        return middle_of(cue, num_cues) if continuous else cue

    for seed in range(20):
        seen, rewards = played(env, seed, remembered)
        assert len(seen) == delay + 2
        assert rewards == [0.0] * (delay + 1) + [1.0]


def test_the_ends_of_the_range_are_the_first_and_the_last_cues() -> None:
    env = Recall(num_cues=3, continuous=True)
    ends = {-1.0: 0, -0.34: 0, -0.32: 1, 0.32: 1, 0.34: 2, 1.0: 2}
    assert {end: env._named(np.array([end], np.float32)) for end in ends} == ends


def test_only_the_answer_counts() -> None:
    env = gym.make(REGISTERED)
    for seed in range(20):
        assert played(env, seed, lambda seen: cue_of(seen[0]) if seen[-1][-1] else wrong(seen))[1] == [0.0] * 5 + [1.0]
        assert played(env, seed, lambda seen: wrong(seen) if seen[-1][-1] else cue_of(seen[0]))[1] == [0.0] * 6


def wrong(seen: list[np.ndarray]) -> int:
    return (cue_of(seen[0]) + 1) % 4


@pytest.mark.parametrize(
    "act",
    [lambda seen: 0, lambda seen: int(2 * (seen[-1][-2] + 1)) % 4, lambda seen: int(seen[-2:][0][-2] > 0)],
    ids=["always the same", "by the distractor", "by the one before"],
)
def test_without_the_first_observation_the_score_is_that_of_chance(act: Act) -> None:
    env, episodes = gym.make(REGISTERED, delay=1), 4000
    env.reset(seed=0)
    hits = sum(played(env, None, act)[1][-1] for _ in range(episodes))
    assert abs(hits - episodes / 4) < 5 * math.sqrt(episodes * 3 / 16)


def test_with_the_question_nothing_of_the_cue_is_seen() -> None:
    env, distractors = gym.make(REGISTERED), []
    for seed in range(50):
        seen, _ = played(env, seed, lambda seen: 0)
        assert [step[-1] for step in seen] == [0] * 5 + [1]
        assert not any(step[:-2].any() for step in seen[1:])
        distractors += [float(step[-2]) for step in seen]
    assert len(set(distractors)) == 300
    assert stats.kstest(distractors, "uniform", (-1, 2)).pvalue > 1e-4


def test_a_seed_gives_the_same_episodes_and_all_cues_come_equally_often() -> None:
    once, again = ([cue_of(Recall().reset(seed=seed)[0]) for seed in range(2000)] for _ in range(2))
    assert once == again
    assert stats.chisquare(np.bincount(once)).pvalue > 1e-4
    one, other = (played(Recall(), seed, lambda seen: 0)[0] for seed in (7, 8))
    assert np.array_equal(one, played(Recall(), 7, lambda seen: 0)[0])
    assert not np.array_equal(one, other)


@pytest.mark.parametrize("mode", ["sync", "async"])
def test_every_environment_of_a_vector_has_its_own_stream(mode: str) -> None:
    envs: Any = gym.make_vec(REGISTERED, num_envs=3, vectorization_mode=mode, delay=1)
    try:
        observations, _ = envs.reset(seed=[1, 2, 3])
        assert np.array_equal(observations, [Recall(delay=1).reset(seed=seed)[0] for seed in (1, 2, 3)])
        cues = observations[:, :-2].argmax(axis=1)
        for ended in (False, False, True):
            _, rewards, terminated, truncated, _ = envs.step(cues)
            assert terminated.tolist() == [ended] * 3
            assert rewards.tolist() == [float(ended)] * 3
            assert not truncated.any()
    finally:
        envs.close()


def test_checkpoints_save_it() -> None:
    assert why_reset(gym.make_vec(REGISTERED, num_envs=2, vectorization_mode="sync")) == ""


def test_frames_side_by_side_show_the_cue_with_the_question() -> None:
    env = gym.make(
        f"{stacked.__name__}:{stacked.ID}", gym_id=REGISTERED, frame_stack=6, env_config={"num_cues": 4, "delay": 4}
    )
    _, rewards = played(env, 0, lambda seen: cue_of(seen[-1][:6]) if seen[-1][-1] else 0)
    assert rewards[-1] == 1.0


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"num_cues": 1}, "num_cues=1: must be 2 or more, or there is nothing to remember"),
        ({"delay": -1}, "delay=-1: must be between 0 and 198 env steps"),
        ({"delay": 199}, "delay=199: must be between 0 and 198 env steps"),
    ],
)
def test_wrong_settings_say_what_and_how_to_fix_it(settings: dict[str, Any], message: str, plan_of: PlanOf) -> None:
    with pytest.raises(ValueError, match=message):
        Recall(**settings)
    with pytest.raises(ConfigurationError, match=message):
        plan_of("env=recall", *(f"env.env_config.{name}={value}" for name, value in settings.items()))


def test_chance_does_not_come_to_its_target(plan_of: PlanOf) -> None:
    suite = plan_of("study=single", "env=recall").suite
    assert suite.env.target is not None
    assert suite.env.env_config == {"num_cues": 4, "delay": 4, "continuous": False}
    hits = math.ceil(suite.env.target * suite.evaluation.episodes)
    assert stats.binom.sf(hits - 1, suite.evaluation.episodes, 1 / 4) < 2e-9
