"""Training with RLlib's parts and with the fast ones, without Ray: sampling, replaying and updating in turns,
compared to the bit.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from ray.rllib.core import DEFAULT_MODULE_ID
from ray.rllib.env.single_agent_env_runner import SingleAgentEnvRunner
from ray.rllib.utils.metrics import TD_ERROR_KEY

from experiments.fast.env_runner import FastEnvRunner
from experiments.fast.stepping import DirectSampler
from experiments.fast.stepping import why_stock as why_stock_steps
from experiments.fast.switch import make_fast
from tests.support import fast_off_policy, fast_ppo
from tests.support.fast_off_policy import STEPS, same
from tests.support.fast_replay import PAIRS
from tests.support.fast_sampling import assert_same, runner_of


def _as_built(learner: Any) -> None:
    pass


def assert_same_on_policy(
    config: Any, sizes: Sequence[int] = (20, 11), prepare: Callable[[Any], None] = _as_built, **how: Any
) -> tuple[Any, Any]:
    """PPO: fragments of some env steps, and an update from each. Returns the fast runner and learner.

    Args:
        config: RLlib's, of PPO.
        sizes: Env steps of the fragments.
        prepare: What is done with a learner first.
        **how: Arguments of the updates.
    """
    runners = [runner_of(runner_class, config) for runner_class in (SingleAgentEnvRunner, FastEnvRunner)]
    learners = fast_ppo.both(config)
    for runner, learner in zip(runners, learners, strict=True):
        prepare(learner)
        runner.module.set_state(learner.module[DEFAULT_MODULE_ID].get_state(inference_only=True))
    for number, size in enumerate(sizes):
        fragments, states = [], []
        for runner in runners:
            torch.manual_seed(number)
            fragments.append(runner.sample(num_timesteps=size))
            states.append(torch.get_rng_state())
        assert_same(fragments[1], fragments[0])
        assert torch.equal(*states)
        for runner, learner, episodes in zip(runners, learners, fragments, strict=True):
            fast_ppo.update(learner, episodes, number, **how)
            runner.module.set_state(learner.module[DEFAULT_MODULE_ID].get_state(inference_only=True))
        fast_ppo.assert_same_learners(learners[1], learners[0])
    return runners[1], learners[1]


def assert_same_off_policy(
    config: Any, steps: int = 18, first: int = 8, prepare: Callable[[Any], None] = _as_built
) -> None:
    """DQN and SAC: training steps of a fragment and, after the first ones, an update from the replay buffer.

    Args:
        config: RLlib's, of DQN or SAC.
        steps: Training steps.
        first: Those without an update.
        prepare: What is done with a learner first.
    """
    expected, found = (
        _train_off_policy(config.copy(copy_frozen=False), fast, steps, first, prepare) for fast in (False, True)
    )
    (learner, *theirs), (our_learner, *ours) = expected, found
    fast_off_policy.assert_same_learners(our_learner, learner)
    same(ours, theirs)


def _train_off_policy(
    config: Any, fast: bool, steps: int, first: int, prepare: Callable[[Any], None]
) -> tuple[Any, list[Any], Any, Any]:
    """The learner; the TD errors of its updates; and the states of the random generators."""
    config = make_fast(config) if fast else config
    settings = {name: value for name, value in config.replay_buffer_config.items() if name not in ("type", "beta")}
    which = "prioritized" if "Prioritized" in config.replay_buffer_config["type"] else "uniform"
    buffer = PAIRS[which][fast](**settings)
    buffer.rng = np.random.default_rng(7)
    runner = runner_of(FastEnvRunner if fast else SingleAgentEnvRunner, config)
    torch.manual_seed(0)
    learner = config.build_learner(env=runner.env)
    prepare(learner)
    runner.module.set_state(learner.module[DEFAULT_MODULE_ID].get_state(inference_only=True))
    how = {"n_step": config.n_step, "gamma": config.gamma, "beta": config.replay_buffer_config.get("beta")}
    size = config.get_rollout_fragment_length() * runner.num_envs
    sampler = DirectSampler(runner) if fast else None
    if fast:
        assert (why_stock_steps(runner), learner.why_stock()) == (None, None)
        learner.begin_lean()
    errors = []
    torch.manual_seed(1)
    for number in range(steps):
        sampled = runner.sample(num_timesteps=size) if sampler is None else buffer.add_chunks(sampler.sample(size))
        if sampler is None:
            buffer.add(sampled)
        if number < first:
            continue
        timesteps, rows = {STEPS: number * size}, config.train_batch_size_per_learner
        if fast:
            error = learner.lean_update(buffer.sample_columns(rows, **how), timesteps).numpy()
        else:
            episodes = buffer.sample(num_items=rows, sample_episodes=True, **how)
            error = np.array(
                learner.update(episodes=episodes, timesteps=timesteps)[DEFAULT_MODULE_ID].pop(TD_ERROR_KEY).peek()[0]
            )
        errors.append(error.astype(np.float64))
        if which == "prioritized":
            buffer.update_priorities(errors[-1])
        runner.module.set_state(learner.module[DEFAULT_MODULE_ID].get_state(inference_only=True))
    if sampler is not None:
        learner.lean_results()
        sampler.finish()
    return learner, errors, str(buffer.rng.bit_generator.state), torch.get_rng_state()
