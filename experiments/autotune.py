"""Finds the fastest runner settings of this machine or cluster and writes a hardware profile.

python experiments/autotune.py algorithm=ppo env=cartpole minutes=3 [name=...] [max_total_envs=64] \
[hardware=auto] [key=value ...]
"""

import sys
from pathlib import Path

if not __package__:  # run as a file: what is called like the suite's packages in other folders is not taken for them
    sys.path[0] = str(Path(__file__).resolve().parents[1])

import json
import logging
import re
import signal
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass

import hydra
from hydra.errors import HydraException
from omegaconf.errors import OmegaConfBaseException

from analysis.document.command_line import help_asked
from analysis.document.standard_streams import keep_streams
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

HELP = """\
Finds the runner, environment and vectorisation setting with the highest throughput on this machine or cluster, and writes it as a
hardware profile, conf/hardware/<name>.yaml, which composes like any other: hardware=<name>.

  python experiments/autotune.py algorithm=ppo env=cartpole minutes=3 [key=value ...]

  minutes=          how long it may take, all in all; default 3
  name=             of the profile; default tuned-<algorithm>-<env>
  max_total_envs=   most environments of a trial; default 64. More of them change what is learned: each has a shorter fragment of a batch
  hardware=         the profile to start from, default auto; hardware.address=auto tunes for a Ray cluster
  output_dir=       where the record of all rounds goes; default outputs
  --config-dir      a folder of your own with files as in conf/, which takes the profile: <folder>/hardware/<name>.yaml

It starts from what hardware=auto chooses and tries one step at a time. A challenger and the fastest so far are measured in turns, until one
of them is the faster (losers are stopped early). At the end the winner and the start are built anew and measured in turns once more: only
if the winner is faster there as well, is it written. Otherwise the profile holds the start's settings, and says that nothing better was
found.

Exit codes: 0 a profile was written. 2 refused: nothing was started. 129 SIGHUP, 130 SIGINT, 143 SIGTERM: no profile.
"""  # noqa: E501

LEAST_MINUTES = 0.5
"""Ray's start, two settings and a comparison take half of it."""
_OWN = ("minutes", "name", "max_total_envs")


def main(arguments: Sequence[str]) -> int:
    """The command line; its exit code."""
    keep_streams()
    if help_asked(arguments):
        print(HELP, end="")
        return 0
    logging.basicConfig(level=logging.WARNING, format="%(message)s")
    exit_at_signals()
    try:
        return autotune(arguments)
    except (ConfigurationError, HydraException, OmegaConfBaseException) as error:
        refuse(error)
    except KeyboardInterrupt:
        print("interrupted by SIGINT: no profile was written", file=sys.stderr)
        return 128 + signal.SIGINT


@dataclass(frozen=True)
class Order:
    """The words of a command line.

    Attributes:
        minutes: How long it may take.
        name: Of the profile; None for the default one.
        max_total_envs: Most environments of a trial.
        overrides: For Hydra.
    """

    minutes: float
    name: str | None
    max_total_envs: int
    overrides: tuple[str, ...]


def order(arguments: Sequence[str]) -> Order:
    """The command line's words.

    Raises:
        ConfigurationError: One is not understood; names the fix.
    """
    own: dict[str, str] = {}
    others = []
    for word in arguments:
        key, equals, value = word.partition("=")
        if not equals:
            raise ConfigurationError(f"{word!r} is not understood. Usage: {(__doc__ or '').strip().splitlines()[-1]}")
        if key in _OWN:
            own[key] = value
        elif key.lstrip("+~") == "study" or key.startswith(
            ("study.", "measurement", "search", "scheduler", "seeds", "repeats")
        ):
            raise ConfigurationError(
                f"{word}: autotune runs no study. Give it algorithm=, env=, hardware=, minutes=, name=."
            )
        else:
            others.append(word)
    try:
        minutes = float(own.get("minutes", 3))
    except ValueError:
        raise ConfigurationError(f"minutes={own['minutes']}: must be a number.") from None
    if not LEAST_MINUTES <= minutes < float("inf"):
        raise ConfigurationError(
            f"minutes={own.get('minutes')}: too short to mean anything. Try minutes=3; {LEAST_MINUTES:g} is the least."
        )
    if not own.get("max_total_envs", "64").isdecimal() or int(own.get("max_total_envs", "64")) < 1:
        raise ConfigurationError(f"max_total_envs={own['max_total_envs']}: must be a whole number, 1 or more.")
    if (name := own.get("name")) is not None and not re.match(NAME, name):
        raise ConfigurationError(f"name={name}: must be a word of letters, digits, '.', '_' and '-'.")
    return Order(minutes, name, int(own.get("max_total_envs", "64")), tuple(others))


def autotune(arguments: Sequence[str]) -> int:
    """Tune, and write the profile; the exit code.

    Raises:
        ConfigurationError: Anything is wrong; nothing was started.
    """
    start = time.monotonic()
    words, own = own_folder(arguments)
    given = order(words)
    check_choices(given.overrides, own)
    with composing():
        overrides = [
            "+measurement=throughput",
            "study.space={}",
            *hydra_search_path(own),
            *with_new_keys(given.overrides),
        ]
        # Composed within: Hydra forgets where its files are.
        composed_here = composer(hydra.compose("config", overrides=overrides), overrides)({})
    suite = parse(composed_here)
    name = given.name or f"tuned-{suite.algorithm['name']}-{suite.env.name}"
    path = profile_path(name, own)
    output_dir = absolute(suite.output_dir)
    check_writable(output_dir)

    import ray  # now that the command line is known to be good: it takes seconds

    from experiments.study.cluster.ray_process import cluster_of, prepare, start_ray

    prepare()

    from experiments.study import progress
    from experiments.study.cluster import address
    from experiments.study.tuning import Tuner

    console = progress.console()
    deadline = start + 60 * given.minutes
    place = address.address_now(suite.hardware.address)
    if cluster_line := address.joined_line(suite.hardware.address, place):
        console.print(cluster_line, highlight=False)
    composed = address.composed_at(lambda _: composed_here, place)({})
    suite = parse(composed)
    try:
        cluster = cluster_of(suite.hardware)
        tuner = Tuner(
            suite, composed, cluster, given.max_total_envs, deadline, lambda line: console.print(line, highlight=False)
        )
        if not ray.is_initialized():
            start_ray(tuner.hardware_for_ray())
        outcome = tuner.run()
    finally:
        ray.shutdown()
    num_cpus, algorithm = tuner.num_cpus_needed(outcome.chosen), suite.algorithm["name"]
    path.parent.mkdir(exist_ok=True)
    modules = [word for word in given.overrides if word.startswith("modules=")]
    path.write_text(profile(name, outcome, cluster, algorithm, suite.env, suite.hardware.name, num_cpus, own, modules))
    record = output_dir / "autotune" / f"{name}-{time.strftime('%Y%m%d-%H%M%S')}.json"
    record.parent.mkdir(parents=True, exist_ok=True)
    record.write_text(json.dumps(asdict(outcome), indent=1))
    for line in outcome.lines():
        progress.say(console, line)
    progress.say(console, labelled("profile", f"{path}: {command_with(name, own)}"))
    progress.say(console, labelled("record", record))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
