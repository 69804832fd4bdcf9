"""What holds a run up, what to change, and whether it is in good health: from what the run logged. Pure.

Every threshold stands here by its name, with its source. Those without one are this project's own, set so that healthy runs stay clear of
them: `tests/questions/test_diagnosis.py` counts false alarms in simulated ones.
"""

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from analysis.document.wording import code, named, trials_named
from experiments.metrics import TIME_PARTS

Array = npt.NDArray[np.float64]
Series = Mapping[str, Sequence[tuple[float, float]]]
"""What a run logged: metric to (env steps, value), in order."""

ENV, INFERENCE, TRANSFER, LEARNER = "env-bound", "inference-bound", "transfer-bound", "learner-bound"
STARVED, BALANCED, UNKNOWN = "starved", "balanced", "unknown"

BALANCED_WITHIN = 0.05
"""Of training time: two groups closer than this are both named. Seeds of one configuration differ by a point or two."""
FULL_CPU_PERCENT = 90.0
"""Of the machine, from which on no core is free."""
MUCH_WITHOUT_A_CORE = 0.15
"""Of training time, that runners spend on sampling without a CPU, from which on they wait for one (or for their environment)."""
MUCH_OWN_LOAD = 0.75
"""Of the machine, that a trial takes itself, from which on its many processes are what fills it."""
MUCH_OTHER_PERCENT = 25.0
"""CPU that other programs use, 100 is one core, from which on the evidence names them. What a measurement allows, by default."""
MUCH_WAITING_SHARE = 0.10
"""Of training time, spent waiting for the slowest runner, from which on the evidence names it."""
MUCH_ASIDE = 0.25
"""Of the wall-clock, spent on evaluations and reports, from which on the evidence names them."""
SLOW_STEP_MS = 0.5
"""Of one environment, from which on a process per environment pays: talking to it takes some 0.1 ms."""
MANY_ENVS = 32
"""Per runner: a policy network of usual size gains little from more observations at once."""
BUSY_GPU_PERCENT = 80.0
"""Above it a GPU is well used, as practical guides have it."""

COLLAPSED = 0.05
"""Of the largest entropy that the action space allows: of two actions, the other is then taken 6 times in 1000."""
COLLAPSED_NATS = 0.5 * math.log(2 * math.pi * math.e * 0.01**2)
"""Per dimension of a Box: a Gaussian whose standard deviation is 0.01, of actions in [-1, 1]."""
KL_TARGET = 0.01
"""RLlib's default for PPO and APPO (`kl_target`); OpenAI Spinning Up has the same."""
KL_HIGH, KL_LOW = 2.0, 0.02
"""Times the target. RLlib's PPO raises its penalty above 2 (`ppo_torch_learner.py`, `_update_module_kl_coeff`); the lower one is ours."""
EXPLODED = 100.0
"""Times the usual level of a loss or a gradient norm. Healthy runs on CartPole jump to 12 times it (45 runs of `lr_batch`)."""
STALE = 2.0
"""Updates between the policy that sampled and the one that learns; practical guides keep the lag of IMPALA to 1 or 2."""
LEAKS_MIB, LEAKS_SHARE = 32.0, 0.05
"""Growth since warm-up that counts, in MiB and relative to the run's memory: both."""
SLOWED = 0.10
"""Loss of throughput from the first third to the last that counts."""
STEPPED = 6.0
"""Standard deviations within a third of the run by which throughput falls at once."""
SIGNIFICANT = 0.01
"""One-sided level of a trend in memory or throughput."""
FEWEST = {"entropy": 3, "kl": 5, "explosion": 6, "staleness": 3, "memory": 12, "throughput": 9}
"""Reports that a signal needs, after warm-up; with fewer, nothing is said."""


@dataclass(frozen=True)
class Facts:
    """What is known of a trial beside what it logged.

    Attributes:
        num_env_runners: 0: the trial's own process samples.
        num_envs_per_env_runner: Environments of each.
        num_learners: 0: the trial's own process learns.
        num_gpus_per_learner: 0: it learns on CPUs.
        vectorize_mode: sync, async or vector_entry_point; "" if unknown.
        num_cpus: Of the machine; None if unknown.
        num_gpus: Of the machine.
        exclusive: Whether the trial had the machine to itself.
        has_vector_entry_point: Whether the environment brings a vector implementation of its own.
        max_entropy: Of a discrete action space: ln(actions), nats. None: continuous or unknown.
        action_dims: Of a Box. None: discrete or unknown.
        target: The environment's, a return; None if it has none.
        score: Of the final evaluation; None if unknown.
        asynchronous: Whether the algorithm samples while it learns.
        replays: Whether it learns from a replay buffer.
        kl_target: Of the algorithm; None for RLlib's default.
        replay_capacity: Env steps that its replay buffer holds; None if it has none, or is unknown.
    """

    num_env_runners: int
    num_envs_per_env_runner: int
    num_learners: int = 0
    num_gpus_per_learner: float = 0.0
    vectorize_mode: str = ""
    num_cpus: int | None = None
    num_gpus: float = 0.0
    exclusive: bool = True
    has_vector_entry_point: bool = False
    max_entropy: float | None = None
    action_dims: int | None = None
    target: float | None = None
    score: float | None = None
    asynchronous: bool = False
    replays: bool = False
    kl_target: float | None = None
    replay_capacity: int | None = None

    @property
    def on_policy(self) -> bool:
        """Whether the algorithm learns from what its newest policy sampled, and samples nothing meanwhile."""
        return not self.asynchronous and not self.replays

    @property
    def env_processes(self) -> bool:
        """Whether each environment has a process of its own."""
        return self.vectorize_mode == "async" and self.num_envs_per_env_runner > 1

    @property
    def processes(self) -> int:
        """Processes that may want a core: runners (or their environments), learners, and the trial's own beside remote runners."""
        sampling = max(1, self.num_env_runners) * (self.num_envs_per_env_runner if self.env_processes else 1)
        return sampling + self.num_learners + (1 if self.num_env_runners else 0)


@dataclass(frozen=True)
class Bottleneck:
    """What holds a run up.

    Attributes:
        name: env-bound, inference-bound, transfer-bound, learner-bound, starved, balanced, or unknown: too little was logged.
        share: Of training time (the wall-clock without evaluations and reports) that goes there; of `starved`, of the runners' time
            without a CPU; NaN if unknown.
        evidence: A sentence with numbers.
        advice: What to change, a sentence or more; "" if there is nothing to say.
    """

    name: str
    share: float
    evidence: str
    advice: str

    @property
    def sentence(self) -> str:
        """Evidence and advice."""
        return f"{self.evidence} {self.advice}".strip()


@dataclass(frozen=True)
class Signal:
    """Something about a run's health.

    Attributes:
        key: entropy_collapse, kl_out_of_range, exploding_value_loss, exploding_grad_norm, staleness, memory_growth or throughput_decay.
        sentence: What was seen, with numbers.
        since_env_steps: Where it began.
        harmless: Whether there is an innocent reason, which the sentence names: worth a line, but no warning.
    """

    key: str
    sentence: str
    since_env_steps: int
    harmless: bool = False


# ------------------------------------------------------------------------------------------------------------- the bottleneck


def bottleneck(shares: Mapping[str, float], facts: Facts, measured: Mapping[str, float] | None = None) -> Bottleneck:
    """Name what holds a run up.

    The rules, in this order:

    1. `starved`: the processes that may want a core, and what else runs on the machine, are more than its cores (or other trials ran beside
       it); the machine's CPUs are full while runners sample; and much of the training time goes by with runners that wait for one. A
       runner that waits for its environment does so too, but leaves the machine idle. Where each environment has a process of its own,
       the runner's says nothing: twice as many processes as cores, which fill the machine themselves.
    2. The largest of four groups of training time names it: `env-bound` (env_step), `inference-bound` (inference, connectors),
       `transfer-bound` (transfer, sync), `learner-bound` (learn). Time in which the others wait for the slowest runner goes to what
       runners do, stepping and inference, in proportion: the slowest does the same as the others, only more of it.
    3. `balanced` if the second is within `BALANCED_WITHIN` of it.
    4. `unknown` if more time is unexplained than in the largest group, or no shares were logged.

    Args:
        shares: Part (of `TIME_PARTS`) to its share of the wall-clock, the trial's mean. Missing ones count as 0.
        facts: Of the trial.
        measured: Metric to its mean over the trial: `system/machine_cpu_percent`, `system/other_cpu_percent`, `system/runner_cpu_share`,
            `system/gpu_percent`, `throughput/env_steps_per_s`; what is missing is left out of the argument.

    Returns:
        The bottleneck, its evidence, and what to try.
    """
    parts = {part: max(0.0, _finite(shares.get(part))) for part in TIME_PARTS}
    training = sum(parts.values()) - parts["evaluation"] - parts["logging"]
    if training <= 0:
        return Bottleneck(UNKNOWN, math.nan, "The run did not log where its time went.", "")
    load = _Load.of(measured or {}, {part: share / sum(parts.values()) for part, share in parts.items()}, facts)
    time = _Time({part: share / training for part, share in parts.items()}, facts, load)
    if time.starved:
        found = _starved(time, facts)
    else:
        ranked = sorted(time.groups, key=lambda name: time.groups[name], reverse=True)
        first, second = ranked[:2]
        share = time.groups[first]
        if time.parts["unexplained"] > share:
            evidence = f"{_percent(time.parts['unexplained'])} of training time is unexplained. {time.words}"
            found = Bottleneck(UNKNOWN, math.nan, evidence, "")
        elif share - time.groups[second] < BALANCED_WITHIN:
            evidence = f"{time.words} The first two are about even ({first}, {second})."
            advice = f"Either alone gains little. {first}: {_ADVICE[first](time, facts)} {second}: {_ADVICE[second](time, facts)}"
            found = Bottleneck(BALANCED, share, evidence, advice)
        else:
            found = Bottleneck(first, share, time.words, _ADVICE[first](time, facts))
    aside = (parts["evaluation"] + parts["logging"]) / (training + parts["evaluation"] + parts["logging"])
    if aside > MUCH_ASIDE:
        beside = f"Beside it, evaluations and reports take {_percent(aside)} of the wall-clock"
        return replace(found, evidence=f"{found.evidence} {beside} (evaluation.episodes, evaluation.every_env_steps).")
    return found


@dataclass(frozen=True)
class _Load:
    """What the machine was doing; None where it was not measured."""

    machine_percent: float | None
    sampling_percent: float | None  # of the machine, while the runners sample
    other_percent: float | None
    runner_share: float | None
    gpu_percent: float | None
    rate: float | None
    idle_cores: float | None

    @classmethod
    def of(cls, measured: Mapping[str, float], wall: Mapping[str, float], facts: Facts) -> "_Load":
        """From means over the trial, and its parts as shares of the wall-clock."""

        def value(name: str) -> float | None:
            number = measured.get(name)
            return None if number is None or not math.isfinite(number) else float(number)

        machine = value("system/machine_cpu_percent")
        idle = None
        if facts.num_cpus is not None:
            idle = facts.num_cpus * (1 - machine / 100) if machine is not None else float(max(0, facts.num_cpus - facts.processes))
        return cls(
            machine,
            _while_sampling(machine, wall, facts),
            value("system/other_cpu_percent"),
            value("system/runner_cpu_share"),
            value("system/gpu_percent"),
            value("throughput/env_steps_per_s"),
            idle,
        )

    def fills_it_itself(self, facts: Facts) -> bool:
        """Whether a full machine is full of the trial, or of others beside it on its study's behalf."""
        return (self.machine_percent or 0.0) - (self.other_percent or 0.0) / (facts.num_cpus or 1) >= 100 * MUCH_OWN_LOAD

    def waits(self, facts: Facts) -> bool:
        """Whether the environment waits rather than computes: runners are without a CPU most of the time, while the machine has one."""
        idle = self.machine_percent is None or self.machine_percent < FULL_CPU_PERCENT
        return idle and not facts.env_processes and self.runner_share is not None and self.runner_share < 0.5

    @property
    def has_company(self) -> bool:
        return (self.other_percent or 0.0) >= MUCH_OTHER_PERCENT

    @property
    def others(self) -> str:
        """In words."""
        return f"other programs take {(self.other_percent or 0.0) / 100:.1f} cores"

    @property
    def has_free_core(self) -> bool:
        return self.idle_cores is None or self.idle_cores >= 0.8  # its own measurement takes some of a core


def _while_sampling(machine_percent: float | None, wall: Mapping[str, float], facts: Facts) -> float | None:
    """CPU of the machine while runners sample, in percent; None if unknown.

    Between two rounds of a synchronous algorithm the runners are idle: learners have a core each, and so has the trial's own process that
    evaluates and reports. What is left of the mean is the sampling's.
    """
    aside = sum(wall[part] for part in ("learn", "evaluation", "logging"))
    if machine_percent is None or facts.num_cpus is None or not facts.num_env_runners or facts.asynchronous:
        return machine_percent
    if aside >= 1 - BALANCED_WITHIN:
        return None  # next to nothing is sampling
    busy = wall["learn"] * min(max(1, facts.num_learners), facts.num_cpus) + wall["evaluation"] + wall["logging"]
    return min(100.0, (machine_percent - 100 * busy / facts.num_cpus) / (1 - aside))


@dataclass(frozen=True)
class _Time:
    """Parts as shares of training time, and the groups that they make."""

    parts: Mapping[str, float]
    facts: Facts
    load: _Load
    groups: dict[str, float] = field(init=False)

    def __post_init__(self) -> None:
        acting = self.parts["inference"] + self.parts["connectors"]
        sampling = self.parts["env_step"] + acting
        to_env = self.parts["env_step"] / sampling if sampling else 1.0
        waiting = self.parts["waiting"]
        groups = {
            ENV: self.parts["env_step"] + to_env * waiting,
            INFERENCE: acting + (1 - to_env) * waiting,
            TRANSFER: self.parts["transfer"] + self.parts["sync"],
            LEARNER: self.parts["learn"],
        }
        object.__setattr__(self, "groups", groups)

    @property
    def starved(self) -> bool:
        """Rule 1 of `bottleneck`."""
        load, facts = self.load, self.facts
        if load.sampling_percent is None or load.sampling_percent < FULL_CPU_PERCENT or facts.num_cpus is None:
            return False
        if facts.env_processes:
            return facts.processes >= 2 * facts.num_cpus and load.fills_it_itself(facts)
        too_many = facts.processes + (load.other_percent or 0.0) / 100 > facts.num_cpus or not facts.exclusive
        if not too_many or load.runner_share is None:
            return False
        sampling = sum(self.parts[part] for part in ("env_step", "inference", "connectors", "waiting"))
        if facts.asynchronous:  # its shares are the learner's, and runners always sample
            sampling = 1.0
        return (1 - load.runner_share) * sampling > MUCH_WITHOUT_A_CORE

    @property
    def step_ms(self) -> float | None:
        """Milliseconds of a runner per env step; None for asynchronous algorithms, whose shares are the learner's."""
        if not self.load.rate or self.facts.asynchronous:
            return None
        return 1000 * self.parts["env_step"] * max(1, self.facts.num_env_runners) / self.load.rate

    @property
    def words(self) -> str:
        """All of it in a sentence or two."""
        ranked = sorted(self.groups, key=lambda name: self.groups[name], reverse=True)
        rest = [(_WHAT[name], self.groups[name]) for name in ranked[1:]] + [("unexplained", self.parts["unexplained"])]
        shown = [f"{what} {_percent(share)}" for what, share in rest if share >= 0.005]
        sentence = f"{_WHAT[ranked[0]]} takes {_percent(self.groups[ranked[0]])} of training time".capitalize()
        sentence += f" ({', '.join(shown)})" if shown else ""
        if self.parts["waiting"] >= MUCH_WAITING_SHARE:
            sentence += f"; {_percent(self.parts['waiting'])} is waiting for the slowest runner, whose steps or episodes take longer"
        details = []
        if ranked[0] == ENV and (step_ms := self.step_ms) is not None and self.facts.vectorize_mode != "async":
            details.append(f"a step takes {step_ms:.2g} ms")
        if self.load.waits(self.facts) and self.load.runner_share is not None:
            share = _percent(self.load.runner_share)
            several = f"runners compute in {share} of their sampling time, else they wait"
            details.append(
                several if self.facts.num_env_runners > 1 else f"its runner computes in {share} of the sampling time, else it waits"
            )
        if self.load.machine_percent is not None and self.facts.num_cpus is not None:
            details.append(f"{self.load.machine_percent / 100 * self.facts.num_cpus:.1f} of {self.facts.num_cpus} cores are busy")
        if self.load.has_company:
            details.append(self.load.others)
        if self.load.gpu_percent is not None and self.facts.num_gpus_per_learner > 0:
            details.append(f"the GPU is busy {self.load.gpu_percent:.0f}% of the time")
        return f"{sentence}{''.join(f'; {detail}' for detail in details)}."


_WHAT = {
    ENV: "stepping the environments",
    INFERENCE: "inference with connectors",
    TRANSFER: "moving samples and weights",
    LEARNER: "learning",
}


def _for_env(time: _Time, facts: Facts) -> str:
    load, advice = time.load, []
    waits, runners, envs = load.waits(facts), facts.num_env_runners, facts.num_envs_per_env_runner
    if load.has_free_core:
        core_each = min(1.0, max(0.1, load.runner_share)) if load.runner_share is not None and not facts.env_processes else 1.0
        spare = runners if load.idle_cores is None else int((load.idle_cores + 0.2) / core_each)
        most = runners + max(1, min(spare, max(1, runners)))  # not more than twice as many at a time
        why = "if the machine has cores to spare" if load.idle_cores is None else "cores are free"
        why = "environments that wait leave cores free" if waits else why
        advice.append(f"More env runners, {why}: algorithm.env_runners.num_env_runners={max(2, most)}.")
    slow = waits or (time.step_ms is not None and time.step_ms >= SLOW_STEP_MS)
    if facts.vectorize_mode == "sync" and slow and (waits or load.has_free_core):
        if envs > 1:
            advice.append("The step is slow and a runner's environments take turns: env.vectorize_mode=async steps them side by side.")
        elif waits:
            advice.append(
                "Environments that wait can do so side by side in one runner: "
                "algorithm.env_runners.num_envs_per_env_runner=4 env.vectorize_mode=async."
            )
    if facts.vectorize_mode in ("sync", "async") and facts.has_vector_entry_point:
        advice.append("The environment steps all of a runner's at once itself: env.vectorize_mode=vector_entry_point.")
    if time.parts["waiting"] >= MUCH_WAITING_SHARE and facts.on_policy:
        advice.append("algorithm=appo does not wait for the slowest runner.")
    if not load.has_free_core:
        what_it_takes = "." if advice else ": it takes a faster simulator, or more cores."
        advice.insert(0, f"No core is free for more runners{' while other programs run.' if load.has_company else what_it_takes}")
    return " ".join(advice)


def _for_inference(time: _Time, facts: Facts) -> str:
    envs, advice = facts.num_envs_per_env_runner, []
    if envs < MANY_ENVS:
        advice.append(f"One pass of the network can serve more environments: algorithm.env_runners.num_envs_per_env_runner={2 * envs}.")
    if time.load.has_free_core and facts.num_env_runners and time.load.idle_cores is not None:
        advice.append(f"Cores are free for more runners: algorithm.env_runners.num_env_runners={2 * facts.num_env_runners}.")
    if envs >= MANY_ENVS:
        advice.append(f"With {envs} environments a runner, a smaller network is what is left (algorithm.rl_module).")
    return " ".join(advice)


def _for_transfer(time: _Time, facts: Facts) -> str:
    runners, envs, advice = facts.num_env_runners, facts.num_envs_per_env_runner, []
    if runners > 1:
        advice.append(
            "Fewer runners with more environments each send the same steps in fewer pieces: "
            f"algorithm.env_runners.num_env_runners={runners // 2} algorithm.env_runners.num_envs_per_env_runner={2 * envs}."
        )
    if 1 <= runners <= 2 and not facts.asynchronous:
        advice.append("Without remote runners no sample is sent at all: algorithm.env_runners.num_env_runners=0.")
    if facts.asynchronous:
        advice.append("Longer fragments cost less a step (algorithm.env_runners.rollout_fragment_length).")
        if time.parts["sync"] > time.parts["transfer"]:
            advice.append("Weights can go out less often, at the price of staleness: algorithm.training.broadcast_interval.")
    elif runners and not facts.replays:
        advice.append("A larger batch has fewer rounds: algorithm.training.train_batch_size_per_learner (with its learning rate).")
    return " ".join(advice)


def _for_learner(time: _Time, facts: Facts) -> str:
    load, advice = time.load, []
    if facts.num_gpus_per_learner > 0:
        if load.gpu_percent is not None and load.gpu_percent < BUSY_GPU_PERCENT:
            advice.append(
                f"The GPU is busy {load.gpu_percent:.0f}% of the time. Larger minibatches fill it: algorithm.training.minibatch_size."
            )
        if facts.num_gpus > max(1, facts.num_learners) * facts.num_gpus_per_learner:
            advice.append(f"A GPU is free for another learner: algorithm.learners.num_learners={max(1, facts.num_learners) + 1}.")
    elif facts.num_gpus >= 1:
        advice.append("A GPU is there and not used: algorithm.learners.num_gpus_per_learner=1.")
    if facts.on_policy:
        advice.append(
            "Larger minibatches take fewer steps (algorithm.training.minibatch_size), fewer epochs use each batch less often "
            "(algorithm.training.num_epochs): both change learning, so compare scores."
        )
    if facts.replays:
        advice.append("Fewer updates per env step: a lower algorithm.training.training_intensity. It changes learning, so compare scores.")
    if facts.num_gpus_per_learner == 0 and facts.num_gpus < 1 and load.idle_cores is not None and load.has_free_core:
        more = max(1, facts.num_learners) + 1
        advice.append(f"Cores are free for another learner: algorithm.learners.num_learners={more} (the total batch grows with it).")
    if facts.num_env_runners > 1 and not load.has_free_core:
        fewer = facts.num_env_runners // 2
        advice.append(f"No core is free, and fewer runners leave it more CPU: algorithm.env_runners.num_env_runners={fewer}.")
    return " ".join(advice) or "A smaller network, or a faster core."


_ADVICE: Mapping[str, Callable[[_Time, Facts], str]] = {
    ENV: _for_env,
    INFERENCE: _for_inference,
    TRANSFER: _for_transfer,
    LEARNER: _for_learner,
}


def _starved(time: _Time, facts: Facts) -> Bottleneck:
    load, cores = time.load, facts.num_cpus or 1
    head = f"{facts.processes} processes share" if facts.processes > 1 else "One process shares"
    when = "of the time" if load.sampling_percent == load.machine_percent else "while runners sample"
    evidence = f"{head} {cores} cores, which are busy {load.sampling_percent or 0:.0f}% {when}"
    if facts.env_processes or load.runner_share is None:
        share = 1 - cores / facts.processes
    else:
        share = 1 - load.runner_share
        who, whose = ("runners have", "their") if facts.num_env_runners > 1 else ("its runner has", "the")
        evidence += f"; {who} one in {_percent(load.runner_share)} of {whose} sampling time"
    advice = []
    if load.has_company:
        evidence += f"; {load.others}"
        if not load.fills_it_itself(facts):  # what it would be bound by without them cannot be seen
            return Bottleneck(STARVED, share, f"{evidence}.", "Stop the other programs, and measure again.")
        advice.append("Stop the other programs.")
    if not facts.exclusive:
        advice.append("Other trials ran beside it: hardware.max_concurrent_trials=1 runs one at a time.")
    if facts.env_processes:
        advice.append("A process per environment is too many: env.vectorize_mode=sync, or fewer environments.")
    elif facts.num_env_runners > 1:
        # A synchronous algorithm learns while its runners rest.
        learning = max(1, facts.num_learners) if facts.asynchronous else 0
        # If nothing else took the cores, a runner less at least.
        fewer = max(1, min(facts.num_env_runners - (0 if advice else 1), cores - learning))
        envs = -(-facts.num_env_runners * facts.num_envs_per_env_runner // fewer)
        if fewer < facts.num_env_runners:
            advice.append(
                "Fewer runners with as many environments in all: "
                f"algorithm.env_runners.num_env_runners={fewer} algorithm.env_runners.num_envs_per_env_runner={envs}."
            )
    return Bottleneck(STARVED, share, f"{evidence}.", " ".join(advice))


# ----------------------------------------------------------------------------------------------------------------- the health


def health(curves: Series, facts: Facts) -> list[Signal]:
    """What the health signals of a run say; empty if all is well, or too little was logged to say.

    Args:
        curves: Metric to (env steps, value).
        facts: Of the trial.

    Returns:
        At most one signal a key.
    """
    found = (_entropy(curves, facts), _kl(curves, facts), _value_loss(curves), _grad_norm(curves), _staleness(curves))
    return [signal for signal in (*found, _memory(curves, facts), _throughput(curves)) if signal is not None]


def _entropy(curves: Series, facts: Facts) -> Signal | None:
    """Below `COLLAPSED` of the largest in the last three reports at least, or in the last third of them where the actions are unknown."""
    steps, nats = _points(curves, "learner/entropy")
    if len(nats) < FEWEST["entropy"]:
        return None
    if facts.action_dims is not None:
        limit, most, least = facts.action_dims * COLLAPSED_NATS, None, 3
    elif facts.max_entropy is not None:
        limit, most, least = COLLAPSED * facts.max_entropy, facts.max_entropy, 3
    else:
        # A policy begins almost uniform. Only that of a Box has an entropy below 0, and then its start says nothing.
        limit, most, least = COLLAPSED * nats[0], nats[0], max(3, -(-len(nats) // 3))
        if nats.min() < 0:
            return None
    low = _last_stretch(nats < limit)
    if low < least:
        return None
    of_most = f" ({_percent(nats[-1] / most)} of {'the largest, ' if facts.max_entropy else 'its start, '}{most:.2g})" if most else ""
    sentence = f"The policy's entropy fell to {nats[-1]:.2g} nats{of_most} and stays there from {steps[-low]:,.0f} env steps on"
    since = int(steps[-low])
    score = _score(curves, facts)
    solved = facts.target is not None and score is not None and score >= facts.target
    if facts.target is None:
        sentence += ". The environment has no target to tell whether it is solved"
    elif solved:
        sentence += f". The return is at its target ({score:.4g}), so the policy is sure for a reason"
    elif score is not None:
        sentence += f", with a return of {score:.4g} below the target of {facts.target:g}: it stopped exploring"
    return Signal("entropy_collapse", f"{sentence}.", since, harmless=solved or facts.target is None)


def _kl(curves: Series, facts: Facts) -> Signal | None:
    """Above `KL_HIGH` times the target in more than half of the reports, or below `KL_LOW` times in all of the last half, unsolved."""
    steps, nats = _points(curves, "learner/kl")
    steps, nats = _after(steps, nats, 0.25)
    if len(nats) < FEWEST["kl"]:
        return None
    target = facts.kl_target or KL_TARGET
    high = nats > KL_HIGH * target
    if high.mean() > 0.5:
        return Signal(
            "kl_out_of_range",
            f"KL between updates is {np.median(nats):.2g} nats, and above {KL_HIGH * target:.2g} (twice its target) in "
            f"{_percent(high.mean())} of reports: updates go too far. A lower learning rate or fewer epochs shorten them.",
            int(steps[np.argmax(high)]),
        )
    half = len(nats) // 2
    score = _score(curves, facts)
    unsolved = facts.target is not None and score is not None and score < facts.target
    if unsolved and (nats[half:] < KL_LOW * target).all():
        return Signal(
            "kl_out_of_range",
            f"KL between updates is {np.median(nats[half:]):.1g} nats, below {KL_LOW * target:.1g}, with a return of {score:.4g} below its "
            "target: updates hardly change the policy.",
            int(steps[half]),
        )
    return None


def _value_loss(curves: Series) -> Signal | None:
    """Beyond `EXPLODED` times its usual level and the square of every return seen: the value is then off by more than there is."""
    largest = _largest_return(curves)
    scale = None if largest is None else largest * largest
    return _explosion(curves, "learner/value_loss", "exploding_value_loss", "value loss", scale)


def _grad_norm(curves: Series) -> Signal | None:
    """Beyond `EXPLODED` times its usual level and ten times every return seen: where rewards are found late, gradients grow late."""
    largest = _largest_return(curves)
    scale = None if largest is None else 10 * largest
    return _explosion(curves, "learner/grad_norm", "exploding_grad_norm", "gradient norm", scale)


def _explosion(curves: Series, metric: str, key: str, words: str, scale: float | None) -> Signal | None:
    """Two reports running, or the last one, far above the level.

    The level is the larger of the running median and the median of the first reports: a loss that has fallen to 1e-5 may jump to where it
    came from, and does, in healthy runs.
    """
    steps, values = _points(curves, metric)
    if len(values) < FEWEST["explosion"]:
        return None
    start = float(np.median(values[:5]))
    before = np.array([np.nan] * 5 + [np.median(values[:i]) for i in range(5, len(values))])
    level = np.fmax(before, start)
    limit = level * (EXPLODED if scale is not None else 10 * EXPLODED)
    above = values > (np.fmax(limit, scale) if scale is not None else limit)
    above[:5] = False
    twice = above & np.append(above[1:], above[-1])
    if not twice.any():
        return None
    first = int(np.argmax(twice))
    peak = float(values[first:].max())
    return Signal(
        key,
        f"The {words} exploded at {steps[first]:,.0f} env steps: from about {level[first]:.3g} to {peak:.3g}. "
        "A lower learning rate, gradient clipping or scaled rewards hold it.",
        int(steps[first]),
    )


def _staleness(curves: Series) -> Signal | None:
    """Above `STALE` in the median of the reports after the first."""
    steps, updates = _after(*_points(curves, "learner/staleness_updates"), 0.0, skip=1)
    if len(updates) < FEWEST["staleness"] or np.median(updates) <= STALE:
        return None
    return Signal(
        "staleness",
        f"Samples are {np.median(updates):.3g} updates old when they are learned from (last report: {updates[-1]:.3g}); "
        f"up to {STALE:g} is usual. Weights sent more often (algorithm.training.broadcast_interval=1), fewer runners or shorter fragments "
        "keep them fresher.",
        int(steps[np.argmax(updates > STALE)]),
    )


def _memory(curves: Series, facts: Facts) -> Signal | None:
    """A trend since the first quarter that is significant, large, and in every third alike: what levels off is a cache that fills."""
    steps, mib = _after(*_points(curves, "system/memory_mib"), 0.25)
    if facts.replays:  # a buffer that fills is no leak
        if facts.replay_capacity is None:
            return None
        steps, mib = steps[steps > facts.replay_capacity], mib[steps > facts.replay_capacity]
    if len(mib) < FEWEST["memory"]:
        return None
    slope = _slope(steps, mib)
    grown = slope * float(steps[-1] - steps[0])
    if grown < max(LEAKS_MIB, LEAKS_SHARE * float(np.median(mib))) or _trend(mib) > SIGNIFICANT:
        return None
    thirds = zip(np.array_split(steps, 3), np.array_split(mib, 3), strict=True)
    if min(_slope(x, y) for x, y in thirds) < 0.3 * slope:
        return None
    return Signal(
        "memory_growth",
        f"Memory grows by {slope * 1e6:,.0f} MiB per million env steps and does not level off: {mib[0]:,.0f} MiB after warm-up, "
        f"{mib[-1]:,.0f} MiB at the end.",
        int(steps[0]),
    )


def _throughput(curves: Series) -> Signal | None:
    """A median of the last third of reports below that of the first by `SLOWED`, beyond the noise, once learning began.

    Beyond the noise is a significant falling trend, or a step: a difference of `STEPPED` standard deviations within the thirds, which
    the test of a trend takes for slow noise.
    """
    steps, rate = _points(curves, "throughput/env_steps_per_s")
    learned, _ = _points(curves, "learner/loss")
    if len(learned):  # before it, an algorithm that replays is faster
        steps, rate = steps[steps >= learned[0]], rate[steps >= learned[0]]
    steps, rate = _after(steps, rate, 0.0, skip=1)
    if len(rate) < FEWEST["throughput"]:
        return None
    third = len(rate) // 3
    first, last = float(np.median(rate[:third])), float(np.median(rate[-third:]))
    within = math.hypot(float(rate[:third].std(ddof=1)), float(rate[-third:].std(ddof=1))) / math.sqrt(2)
    if first <= 0 or last > (1 - SLOWED) * first or (first - last <= STEPPED * within and _trend(-rate) > SIGNIFICANT):
        return None
    lost = _percent(1 - last / first)
    sentence = f"Throughput fell by {lost}, from {first:,.0f} env steps/s in the first third of the run to {last:,.0f} in the last"
    at, other = _points(curves, "system/other_cpu_percent")
    before, after = other[at < steps[third]], other[at >= steps[-third]]
    if len(before) and len(after) and np.median(after) - np.median(before) >= 20:
        cores = f"{np.median(before) / 100:.1f} to {np.median(after) / 100:.1f} cores"
        return Signal("throughput_decay", f"{sentence}; other programs went from {cores}.", int(steps[-third]))
    return Signal("throughput_decay", f"{sentence}.", int(steps[-third]))


# ------------------------------------------------------------------------------------------------------------------ of a run


def diagnose(curves: Series, facts: Facts) -> tuple[Bottleneck, list[Signal]]:
    """Bottleneck and health of one run.

    Args:
        curves: Metric to (env steps, value).
        facts: Of the trial.
    """
    means = {name: _mean_over_time(curves, name) for name in curves if name.startswith(("time/", "system/", "throughput/"))}
    shares = {part: means[f"time/{part}_share"] for part in TIME_PARTS if f"time/{part}_share" in means}
    return bottleneck(shares, facts, means), health(curves, facts)


def tags(curves: Series, facts: Facts) -> dict[str, str]:
    """The tags `bottleneck` and `health` of a run: `env-bound`, and `ok` or the keys of its signals.

    Args:
        curves: Metric to (env steps, value).
        facts: Of the trial.
    """
    found, signals = diagnose(curves, facts)
    return {"bottleneck": found.name, "health": _health_tag(signals, _num_reports(curves))}


def _num_reports(curves: Series) -> int:
    return max((len(points) for points in curves.values()), default=0)


def _health_tag(signals: Sequence[Signal], num_reports: int) -> str:
    warnings = [signal.key for signal in signals if not signal.harmless]
    if not warnings and num_reports < min(FEWEST.values()):
        return "too short to tell"
    return ", ".join(warnings) or "ok"


# ----------------------------------------------------------------------------------------------------------------- of a study


def of_study(runs: pd.DataFrame, curves: pd.DataFrame, facts: Mapping[str, Mapping[str, Any]] | None = None, **known: Any) -> pd.DataFrame:
    """Bottleneck and health of every trial of a study that has a run, failed ones too.

    Args:
        runs: As `analysis.load` gives them. Of `Facts` it holds what the trials logged as parameters.
        curves: Likewise, all metrics.
        facts: Configuration to other `Facts`, as a study records them. They win over the frame's.
        **known: Others that are the same for all trials, such as `num_cpus=8`. They win over both.

    Returns:
        `run_id`, `config`, `seed`, `repeat`, `bottleneck`, `share`, `evidence`, `advice`, `health` (as the tag), `signals` (a list).
    """
    with_run = runs[runs["run_id"].notna()]
    of_run = {run_id: _series(points) for run_id, points in curves.groupby("run_id", observed=True)}
    rows = []
    for row in with_run.to_dict("records"):
        series = of_run.get(row["run_id"], {})
        found, signals = diagnose(series, facts_of(row, {**(facts or {}).get(row["config"], {}), **known}))
        rows.append(
            {
                **{name: row[name] for name in ("run_id", "config", "seed", "repeat")},
                "bottleneck": found.name,
                "share": found.share,
                "evidence": found.evidence,
                "advice": found.advice,
                "health": _health_tag(signals, _num_reports(series)),
                "signals": signals,
            }
        )
    columns = ["run_id", "config", "seed", "repeat", "bottleneck", "share", "evidence", "advice", "health", "signals"]
    table = pd.DataFrame(rows, columns=columns)
    table["config"] = pd.Categorical(table["config"], categories=runs["config"].cat.categories, ordered=True)
    return table


def by_configuration(table: pd.DataFrame) -> pd.DataFrame:
    """What most trials of a configuration are bound by.

    Args:
        table: As `of_study` gives it.

    Returns:
        `config`, `bottleneck` (the most frequent; of equals, the one with the larger share), `num_agree`, `num_trials`, `share` (median of
        those that agree), `evidence` and `advice` of the trial in their middle. Trials whose bottleneck is unknown count in `num_trials`.
    """
    rows = []
    for config, trials in table.groupby("config", observed=True):
        known = trials[trials["bottleneck"] != UNKNOWN]
        if known.empty:
            first = trials.iloc[0]
            rows.append((config, UNKNOWN, len(trials), len(trials), math.nan, first["evidence"], ""))
            continue
        counts = Counter(known["bottleneck"])
        name = max(counts, key=lambda n: (counts[n], known.loc[known["bottleneck"] == n, "share"].median()))
        agree = known[known["bottleneck"] == name].sort_values("share", kind="stable")
        middle = agree.iloc[(len(agree) - 1) // 2]
        rows.append((config, name, len(agree), len(trials), agree["share"].median(), middle["evidence"], middle["advice"]))
    names = ["config", "bottleneck", "num_agree", "num_trials", "share", "evidence", "advice"]
    found = pd.DataFrame(rows, columns=names)
    found["config"] = pd.Categorical(found["config"], categories=table["config"].cat.categories, ordered=True)
    return found


def limits_sentence(table: pd.DataFrame, counts: Mapping[int, str], units: str) -> str:
    """What holds configurations up that differ in a count alone: a sentence; "" if that is unknown.

    Args:
        table: As `of_study` gives it.
        counts: Count to configuration.
        units: What is counted, such as `env runners`.
    """
    names = by_configuration(table).set_index("config")["bottleneck"]
    found: list[tuple[str, list[int]]] = []
    for count, config in sorted(counts.items()):
        name = str(names.get(config, UNKNOWN))
        if not found or found[-1][0] != name:
            found.append((name, []))
        found[-1][1].append(count)
    if all(name == UNKNOWN for name, _ in found):
        return ""
    told = ", ".join(f"{name} with {' and '.join(', '.join(map(str, those)).rsplit(', ', 1))}" for name, those in found)
    return f"What holds it up as {units} are added: {told}."


def bottleneck_sentences(table: pd.DataFrame) -> list[str]:
    """What binds the configurations of a study: a Markdown sentence a bottleneck, the most frequent first, with the evidence for one.

    Args:
        table: As `of_study` gives it.
    """
    configs = by_configuration(table)
    found = []
    for name in configs["bottleneck"].value_counts(sort=True).index:
        mine = configs[configs["bottleneck"] == name]
        if name == UNKNOWN:
            found.append(f"What binds {named(list(mine['config']))} is unknown. {mine.iloc[0]['evidence']}")
            continue
        clearest = mine.sort_values("share", ascending=False, kind="stable").iloc[0]
        agree, trials = int(mine["num_agree"].sum()), int(mine["num_trials"].sum())
        head = f"**{name}** in {agree} of {trials} trials: {named(list(mine['config']))}."
        lead = f"{code(clearest['config'])}: " if len(mine) > 1 else ""
        found.append(f"{head} {lead}{clearest['evidence']} {clearest['advice']}".strip())
    return found


def health_sentences(table: pd.DataFrame) -> list[str]:
    """What the health signals of a study say: a Markdown sentence for each key, warnings first, with the first trial's words.

    Args:
        table: As `of_study` gives it.
    """
    found = []
    for harmless in (False, True):
        keys = Counter(signal.key for signals in table["signals"] for signal in signals if signal.harmless == harmless)
        for key in keys:
            has = table["signals"].map(lambda signals, key=key, harmless=harmless: _signal(signals, key, harmless) is not None)
            trials = table[has]
            example = _signal(trials.iloc[0]["signals"], key, harmless)
            name = key.replace("_", " ").capitalize()
            shown = f"**{name}**" if not harmless else name
            words = example.sentence if example else ""
            found.append(f"{shown} in {len(trials)} of {len(table)} trials ({trials_named(trials)}). {words}".strip())
    return found


def _signal(signals: Sequence[Signal], key: str, harmless: bool) -> Signal | None:
    return next((signal for signal in signals if signal.key == key and signal.harmless == harmless), None)


def _series(points: pd.DataFrame) -> dict[str, list[tuple[float, float]]]:
    return {
        str(metric): list(zip(of_metric["env_steps"].astype(float), of_metric["value"], strict=True))
        for metric, of_metric in points.groupby("metric", observed=True)
    }


def facts_of(row: Mapping[Any, Any], known: Mapping[str, Any]) -> Facts:
    """The facts of a trial.

    Args:
        row: Of the frame `runs`, or the trial's parameters: as far as it tells.
        known: Others, which win.
    """
    counted = ("num_env_runners", "num_envs_per_env_runner", "num_learners")
    names = (*counted, "num_gpus_per_learner", "vectorize_mode", "exclusive", "target", "score", "kl_target")
    given = {name: row[name] for name in names if name in row and not pd.isna(row[name])}
    counts = {name: int(given[name]) for name in counted if name in given}
    defaults = {"num_env_runners": 0, "num_envs_per_env_runner": 1}
    return Facts(**{**defaults, **given, **counts, **known})


# -------------------------------------------------------------------------------------------------------------------- numbers


def _finite(value: float | None) -> float:
    return float(value) if value is not None and math.isfinite(value) else 0.0


def _percent(share: float) -> str:
    return f"{100 * share:.0f}%"


def _points(curves: Series, metric: str) -> tuple[Array, Array]:
    """Env steps and values, the finite ones."""
    points = np.array(curves.get(metric, ()), dtype=np.float64).reshape(-1, 2)
    points = points[np.isfinite(points).all(axis=1)]
    return points[:, 0], points[:, 1]


def _after(steps: Array, values: Array, share: float, skip: int = 0) -> tuple[Array, Array]:
    """Without the first reports: a share of them, and a number."""
    start = math.ceil(share * len(values)) + skip
    return steps[start:], values[start:]


def _mean_over_time(curves: Series, metric: str) -> float:
    """Mean over a trial, reports weighed by their seconds; without the first of three or more, in which everything starts up."""
    steps, values = _points(curves, metric)
    at, wall_s = _points(curves, "progress/wall_s")
    if len(values) >= 3:
        steps, values = steps[1:], values[1:]
    if not len(values):
        return math.nan
    seconds = dict(zip(at, np.diff(wall_s, prepend=0.0), strict=True))
    weights = np.array([max(0.0, seconds.get(step, 0.0)) for step in steps])
    return float(np.average(values, weights=weights)) if weights.sum() > 0 else float(values.mean())


def _last_stretch(holds: npt.NDArray[np.bool_]) -> int:
    """How many of the last reports hold, up to the end."""
    return len(holds) if holds.all() else int(np.argmin(holds[::-1]))


def _score(curves: Series, facts: Facts) -> float | None:
    """The final score, or the median of the last evaluations."""
    if facts.score is not None and math.isfinite(facts.score):
        return facts.score
    _, returns = _points(curves, "eval/return_mean")
    return float(np.median(returns[-3:])) if len(returns) else None


def _largest_return(curves: Series) -> float | None:
    """The largest return in size that the run has seen, 1 at least; None if it has seen none."""
    seen = [_points(curves, name)[1] for name in ("train/return_min", "train/return_max", "train/return_mean", "eval/return_mean")]
    returns = np.abs(np.concatenate(seen))
    return max(1.0, float(returns.max())) if len(returns) else None


def _slope(x: Array, y: Array) -> float:
    """Theil and Sen's: the median slope over all pairs (Sen 1968)."""
    i, j = np.triu_indices(len(x), 1)
    return float(np.median((y[j] - y[i]) / (x[j] - x[i])))


def _trend(values: Array) -> float:
    """One-sided p-value of a rising trend: Mann and Kendall's test, its variance corrected for autocorrelation.

    The correction is Yue and Wang's (2004): by (1 + r) / (1 - r) for the first autocorrelation r of what is left of a line; a negative one
    counts as 0. Of a short series r comes out too small, by about (2 + 4 r) / n (Kendall 1954, with a line in place of the mean).
    """
    count = len(values)
    x = np.arange(count, dtype=np.float64)
    i, j = np.triu_indices(count, 1)
    statistic = float(np.sign(values[j] - values[i]).sum())
    rest = values - _slope(x, values) * x
    rest = rest - rest.mean()
    power = float(rest @ rest)
    straight = power <= 1e-12 * float(np.square(values - values.mean()).sum())  # what is left is rounding
    r = 0.0 if straight else (count * float(rest[1:] @ rest[:-1]) / power + 2) / (count - 4)
    r = min(0.9, max(0.0, r))
    variance = count * (count - 1) * (2 * count + 5) / 18 * (1 + r) / (1 - r)
    z = (statistic - 1) / math.sqrt(variance) if statistic > 0 else 0.0
    return 0.5 * math.erfc(z / math.sqrt(2))
