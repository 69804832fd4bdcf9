"""The health of a trial, from its curves. Pure.

Every threshold stands here by its name, with its source. Those without one are this project's own, set so that healthy
runs stay clear of them: `tests/questions/test_health.py` counts false alarms in simulated ones.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from analysis.questions.facts import Facts
from analysis.questions.labels import percent

Array = npt.NDArray[np.float64]
Series = Mapping[str, Sequence[tuple[float, float]]]
"""The curves of a trial: metric to (env steps, value), in order."""

COLLAPSED = 0.05
"""Of the largest entropy that the action space allows: of two actions, the other is then taken 6 times in 1000."""
COLLAPSED_NATS = 0.5 * math.log(2 * math.pi * math.e * 0.01**2)
"""Per dimension of a Box: a Gaussian whose standard deviation is 0.01, of actions in [-1, 1]."""
KL_TARGET = 0.01
"""RLlib's default for PPO and APPO (`kl_target`); OpenAI Spinning Up has the same."""
KL_HIGH, KL_LOW = 2.0, 0.02
"""Times the target. RLlib's PPO raises its penalty above 2 (`ppo_torch_learner.py`, `_update_module_kl_coeff`);
the lower one is ours."""
EXPLODED = 100.0
"""Times the usual level of a loss or a gradient norm. Healthy runs on CartPole jump to 12 times it
(45 runs of `lr_batch`)."""
STALE = 2.0
"""Updates between the policy that sampled and the one that learns; practical guides keep the lag
of IMPALA to 1 or 2."""
LEAKS_MIB, LEAKS_SHARE = 32.0, 0.05
"""Growth since warm-up that counts, in MiB and relative to the run's memory: both."""
SLOWED = 0.10
"""Loss of throughput from the first third to the last that counts."""
STEPPED = 6.0
"""Standard deviations within a third of the run by which throughput falls at once."""
SIGNIFICANT = 0.01
"""One-sided level of a trend in memory or throughput."""
STOLEN = 10.0
"""Percent of one core that the host of a virtual machine gave to others, mean over a run."""
FEWEST = {"entropy": 3, "kl": 5, "explosion": 6, "staleness": 3, "memory": 12, "throughput": 9, "stolen": 3}
"""Reports that a signal needs, after warm-up; with fewer, nothing is said."""


@dataclass(frozen=True)
class HealthSignal:
    """Something about a run's health.

    Attributes:
        key: entropy_collapse, kl_out_of_range, exploding_value_loss, exploding_grad_norm, staleness,
            memory_growth, throughput_decay or stolen_cpu.
        sentence: What was seen, with numbers.
        since_env_steps: Where it began.
        harmless: Whether there is an innocent reason, which the sentence names: worth a line, but no warning.
    """

    key: str
    sentence: str
    since_env_steps: int
    harmless: bool = False


def health(curves: Series, facts: Facts) -> list[HealthSignal]:
    """The health signals of a run; empty if all is well, or too little was logged to say.

    Args:
        curves: Metric to (env steps, value).
        facts: Of the trial.

    Returns:
        At most one signal a key.
    """
    of_learning = (_entropy(curves, facts), _kl(curves, facts), _value_loss(curves), _grad_norm(curves))
    of_running = (_staleness(curves), _memory(curves, facts), _throughput(curves), _stolen(curves))
    return [signal for signal in (*of_learning, *of_running) if signal is not None]


def _entropy(curves: Series, facts: Facts) -> HealthSignal | None:
    """Below `COLLAPSED` of the largest in the last three reports at least, or in the last third of them
    where the actions are unknown.
    """
    steps, nats = points_of(curves, "learner/entropy")
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
    of_most = (
        f" ({percent(nats[-1] / most)} of {'the largest, ' if facts.max_entropy else 'its start, '}{most:.2g})"
        if most
        else ""
    )
    sentence = (
        f"The policy's entropy fell to {nats[-1]:.2g} nats{of_most} and stays there "
        f"from {steps[-low]:,.0f} env steps on"
    )
    since = int(steps[-low])
    score = _score(curves, facts)
    solved = facts.target is not None and score is not None and score >= facts.target
    if facts.target is None:
        sentence += ". The environment has no target to tell whether it is solved"
    elif solved:
        sentence += f". The return is at its target ({score:.4g}), so the policy is sure for a reason"
    elif score is not None:
        sentence += f", with a return of {score:.4g} below the target of {facts.target:g}: it stopped exploring"
    return HealthSignal("entropy_collapse", f"{sentence}.", since, harmless=solved or facts.target is None)


def _kl(curves: Series, facts: Facts) -> HealthSignal | None:
    """Above `KL_HIGH` times the target in more than half of the reports,
    or below `KL_LOW` times in all of the last half, unsolved.
    """
    steps, nats = points_of(curves, "learner/kl")
    steps, nats = _after(steps, nats, 0.25)
    if len(nats) < FEWEST["kl"]:
        return None
    target = facts.kl_target or KL_TARGET
    high = nats > KL_HIGH * target
    if high.mean() > 0.5:
        return HealthSignal(
            "kl_out_of_range",
            f"KL between updates is {np.median(nats):.2g} nats, and above {KL_HIGH * target:.2g} "
            f"(twice its target) in {percent(high.mean())} of reports: updates go too far. A lower learning rate "
            "or fewer epochs shorten them.",
            int(steps[np.argmax(high)]),
        )
    half = len(nats) // 2
    score = _score(curves, facts)
    unsolved = facts.target is not None and score is not None and score < facts.target
    if unsolved and (nats[half:] < KL_LOW * target).all():
        return HealthSignal(
            "kl_out_of_range",
            f"KL between updates is {np.median(nats[half:]):.1g} nats, below {KL_LOW * target:.1g}, "
            f"with a return of {score:.4g} below its target: updates hardly change the policy.",
            int(steps[half]),
        )
    return None


def _value_loss(curves: Series) -> HealthSignal | None:
    """Beyond `EXPLODED` times its usual level and the square of every return seen:
    the value is then off by more than there is.
    """
    largest = _largest_return(curves)
    scale = None if largest is None else largest * largest
    return _explosion(curves, "learner/value_loss", "exploding_value_loss", "value loss", scale)


def _grad_norm(curves: Series) -> HealthSignal | None:
    """Beyond `EXPLODED` times its usual level and ten times every return seen: where rewards are found late,
    gradients grow late.
    """
    largest = _largest_return(curves)
    scale = None if largest is None else 10 * largest
    return _explosion(curves, "learner/grad_norm", "exploding_grad_norm", "gradient norm", scale)


def _explosion(curves: Series, metric: str, key: str, words: str, scale: float | None) -> HealthSignal | None:
    """Two reports running, or the last one, far above the level.

    The level is the larger of the running median and the median of the first reports: a loss that has fallen to 1e-5
    may jump to where it came from, and does, in healthy runs.
    """
    steps, values = points_of(curves, metric)
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
    return HealthSignal(
        key,
        f"The {words} exploded at {steps[first]:,.0f} env steps: from about {level[first]:.3g} to {peak:.3g}. "
        "A lower learning rate, gradient clipping or scaled rewards hold it.",
        int(steps[first]),
    )


def _staleness(curves: Series) -> HealthSignal | None:
    """Above `STALE` in the median of the reports after the first."""
    steps, updates = _after(*points_of(curves, "learner/staleness_updates"), 0.0, skip=1)
    if len(updates) < FEWEST["staleness"] or np.median(updates) <= STALE:
        return None
    return HealthSignal(
        "staleness",
        f"Samples are {np.median(updates):.3g} updates old when they are learned from "
        f"(last report: {updates[-1]:.3g}); up to {STALE:g} is usual. Weights sent more often "
        "(algorithm.training.broadcast_interval=1), fewer runners or shorter fragments keep them fresher.",
        int(steps[np.argmax(updates > STALE)]),
    )


def _memory(curves: Series, facts: Facts) -> HealthSignal | None:
    """A trend since the first quarter that is significant, large, and in every third alike:
    what levels off is a cache that fills.
    """
    steps, mib = _after(*points_of(curves, "system/memory_mib"), 0.25)
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
    return HealthSignal(
        "memory_growth",
        f"Memory grows by {slope * 1e6:,.0f} MiB per million env steps and does not level off: "
        f"{mib[0]:,.0f} MiB after warm-up, {mib[-1]:,.0f} MiB at the end.",
        int(steps[0]),
    )


def _throughput(curves: Series) -> HealthSignal | None:
    """A median of the last third of reports below that of the first by `SLOWED`, beyond the noise, once learning began.

    Beyond the noise is a significant falling trend, or a step: a difference of `STEPPED` standard deviations within the
    thirds, which the test of a trend takes for slow noise.
    """
    steps, rate = points_of(curves, "throughput/env_steps_per_s")
    learned, _ = points_of(curves, "learner/loss")
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
    lost = percent(1 - last / first)
    sentence = (
        f"Throughput fell by {lost}, from {first:,.0f} env steps/s in the first third of the run "
        f"to {last:,.0f} in the last"
    )
    at, other = points_of(curves, "system/other_cpu_percent")
    before, after = other[at < steps[third]], other[at >= steps[-third]]
    if len(before) and len(after) and np.median(after) - np.median(before) >= 20:
        cores = f"{np.median(before) / 100:.1f} to {np.median(after) / 100:.1f} cores"
        return HealthSignal("throughput_decay", f"{sentence}; other programs went from {cores}.", int(steps[-third]))
    return HealthSignal("throughput_decay", f"{sentence}.", int(steps[-third]))


def _stolen(curves: Series) -> HealthSignal | None:
    """More than `STOLEN` on average: what is measured in seconds is then the host's doing as well."""
    steps, percents = points_of(curves, "system/stolen_cpu_percent")
    if len(percents) < FEWEST["stolen"] or percents.mean() < STOLEN:
        return None
    return HealthSignal(
        "stolen_cpu",
        f"The host of this virtual machine gave {percents.mean() / 100:.2g} cores to others while they were wanted "
        f"here (mean; at most {percents.max() / 100:.2g}). Seconds and env steps/s include that.",
        int(steps[np.argmax(percents >= STOLEN)]),
    )


def health_tag(signals: Sequence[HealthSignal], curves: Series) -> str:
    """`ok`, the keys of the signals that are warnings, or that there is too little to say.

    Args:
        signals: As `health` gives them.
        curves: Of the same trial.
    """
    warnings = [signal.key for signal in signals if not signal.harmless]
    if not warnings and max((len(points) for points in curves.values()), default=0) < min(FEWEST.values()):
        return "too short to tell"
    return ", ".join(warnings) or "ok"


def points_of(curves: Series, metric: str) -> tuple[Array, Array]:
    """Env steps and values, the finite ones."""
    points = np.array(curves.get(metric, ()), dtype=np.float64).reshape(-1, 2)
    points = points[np.isfinite(points).all(axis=1)]
    return points[:, 0], points[:, 1]


def _after(steps: Array, values: Array, share: float, skip: int = 0) -> tuple[Array, Array]:
    """Without the first reports: a share of them, and a number."""
    start = math.ceil(share * len(values)) + skip
    return steps[start:], values[start:]


def _last_stretch(holds: npt.NDArray[np.bool_]) -> int:
    """How many of the last reports hold, up to the end."""
    return len(holds) if holds.all() else int(np.argmin(holds[::-1]))


def _score(curves: Series, facts: Facts) -> float | None:
    """The final score, or the median of the last evaluations."""
    if facts.score is not None and math.isfinite(facts.score):
        return facts.score
    _, returns = points_of(curves, "eval/return_mean")
    return float(np.median(returns[-3:])) if len(returns) else None


def _largest_return(curves: Series) -> float | None:
    """The largest return in size that the run has seen, 1 at least; None if it has seen none."""
    seen = [
        points_of(curves, name)[1]
        for name in ("train/return_min", "train/return_max", "train/return_mean", "eval/return_mean")
    ]
    returns = np.abs(np.concatenate(seen))
    return max(1.0, float(returns.max())) if len(returns) else None


def _slope(x: Array, y: Array) -> float:
    """Theil and Sen's: the median slope over all pairs (Sen 1968)."""
    dx, dy = x[:, None] - x, y[:, None] - y
    return float(np.median(dy[dx > 0] / dx[dx > 0]))


def _trend(values: Array) -> float:
    """One-sided p-value of a rising trend: Mann and Kendall's test, its variance corrected for autocorrelation.

    The correction is Yue and Wang's (2004): by (1 + r) / (1 - r) for the first autocorrelation r of what is left of a
    line; a negative one counts as 0. Of a short series r comes out too small, by about (2 + 4 r) / n (Kendall 1954,
    with a line in place of the mean).
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
