"""How long a study takes: by earlier trials of its kind, and where none has run, from the speed of its environment and
networks here and usual costs.
"""

import random
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from ray.rllib.algorithms.algorithm_config import AlgorithmConfig

from experiments.config.trial_config import TrialConfig
from experiments.fast.off_policy import FastOffPolicy
from experiments.limits.cpus import usable_cpus
from experiments.limits.together import slowdown
from experiments.planning import durations
from experiments.planning.configuration import Configuration
from experiments.planning.durations import Duration
from experiments.planning.plan import Plan
from experiments.rllib.algorithms import is_asynchronous
from experiments.rllib.building import build_algorithm_config
from experiments.rllib.made_environments import longest_episode
from experiments.rllib.probe import NetworkSpeed, env_step_s, network_speed
from experiments.rllib.process_state import packages_of

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
_WITHIN_GPU = 4.0
"""Factor to either side of an estimate that rests on it."""
_WITHIN_MEASURED = 1.25
"""Factor to either side of the time that measuring takes, most of which is set."""


@dataclass(frozen=True)
class _Costs:
    """Seconds beside what the environment and the networks take themselves.

    Attributes:
        vector_step: A step of all environments of a runner.
        env_step: Each environment's part in it.
        minibatch: An update with rows of the newest batch.
        replayed: An update with rows from a replay buffer.
        actor_critic: Likewise, of a policy, critics and a temperature, each with its optimizer. From one study of
            SAC on Pendulum on a busy machine, by as much faster as PPO is on a quiet one: rough.
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
        start = (_FIRST_TRIAL_S if packages_of(self._trial) else _TRIAL_S) + self.start_s
        working = self.budget * self.env_step_s - self._unlearned * self._learn_s + self.evaluations_s + start
        layout = self.configuration.layout
        processes = self.trials_at_once * (1 + layout.num_env_runners + layout.num_learners)
        at_work = max(1, int(min(processes, self._num_cpus, usable_cpus().usable)))
        return working * max(1.0, self.trials_at_once / self._num_cpus) * slowdown(at_work)

    @property
    def start_s(self) -> float:
        """Until its runners and learners are there."""
        layout = self.configuration.layout
        processes = layout.num_env_runners + layout.num_learners
        return _PROCESS_S * max(processes / self._cores, min(processes, 1))

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
            if not issubclass(config.algo_class, FastOffPolicy):  # and algorithms that are derived from theirs
                costs = _STOCK
            natural = batch / (layout.total_envs * config.get_rollout_fragment_length())
            update = costs.actor_critic if hasattr(config, "actor_lr") else costs.replayed
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


Earlier = Callable[[str, str, float, Mapping[str, float | str]], Sequence[float]]
"""Algorithm, env, the fewest env steps that count, and the layout, by parameters of a trial's run, to the seconds that
an env step of each earlier trial of that kind took.
"""


@dataclass(frozen=True)
class Expected:
    """How long a study is expected to take.

    Attributes:
        duration: Of the study, with all its trials.
        estimated: Algorithm and environment of the trials that are estimated; empty: earlier trials of them all say it.
    """

    duration: Duration
    estimated: tuple[str, ...] = ()


def study_duration(plan: Plan, earlier: Earlier | None, unused_env_steps: int = 0) -> Expected:
    """How long a study takes, by the speed of earlier trials, and by estimates where there are none.

    Args:
        plan: The study.
        earlier: Says how long earlier trials took; None if there is no store yet. Those of less than a quarter of this
            study's env steps do not count: evaluations, and with replay the env steps before the first update, have
            other shares of them. Neither do any where more trials run side by side than the machine has cores.
        unused_env_steps: Of the study's env steps those that it need not sample.
    """
    if plan.is_measured:
        return _measuring(plan)
    alike: dict[tuple[str, str], list[Configuration]] = defaultdict(list)
    for configuration in plan.configurations:
        alike[configuration.suite.algorithm["name"], configuration.suite.env.name].append(configuration)
    seconds = spread = env_steps = 0.0
    estimated = []
    for (name, env), group in alike.items():
        budgets = sum(c.suite.budget_env_steps for c in group)
        found = [(c, _by_earlier(c, plan, earlier, budgets / len(group) / 4)) for c in group]
        unknown = [c for c, known in found if known is None]
        drawn = random.Random(0).sample(unknown, min(len(unknown), _MOST_TIMED))
        parts = [known for _, known in found if known is not None]
        for configuration in drawn:
            own = TrialEstimate(configuration, plan.concurrency)
            within = _WITHIN_GPU if configuration.layout.num_gpus_per_learner else durations.WITHIN
            parts.append(durations.estimated(own.seconds, within).over(len(unknown) / len(drawn)))
        estimated += [f"{name} on {env}"] if unknown else []
        seconds += sum(part.seconds for part in parts)
        spread += sum(part.seconds * part.error for part in parts)
        env_steps += budgets
    share = plan.env_steps_in_all(unused_env_steps) / env_steps / min(plan.concurrency, plan.num_trials)
    whole = Duration(seconds * share + _START_S + _FIRST_TRIAL_S, spread / seconds)
    if plan.suite.max_minutes is not None:
        whole = whole.cut_off(60 * plan.suite.max_minutes)
    return Expected(whole.ended, tuple(estimated))


def _by_earlier(configuration: Configuration, plan: Plan, earlier: Earlier | None, least: float) -> Duration | None:
    """What one trial takes by those that ran before; None where none did."""
    if earlier is None or plan.concurrency > float(configuration.facts["num_cpus"]):
        return None
    layout = configuration.layout
    like: dict[str, float | str] = {
        "num_env_runners": layout.num_env_runners,
        "num_envs_per_env_runner": layout.num_envs_per_env_runner,
        "num_learners": layout.num_learners,
        "num_gpus_per_learner": float(layout.num_gpus_per_learner),
        "vectorize_mode": configuration.trial(configuration.suite.seeds[0]).env.vectorize_mode,
    }
    found = earlier(configuration.suite.algorithm["name"], configuration.suite.env.name, least, like)
    return durations.by_earlier(found).over(configuration.suite.budget_env_steps) if found else None


def _measuring(plan: Plan) -> Expected:
    """Of a study that measures throughput, one trial at a time."""
    how = plan.suite.measurement
    assert how is not None
    of_each = how.warmup_s + how.seconds + _TRIAL_S
    starting = sum(TrialEstimate(c).start_s for c in plan.configurations) / len(plan.configurations)
    seconds = plan.num_trials * (of_each + starting) + _START_S + _FIRST_TRIAL_S
    return Expected(durations.estimated(seconds, _WITHIN_MEASURED).ended)
