"""The search for the fastest setting of a machine: challengers against the fastest so far,
then the winner against the start.
"""

import math
import time
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from dataclasses import replace
from statistics import geometric_mean
from typing import Any

from experiments.config.errors import reason_of
from experiments.config.schema import HardwareSettings, SuiteConfig, parse
from experiments.config.trial_config import TrialConfig
from experiments.planning.configuration import Configuration
from experiments.planning.machines import Cluster, Node
from experiments.planning.plan import plan_study
from experiments.rllib import runner_pool
from experiments.rllib.algorithms import is_asynchronous
from experiments.rllib.building import build_algorithm_config
from experiments.rllib.made_environments import has_vector_entry_point
from experiments.search.contest import Bounds, Ratio, Setting, contest, neighbours, ratio, rounds
from experiments.study.hardware_profile import Tried, TuningOutcome
from experiments.trial.usage import pauses
from experiments.trial.usage.pauses import unpaused_s

BLOCK_S = 0.5
MOST_ROUNDS = 8
MOST_RETRIES = 2
"""Of a challenger that seemed faster, but not significantly, each with twice the rounds,
when nothing else is left to try."""
CONFIRMATION_ROUNDS = 24
CONFIRMATION_SHARE = 0.3
"""Of the time, kept for the winner against the start."""
WARM_UP_S = 0.5


class _Contender:
    """A setting with its algorithm, ready to be measured."""

    def __init__(self, trial: TrialConfig) -> None:
        pauses.begin()
        runner_pool.use()
        config = build_algorithm_config(trial)
        self._algorithm = config.algo_class(config=config)
        start = unpaused_s()
        batches, learned = 0, False
        while batches < 2 or not learned or unpaused_s() - start < WARM_UP_S:
            learned = bool(self._train().get("learners"))
            batches += 1
            if unpaused_s() - start > 60:
                raise TimeoutError("no two training batches in 60 s")

    def _train(self) -> Mapping[str, Any]:
        result: Mapping[str, Any] = self._algorithm.train()
        self.env_steps = int(result["env_runners"]["num_env_steps_sampled_lifetime"])
        return result

    def speed(self) -> float:
        """Env steps per second of a block."""
        self._train()  # what was sampled while another was measured does not count
        before, start = self.env_steps, unpaused_s()
        while unpaused_s() - start < BLOCK_S:
            self._train()
        return (self.env_steps - before) / (unpaused_s() - start)

    def stop(self) -> None:
        """Stop it; what fails then changes no result."""
        with suppress(Exception):
            self._algorithm.cleanup()


class Tuner:
    """The search."""

    def __init__(
        self,
        suite: SuiteConfig,
        composed: Mapping[str, Any],
        cluster: Cluster,
        max_total_envs: int,
        deadline: float,
        say: Callable[[str], None],
    ) -> None:
        """Check what is to be tuned.

        Args:
            suite: The configuration.
            composed: The same, as it was composed.
            cluster: What there is.
            max_total_envs: Most environments of a trial.
            deadline: On the monotonic clock.
            say: Takes a line for the terminal.
        """
        self._suite, self._composed, self._cluster, self._deadline, self._say = suite, composed, cluster, deadline, say
        self._began = time.monotonic()
        first = plan_study(suite, lambda _: composed, cluster).configurations[0]
        layout, env = first.layout, first.suite.env
        self.start = Setting(layout.num_env_runners, layout.num_envs_per_env_runner, env.vectorize_mode)
        modes = ("sync", "async", *(["vector_entry_point"] if has_vector_entry_point(env) else []))
        if env.backend != "gymnasium":
            modes = (env.vectorize_mode,)
        asynchronous = is_asynchronous(first.suite.algorithm)
        # Beyond the cores there is something to gain where environments wait.
        most = int(cluster.num_cpus) - 1 if first.suite.hardware.address else 4 * int(cluster.num_cpus)
        self._bounds = Bounds(
            int(asynchronous), max(int(asynchronous), most), max(max_total_envs, self.start.total_envs), modes
        )
        self._tried: list[Tried] = []
        self._speeds: dict[Setting, list[float]] = {}

    def hardware_for_ray(self) -> HardwareSettings:
        """The machine with as many logical CPUs as the largest setting takes."""
        return replace(self._suite.hardware, num_cpus=self._bounds.most_runners + 2 + int(self._cluster.num_cpus))

    def num_cpus_needed(self, setting: Setting) -> int | None:
        """Logical CPUs that a profile has to declare for a setting; None if the machine has them."""
        needed = int(self._configuration(setting).request.required_resources.get("CPU", 0))
        return None if needed <= self._cluster.num_cpus or self._suite.hardware.address else needed

    def _configuration(self, setting: Setting) -> Configuration:
        """A setting, ready to run, however many CPUs it takes."""
        hardware = {
            **self._composed["hardware"],
            "num_env_runners": setting.num_env_runners,
            "num_envs_per_env_runner": setting.num_envs_per_env_runner,
            "vectorize_mode": setting.vectorize_mode,
        }
        algorithm = dict(self._composed["algorithm"])
        algorithm["env_runners"] = {
            **algorithm["env_runners"],
            "num_env_runners": None,
            "num_envs_per_env_runner": None,
        }
        composed = {**self._composed, "hardware": hardware, "algorithm": algorithm}
        return plan_study(
            parse(composed),
            lambda _: composed,
            Cluster((Node(10_000, self._cluster.num_gpus, self._cluster.accelerator_types),)),
        ).configurations[0]

    def _contender(self, setting: Setting) -> _Contender:
        return _Contender(self._configuration(setting).trial(seed=0))

    def _measure(self, setting: Setting, contender: _Contender) -> Callable[[], float]:
        def speed() -> float:
            found = contender.speed()
            self._speeds.setdefault(setting, []).append(found)
            return found

        return speed

    def run(self) -> TuningOutcome:
        """Search, then measure the winner against the start anew."""
        search_until = self._deadline - CONFIRMATION_SHARE * (self._deadline - self._began)
        best, holder = self.start, self._contender(self.start)
        with ExitStack() as stack:
            stack.callback(lambda: holder.stop())
            while (following := self._next(best)) is not None and time.monotonic() < search_until:
                challenger, most_rounds = following
                try:
                    contender = self._contender(challenger)
                except Exception as error:  # noqa: BLE001
                    # whatever an environment or RLlib raises: this one cannot be used
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
        return TuningOutcome(
            self.start, best, confirmation, self._start_speed, tuple(self._tried), time.monotonic() - self._began
        )

    def _confirm(self, best: Setting) -> Ratio:
        self._speeds.clear()
        with ExitStack() as stack:

            def speed_of(setting: Setting) -> Callable[[], float]:
                contender = self._contender(setting)
                stack.callback(contender.stop)
                return self._measure(setting, contender)

            # However many rounds there is time for, and one look at their end.
            start, winner = speed_of(self.start), speed_of(best)
            return ratio(
                rounds(
                    start, winner, CONFIRMATION_ROUNDS, lambda: time.monotonic() < self._deadline, lambda logs: False
                )
            )

    @property
    def _start_speed(self) -> float:
        speeds = self._speeds.get(self.start, [])
        return geometric_mean(speeds) if speeds else math.nan

    def _next(self, best: Setting) -> tuple[Setting, int] | None:
        """The next challenger, and in how many rounds at most it is tried."""
        times = Counter(t.setting for t in self._tried)
        for setting in neighbours(best, self._bounds):
            if setting != self.start and not times[setting]:
                return setting, MOST_ROUNDS
        undecided = {
            t.setting: t.ratio.estimate
            for t in self._tried
            if t.ratio is not None and t.ratio.low <= 1 < t.ratio.estimate
        }
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
        verdict = (
            "faster" if tried.ratio.low > 1 else "slower" if tried.ratio.high < 1 else "not significantly different"
        )
        self._say(f"{tried.setting}: {tried.ratio} {tried.against} ({tried.ratio.num_rounds} rounds): {verdict}")
