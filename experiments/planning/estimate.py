"""How long a study takes where nothing of its kind has run: from the speed of its environment and networks here,
and usual costs.
"""

import random
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

from ray.rllib.algorithms.algorithm_config import AlgorithmConfig

from experiments.config.trial_config import TrialConfig
from experiments.planning.configuration import Configuration
from experiments.planning.plan import Plan
from experiments.rllib.algorithms import is_asynchronous
from experiments.rllib.building import build_algorithm_config
from experiments.rllib.made_environments import longest_episode
from experiments.rllib.probe import NetworkSpeed, env_step_s, network_speed
from experiments.rllib.process_state import packages_of

WITHIN = 2.0
"""Factor to either side of an estimate that is printed with it (docs/throughput.md, Before anything has run)."""
LONG_EPISODE = 1000
"""Env steps of an evaluation's longest episode, where the registration allows more or says nothing."""

# Seconds that were measured on 2 cores of an AMD EPYC: docs/benchmarks/fast.md,
# docs/benchmarks/study_fast.md and docs/throughput.md.
_START_S = 10.0
"""Until the first trial's process is there: imports, Ray's start."""
_FIRST_TRIAL_S = 4.0
"""Of the first trial of a process: imports, networks."""
_TRIAL_S = 0.5
"""Of each trial beside its training and its evaluations: building, checkpoints."""
_PROCESS_S = 5.0
"""Of a core, until a runner's or a learner's process is there."""
_ROUND_S = 0.01
"""Of a training batch that comes from runners in processes of their own: samples and weights on their way."""
_REMOTE_UPDATE_S = 0.14
"""Of a training batch that goes to learners in processes of their own."""
_FRAGMENT_S = {"APPOConfig": 0.028, "IMPALAConfig": 0.018}
"""Of a fragment of an asynchronous algorithm, from its runner to its learner."""
_ACT_S = 100e-6
"""Of a step of an evaluation, whatever its environments: the policy's forward pass, and bookkeeping."""
_MOST_TIMED = 4
"""Configurations of an algorithm on an environment that are estimated; the others take as long as these on average."""
_GPU = 10.0
"""Times as fast as a core a GPU learns from a row: a guess, since none was measured."""


@dataclass(frozen=True)
class _Costs:
    """Seconds beside what the environment and the networks take themselves.

    Attributes:
        vector_step: A step of all environments of a runner.
        env_step: Each environment's part in it.
        minibatch: An update with rows of the newest batch.
        replayed: An update with rows from a replay buffer.
        actor_critic: Likewise, of SAC: a policy, critics and a temperature, each with its optimizer. From one study of
            Pendulum on a busy machine, by as much faster as PPO is on a quiet one: rough.
    """

    vector_step: float
    env_step: float
    minibatch: float
    replayed: float
    actor_critic: float


_FAST = _Costs(vector_step=106e-6, env_step=4.5e-6, minibatch=80e-6, replayed=1.2e-3, actor_critic=5e-3)
_STOCK = _Costs(vector_step=650e-6, env_step=45e-6, minibatch=2.3e-3, replayed=14e-3, actor_critic=40e-3)


@dataclass(frozen=True)
class TrialEstimate:
    """Seconds of a trial by its parts: estimated, not measured.

    Environments and networks are timed when they are first asked for.

    Attributes:
        configuration: The trial's configuration.
        trials_at_once: Trials that share the machine's cores.
    """

    configuration: Configuration
    trials_at_once: int = 1

    @property
    def seconds(self) -> float:
        """Of the whole trial."""
        layout = self.configuration.layout
        processes = layout.num_env_runners + layout.num_learners
        start = (_FIRST_TRIAL_S if packages_of(self._trial) else _TRIAL_S) + _PROCESS_S * max(
            processes / self._cores, min(processes, 1)
        )
        working = self.budget * self.env_step_s - self._unlearned * self._learn_s + self.evaluations_s + start
        return working * max(1.0, self.trials_at_once / self._num_cpus)

    @property
    def budget(self) -> int:
        """Env steps."""
        return self.configuration.suite.budget_env_steps

    @cached_property
    def env_step_s(self) -> float:
        """Of training, an env step: sampled, and learned from."""
        sample, learn, layout = self._sample_s, self._learn_s, self.configuration.layout
        if is_asynchronous(self._trial.algorithm):  # side by side, as far as there are cores
            return max(sample / layout.num_env_runners, (sample + learn) / self._cores)
        sample /= min(max(1, layout.num_env_runners), self._cores)
        rounds = (_ROUND_S if layout.num_env_runners else 0.0) + (_REMOTE_UPDATE_S if layout.num_learners else 0.0)
        return sample + learn + rounds / self.configuration.batch_env_steps

    @cached_property
    def evaluations_s(self) -> float:
        """Of all evaluations, whose environments are stepped side by side until the last episode ends."""
        suite = self.configuration.suite
        if suite.measurement is not None:
            return 0.0
        every = suite.evaluation.every_env_steps or suite.report_every_env_steps or suite.budget_env_steps
        steps = min(longest_episode(suite.env), LONG_EPISODE)
        return steps * (
            self.budget // every * self._acting_s(suite.evaluation.episodes)
            + self._acting_s(suite.evaluation.final_episodes)
        )

    def _acting_s(self, episodes: int) -> float:
        return env_step_s(self._trial.env, episodes) + _ACT_S + episodes * self._network.act_s

    @cached_property
    def _sample_s(self) -> float:
        """Of one runner, an env step."""
        costs, envs = _FAST if self._trial.fast else _STOCK, self.configuration.layout.num_envs_per_env_runner
        seconds = (env_step_s(self._trial.env, envs) + costs.vector_step) / envs + self._network.act_s + costs.env_step
        if is_asynchronous(self._trial.algorithm):
            fragment = next(cost for name, cost in _FRAGMENT_S.items() if name in self._family)
            seconds += fragment / (envs * self._config.get_rollout_fragment_length())
        return seconds

    @cached_property
    def _learn_s(self) -> float:
        """Of all learners side by side, an env step."""
        config, layout, batch = self._config, self.configuration.layout, self.configuration.batch_env_steps
        row = self._network.learn_s / (_GPU if layout.num_gpus_per_learner else 1.0)
        # the fast learners leave GPUs to RLlib
        costs = _FAST if self._trial.fast and not layout.num_gpus_per_learner else _STOCK
        if hasattr(config, "replay_buffer_config"):
            natural = batch / (layout.total_envs * config.get_rollout_fragment_length())
            update = costs.actor_critic if "SACConfig" in self._family else costs.replayed
            return float(config.training_intensity or natural) * (row + update / batch)
        minibatch = float(config.minibatch_size or config.train_batch_size_per_learner)
        return float(config.num_epochs or 1) * (row + costs.minibatch / minibatch) / max(1, layout.num_learners)

    @property
    def _unlearned(self) -> int:
        """Env steps before the first update from a replay buffer."""
        return min(self.budget, int(getattr(self._config, "num_steps_sampled_before_learning_starts", 0) or 0))

    @property
    def _family(self) -> set[str]:
        """Names of RLlib's classes that the algorithm's settings are of."""
        return {base.__name__ for base in type(self._config).__mro__}

    @property
    def _cores(self) -> float:
        """That a trial has to itself."""
        return max(1.0, self._num_cpus / self.trials_at_once)

    @property
    def _num_cpus(self) -> float:
        """That there are, and not those that are declared."""
        return float(self.configuration.facts["num_cpus"])

    @cached_property
    def _trial(self) -> TrialConfig:
        return self.configuration.trial(self.configuration.suite.seeds[0])

    @cached_property
    def _network(self) -> NetworkSpeed:
        return network_speed(self._trial)

    @cached_property
    def _config(self) -> AlgorithmConfig:
        return build_algorithm_config(self._trial)


@dataclass(frozen=True)
class Duration:
    """How long a study takes.

    Attributes:
        seconds: Seconds of the study, with all its trials.
        estimated: Algorithm and environment of the trials that are estimated; empty: earlier trials of them all say it.
    """

    seconds: float
    estimated: tuple[str, ...]

    @property
    def low(self) -> float:
        """Seconds that it hardly takes less than, where it is estimated."""
        return self.seconds / WITHIN

    @property
    def high(self) -> float:
        """Seconds that it hardly takes more than, likewise."""
        return self.seconds * WITHIN


PastSpeed = Callable[[str, str, float], float | None]
"""Algorithm, env and the fewest env steps that count to the median env steps a second of earlier trials."""


def study_duration(plan: Plan, past_speed: PastSpeed | None) -> Duration:
    """How long a study takes, by the speed of earlier trials, and by estimates where there are none.

    Args:
        plan: The study, which trains to budgets.
        past_speed: The speed of earlier trials; None if there is no store yet. Those of less than a quarter of this
            study's env steps do not count: evaluations, and with replay the env steps before the first update, have
            other shares of them.
    """
    groups: dict[tuple[str, str], list[Configuration]] = {}
    for configuration in plan.configurations:
        groups.setdefault((configuration.suite.algorithm["name"], configuration.suite.env.name), []).append(
            configuration
        )
    seconds, env_steps, estimated = 0.0, 0, list[str]()
    for (name, env), group in groups.items():
        budgets = sum(c.suite.budget_env_steps for c in group)
        speed = None if past_speed is None else past_speed(name, env, budgets / len(group) / 4)
        if speed is None:
            estimated.append(f"{name} on {env}")
            drawn = random.Random(0).sample(group, min(len(group), _MOST_TIMED))
            seconds += len(group) / len(drawn) * sum(TrialEstimate(c, plan.concurrency).seconds for c in drawn)
        else:
            seconds += budgets / speed
        env_steps += budgets
    seconds *= plan.env_steps_in_all() / env_steps / min(plan.concurrency, plan.num_trials)
    if estimated:
        seconds += _START_S + _FIRST_TRIAL_S
    if plan.suite.max_minutes is not None:
        seconds = min(seconds, 60 * plan.suite.max_minutes)
    return Duration(seconds, tuple(estimated))
