"""Finds the fastest runner settings of this machine or cluster and writes a hardware profile.

python experiments/autotune.py algorithm=ppo env=cartpole minutes=3 [name=...] [max_total_envs=64] [hardware=auto] [key=value ...]
"""

import json
import logging
import math
import os
import re
import signal
import socket
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from statistics import geometric_mean
from typing import TYPE_CHECKING, Any

import hydra
from hydra.errors import HydraException
from omegaconf.errors import OmegaConfBaseException

from experiments.config.compose import CONF, check_choices, composer, refuse
from experiments.config.errors import ConfigurationError, reason_of
from experiments.config.output_dir import check_writable
from experiments.config.schema import NAME, parse
from experiments.search.contest import Bounds, Ratio, Setting, contest, neighbours, ratio, rounds

if TYPE_CHECKING:  # Ray is imported once the command line is known to be good: it takes seconds
    from experiments.config.trial_config import TrialConfig
    from experiments.planning.configuration import Configuration
    from experiments.planning.resources import Cluster

HELP = """\
Finds the runner, environment and vectorisation setting with the highest throughput on this machine or cluster, and writes it as a
hardware profile, conf/hardware/<name>.yaml, which composes like any other: hardware=<name>.

  python experiments/autotune.py algorithm=ppo env=cartpole minutes=3 [key=value ...]

  minutes=          how long it may take, all in all; default 3
  name=             of the profile; default tuned-<algorithm>-<env>
  max_total_envs=   most environments of a trial; default 64. More of them change what is learned: each has a shorter fragment of a batch
  hardware=         the profile to start from, default auto; hardware.address=auto tunes for a Ray cluster
  output_dir=       where the record of all rounds goes; default outputs

It starts from what hardware=auto chooses and tries one step at a time. A challenger and the fastest so far are measured in turns, until one
of them is the faster (losers are stopped early). At the end the winner and the start are built anew and measured in turns once more: only
if the winner is faster there as well, is it written. Otherwise the profile holds the start's settings, and says that nothing better was
found.

Exit codes: 0 a profile was written. 2 refused: nothing was started. 130 SIGINT, 143 SIGTERM: no profile.
"""

LEAST_MINUTES = 0.5
"""Ray's start, two settings and a comparison take half of it."""
BLOCK_S = 0.5
MOST_ROUNDS = 8
MOST_RETRIES = 2
"""Of a challenger that seemed faster and was not told apart, each with twice the rounds, when nothing else is left to try."""
CONFIRMATION_ROUNDS = 24
CONFIRMATION_SHARE = 0.3
"""Of the time, kept for the winner against the start."""
WARM_UP_S = 0.5
MARK = "# Written by experiments/autotune.py"
_OWN = ("minutes", "name", "max_total_envs")


def main(arguments: Sequence[str]) -> int:
    """The command line; its exit code."""
    if {"-h", "--help", "help"} & set(arguments):
        print(HELP, end="")
        return 0
    logging.basicConfig(level=logging.WARNING, format="%(message)s")
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    try:
        return autotune(arguments)
    except (ConfigurationError, HydraException, OmegaConfBaseException) as error:
        refuse(error)
    except KeyboardInterrupt:
        print("interrupted by SIGINT: no profile was written", file=sys.stderr)
        return 128 + signal.SIGINT


@dataclass(frozen=True)
class Order:
    """What the command line asks for.

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
        elif key.lstrip("+~") == "study" or key.startswith(("study.", "measurement", "search", "scheduler", "seeds", "repeats")):
            raise ConfigurationError(f"{word}: autotune runs no study. Give it algorithm=, env=, hardware=, minutes=, name=.")
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


def profile_path(name: str) -> Path:
    """Where a profile goes.

    Raises:
        ConfigurationError: A profile of that name is there, and autotune has not written it.
    """
    path = CONF / "hardware" / f"{name}.yaml"
    if path.exists() and not path.read_text().startswith(MARK):
        raise ConfigurationError(f"name={name}: {path} is there, and was not written by autotune. Choose another name.")
    if not os.access(path.parent, os.W_OK):
        raise ConfigurationError(f"{path.parent} cannot be written, so there would be no profile.")
    return path


def autotune(arguments: Sequence[str]) -> int:
    """Tune, and write the profile; the exit code.

    Raises:
        ConfigurationError: Anything is wrong; nothing was started.
    """
    start = time.monotonic()
    given = order(arguments)
    check_choices(given.overrides)
    with hydra.initialize_config_dir(str(CONF), version_base="1.3"):
        overrides = ["+measurement=throughput", "study.space={}", *given.overrides]
        # Composed within: Hydra forgets where its files are.
        composed = composer(hydra.compose("config", overrides=overrides), overrides)({})
    suite = parse(composed)
    name = given.name or f"tuned-{suite.algorithm['name']}-{suite.env.name}"
    path = profile_path(name)
    output_dir = Path(suite.output_dir).expanduser().absolute()
    check_writable(output_dir)

    import ray

    from experiments.study import progress
    from experiments.study.driver import cluster_of, quiet, start_ray

    quiet()
    console = progress.console()
    hardware = suite.hardware
    try:
        cluster = cluster_of(hardware)
        tuner = _Tuner(
            composed, cluster, given.max_total_envs, start + 60 * given.minutes, lambda line: console.print(line, highlight=False)
        )
        if not ray.is_initialized():
            start_ray(tuner.hardware_for_ray())
        outcome = tuner.run()
    finally:
        ray.shutdown()
    text = profile(name, outcome, cluster, suite.algorithm["name"], suite.env.name, hardware.name, tuner.num_cpus_needed(outcome.chosen))
    path.write_text(text)
    record = output_dir / "autotune" / f"{name}-{time.strftime('%Y%m%d-%H%M%S')}.json"
    record.parent.mkdir(parents=True, exist_ok=True)
    record.write_text(json.dumps(asdict(outcome), indent=1))
    for line in outcome.lines():
        console.print(line, highlight=False, soft_wrap=True)
    console.print(f"profile     {path}: python experiments/run.py hardware={name}", highlight=False, soft_wrap=True)
    console.print(f"record      {record}", highlight=False, soft_wrap=True)
    return 0


@dataclass(frozen=True)
class Tried:
    """A challenger, and how it did against the fastest by then."""

    setting: Setting
    against: Setting
    ratio: Ratio | None
    failure: str = ""


@dataclass(frozen=True)
class Outcome:
    """What a search came to.

    Attributes:
        start: What it started from.
        winner: What the search found.
        confirmation: Winner against start, both built anew; None if nothing beat the start.
        start_speed: Env steps/s of the start, geometric mean over the confirmation's rounds; of the search's, if there is none.
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
    def chosen(self) -> Setting:
        """What the profile holds: the winner if it is confirmed, else the start."""
        return self.winner if self.confirmation is not None and self.confirmation.low > 1 else self.start

    def lines(self) -> list[str]:
        """For the terminal."""
        tried = f"{len(self.tried)} settings were tried in {self.seconds:.0f} s"
        found = [f"start       {self.start}: {self.start_speed:,.0f} env steps/s"]
        if self.chosen != self.start:
            found.append(f"fastest     {self.winner}: {self.confirmation} the start ({self._rounds()}, 95% interval); {tried}")
        elif self.confirmation is not None:
            found.append(
                f"fastest     the start: nothing better was found. {self.winner} won the search, but was {self.confirmation} the start"
            )
            found[-1] += f" when measured anew ({self._rounds()}, 95% interval); {tried}"
        else:
            found.append(f"fastest     the start: nothing better was found; {tried}")
        return found

    def _rounds(self) -> str:
        return f"{self.confirmation.num_rounds} rounds" if self.confirmation else ""


class _Contender:
    """A setting with its algorithm, ready to be measured."""

    def __init__(self, trial: "TrialConfig") -> None:
        from experiments.rllib import runner_pool
        from experiments.rllib.building import build_algorithm_config

        runner_pool.use()
        config = build_algorithm_config(trial)
        self._algorithm = config.algo_class(config=config)
        start = time.perf_counter()
        batches, learned = 0, False
        while batches < 2 or not learned or time.perf_counter() - start < WARM_UP_S:
            learned = bool(self._train().get("learners"))
            batches += 1
            if time.perf_counter() - start > 60:
                raise TimeoutError("no two training batches in 60 s")

    def _train(self) -> Mapping[str, Any]:
        result: Mapping[str, Any] = self._algorithm.train()
        self.env_steps = int(result["env_runners"]["num_env_steps_sampled_lifetime"])
        return result

    def speed(self) -> float:
        """Env steps per second of a block."""
        self._train()  # what was sampled while another was measured does not count
        before, start = self.env_steps, time.perf_counter()
        while time.perf_counter() - start < BLOCK_S:
            self._train()
        return (self.env_steps - before) / (time.perf_counter() - start)

    def stop(self) -> None:
        """Stop it; a failure to is nobody's loss any more."""
        with suppress(Exception):
            self._algorithm.cleanup()


class _Tuner:
    """The search."""

    def __init__(
        self, composed: Mapping[str, Any], cluster: "Cluster", max_total_envs: int, deadline: float, say: Callable[[str], None]
    ) -> None:
        """Check what is to be tuned.

        Args:
            composed: The configuration.
            cluster: What there is.
            max_total_envs: Most environments of a trial.
            deadline: On the monotonic clock.
            say: Takes a line for the terminal.
        """
        from experiments.planning.plan import plan_study
        from experiments.rllib.building import has_vector_entry_point, is_asynchronous

        self._composed, self._cluster, self._deadline, self._say = composed, cluster, deadline, say
        self._began = time.monotonic()
        first = plan_study(parse(composed), lambda _: composed, cluster).configurations[0]
        layout, env = first.layout, first.suite.env
        self.start = Setting(layout.num_env_runners, layout.num_envs_per_env_runner, env.vectorize_mode)
        modes = ("sync", "async", *(["vector_entry_point"] if has_vector_entry_point(env) else []))
        if env.backend != "gymnasium":
            modes = (env.vectorize_mode,)
        asynchronous = is_asynchronous(first.suite.algorithm)
        # Beyond the cores there is something to gain where environments wait.
        most = int(cluster.num_cpus) - 1 if first.suite.hardware.address else 4 * int(cluster.num_cpus)
        self._bounds = Bounds(int(asynchronous), max(int(asynchronous), most), max(max_total_envs, self.start.total_envs), modes)
        self._tried: list[Tried] = []
        self._speeds: dict[Setting, list[float]] = {}

    def hardware_for_ray(self) -> Any:
        """The machine with as many logical CPUs as the largest setting takes."""
        return replace(parse(self._composed).hardware, num_cpus=self._bounds.most_runners + 2 + int(self._cluster.num_cpus))

    def num_cpus_needed(self, setting: Setting) -> int | None:
        """Logical CPUs that a profile has to declare for a setting; None if the machine has them."""
        needed = int(self._configuration(setting).request.required_resources.get("CPU", 0))
        return None if needed <= self._cluster.num_cpus or parse(self._composed).hardware.address else needed

    def _configuration(self, setting: Setting) -> "Configuration":
        """A setting, ready to run, however many CPUs it takes."""
        from experiments.planning.plan import plan_study
        from experiments.planning.resources import Cluster, Node

        hardware = {
            **self._composed["hardware"],
            "num_env_runners": setting.num_env_runners,
            "num_envs_per_env_runner": setting.num_envs_per_env_runner,
            "vectorize_mode": setting.vectorize_mode,
        }
        algorithm = dict(self._composed["algorithm"])
        algorithm["env_runners"] = {**algorithm["env_runners"], "num_env_runners": None, "num_envs_per_env_runner": None}
        composed = {**self._composed, "hardware": hardware, "algorithm": algorithm}
        return plan_study(parse(composed), lambda _: composed, Cluster((Node(10_000, self._cluster.num_gpus),))).configurations[0]

    def _contender(self, setting: Setting) -> _Contender:
        return _Contender(self._configuration(setting).trial(seed=0))

    def _measure(self, setting: Setting, contender: _Contender) -> Callable[[], float]:
        def speed() -> float:
            found = contender.speed()
            self._speeds.setdefault(setting, []).append(found)
            return found

        return speed

    def run(self) -> Outcome:
        """Search, then measure the winner against the start anew."""
        search_until = self._deadline - CONFIRMATION_SHARE * (self._deadline - self._began)
        best, holder = self.start, self._contender(self.start)
        with ExitStack() as stack:
            stack.callback(lambda: holder.stop())
            while (following := self._next(best)) is not None and time.monotonic() < search_until:
                challenger, most_rounds = following
                try:
                    contender = self._contender(challenger)
                except Exception as error:  # noqa: BLE001  # whatever an environment or RLlib raises: this one cannot be used
                    self._add(Tried(challenger, best, None, reason_of(error)))
                    continue
                found = contest(
                    self._measure(best, holder),
                    self._measure(challenger, contender),
                    most_rounds,
                    lambda: time.monotonic() < search_until,
                )
                self._add(Tried(challenger, best, found))
                if found.low > 1:
                    best, holder, contender = challenger, contender, holder
                contender.stop()
        confirmation = self._confirm(best) if best != self.start else None
        return Outcome(self.start, best, confirmation, self._start_speed, tuple(self._tried), time.monotonic() - self._began)

    def _confirm(self, best: Setting) -> Ratio:
        self._speeds.clear()
        with ExitStack() as stack:

            def speed_of(setting: Setting) -> Callable[[], float]:
                contender = self._contender(setting)
                stack.callback(contender.stop)
                return self._measure(setting, contender)

            # However many rounds there is time for, and one look at their end.
            start, winner = speed_of(self.start), speed_of(best)
            return ratio(rounds(start, winner, CONFIRMATION_ROUNDS, lambda: time.monotonic() < self._deadline, lambda logs: False))

    @property
    def _start_speed(self) -> float:
        speeds = self._speeds.get(self.start, [])
        return geometric_mean(speeds) if speeds else math.nan

    def _next(self, best: Setting) -> tuple[Setting, int] | None:
        """What to try next, and in how many rounds at most."""
        times = Counter(t.setting for t in self._tried)
        for setting in neighbours(best, self._bounds):
            if setting != self.start and not times[setting]:
                return setting, MOST_ROUNDS
        undecided = {t.setting: t.ratio.estimate for t in self._tried if t.ratio is not None and t.ratio.low <= 1 < t.ratio.estimate}
        left = [s for s in undecided if s != best and times[s] <= MOST_RETRIES]
        if not left:
            return None
        likeliest = max(left, key=lambda s: undecided[s])
        return likeliest, MOST_ROUNDS * 2 ** times[likeliest]

    def _add(self, tried: Tried) -> None:
        self._tried.append(tried)
        if tried.ratio is None:
            self._say(f"{tried.setting}: cannot be used: {tried.failure}")
            return
        verdict = "faster" if tried.ratio.low > 1 else "slower" if tried.ratio.high < 1 else "not told apart"
        self._say(f"{tried.setting}: {tried.ratio} {tried.against} ({tried.ratio.num_rounds} rounds): {verdict}")


def profile(name: str, outcome: Outcome, cluster: "Cluster", algorithm: str, env: str, hardware: str, num_cpus: int | None) -> str:
    """A hardware profile, as conf/hardware holds it."""
    chosen = outcome.chosen
    if chosen != outcome.start and outcome.confirmation is not None:
        found = f"{outcome.confirmation} hardware={hardware} ({outcome.confirmation.num_rounds} rounds, 95% interval)"
    else:
        found = f"nothing faster than hardware={hardware} was found"
    lines = [
        f"{MARK} on {datetime.now(UTC):%Y-%m-%d}, host {socket.gethostname()}: {cluster}.",
        f"# For {algorithm} on {env}, a trial at a time: {found}.",
        f"# {len(outcome.tried)} settings were tried in {outcome.seconds:.0f} s.",
        f"#   python experiments/run.py hardware={name} algorithm={algorithm} env={env}",
        f"defaults: [{hardware}]",
        f"name: {name}",
        *([f"num_cpus: {num_cpus} # logical: more processes than cores, since most of them wait"] if num_cpus else []),
        f"num_env_runners: {chosen.num_env_runners}",
        f"num_envs_per_env_runner: {chosen.num_envs_per_env_runner}",
        f"vectorize_mode: {chosen.vectorize_mode}",
    ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
