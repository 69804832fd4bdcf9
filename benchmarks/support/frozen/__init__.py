"""Studies that stay as they are, whatever becomes of conf/, so that measurements of different versions can be compared.

A file holds everything that decides what its trials do. None is ever changed: another comparison is another file.
"""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf

SHORT, DEFAULT = "short", "default"
_CHOICES = ("algorithm=ppo", "env=cartpole", "hardware=auto", "search=grid", "scheduler=fifo", "tracking=sqlite", "~tuned")


def frozen(name: str) -> dict[str, Any]:
    """What a study's file and that of its trials hold, as nested dictionaries."""
    folder = Path(__file__).parent
    return OmegaConf.to_container(OmegaConf.merge(*(OmegaConf.load(folder / f"{part}.yaml") for part in ("ppo_cartpole", name))))  # type: ignore[return-value]


def overrides(name: str, **changes: Any) -> list[str]:
    """The same, as a command line's words; with other values for some of its outermost keys."""
    return [*_CHOICES, *(f"{key}={_word(value)}" for key, value in _leaves({**frozen(name), **changes}))]


def axes(name: str) -> tuple[list[float], list[int]]:
    """Learning rates and train batch sizes (env steps) of its grid."""
    space = frozen(name)["study"]["space"]
    return space["algorithm.training.lr"], space["algorithm.training.train_batch_size_per_learner"]


def _leaves(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in values.items():
        if isinstance(value, dict) and value and prefix + key != "study.space":
            yield from _leaves(value, f"{prefix}{key}.")
        else:
            yield prefix + key, value


def _word(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ",".join(f"{key}:{_word(v)}" for key, v in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(_word, value)) + "]"
    return f"'{value}'" if isinstance(value, str) else json.dumps(value).replace("Infinity", "inf")
