"""Finds the fastest runner settings of this machine or cluster and writes a hardware profile.

python experiments/autotune.py algorithm=ppo env=cartpole minutes=3 [name=...] [max_total_envs=64] \
[hardware=auto] [key=value ...]
"""

import sys
from pathlib import Path

if not __package__:  # run as a file: what is called like the suite's packages in other folders is not taken for them
    sys.path[0] = str(Path(__file__).resolve().parents[1])

import json
import re
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Annotated

import hydra
from hydra.errors import HydraException
from omegaconf.errors import OmegaConfBaseException

from analysis.document.commands import Command, NotAWord, Whole
from conf import config_dirs
from experiments.config.choices import check_choices, hydra_search_path, own_folder
from experiments.config.compose import composer, composing, with_new_keys
from experiments.config.errors import ConfigurationError
from experiments.config.fields import NAME
from experiments.config.output_dir import absolute, check_writable
from experiments.config.schema import parse
from experiments.config.usage import refuse
from experiments.contract.words import labelled
from experiments.signals import exit_at_signals
from experiments.study.hardware_profile import command_with, profile, profile_path

LEAST_MINUTES = 0.5
"""Ray's start, two settings and a comparison take half of it."""


def main(arguments: Sequence[str]) -> int:
    """The command line; its exit code."""
    exit_at_signals()
    own: list[str] = []
    others: list[str] = []
    for word in COMMAND.written_out(arguments):
        (own if word.partition("=")[0] in (*COMMAND.words, "--help", "-h", "help") else others).append(word)
    return COMMAND.exit_code(own, settings=others)


def tuned(
    *,
    minutes: float = 3.0,
    name: str | None = None,
    max_total_envs: Whole = 64,
    settings: Annotated[Sequence[str], NotAWord] = (),
) -> int:
    """Finds the runner, environment and vectorisation setting with the highest throughput on this machine or cluster,
    and writes it as a hardware profile, OUTPUT_DIR/conf/hardware/NAME.yaml, which composes like any other:
    `--config-dir OUTPUT_DIR/conf hardware=NAME`.

    It starts from what hardware=auto chooses and tries one step at a time. A challenger and the fastest so far are
    measured in turns, until one of them is the faster (losers are stopped early). At the end the winner and the start
    are built anew and measured in turns once more: only if the winner is faster there as well, is it written.
    Otherwise it says that nothing better was found, and writes none.

    All other words are settings, as `run` takes them: `algorithm=`, `env=`; `hardware=` the profile to start from,
    default auto, where `hardware.address=auto` tunes for a Ray cluster; `output_dir=`, where the record of all rounds
    goes; `--config-dir FOLDER`, a folder of your own with files as in conf/, which takes the profile.

    Args:
        minutes: How long it may take, all in all; default 3.
        name: Of the profile; default tuned-ALGORITHM-ENV.
        max_total_envs: Most environments of a trial; default 64. More of them change what is learned: each has a
            shorter fragment of a batch.
        settings: For Hydra.
    """
    try:
        return autotune(Order(minutes, name, max_total_envs, tuple(settings)))
    except (HydraException, OmegaConfBaseException) as error:
        refuse(error)


COMMAND = Command(
    "autotune",
    tuned,
    ("algorithm=ppo env=cartpole minutes=3",),
    "0 tuned; a profile was written if something faster was found. 2 refused: nothing was started. 129 SIGHUP, "
    "130 SIGINT, 143 SIGTERM: no profile.",
    (ConfigurationError,),
    "interrupted by SIGINT: no profile was written",
)


@dataclass(frozen=True)
class Order:
    """The words of a command line.

    Attributes:
        minutes: How long it may take.
        name: Of the profile; None for the default one.
        max_total_envs: Most environments of a trial.
        settings: For Hydra.

    Raises:
        ConfigurationError: One makes no sense; names the fix.
    """

    minutes: float
    name: str | None
    max_total_envs: int
    settings: tuple[str, ...]

    def __post_init__(self) -> None:
        for word in config_dirs(self.settings)[0]:
            key = word.partition("=")[0]
            if key.lstrip("+~") == "study" or key.startswith(
                ("study.", "measurement", "search", "scheduler", "seeds", "repeats")
            ):
                raise ConfigurationError(
                    f"{word}: autotune runs no study. Give it algorithm=, env=, hardware=, minutes=, name=."
                )
        if not LEAST_MINUTES <= self.minutes < float("inf"):
            raise ConfigurationError(
                f"minutes={self.minutes:g}: too short to mean anything. Try minutes=3; {LEAST_MINUTES:g} is the least."
            )
        if self.max_total_envs < 1:
            raise ConfigurationError(f"max_total_envs={self.max_total_envs}: must be a whole number, 1 or more.")
        if self.name is not None and not re.match(NAME, self.name):
            raise ConfigurationError(f"name={self.name}: must be a word of letters, digits, '.', '_' and '-'.")


def autotune(asked: Order) -> int:
    """Tune, and write the profile; the exit code.

    Raises:
        ConfigurationError: Anything is wrong; nothing was started.
    """
    start = time.monotonic()
    given, own = own_folder(asked.settings)
    if bare := next((word for word in given if "=" not in word), None):
        raise ConfigurationError(f"{bare!r} is not understood. rl-scaling autotune --help lists what there is.")
    check_choices(given, own)
    with composing():
        overrides = [
            "+measurement=throughput",
            "study.space={}",
            *hydra_search_path(own),
            *with_new_keys(given),
        ]
        # Composed within: Hydra forgets where its files are.
        composed_here = composer(hydra.compose("config", overrides=overrides), overrides)({})
    suite = parse(composed_here)
    name = asked.name or f"tuned-{suite.algorithm['name']}-{suite.env.name}"
    output_dir = absolute(suite.output_dir)
    check_writable(output_dir)
    folder = own or output_dir / "conf"
    path = profile_path(name, folder)

    import ray  # now that the command line is known to be good: it takes seconds

    from experiments.study.cluster.ray_process import cluster_of, prepare, start_ray

    prepare()

    from experiments.study import progress
    from experiments.study.cluster import address
    from experiments.study.tuning import Tuner

    console = progress.console()
    deadline = start + 60 * asked.minutes
    place = address.address_now(suite.hardware.address)
    if cluster_line := address.joined_line(suite.hardware.address, place):
        console.print(cluster_line, highlight=False)
    composed = address.composed_at(lambda _: composed_here, place)({})
    suite = parse(composed)
    try:
        cluster = cluster_of(suite.hardware)
        tuner = Tuner(
            suite, composed, cluster, asked.max_total_envs, deadline, lambda line: console.print(line, highlight=False)
        )
        if not ray.is_initialized():
            start_ray(tuner.hardware_for_ray())
        outcome = tuner.run()
    finally:
        ray.shutdown()
    earlier = f"; {path} is of an earlier tuning" if path.exists() else ""
    profile_line = f"none was written: nothing faster than hardware={suite.hardware.name} was confirmed{earlier}"
    if outcome.is_faster:
        num_cpus, algorithm = tuner.num_cpus_needed(outcome.winner), suite.algorithm["name"]
        modules = [word for word in given if word.startswith("modules=")]
        path.parent.mkdir(parents=True, exist_ok=True)
        of_machine = (suite.hardware.name, num_cpus)
        path.write_text(profile(name, outcome, cluster, algorithm, suite.env, *of_machine, folder, own, modules))
        profile_line = f"{path}: {command_with(name, folder)}"
    record = output_dir / "autotune" / f"{name}-{time.strftime('%Y%m%d-%H%M%S')}.json"
    record.parent.mkdir(parents=True, exist_ok=True)
    record.write_text(json.dumps(asdict(outcome), indent=1))
    for line in outcome.lines():
        progress.say(console, line)
    progress.say(console, labelled("profile", profile_line))
    progress.say(console, labelled("record", record))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
