"""A trial's checkpoint as a person names it: found, checked, and read as far as that needs no pickle.

A pickle runs whatever code it holds when it is opened. What lies in the folder of one's own studies was written by
them; anything else may come from anywhere, and is opened only by who says so (`check_origin`).
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from experiments.config.errors import ConfigurationError, first_line
from experiments.config.output_dir import is_within
from experiments.config.trial_config import TrialConfig
from experiments.contract import FINISHED, SCORE
from experiments.rllib.checkpoints import RLLIB
from experiments.trial.events import Ended, event_of
from experiments.trial.folder import PROVENANCE_FILE, STATE_FILE, TRIAL_FILE, TrialFolder, damage_of

_RAY_WROTE = Path(RLLIB) / "rllib_checkpoint.json"


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint of a trial.

    Attributes:
        path: Absolute path of its folder.
        trial: The trial that was trained.
        env_steps: Its place on the report grid.
        sampled: Env steps sampled by then.
        score: The trial's `final/score`, if it ended with this checkpoint; None if it went on or was interrupted.
        provenance: Where the trial's results come from; empty if the checkpoint was taken out of the trial's folder.
    """

    path: Path
    trial: TrialConfig
    env_steps: int
    sampled: int
    score: float | None
    provenance: Mapping[str, Any]

    @property
    def others(self) -> list[Path]:
        """The trial's other checkpoints, the oldest first."""
        return [
            path for path in sorted(self.path.parent.glob("*")) if path != self.path and (path / TRIAL_FILE).is_file()
        ]


def newest(folder: Path, named: str) -> Path:
    """The newest checkpoint of a trial.

    Args:
        folder: The trial's folder.
        named: The person's words for the trial, for the message.

    Raises:
        ConfigurationError: It has none.
    """
    found = TrialFolder(folder).checkpoints()
    if not found:
        raise ConfigurationError(
            f"{named}: has no checkpoint in {folder}. A trial writes its first one after checkpoint.every_env_steps, "
            "a measurement of throughput none, and delete.py keep=best leaves those of the recommended "
            "configuration alone. Name another."
        )
    return found[-1]


def check_origin(path: Path, own: Path, trust: bool, named: str, vouch: str = "trust=true") -> None:
    """Make sure that pickles are one's own.

    Args:
        path: Folder of the checkpoint.
        own: The folder that studies of the person's own are written to.
        trust: Whether the person vouches for it.
        named: The person's words for the checkpoint, for the message.
        vouch: How a person vouches for it, for the message.

    Raises:
        ConfigurationError: They may come from anywhere.
    """
    if not (trust or is_within(path, own)):
        raise ConfigurationError(
            f"{named}: {path} is not in {own}, where your own studies are. A checkpoint holds pickles, "
            f"which run whatever code is in them when they are opened. If you know who wrote it: {vouch}. "
            "If it is your own: output_dir= of its study."
        )


def read(folder: Path, named: str) -> Checkpoint:
    """A checkpoint, without opening its pickles.

    Args:
        folder: Folder of the checkpoint, or of the trial, whose newest one it is then.
        named: The person's words for the checkpoint, for messages.

    Raises:
        ConfigurationError: There is none, or it is damaged, or from another program or version.
    """
    path = folder.absolute()
    if not path.is_dir():
        raise ConfigurationError(f"{named}: there is no such folder {path}. It was removed, or is on another machine.")
    path = newest(path, named) if (path / "checkpoints").is_dir() else path
    if not (path / TRIAL_FILE).is_file():
        rllib = " RLlib's own are restored by Algorithm.from_checkpoint." if (path / _RAY_WROTE.name).is_file() else ""
        raise ConfigurationError(
            f"{named}: {path} is no checkpoint of this suite, since it has no {TRIAL_FILE}.{rllib} Those of a study "
            "are in outputs/studies/<study>/trials/<trial>/checkpoints/."
        )
    if damage := damage_of(path):
        raise ConfigurationError(f"{named}: is damaged: {damage}. Restore it, or name another checkpoint.")
    try:
        trial = TrialConfig.from_mapping(json.loads((path / TRIAL_FILE).read_text()))
        state = json.loads((path / STATE_FILE).read_text())
        events = [event_of(record) for record in state["events"]]
        counters = state["counters"]
        ended = next((e for e in events if isinstance(e, Ended) and e.status == FINISHED), None)
        score = None if ended is None else float(ended.metrics[SCORE])
        found = Checkpoint(
            path, trial, int(counters["grid_env_steps"]), int(counters["env_steps"]), score, _provenance(path)
        )
    except (ValueError, KeyError, TypeError, AttributeError, OSError) as error:
        raise ConfigurationError(
            f"{named}: {path} cannot be understood ({first_line(error)}). It may come from another version "
            "of the suite: check out the commit that it was trained with."
        ) from None
    _check_ray(found, named)
    return found


def _provenance(path: Path) -> Mapping[str, Any]:
    file = path.parent.parent / PROVENANCE_FILE
    return dict(json.loads(file.read_text())) if file.is_file() else {}


def _check_ray(checkpoint: Checkpoint, named: str) -> None:
    """Make sure that RLlib, whose classes a checkpoint names, is of the same minor version."""
    import ray

    file = checkpoint.path / _RAY_WROTE
    recorded = str(json.loads(file.read_text()).get("ray_version", "")) if file.is_file() else ""
    if recorded and recorded.split(".")[:2] != ray.__version__.split(".")[:2]:
        commit = checkpoint.provenance.get("commit")
        raise ConfigurationError(
            f"{named}: was written by Ray {recorded}, and this is Ray {ray.__version__}, "
            "whose RLlib may restore it as something else. Install what it was trained with: "
            f"pip install 'ray[rllib,tune]=={recorded}'{f', commit {commit}' if commit else ''}."
        )
