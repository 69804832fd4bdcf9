"""Weights that trials start from: taken out of a checkpoint, kept in a file that is no pickle,
and put into an algorithm.

They are those of all networks, targets and critics included, the running statistics of preprocessing, and SAC's
temperature, which is learned like a weight. Optimizers, replay buffers, schedules and counters begin anew.
"""

import hashlib
import pickle
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from ray.rllib.algorithms.algorithm_config import AlgorithmConfig
from ray.rllib.core import DEFAULT_MODULE_ID

from experiments.config.errors import ConfigurationError
from experiments.config.schema import StartingPolicy
from experiments.config.trial_config import TrialConfig
from experiments.rllib.building import networks_of
from experiments.rllib.checkpoints import BESIDE, RLLIB, send_weights, set_learner_state

FILE = "start.npz"
"""Of a study's folder."""
_MODULE_STATE = Path(RLLIB) / "learner_group" / "learner" / "rl_module" / DEFAULT_MODULE_ID / "module_state.pkl"
_TEMPERATURE = "curr_log_alpha"
"""Of RLlib's learner of SAC; no network has a part of that name."""

StartingWeights = Mapping[str, np.ndarray[Any, Any]]
"""Name to values, as `RLModule.get_state` has them."""


def of_checkpoint(folder: Path) -> StartingWeights:
    """The weights in a trial's checkpoint. Pickles: load only your own.

    Raises:
        ConfigurationError: They cannot be read.
    """
    try:
        with (folder / _MODULE_STATE).open("rb") as file:
            weights = {name: np.asarray(values) for name, values in pickle.load(file).items()}
        with (folder / BESIDE).open("rb") as file:
            temperature = pickle.load(file)["learner"].get(_TEMPERATURE, {})
    except Exception as error:  # whatever unpickling raises
        raise ConfigurationError(
            f"study.start: the weights in {folder} cannot be read ({error}). Name another checkpoint."
        ) from error
    return weights | ({_TEMPERATURE: np.asarray(temperature[DEFAULT_MODULE_ID])} if temperature else {})


def digest(weights: StartingWeights) -> str:
    """16 hexadecimal digits that are equal for the same weights alone."""
    content = hashlib.sha256()
    for name, values in sorted(weights.items()):
        content.update(f"{name}\0{values.dtype}\0{values.shape}\0".encode() + values.tobytes())
    return content.hexdigest()[:16]


def keep(start: StartingPolicy, file: Path) -> None:
    """Copy the weights that a study starts from to where its trials find them.

    Args:
        start: The policy; its source is a checkpoint, or a file that was kept by another study.
        file: The file to write; its folder exists.

    Raises:
        ConfigurationError: The source is gone, or has changed.
        OSError: The disk takes no more.
    """
    source = Path(start.source)
    weights = _read(source) if source.is_file() else of_checkpoint(source)
    if digest(weights) != start.weights:
        raise ConfigurationError(
            f"study.start: the weights in {source} are no longer those that the study is to start from."
        )
    with file.open("wb") as opened:
        np.savez(opened, allow_pickle=False, **weights)


def put(algorithm: Any, file: Path, start: StartingPolicy) -> None:
    """Put the weights that a study kept into a newly built algorithm, and into its env runners.

    Raises:
        RuntimeError: They are not those that the trial is to start from.
    """
    weights = _read(file)
    if digest(weights) != start.weights:
        raise RuntimeError(f"{file} does not hold the weights that the trial is to start from")
    algorithm.learner_group.foreach_learner(partial(_put_into_learner, weights=dict(weights)))
    send_weights(algorithm)


def check_fits(weights: StartingWeights, trial: TrialConfig, config: AlgorithmConfig, named: str) -> None:
    """Make sure that a trial's networks are those of the weights that it is to start from.

    Args:
        weights: All of them.
        trial: The trial that is to start from them.
        config: Its built configuration.
        named: The person's words for the weights, for the message.

    Raises:
        ConfigurationError: They are others, or connectors stand before them that have a state of their own.
    """
    if config._env_to_module_connector is not None:
        raise ConfigurationError(
            f"{named}: algorithm={trial.algorithm['name']} has connectors of its own, whose state would not be taken "
            "over. Let preprocessing=... do their work, or leave study.start out."
        )
    own = {name: tuple(values.shape) for name, values in networks_of(trial, config).state_dict().items()}
    given = {name: values.shape for name, values in weights.items() if name != _TEMPERATURE}
    for name in [*own, *given]:
        if own.get(name) != given.get(name):
            raise ConfigurationError(
                f"{named}: its networks are not those of {trial.label!r}: {name} {_shape(given.get(name))} there "
                f"and {_shape(own.get(name))} here. Take its algorithm, algorithm.rl_module and preprocessing, "
                "and an environment with the same spaces."
            )


def _shape(shape: tuple[int, ...] | None) -> str:
    return "is missing" if shape is None else f"has the shape {list(shape)}"


def _read(file: Path) -> StartingWeights:
    with np.load(file, allow_pickle=False) as opened:
        return {name: opened[name] for name in opened.files}


def _put_into_learner(learner: Any, weights: dict[str, np.ndarray[Any, Any]]) -> None:
    import torch

    temperature = weights.pop(_TEMPERATURE, None)
    learner.module[DEFAULT_MODULE_ID].unwrapped().set_state(weights)
    if temperature is not None and hasattr(learner, _TEMPERATURE):
        set_learner_state(learner, {_TEMPERATURE: {DEFAULT_MODULE_ID: torch.as_tensor(temperature)}})
