"""RLlib's results under the contract's names. Standard library only."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

RUNNER_SECONDS = "suite_runner_seconds"
"""Key under `env_runners` of an RLlib result: by runner index, the seconds of `RunnerClock`."""
SPANS = "suite_spans"
"""Key under `env_runners` of an RLlib result: by runner index, of each call of `sample` the chunks of episodes
that it returned, an array [n, 2] of the env steps of the episode before the chunk and at its end. None of what
goes to a replay buffer."""
LEARNER_SECONDS = "suite_learner_seconds"
"""Key under `learners/__all_modules__` of an RLlib result: seconds in which an asynchronous learner was updating,
summed over learners."""
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
    """The learner results of one iteration, under the contract's names.

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
    """Gradient steps of one iteration: rows trained on, over rows per minibatch.

    0 if RLlib reports NaN: nothing was learned in it.
    """
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
        """Add one iteration's sums as `hooks.log_episode` logs them; nothing where no episode ended."""
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


@dataclass(frozen=True)
class RunnerSeconds:
    """An env runner's use of time, in seconds.

    Attributes:
        sample: All of `sample()`; 0 where RLlib's `sample()` is passed by.
        env_step: Stepping environments, of `sample`.
        inference: In the policy, of `sample`.
        cpu: CPU seconds of the runner's process while it sampled.
    """

    sample: float = 0.0
    env_step: float = 0.0
    inference: float = 0.0
    cpu: float = 0.0

    def __add__(self, other: "RunnerSeconds") -> "RunnerSeconds":
        return RunnerSeconds(
            self.sample + other.sample,
            self.env_step + other.env_step,
            self.inference + other.inference,
            self.cpu + other.cpu,
        )


def runner_seconds(runner_results: Mapping[str, Any]) -> dict[str, RunnerSeconds]:
    """Each env runner's use of time in an iteration, by its index, from RLlib's `env_runners` results."""
    return {
        index: RunnerSeconds(**{name: float(seconds) for name, seconds in parts.items() if not math.isnan(seconds)})
        for index, parts in runner_results.get(RUNNER_SECONDS, {}).items()
    }


def sampled_spans(runner_results: Mapping[str, Any]) -> list[list[Any]]:
    """The chunks of episodes that env runners sampled in an iteration, those of all runners together,
    call by call of `sample`.

    Args:
        runner_results: RLlib's `env_runners` results.

    Returns:
        Arrays as under `SPANS`, of each runner that has one, by its index: RLlib's own order may change
        when a trial is resumed.
    """
    found = sorted(runner_results.get(SPANS, {}).items(), key=lambda item: int(item[0]))
    by_runner = [calls if isinstance(calls, list) else [calls] for _, calls in found]  # RLlib unpacks a list of one
    return [[spans for spans in at_once if spans is not None] for at_once in zip_longest(*by_runner)]
