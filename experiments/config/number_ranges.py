"""The ranges of RLlib's numbers, by name.

Pure: what is out of range is refused before RLlib is imported, which takes seconds.
"""

import itertools
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from experiments.config.errors import ConfigurationError
from experiments.config.fields import is_number
from experiments.config.named_axes import settings_of
from experiments.config.space import parse_space
from experiments.config.trial_config import GROUPS


@dataclass(frozen=True)
class Range:
    """The numbers that a setting may be."""

    low: float = -math.inf
    high: float = math.inf
    open: bool = False
    finite: bool = True

    def __contains__(self, number: float) -> bool:
        above = number > self.low if self.open else number >= self.low
        return above and number <= self.high and not (self.finite and isinstance(number, float) and math.isinf(number))

    def __str__(self) -> str:
        if math.isfinite(self.high):
            return f"between {self.low:g} and {self.high:g}"
        least = [] if math.isinf(self.low) else [f"above {self.low:g}" if self.open else f"{self.low:g} or more"]
        return " and ".join(least + ["finite"] * self.finite)


_ABOVE_0, _AT_LEAST_0, _SHARE = Range(0, open=True), Range(0), Range(0, 1)
_COUNT, _AT_LEAST_1 = Range(0, finite=False), Range(1, finite=False)  # of whole numbers
_RANGES: Mapping[str, Range] = {
    **dict.fromkeys(
        ("lr", "actor_lr", "critic_lr", "grad_clip", "clip_param", "initial_alpha", "training_intensity"),
        _ABOVE_0,
    ),
    **dict.fromkeys(("kl_target", "adam_epsilon", "sigma0"), _ABOVE_0),
    **dict.fromkeys(
        (
            "alpha_lr",  # at 0 the temperature stays what it is
            "entropy_coeff",
            "vf_loss_coeff",
            "kl_coeff",
            "alpha",
            "beta",
            "num_gpus_per_learner",
            "proximal_center_of_mass",
        ),
        _AT_LEAST_0,
    ),
    **dict.fromkeys(
        (
            "train_batch_size_per_learner",
            "minibatch_size",
            "base_minibatch_size",
            "num_epochs",
            "n_step",
            "broadcast_interval",
        ),
        _AT_LEAST_1,
    ),
    **dict.fromkeys(
        ("circular_buffer_num_batches", "circular_buffer_iterations_per_batch", "num_envs_per_env_runner"), _AT_LEAST_1
    ),
    **dict.fromkeys(("simple_queue_size", "learner_queue_size"), _AT_LEAST_1),  # 0 would be endless
    **dict.fromkeys(
        ("capacity", "batch_size_B", "batch_length_T", "rollout_fragment_length", "num_atoms"), _AT_LEAST_1
    ),
    **dict.fromkeys(("n_critics", "n_quantiles"), _AT_LEAST_1),
    **dict.fromkeys(
        ("fcnet_hiddens", "head_fcnet_hiddens", "fusionnet_hiddens", "conv_filters", "lstm_cell_size", "max_seq_len"),
        _AT_LEAST_1,
    ),
    **dict.fromkeys(("gamma", "lambda_", "tau", "epsilon"), _SHARE),
    "action_noise_exponent": Range(0, 2),  # white to red
    # of any sign, though as a rule whole
    **dict.fromkeys(("log_std_init", "state_dependent_log_std", "target_entropy", "v_min", "v_max"), Range()),
    # infinity switches them off
    **dict.fromkeys(("vf_clip_param", "log_std_clip_param"), Range(0, open=True, finite=False)),
}
"""By name. Other whole numbers are counts, 0 or more; other numbers are finite."""

_OFF = {"clip_param": " 1e9 switches it off.", "grad_clip": " null switches it off."}
"""Hints for who gives infinity, to switch a limit off."""

SCHEDULES = ("lr", "actor_lr", "critic_lr", "alpha_lr", "entropy_coeff", "epsilon")
"""Settings that may be a list of [env steps, value] in place of a number."""


def check_number(key: str, name: str, value: Any) -> None:
    """Check the numbers of a setting's value: a number, a list of them, or a schedule.

    Values that are no numbers are left to the check of their type.

    Args:
        key: Dotted path, for the message.
        name: RLlib's own.
        value: Its value, as composed.

    Raises:
        ConfigurationError: One is not a number, or out of the name's range.
    """
    numbers = value
    if name in SCHEDULES and isinstance(value, list):
        _check_schedule(key, value)
        numbers = [v for _, v in value]
        # it may end at 0, as a learning rate that falls to nothing
        numbers = numbers[:-1] if numbers[-1] == 0 else numbers
    is_count = not any(isinstance(n, float) for n in _numbers(numbers))
    allowed = _RANGES.get(name, _COUNT if is_count else Range())
    for number in _numbers(numbers):
        if isinstance(number, float) and math.isnan(number):
            raise ConfigurationError(f"{key}={value}: is not a number.")
        if number not in allowed:
            hint = _OFF.get(name, "") if number == math.inf else ""
            raise ConfigurationError(f"{key}={value}: must be {allowed}.{hint}")


def check_numbers(space: Mapping[str, Any], composed: Mapping[str, Any]) -> None:
    """Check those numbers of an algorithm's settings, and of the axes that vary them,
    whose ranges are known by their names.

    Args:
        space: The study's space. One that varies a group is left alone: its configurations are composed otherwise.
        composed: The composed configuration, plain.

    Raises:
        ConfigurationError: One is out of its range.
    """
    axes = parse_space(space)
    if {*axes} & {*GROUPS}:
        return
    varied = [settings_of({path: value}, composed).by_path for path, axis in axes.items() for value in axis.corners()]
    sections = {name: settings for name, settings in composed["algorithm"].items() if isinstance(settings, Mapping)}
    fixed = {f"algorithm.{name}.{key}": value for name, settings in sections.items() for key, value in settings.items()}
    fixed = {path: value for path, value in fixed.items() if not any(path in moved for moved in varied)}
    for path, value in itertools.chain.from_iterable(found.items() for found in (fixed, *varied)):
        *above, name = path.split(".")
        if above[:1] == ["algorithm"] and len(above) == 2 and (name in _RANGES or _is_nan(value)):
            check_number(path, name, value)


def _is_nan(value: Any) -> bool:
    return isinstance(value, float) and math.isnan(value)


def _check_schedule(key: str, schedule: list[Any]) -> None:
    pairs = [p for p in schedule if isinstance(p, list) and len(p) == 2 and all(is_number(n) for n in p)]
    steps = [p[0] for p in pairs]
    if len(pairs) < max(2, len(schedule)) or steps[0] != 0 or any(a >= b for a, b in itertools.pairwise(steps)):
        raise ConfigurationError(
            f"{key}={schedule}: must be a number or a schedule of two or more [env steps, value], the first at 0, "
            "in ascending order. Try [[0, 1.0e-3], [50000, 0.0]]."
        )


def _numbers(value: Any) -> Iterator[float]:
    if is_number(value):
        yield value
    elif isinstance(value, list):
        for part in value:
            yield from _numbers(part)
