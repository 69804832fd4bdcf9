"""The metric contract: names, units, and their extraction from RLlib's results. Standard library only."""

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from time import perf_counter
from typing import Any

METRICS: dict[str, str] = {
    "eval/return_mean": "mean return of the deterministic policy over held-out episodes",
    "eval/return_std": "standard deviation of the same returns over episodes",
    "eval/episode_len_mean": "env steps per evaluation episode, mean",
    "train/return_mean": "mean return of the episodes that ended since the last report",
    "train/return_min": "lowest of them",
    "train/return_max": "highest of them",
    "train/episode_len_mean": "env steps per episode, mean of the same episodes",
    "train/episodes": "how many they are",
    "throughput/env_steps_per_s": "env steps per training second since the last report",
    "throughput/trained_steps_per_s": "steps that the learner consumed per training second; on-policy: each once, whatever the epochs",
    "throughput/sample_share": "share of training seconds spent sampling, or waiting for samples",
    "throughput/learn_share": "share of training seconds spent in learner updates and the replay buffer",
    "throughput/sync_share": "share of training seconds spent sending weights and connector states",
    "throughput/other_share": "the rest of the training seconds",
    "time/env_step_share": "share of the wall-clock since the last report spent stepping environments",
    "time/inference_share": "share of it spent in the policy that acts",
    "time/connectors_share": "share of it spent on connectors, and on making episodes of steps",
    "time/transfer_share": "share of it spent moving samples from the runners to the trial's process",
    "time/waiting_share": "share of it spent waiting for the slowest runner",
    "time/learn_share": "share of it spent in learner updates and the replay buffer",
    "time/sync_share": "share of it spent sending weights and connector states",
    "time/evaluation_share": "share of it spent in evaluations",
    "time/logging_share": "share of it spent on reports and checkpoints",
    "time/unexplained_share": "the rest of it",
    "progress/env_steps": "env steps sampled so far",
    "progress/iterations": "RLlib iterations so far",
    "progress/updates": "gradient steps so far",
    "progress/train_s": "training seconds so far",
    "progress/wall_s": "seconds since the trial started, all included",
    "progress/batch_env_steps": "env steps collected per training batch, mean since the last report",
    "learner/loss": "total loss, mean over the minibatches of the last iteration",
    "learner/policy_loss": "policy loss, likewise",
    "learner/value_loss": "value or Q loss per sample, unclipped, likewise",
    "learner/entropy": "policy entropy in nats, likewise",
    "learner/kl": "KL divergence to the sampling policy in nats; PPO without a KL loss: of the last minibatch of an update",
    "learner/grad_norm": "global gradient norm before clipping, likewise",
    "learner/lr": "learning rate",
    "learner/explained_variance": "share of the returns' variance that the value function explains",
    "learner/staleness_updates": "updates between the policy that sampled and the one that learns",
    "system/cpu_percent": "CPU of the trial's process tree; 100 is one core",
    "system/memory_mib": "resident memory of the trial's process tree, MiB",
    "system/driver_cpu_percent": "CPU of the trial's own process, where it has others; 100 is one core",
    "system/runners_cpu_percent": "CPU of its env runners, likewise",
    "system/learners_cpu_percent": "CPU of its learners, likewise",
    "system/driver_memory_mib": "resident memory of the trial's own process, where it has others, MiB",
    "system/runners_memory_mib": "resident memory of its env runners, MiB",
    "system/learners_memory_mib": "resident memory of its learners, MiB",
    "system/machine_cpu_percent": "CPU use of the machine that the trial's own process is on; 100 is all its cores",
    "system/other_cpu_percent": "CPU of what is not the study's on it; 100 is one core",
    "system/runner_cpu_share": "share of the runners' sampling seconds in which they had a CPU",
    "system/gpu_percent": "use of the machine's GPUs, mean",
    "final/score": "mean return of the final evaluation",
    "final/auc": "area under eval/return_mean over env steps, divided by the budget",
    "final/env_steps_to_target": "env steps until eval/return_mean first holds the target for 2 evaluations",
    "final/seconds_to_target": "training seconds until then",
    "final/env_steps_per_s": "env steps per training second over the trial, warm-up left out",
    "final/trained_steps_per_s": "steps that the learner consumed per training second, likewise",
    "final/disturbed_share": "share of a throughput's seconds in which others used more of the machine than the measurement allows",
    "final/train_s": "training seconds of the trial",
    "final/wall_s": "seconds of the trial, all included",
}
"""The allow-list: every metric that may reach MLflow, and what it means."""


TIME_PARTS = tuple(name.removeprefix("time/").removesuffix("_share") for name in METRICS if name.startswith("time/"))
"""The parts of the wall-clock, as in the metrics `time/*_share`."""


def depends_on_clock(metric: str) -> bool:
    """Whether a metric measures time or load, and so differs between two runs of one trial that are otherwise the same."""
    return metric.startswith(("system/", "throughput/", "time/")) or metric.endswith(("_s", "/seconds_to_target"))


# Names in MLflow.

INDEX_EXPERIMENT = "studies"
"""The experiment with a run per execution of a study."""


class Tag:
    """Names of the tags of runs: of studies (S), of trials (T)."""

    KIND = "kind"  # S, T: study or trial
    STUDY = "study"  # S, T
    ALGORITHM = "algorithm"  # S, T
    ENV = "env"  # S, T
    HARDWARE = "hardware"  # S, T: its profile
    EXCLUSIVE = "exclusive"  # S, T: whether trials ran alone
    NOTE = "mlflow.note.content"  # S: question and answer
    COMMAND = "mlflow.source.name"  # S, T
    COMMIT = "mlflow.source.git.commit"  # S, T
    STUDY_FOLDER = "study_folder"  # S: where its state and its checkpoints are
    BEST = "best"  # S: the chosen configurations
    LIMIT = "limit"  # S: which one ended it before it was done
    STUDY_RUN = "study_run"  # T: the id of its study's run
    CONFIG = "config"  # T: readable, without the seed
    CONFIG_ID = "config_id"  # T: of its hash
    SEED = "seed"  # T
    REPEAT = "repeat"  # T
    PHASE = "phase"  # T: search, confirm, throughput or fixed
    EXPLORATORY = "exploratory"  # T: whether other trials confirm what it found
    TRIAL_ID = "trial_id"  # T
    PARENT = "parent"  # T: the trial whose weights it started from
    COPIED = "copied"  # T: whether that one is another member's
    FAILURE = "failure"  # T: the reason
    RESTARTS = "restarts"  # T
    REPRODUCIBLE = "reproducible"  # T: whether it must come out the same to the bit
    WEIGHTS = "weights"  # T: a digest of the final ones
    UNSAVED = "unsaved"  # T: why a checkpoint was not written
    STOPPED_AT = "stopped_at_env_steps"  # T: where a scheduler ended it
    BOTTLENECK = "bottleneck"  # T
    HEALTH = "health"  # T


PHASES = {
    "env_runner_sampling_timer": "sample",
    "sample": "sample",
    "learner_update_timer": "learn",
    "replay_buffer_add_data_timer": "learn",
    "replay_buffer_sampling_timer": "learn",
    "replay_buffer_update_prios_timer": "learn",
    "synch_weights": "sync",
    "synch_env_connectors": "sync",
}
"""RLlib's timer names (`rllib/utils/metrics/__init__.py`) to the parts of a training second."""

RUNNER_TIMERS = {"env_step_timer": "env_step", "rlmodule_inference_timer": "inference"}
"""RLlib's timer names of an env runner (likewise) to the parts of its sampling seconds."""

LEARNER_THREAD_TIMER = "learner_thread_update_timer"
"""RLlib's timer of an asynchronous learner (`rllib/utils/metrics/__init__.py`)."""

RUNNER_SECONDS = "suite_runner_seconds"
"""Key under `env_runners` of an RLlib result: by runner index, the seconds of `RunnerClock`."""

LEARNER_SECONDS = "suite_learner_seconds"
"""Key under `learners/__all_modules__` of an RLlib result: seconds in which an asynchronous learner was updating, summed over learners."""

LEARNER_KEYS: dict[str, tuple[str, ...]] = {
    "learner/loss": ("total_loss",),
    "learner/policy_loss": ("policy_loss", "mean_pi_loss"),
    # PPO's own is clipped, IMPALA's "vf_loss" a sum over the batch; DQN and SAC have a Q loss instead.
    "learner/value_loss": ("vf_loss_unclipped", "mean_vf_loss", "vf_loss", "qf_loss"),
    "learner/entropy": ("entropy",),
    "learner/kl": ("mean_kl_loss",),
    "learner/grad_norm": ("gradients_default_optimizer_global_norm", "gradients_policy_global_norm"),
    "learner/lr": ("default_optimizer_learning_rate", "policy_learning_rate"),
    "learner/explained_variance": ("vf_explained_var",),
    "learner/staleness_updates": ("diff_num_grad_updates_vs_sampler_policy",),
}
"""Metric of the contract to RLlib's names for it, the first one found counts."""

MINIBATCH_MEANS = "suite_minibatch_means"
"""Key under `learners/<module>` that holds means over an update's minibatches (`learner.average_over_minibatches`)."""


LAST_KL = "suite_last_kl"
"""Key beside it: the divergence that PPO's learner is made to log (`learner.log_kl`)."""


class NonFiniteError(RuntimeError):
    """Training produced a NaN or an infinity; the message says where and when."""


def learner_metrics(module_results: Mapping[str, Any], has_kl: bool) -> dict[str, float]:
    """What one iteration's learner results say, under the contract's names.

    Args:
        module_results: RLlib's `learners/default_policy`, empty while nothing was learned.
        has_kl: Whether the algorithm really computes a KL divergence (RLlib reports 0 where it does not).

    Returns:
        The metrics that this algorithm has.
    """
    module_results = {**module_results, **module_results.get(MINIBATCH_MEANS, {})}
    found = {}
    for name, keys in LEARNER_KEYS.items():
        value = next((module_results[key] for key in keys if key in module_results), None)
        if value is not None:
            found[name] = float(value)
    if not has_kl:
        found.pop("learner/kl", None)
    if LAST_KL in module_results:
        found["learner/kl"] = float(module_results[LAST_KL])
    if "logps" in module_results:  # SAC: entropy is the mean negative log-probability of its own actions
        found["learner/entropy"] = -float(module_results["logps"])
    return found


def gradient_steps(module_results: Mapping[str, Any]) -> int:
    """Gradient steps of one iteration: rows trained on, over rows per minibatch. 0 if RLlib reports NaN: nothing was learned in it."""
    rows = float(module_results.get("num_module_steps_trained", math.nan))
    per_step = float(module_results.get("module_train_batch_size_mean", math.nan))
    return 0 if math.isnan(rows) or math.isnan(per_step) or not per_step else round(rows / per_step)


def check_finite(values: Mapping[str, float], env_steps: int) -> None:
    """Make sure that every value is finite.

    Raises:
        NonFiniteError: The first that is not.
    """
    for name, value in values.items():
        if not math.isfinite(value):
            raise NonFiniteError(f"non-finite {name} = {value} after {env_steps} env steps")


@dataclass
class EpisodeSums:
    """Statistics of the episodes that ended since the last report, summed over runners and iterations."""

    count: int = 0
    return_sum: float = 0.0
    len_sum: int = 0
    return_min: float = math.inf
    return_max: float = -math.inf

    def add(self, sums: Mapping[str, Any]) -> None:
        """Add one iteration's sums as `callbacks.log_episode` logs them; nothing where no episode ended."""
        count = sums.get("count", 0)
        if not count or math.isnan(count):  # RLlib reports NaN for an iteration in which no episode ended
            return
        count = int(count)
        self.count += count
        self.return_sum += float(sums["return_sum"])
        self.len_sum += int(sums["len_sum"])
        # NaN must survive, so no min() and max(), which may drop it.
        low, high = float(sums["return_min"]), float(sums["return_max"])
        self.return_min = low if low < self.return_min or math.isnan(low) else self.return_min
        self.return_max = high if high > self.return_max or math.isnan(high) else self.return_max

    def metrics(self) -> dict[str, float]:
        """The `train/` metrics; without an episode, only that there was none."""
        if not self.count:
            return {"train/episodes": 0}
        return {
            "train/return_mean": self.return_sum / self.count,
            "train/return_min": self.return_min,
            "train/return_max": self.return_max,
            "train/episode_len_mean": self.len_sum / self.count,
            "train/episodes": self.count,
        }


@dataclass
class PhaseClock:
    """Seconds of the trial's process in each part of training.

    RLlib's timers are exponential means with a factor of 0.01: after one slow iteration they are off for hundreds. This clock sums.
    """

    seconds: dict[str, float] = field(default_factory=lambda: {"sample": 0.0, "learn": 0.0, "sync": 0.0})

    def attach(self, metrics_logger: Any) -> None:
        """Measure along with the `log_time` blocks of an RLlib MetricsLogger."""
        sum_blocks(metrics_logger, lambda key: PHASES.get(key[-1]) if isinstance(key, tuple) and key[0] == "timers" else None, self._count)

    def _count(self, phase: str, seconds: float) -> None:
        self.seconds[phase] += seconds

    def add(self, timer: str, seconds: float) -> None:
        """Count seconds that went by beside the blocks, under the name of one of RLlib's timers."""
        self._count(PHASES[timer], seconds)

    def take(self) -> dict[str, float]:
        """The seconds of each phase; the clock starts anew."""
        taken, self.seconds = self.seconds, dict.fromkeys(self.seconds, 0.0)
        return taken


def sum_blocks(metrics_logger: Any, part_of: Callable[[Any], str | None], count: Callable[[str, float], None]) -> None:
    """Measure along with the `log_time` blocks of an RLlib MetricsLogger.

    Args:
        metrics_logger: RLlib's.
        part_of: The part that a block's key belongs to; None for a block that does not count.
        count: Takes a part and the seconds of a block, which may be another thread's.
    """
    log_time = metrics_logger.log_time

    @contextmanager
    def measured(part: str, block: Any) -> Iterator[None]:
        start = perf_counter()
        try:
            with block:
                yield
        finally:
            count(part, perf_counter() - start)

    def timed(key: Any, **kwargs: Any) -> Any:
        block = log_time(key, **kwargs)
        part = part_of(key)
        return block if part is None else measured(part, block)

    metrics_logger.log_time = timed


def training_shares(phases: Mapping[str, float], train_s: float) -> dict[str, float]:
    """The `throughput/*_share` metrics of `train_s` seconds, which add to 1.

    Args:
        phases: Of a `PhaseClock`, over these seconds.
        train_s: Training seconds.
    """
    known = sum(phases.values())
    total = max(train_s, known, 1e-9)
    shares = {f"throughput/{phase}_share": spent / total for phase, spent in phases.items()}
    shares["throughput/other_share"] = (total - known) / total
    return shares


@dataclass(frozen=True)
class RunnerSeconds:
    """What an env runner did with its time, in seconds.

    Attributes:
        sample: In `sample()`, all in all; 0 where RLlib's `sample()` is passed by.
        env_step: Of these, stepping environments.
        inference: Of these, in the policy.
        cpu: CPU seconds of the runner's process while it sampled.
    """

    sample: float = 0.0
    env_step: float = 0.0
    inference: float = 0.0
    cpu: float = 0.0

    def __add__(self, other: "RunnerSeconds") -> "RunnerSeconds":
        return RunnerSeconds(
            self.sample + other.sample, self.env_step + other.env_step, self.inference + other.inference, self.cpu + other.cpu
        )


def runner_seconds(runner_results: Mapping[str, Any]) -> dict[str, RunnerSeconds]:
    """What each env runner did in an iteration, by its index, from RLlib's `env_runners` results."""
    return {
        index: RunnerSeconds(**{name: float(seconds) for name, seconds in parts.items() if not math.isnan(seconds)})
        for index, parts in runner_results.get(RUNNER_SECONDS, {}).items()
    }


@dataclass
class TimeUse:
    """Where the wall-clock between two reports goes.

    A trial with a synchronous algorithm does one thing at a time. With remote runners, its sampling seconds are split in four: what they
    did on average (`env_step`, `inference`, `connectors`), what the slowest did beyond the average (`waiting`), and the rest, in which
    samples were on their way (`transfer`).

    With an asynchronous algorithm, runners sample while the learner learns. Its time is the learner's: `learn` while it updates. While it
    waits for data, the time is split as the runners spend theirs, where `transfer` is what they do not spend in `sample()`.

    Attributes:
        asynchronous: Whether runners sample while the learner learns.
        runners: By index, what they did.
        learner_s: Seconds in which the asynchronous learners were updating, mean over learners.
        evaluation_s: Seconds in evaluations.
        logging_s: Seconds on reports and checkpoints.
    """

    asynchronous: bool = False
    runners: dict[str, RunnerSeconds] = field(default_factory=dict)
    learner_s: float = 0.0
    evaluation_s: float = 0.0
    logging_s: float = 0.0

    def add(self, runners: Mapping[str, RunnerSeconds], learner_s: float) -> None:
        """Take in an iteration."""
        self.learner_s += learner_s
        for index, seconds in runners.items():
            self.runners[index] = self.runners.get(index, RunnerSeconds()) + seconds

    def runner_cpu_share(self) -> float | None:
        """Share of the runners' sampling seconds in which they had a CPU; None if nothing is known of them."""
        sampling = sum(r.sample for r in self.runners.values())
        return sum(r.cpu for r in self.runners.values()) / sampling if sampling else None

    def shares(self, wall_s: float, phases: Mapping[str, float]) -> dict[str, float]:
        """The `time/*_share` metrics of `wall_s` seconds, which add to 1.

        Args:
            wall_s: Seconds since the last report.
            phases: Of the trial's `PhaseClock`, over the same seconds.
        """
        seconds = {"evaluation": self.evaluation_s, "logging": self.logging_s}
        if self.asynchronous:
            left = max(0.0, wall_s - self.evaluation_s - self.logging_s)
            seconds["learn"] = min(self.learner_s, left)
            whole = max(left, self._mean("sample"))
            acting = {"env_step": self._mean("env_step"), "inference": self._mean("inference"), "connectors": self._connectors_s()}
            acting["transfer"] = whole - sum(acting.values())
            waiting_s = left - seconds["learn"]
            seconds |= {part: spent / whole * waiting_s for part, spent in acting.items() if whole and self.runners}
        else:
            seconds |= {"learn": phases["learn"], "sync": phases["sync"], **self._sampling(phases["sample"])}
        total = max(wall_s, sum(seconds.values()), 1e-9)
        seconds["unexplained"] = total - sum(seconds.values())
        return {f"time/{part}_share": max(0.0, spent) / total for part, spent in seconds.items()}

    def _sampling(self, sample_s: float) -> dict[str, float]:
        """The parts of the seconds that a synchronous algorithm spends sampling."""
        if not self.runners:
            return {}
        env_step, inference = self._mean("env_step"), self._mean("inference")
        if "0" in self.runners:  # in the trial's own process: what is not spent there is spent on the way in and out
            parts = {"env_step": env_step, "inference": inference, "connectors": max(0.0, sample_s - env_step - inference)}
        else:
            slowest = max(r.sample for r in self.runners.values())
            parts = {"env_step": env_step, "inference": inference, "connectors": self._connectors_s()}
            parts |= {"waiting": slowest - self._mean("sample"), "transfer": max(0.0, sample_s - slowest)}
        scale = min(1.0, sample_s / max(sum(parts.values()), 1e-9))  # an iteration's end may cut a runner's seconds from the trial's
        return {part: scale * spent for part, spent in parts.items()}

    def _connectors_s(self) -> float:
        return max(0.0, self._mean("sample") - self._mean("env_step") - self._mean("inference"))

    def _mean(self, what: str) -> float:
        return math.fsum(getattr(r, what) for r in self.runners.values()) / max(1, len(self.runners))


@dataclass
class TargetWatch:
    """Time to target: the first report from which two evaluations running are at or above the target."""

    target: float | None
    """The env's; None never counts as reached."""
    since: tuple[float, float] | None = None
    reached: tuple[float, float] | None = None

    def see(self, return_mean: float, env_steps: float, train_s: float) -> bool:
        """Take in one evaluation.

        Returns:
            Whether the target is reached and held by now.
        """
        if self.target is None or self.reached is not None:
            return self.reached is not None
        if return_mean < self.target:
            self.since = None
        elif self.since is None:
            self.since = (env_steps, train_s)
        else:
            self.reached = self.since
        return self.reached is not None

    def metrics(self) -> dict[str, float]:
        """The `final/*_to_target` metrics; none if the target was never held."""
        if self.reached is None:
            return {}
        return {"final/env_steps_to_target": self.reached[0], "final/seconds_to_target": self.reached[1]}


def area_under_curve(points: list[tuple[float, float]], budget: float) -> float:
    """Area under an evaluation curve over env steps, divided by the budget: a mean return.

    Args:
        points: (env steps, return), in order; the first value holds back to 0.
        budget: Env steps of the trial.

    Returns:
        By the trapezoidal rule.
    """
    points = [(0.0, points[0][1]), *points]
    area = sum((x1 - x0) * (y0 + y1) / 2 for (x0, y0), (x1, y1) in pairwise(points))
    return area / max(budget, points[-1][0])
