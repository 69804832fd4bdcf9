"""Studies that stay as they are, whatever becomes of conf/, so that measurements of different versions can be compared.

A file holds everything that decides what its trials do. None is ever changed: another comparison is another file.
"""

from pathlib import Path
from typing import Any

from omegaconf import OmegaConf

from analysis.document.command_line import hydra_value
from experiments.config.space import leaves

SHORT, DEFAULT = "short", "default"
_CHOICES = (
    "algorithm=ppo",
    "env=cartpole",
    "hardware=auto",
    "search=grid",
    "scheduler=fifo",
    "tracking=sqlite",
    "~tuned",
)


def frozen(name: str) -> dict[str, Any]:
    """What a study's file and that of its trials hold, as nested dictionaries."""
    folder = Path(__file__).parent
    return OmegaConf.to_container(
        OmegaConf.merge(*(OmegaConf.load(folder / f"{part}.yaml") for part in ("ppo_cartpole", name)))
    )  # type: ignore[return-value]


def overrides(name: str, **changes: Any) -> list[str]:
    """The same, as a command line's words; with other values for some of its outermost keys."""
    settings = {**frozen(name), **changes}
    study = {**settings.pop("study")}
    space = study.pop("space")  # given whole: its keys are paths themselves
    paths = [*leaves({**settings, "study": study}), ("study.space", space)]
    return [*_CHOICES, *(f"{path}={hydra_value(value)}" for path, value in paths)]


def axes(name: str) -> tuple[list[float], list[int]]:
    """Learning rates and train batch sizes (env steps) of its grid."""
    space = frozen(name)["study"]["space"]
    return space["algorithm.training.lr"], space["algorithm.training.train_batch_size_per_learner"]
