"""What limits the speed of a trial, and what to change: from where its time went. Pure.

Every threshold stands here by its name, with its source; those without one are this project's own.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from analysis.questions.facts import Facts
from analysis.questions.labels import percent
from experiments.metrics import TIME_PARTS

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


@dataclass(frozen=True)
class Bottleneck:
    """What limits the speed of a trial.

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


def bottleneck(shares: Mapping[str, float], facts: Facts, measured: Mapping[str, float] | None = None) -> Bottleneck:
    """Name what limits the speed of a trial.

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
        found = _starved(time)
    else:
        first, second = list(time.groups)[:2]
        share = time.groups[first]
        if time.parts["unexplained"] > share:
            evidence = f"{percent(time.parts['unexplained'])} of training time is unexplained. {time.words}"
            found = Bottleneck(UNKNOWN, math.nan, evidence, "")
        elif share - time.groups[second] < BALANCED_WITHIN:
            evidence = f"{time.words} The first two are about even ({first}, {second})."
            advice = f"Either alone gains little. {first}: {_ADVICE[first](time)} {second}: {_ADVICE[second](time)}"
            found = Bottleneck(BALANCED, share, evidence, advice)
        else:
            found = Bottleneck(first, share, time.words, _ADVICE[first](time))
    aside = (parts["evaluation"] + parts["logging"]) / (training + parts["evaluation"] + parts["logging"])
    if aside > MUCH_ASIDE:
        beside = f"Beside it, evaluations and reports take {percent(aside)} of the wall-clock"
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

    @cached_property
    def groups(self) -> dict[str, float]:
        """The largest first."""
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
        return dict(sorted(groups.items(), key=lambda group: group[1], reverse=True))

    @property
    def fills_it_itself(self) -> bool:
        """Whether a full machine is full of the trial, or of others beside it on its study's behalf."""
        load = self.load
        return (load.machine_percent or 0.0) - (load.other_percent or 0.0) / (self.facts.num_cpus or 1) >= 100 * MUCH_OWN_LOAD

    @property
    def waits(self) -> bool:
        """Whether the environment waits rather than computes: runners are without a CPU most of the time, while the machine has one."""
        load = self.load
        idle = load.machine_percent is None or load.machine_percent < FULL_CPU_PERCENT
        return idle and not self.facts.env_processes and load.runner_share is not None and load.runner_share < 0.5

    @property
    def starved(self) -> bool:
        """Rule 1 of `bottleneck`."""
        load, facts = self.load, self.facts
        if load.sampling_percent is None or load.sampling_percent < FULL_CPU_PERCENT or facts.num_cpus is None:
            return False
        if facts.env_processes:
            return facts.processes >= 2 * facts.num_cpus and self.fills_it_itself
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
        (first, largest), *others = self.groups.items()
        rest = [*((_WHAT[name], share) for name, share in others), ("unexplained", self.parts["unexplained"])]
        shown = [f"{what} {percent(share)}" for what, share in rest if share >= 0.005]
        sentence = f"{_WHAT[first]} takes {percent(largest)} of training time".capitalize()
        sentence += f" ({', '.join(shown)})" if shown else ""
        if self.parts["waiting"] >= MUCH_WAITING_SHARE:
            sentence += f"; {percent(self.parts['waiting'])} is waiting for the slowest runner, whose steps or episodes take longer"
        details = []
        if first == ENV and (step_ms := self.step_ms) is not None and self.facts.vectorize_mode != "async":
            details.append(f"a step takes {step_ms:.2g} ms")
        if self.waits and self.load.runner_share is not None:
            share = percent(self.load.runner_share)
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


def _for_env(time: _Time) -> str:
    load, facts, advice = time.load, time.facts, []
    waits, runners, envs = time.waits, facts.num_env_runners, facts.num_envs_per_env_runner
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


def _for_inference(time: _Time) -> str:
    facts, advice = time.facts, []
    envs = facts.num_envs_per_env_runner
    if envs < MANY_ENVS:
        advice.append(f"One pass of the network can serve more environments: algorithm.env_runners.num_envs_per_env_runner={2 * envs}.")
    if time.load.has_free_core and facts.num_env_runners and time.load.idle_cores is not None:
        advice.append(f"Cores are free for more runners: algorithm.env_runners.num_env_runners={2 * facts.num_env_runners}.")
    if envs >= MANY_ENVS:
        advice.append(f"With {envs} environments a runner, a smaller network is what is left (algorithm.rl_module).")
    return " ".join(advice)


def _for_transfer(time: _Time) -> str:
    facts, advice = time.facts, []
    runners, envs = facts.num_env_runners, facts.num_envs_per_env_runner
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


def _for_learner(time: _Time) -> str:
    load, facts, advice = time.load, time.facts, []
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


_ADVICE: Mapping[str, Callable[[_Time], str]] = {
    ENV: _for_env,
    INFERENCE: _for_inference,
    TRANSFER: _for_transfer,
    LEARNER: _for_learner,
}


def _starved(time: _Time) -> Bottleneck:
    load, facts, cores = time.load, time.facts, time.facts.num_cpus or 1
    head = f"{facts.processes} processes share" if facts.processes > 1 else "One process shares"
    when = "of the time" if load.sampling_percent == load.machine_percent else "while runners sample"
    evidence = f"{head} {cores} cores, which are busy {load.sampling_percent or 0:.0f}% {when}"
    if facts.env_processes or load.runner_share is None:
        share = 1 - cores / facts.processes
    else:
        share = 1 - load.runner_share
        who, whose = ("runners have", "their") if facts.num_env_runners > 1 else ("its runner has", "the")
        evidence += f"; {who} one in {percent(load.runner_share)} of {whose} sampling time"
    advice = []
    if load.has_company:
        evidence += f"; {load.others}"
        if not time.fills_it_itself:  # what it would be bound by without them cannot be seen
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


def _finite(value: float | None) -> float:
    return float(value) if value is not None and math.isfinite(value) else 0.0
