"""Env steps for a replay buffer beside RLlib's env runner: the same chunks, random numbers, episodes and metrics."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from ray.rllib.env.single_agent_env_runner import SingleAgentEnvRunner

from experiments.fast.env_runner import FastEnvRunner, deferrable
from experiments.fast.stepping import DirectSampler, why_stock
from tests.support.fast_off_policy import dqn, leaves, runner_of, sac, same
from tests.support.matrix import matrix

pytestmark = pytest.mark.filterwarnings("ignore")


def scramble(runner: Any, number: int) -> None:
    """Other weights, as after an update."""
    torch.manual_seed(100 + number)
    with torch.no_grad():
        for weights in runner.module.parameters():
            weights.normal_()
    runner._weights_seq_no = number + 1
    torch.manual_seed(200 + number)


def by_number(ids: list[str], seen: dict[str, int]) -> list[int]:
    return [seen.setdefault(id_, len(seen)) for id_ in ids]


@matrix(make=[dqn, sac], size=[1, 4], envs=[1, 3])
def test_env_steps_are_those_of_rllibs_runner(make: Any, size: int, envs: int) -> None:
    config = make(True, envs=envs)
    fast, stock = runner_of(FastEnvRunner, config), runner_of(SingleAgentEnvRunner, config)
    assert why_stock(fast) is None
    ours: dict[str, int] = {}
    theirs: dict[str, int] = {}
    number = 0
    for num_samples in (40, 3, 1, 260 // size // envs):
        sampler = DirectSampler(fast)
        for _ in range(num_samples):
            number += 1
            scramble(stock, number)
            expected = stock.sample(num_timesteps=size * envs)
            state = torch.get_rng_state()
            scramble(fast, number)
            found = sampler.sample(size * envs)
            assert torch.equal(state, torch.get_rng_state())
            assert by_number([chunk.id_ for chunk in found], ours) == by_number(
                [episode.id_ for episode in expected], theirs
            )
            for chunk, episode in zip(found, expected, strict=True):
                assert (chunk.t_started, len(chunk.rewards)) == (episode.t_started, len(episode))
                same(np.asarray(chunk.observations[0]), episode.get_observations())
                same(np.asarray(chunk.actions[0]), episode.get_actions())
                same(np.asarray(chunk.rewards), episode.get_rewards())
                assert chunk.ended == episode.is_terminated + 2 * episode.is_truncated
        (results,) = sampler.finish()
        assert_same_metrics(results, stock.get_metrics())
        # RLlib's own way goes on from there.
        number += 1
        scramble(stock, number)
        expected = stock.sample(num_timesteps=5)
        scramble(fast, number)
        found = fast.sample(num_timesteps=5)
        assert [len(episode) for episode in found] == [len(episode) for episode in expected]
        for our, their in zip(found, expected, strict=True):
            for name in ("observations", "actions", "rewards"):
                same(getattr(our, f"get_{name}")(), getattr(their, f"get_{name}")())
            same(
                dict(our.extra_model_outputs["weights_seq_no"].get_state()),
                dict(their.extra_model_outputs["weights_seq_no"].get_state()),
            )
            our.validate()


def assert_same_metrics(ours: Any, theirs: Any) -> None:
    ours, theirs = leaves(ours), leaves(theirs)
    assert set(ours) >= {path for path in theirs if "connector" not in str(path)}
    for path in (
        "episode_return_mean",
        "episode_len_mean",
        "episode_return_max",
        "num_env_steps_sampled",
        "num_episodes",
    ):
        if (path,) in theirs:  # some come with the first episode that ends
            assert ours[(path,)].peek() == pytest.approx(theirs[(path,)].peek(), nan_ok=True), path


def test_callbacks_get_episodes_that_end_with_all_that_rllib_has_in_them() -> None:
    seen: dict[str, list[Any]] = {}

    def callback(name: str) -> Callable[..., None]:
        @deferrable
        def on_episode_end(*, episode: Any, prev_episode_chunks: Any, **kwargs: Any) -> None:
            outputs = {k: np.asarray(episode.get_extra_model_outputs(k)) for k in episode.extra_model_outputs}
            whole = sum(chunk.get_return() for chunk in (*prev_episode_chunks, episode))
            env_steps = sum(len(chunk) for chunk in (*prev_episode_chunks, episode))
            assert all(chunk.get_duration_s() >= 0 for chunk in prev_episode_chunks)
            ended = episode.is_terminated, episode.is_truncated
            seen.setdefault(name, []).append((whole, env_steps, episode.t, *ended, outputs))

        return on_episode_end

    for name, runner_class in (("fast", FastEnvRunner), ("stock", SingleAgentEnvRunner)):
        runner = runner_of(runner_class, sac(True, envs=2).callbacks(on_episode_end=callback(name)))
        torch.manual_seed(7)
        if name == "stock":
            for _ in range(450):
                runner.sample(num_timesteps=2)
        else:
            for length in (100, 350):
                sampler = DirectSampler(runner)
                for _ in range(length):
                    sampler.sample(2)
                sampler.finish()
    assert len(seen["stock"]) == 4
    for our, their in zip(seen["fast"], seen["stock"], strict=True):
        assert our[:5] == (pytest.approx(their[0]), *their[1:5])
        assert set(our[5]) == set(their[5]) > {"action_logp"}
        for key, values in their[5].items():  # of the last chunk, which is shorter
            same(our[5][key][-len(values) :], values)
