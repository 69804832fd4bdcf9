"""The bottleneck of a trial, and what to change: from where its time went. Pure."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

from analysis.questions.advice import ADVICE, Change, for_starved, words_of
from analysis.questions.facts import Facts
from analysis.questions.labels import percent
from analysis.questions.time_use import Load, TimeUse
from experiments.contract import TIME_PARTS

STARVED, BALANCED, UNKNOWN = "starved", "balanced", "unknown"

BALANCED_WITHIN = 0.05
"""Of training time: two groups closer than this are both named. Seeds of one configuration differ by a point or two."""
MUCH_ASIDE = 0.25
"""Of the wall-clock, spent on evaluations and reports, from which on the evidence names them."""


@dataclass(frozen=True)
class Bottleneck:
    """The bottleneck of a trial.

    Attributes:
        name: env-bound, inference-bound, transfer-bound, learner-bound, starved, balanced, or unknown:
            too little was logged.
        share: Of training time (the wall-clock without evaluations and reports) that goes there; of `starved`, of the
            runners' time without a CPU; NaN if unknown.
        evidence: A sentence with numbers.
        changes: What to change; empty if there is nothing to say.
    """

    name: str
    share: float
    evidence: str
    changes: tuple[Change, ...] = ()

    @property
    def advice(self) -> str:
        """The changes as one text."""
        return words_of(self.changes)


def bottleneck(shares: Mapping[str, float], facts: Facts, measured: Mapping[str, float] | None = None) -> Bottleneck:
    """Name what limits the speed of a trial.

    The rules, in this order:

    1. `starved`: the processes that may want a core, and what else runs on the machine, are more than its cores (or
       other trials ran beside it); the machine's CPUs are full while runners sample; and much of the training time goes
       by with runners that wait for one. A runner that waits for its environment does so too, but leaves the machine
       idle. Where each environment has a process of its own, the runner's says nothing: twice as many processes as
       cores, which fill the machine themselves.
    2. The largest of four groups of training time names it: `env-bound` (env_step), `inference-bound` (inference,
       connectors), `transfer-bound` (transfer, sync), `learner-bound` (learn). Time in which the others wait for the
       slowest runner goes to what runners do, stepping and inference, in proportion: the slowest does the same as the
       others, only more of it.
    3. `balanced` if the second is within `BALANCED_WITHIN` of it.
    4. `unknown` if more time is unexplained than in the largest group, or no shares were logged.

    Args:
        shares: Part (of `TIME_PARTS`) to its share of the wall-clock, the trial's mean. Missing ones count as 0.
        facts: Of the trial.
        measured: Metric to its mean over the trial: `system/machine_cpu_percent`, `system/other_cpu_percent`,
            `system/runner_cpu_share`, `system/gpu_percent`, `throughput/env_steps_per_s`; what is missing is left out
            of the argument.

    Returns:
        The bottleneck, its evidence, and what to try.
    """
    parts = {part: max(0.0, _finite(shares.get(part))) for part in TIME_PARTS}
    training = sum(parts.values()) - parts["evaluation"] - parts["logging"]
    if training <= 0:
        return Bottleneck(UNKNOWN, math.nan, "The run did not log where its time went.")
    load = Load.of(measured or {}, {part: share / sum(parts.values()) for part, share in parts.items()}, facts)
    time = TimeUse({part: share / training for part, share in parts.items()}, facts, load)
    if time.starved:
        found = _starved(time)
    else:
        first, second = list(time.groups)[:2]
        share = time.groups[first]
        if time.parts["unexplained"] > share:
            evidence = f"{percent(time.parts['unexplained'])} of training time is unexplained. {time.words}"
            found = Bottleneck(UNKNOWN, math.nan, evidence)
        elif share - time.groups[second] < BALANCED_WITHIN:
            evidence = f"{time.words} The first two are about even ({first}, {second})."
            either = [Change("Either alone gains little.")]
            for name in (first, second):
                either += [Change(f"{name}:"), *ADVICE[name](time)]
            found = Bottleneck(BALANCED, share, evidence, tuple(either))
        else:
            found = Bottleneck(first, share, time.words, tuple(ADVICE[first](time)))
    aside = (parts["evaluation"] + parts["logging"]) / (training + parts["evaluation"] + parts["logging"])
    if aside > MUCH_ASIDE:
        beside = f"Beside it, evaluations and reports take {percent(aside)} of the wall-clock"
        return replace(found, evidence=f"{found.evidence} {beside} (evaluation.episodes, evaluation.every_env_steps).")
    return found


def _starved(time: TimeUse) -> Bottleneck:
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
    if load.has_company:
        evidence += f"; {load.others}"
    return Bottleneck(STARVED, share, f"{evidence}.", tuple(for_starved(time)))


def _finite(value: float | None) -> float:
    return float(value) if value is not None and math.isfinite(value) else 0.0
