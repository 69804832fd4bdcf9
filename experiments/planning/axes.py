"""What a study searches, by the names that a trial's parameters have in MLflow. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from experiments.config.lr_rules import is_rule
from experiments.metrics import NAMED_AXES

_RULE = "_rule"
"""Ending of the parameter that says by which rule another one was set."""
_IN_MLFLOW = {"train_batch_size_per_learner": "train_batch_size_total", "lambda_": "lambda"}
"""RLlib's name to the parameter's name in MLflow, where they differ."""


@dataclass(frozen=True)
class SearchedAxis:
    """One axis of a study's space.

    Attributes:
        path: As the space has it.
        by_rule: Whether some of its values are rules.
        spans_decades: Whether its values span a decade or more.
    """

    path: str
    by_rule: bool
    spans_decades: bool

    @classmethod
    def of(cls, path: str, values: Sequence[Any]) -> "SearchedAxis":
        """The axis with these values, of all configurations that have it."""
        numbers = [v for v in values if isinstance(v, int | float) and not isinstance(v, bool)]
        spans = 0 < len(numbers) == len(values) and min(numbers) > 0 and max(numbers) / min(numbers) >= 10
        return cls(path, any(map(is_rule, values)), spans)

    @property
    def param(self) -> str:
        """The parameter that holds its value."""
        return param_name(self.path)

    @property
    def log_param(self) -> str:
        """The parameter that holds the value's logarithm."""
        return f"log10_{self.param}"

    @property
    def name(self) -> str:
        """The parameter in which its values differ: a rule's name, if it has rules."""
        return rule_param(self.path) if self.by_rule else self.param

    @property
    def drawn_param(self) -> str:
        """The parameter that a view draws: the logarithm of what spans decades, since MLflow's parallel coordinates are linear."""
        return self.log_param if self.spans_decades else self.name


def param_name(path: str) -> str:
    """The name in MLflow of the setting at a path, or of the factor of a named axis."""
    if path in NAMED_AXES:
        return f"{NAMED_AXES[path]}_multiple"
    leaf = path.rsplit(".", 1)[-1]
    return _IN_MLFLOW.get(leaf, leaf)


def rule_param(path: str) -> str:
    """The name in MLflow of the rule that sets the setting at a path."""
    return f"{NAMED_AXES.get(path) or param_name(path)}{_RULE}"
