"""Where the time of a trial went, and what the machine was doing meanwhile. Pure.

Every threshold stands here by its name, with its source; those without one are this project's own.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from analysis.questions.facts import Facts
from analysis.questions.labels import percent

ENV, INFERENCE, TRANSFER, LEARNER = "env-bound", "inference-bound", "transfer-bound", "learner-bound"

FULL_CPU_PERCENT = 90.0
"""Of the machine, from which on no core is free."""
MUCH_WITHOUT_A_CORE = 0.15
"""Of training time, that runners spend on sampling without a CPU, from which on they wait for one
(or for their environment)."""
MUCH_OWN_LOAD = 0.75
"""Of the machine, that a trial takes itself, from which on its many processes are what fills it."""
MUCH_OTHER_PERCENT = 25.0
"""CPU that other programs use, 100 is one core, from which on the evidence names them.
What a measurement allows, by default."""
MUCH_WAITING_SHARE = 0.10
"""Of training time, spent waiting for the slowest runner, from which on the evidence names it."""
MOSTLY_ASIDE = 0.95
"""Of the wall-clock, that is not sampling, from which on nothing is known of the machine while runners sample."""


@dataclass(frozen=True)
class Load:
    """The load of the machine; None where it was not measured."""

    machine_percent: float | None
    sampling_percent: float | None  # of the machine, while the runners sample
    other_percent: float | None
    runner_share: float | None
    gpu_percent: float | None
    rate: float | None
    idle_cores: float | None

    @classmethod
    def of(cls, measured: Mapping[str, float], wall: Mapping[str, float], facts: Facts) -> "Load":
        """From means over the trial, and its parts as shares of the wall-clock."""

        def value(name: str) -> float | None:
            number = measured.get(name)
            return None if number is None or not math.isfinite(number) else float(number)

        machine = value("system/machine_cpu_percent")
        idle = None
        if facts.num_cpus is not None:
            idle = (
                facts.num_cpus * (1 - machine / 100)
                if machine is not None
                else float(max(0, facts.num_cpus - facts.processes))
            )
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
        """True if other programs take much of the machine."""
        return (self.other_percent or 0.0) >= MUCH_OTHER_PERCENT

    @property
    def others(self) -> str:
        """In words."""
        return f"other programs take {(self.other_percent or 0.0) / 100:.1f} cores"

    @property
    def has_free_core(self) -> bool:
        """True if another process would find one, or that is unknown."""
        return self.idle_cores is None or self.idle_cores >= 0.8  # its own measurement takes some of a core


def _while_sampling(machine_percent: float | None, wall: Mapping[str, float], facts: Facts) -> float | None:
    """CPU of the machine while runners sample, in percent; None if unknown.

    Between two rounds of a synchronous algorithm the runners are idle: learners have a core each, and so has the
    trial's own process that evaluates and reports. What is left of the mean is the sampling's.
    """
    aside = sum(wall[part] for part in ("learn", "evaluation", "logging"))
    if machine_percent is None or facts.num_cpus is None or not facts.num_env_runners or facts.asynchronous:
        return machine_percent
    if aside >= MOSTLY_ASIDE:
        return None  # next to nothing is sampling
    busy = wall["learn"] * min(max(1, facts.num_learners), facts.num_cpus) + wall["evaluation"] + wall["logging"]
    return min(100.0, (machine_percent - 100 * busy / facts.num_cpus) / (1 - aside))


@dataclass(frozen=True)
class TimeUse:
    """Parts as shares of training time, and the groups that they make."""

    parts: Mapping[str, float]
    facts: Facts
    load: Load

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
        """True if a full machine is full of the trial, or of others beside it on its study's behalf."""
        load = self.load
        return (load.machine_percent or 0.0) - (load.other_percent or 0.0) / (
            self.facts.num_cpus or 1
        ) >= 100 * MUCH_OWN_LOAD

    @property
    def waits(self) -> bool:
        """True if the environment waits rather than computes: runners are without a CPU most of the time,
        while the machine has one.
        """
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
            sentence += (
                f"; {percent(self.parts['waiting'])} is waiting for the slowest runner, "
                "whose steps or episodes take longer"
            )
        details = []
        if first == ENV and (step_ms := self.step_ms) is not None and self.facts.vectorize_mode != "async":
            details.append(f"a step takes {step_ms:.2g} ms")
        if self.waits and self.load.runner_share is not None:
            share = percent(self.load.runner_share)
            several = f"runners compute in {share} of their sampling time, else they wait"
            details.append(
                several
                if self.facts.num_env_runners > 1
                else f"its runner computes in {share} of the sampling time, else it waits"
            )
        if self.load.machine_percent is not None and self.facts.num_cpus is not None:
            details.append(
                f"{self.load.machine_percent / 100 * self.facts.num_cpus:.1f} of {self.facts.num_cpus} cores are busy"
            )
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
