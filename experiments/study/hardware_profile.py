"""The end of a tuning, for the terminal and as a hardware profile of conf/hardware."""

import os
import shlex
import socket
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from conf import CONFIG_DIR
from experiments.config.choices import env_choice
from experiments.config.compose import CONF
from experiments.config.errors import ConfigurationError
from experiments.config.schema import EnvSettings
from experiments.contract.words import labelled
from experiments.search.contest import Ratio, Setting

if TYPE_CHECKING:  # Ray is imported once the command line is known to be good
    from experiments.planning.machines import Cluster

MARK = "# Written by experiments/autotune.py"


@dataclass(frozen=True)
class Tried:
    """A challenger, and how it did against the fastest by then."""

    setting: Setting
    against: Setting
    ratio: Ratio | None
    failure: str = ""


@dataclass(frozen=True)
class TuningOutcome:
    """The end of a tuning.

    Attributes:
        start: What it started from.
        winner: What the search found.
        confirmation: Winner against start, both built anew; None if nothing beat the start.
        start_speed: Env steps/s of the start, geometric mean over the confirmation's rounds;
            of the search's, if there is none.
        tried: Every challenger, in order.
        seconds: How long it took.
    """

    start: Setting
    winner: Setting
    confirmation: Ratio | None
    start_speed: float
    tried: tuple[Tried, ...] = field(default=())
    seconds: float = 0.0

    @property
    def is_faster(self) -> bool:
        """Whether the winner is confirmed, so that there is something to write."""
        return self.confirmation is not None and self.confirmation.low > 1

    def lines(self) -> list[str]:
        """For the terminal."""
        tried = f"{len(self.tried)} settings were tried in {self.seconds:.0f} s"
        found = [labelled("start", f"{self.start}: {self.start_speed:,.0f} env steps/s")]
        if self.is_faster:
            found.append(
                labelled(
                    "fastest", f"{self.winner}: {self.confirmation} the start ({self._rounds()}, 95% interval); {tried}"
                )
            )
        elif self.confirmation is not None:
            found.append(
                labelled(
                    "fastest",
                    f"the start: nothing better was found. {self.winner} won the search, "
                    f"but was {self.confirmation} the start",
                )
            )
            found[-1] += f" when measured anew ({self._rounds()}, 95% interval); {tried}"
        else:
            found.append(labelled("fastest", f"the start: nothing better was found; {tried}"))
        return found

    def _rounds(self) -> str:
        return f"{self.confirmation.num_rounds} rounds" if self.confirmation else ""


def profile_path(name: str, folder: Path) -> Path:
    """Where a profile goes; its folder need not be there yet.

    Args:
        name: Of the profile.
        folder: With configuration files as in conf/.

    Raises:
        ConfigurationError: A profile of that name is there, and autotune has not written it, or it would be read in
            place of the new one.
    """
    path = folder / "hardware" / f"{name}.yaml"
    if path.exists() and not path.read_text().startswith(MARK):
        raise ConfigurationError(f"name={name}: {path} is there, and was not written by autotune. Choose another name.")
    if (CONF / "hardware" / path.name).exists() and folder.resolve() != CONF.resolve():
        raise ConfigurationError(f"name={name}: conf/hardware has a profile of that name. Choose another name.")
    there = next(parent for parent in path.parents if parent.exists())
    if not (there.is_dir() and os.access(there, os.W_OK)):
        raise ConfigurationError(f"{path.parent} cannot be written. Name another folder: --config-dir /path.")
    return path


def command_with(name: str, folder: Path) -> str:
    """The command that runs a study with a profile; its arguments are those of `profile_path`."""
    return shlex.join(["python", "experiments/run.py", CONFIG_DIR, str(folder), f"hardware={name}"])


def profile(
    name: str,
    outcome: TuningOutcome,
    cluster: "Cluster",
    algorithm: str,
    env: EnvSettings,
    hardware: str,
    num_cpus: int | None,
    folder: Path,
    own: Path | None = None,
    modules: Sequence[str] = (),
) -> str:
    """A hardware profile, as conf/hardware holds it, of a confirmed winner.

    Args:
        name: Of the profile.
        outcome: Of the tuning.
        cluster: That it was tuned on.
        algorithm: That it was tuned for.
        env: Likewise.
        hardware: The profile that it started from.
        num_cpus: Logical CPUs that it needs, if they are more than there are.
        folder: That it goes to, as `profile_path` has it.
        own: A person's own folder of configuration files, if the environment's may be there.
        modules: The words that name a person's own on the command line.
    """
    chosen, confirmed = outcome.winner, outcome.confirmation
    assert confirmed is not None
    found = f"{confirmed} hardware={hardware} ({confirmed.num_rounds} rounds, 95% interval)"
    lines = [
        f"{MARK} on {datetime.now(UTC):%Y-%m-%d}, host {socket.gethostname()}: {cluster}.",
        f"# For {algorithm} on {env.name}, a trial at a time: {found}.",
        f"# {len(outcome.tried)} settings were tried in {outcome.seconds:.0f} s.",
        " ".join(
            [
                f"#   {command_with(name, folder)} algorithm={algorithm} {env_choice(env, own)}",
                *map(shlex.quote, modules),
            ]
        ),
        f"defaults: [{hardware}]",
        f"name: {name}",
        *([f"num_cpus: {num_cpus} # logical: more processes than cores, since most of them wait"] if num_cpus else []),
        f"num_env_runners: {chosen.num_env_runners}",
        f"num_envs_per_env_runner: {chosen.num_envs_per_env_runner}",
        f"vectorize_mode: {chosen.vectorize_mode}",
    ]
    return "\n".join(lines) + "\n"
