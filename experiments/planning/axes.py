"""The axes of a study, by the names that a trial's parameters have in MLflow. Pure."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from experiments.config.fields import is_number
from experiments.config.lr_rules import is_rule
from experiments.config.trial_config import distinct_names, is_own_setting
from experiments.contract import COLUMNS, NAMED_AXES
from experiments.contract.extensions import metrics

_RULE = "_rule"
"""Ending of the parameter that says by which rule another one was set."""
_MULTIPLE = "_multiple"
"""Ending of the parameter that holds the factor of a named axis."""
_LOG = "log10_"
"""Beginning of the parameter that holds another one's logarithm."""
_IN_MLFLOW = {"train_batch_size_per_learner": "train_batch_size_total", "lambda_": "lambda"}
"""RLlib's name to the parameter's name in MLflow, where they differ."""


TRAINING_PARAMS = (
    "lr",
    "actor_lr",
    "critic_lr",
    "alpha_lr",
    "minibatch_size",
    "num_epochs",
    "gamma",
    "lambda_",
    "clip_param",
    "entropy_coeff",
    "vf_loss_coeff",
    "grad_clip",
    "training_intensity",
)
"""Settings of `algorithm.training` that are parameters of every trial that has them."""

PARAMS = frozenset(
    (
        *TRAINING_PARAMS,
        *_IN_MLFLOW.values(),
        *NAMED_AXES.values(),
        "num_env_runners",
        "num_envs_per_env_runner",
        "num_learners",
        "num_gpus_per_learner",
        "threads_per_process",
        "vectorize_mode",
        "start",
        "stagger",
        "bits",
        "preprocessing",
    )
)
"""The parameters of trials that are not among the columns of a study's runs, whatever is searched."""


@dataclass(frozen=True)
class SearchedAxis:
    """One axis of a study's space.

    Attributes:
        path: Path in the space.
        param: The parameter that holds its value.
        by_rule: Whether some of its values are rules.
        spans_decades: Whether its values span a decade or more.
    """

    path: str
    param: str
    by_rule: bool
    spans_decades: bool

    @classmethod
    def of(cls, path: str, param: str, values: Sequence[Any]) -> "SearchedAxis":
        """The axis with these values, of all configurations that have it."""
        numbers = [v for v in values if is_number(v)]
        spans = 0 < len(numbers) == len(values) and min(numbers) > 0 and max(numbers) / min(numbers) >= 10
        return cls(path, param, is_own_setting(path) and any(map(is_rule, values)), spans)

    @property
    def log_param(self) -> str:
        """The parameter that holds the value's logarithm."""
        return f"{_LOG}{self.param}"

    @property
    def name(self) -> str:
        """The parameter in which its values differ: a rule's name, if it has rules."""
        return rule_param(self.path) if self.by_rule else self.param

    @property
    def drawn_param(self) -> str:
        """The parameter that a view draws: the logarithm of what spans decades,
        since MLflow's parallel coordinates are linear.
        """
        return self.log_param if self.spans_decades else self.name


def axis_params(paths: Iterable[str]) -> dict[str, str]:
    """Path of each axis to the parameter that holds its value, each another one, which no trial has for something else.

    Args:
        paths: Paths of a study's space.
    """

    def is_taken(name: str) -> bool:
        is_column = name in COLUMNS or f"final/{name}" in metrics()
        return is_column or name in PARAMS or name.startswith(_LOG) or name.endswith((_RULE, _MULTIPLE))

    return distinct_names(paths, param_name, is_taken)


def param_name(path: str) -> str:
    """The name in MLflow of the setting at a path, or of the factor of a named axis."""
    if path in NAMED_AXES:
        return f"{NAMED_AXES[path]}{_MULTIPLE}"
    leaf = path.rsplit(".", 1)[-1]
    return _IN_MLFLOW.get(leaf, leaf)


def rule_param(path: str) -> str:
    """The name in MLflow of the rule that sets the setting at a path."""
    return f"{NAMED_AXES.get(path) or param_name(path)}{_RULE}"
