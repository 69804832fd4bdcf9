"""The suite's learners against those of Stable-Baselines3, SBX and rlox, on one core.

    make peers
    python -m benchmarks peers

The peers want other packages than the suite, and live in an environment beside its own; `PEERS_PYTHON` names another.
"""

import json
import os
import select
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from importlib import metadata
from pathlib import Path
from statistics import median
from typing import TypeVar

from benchmarks.fast.sides import START_S, Side
from benchmarks.fast.speed import MAIN, OF_ONE_THREAD, OTHERS, Case
from benchmarks.fast.turns import Asked, turn_by_turn
from benchmarks.peers import learner
from benchmarks.support.harness import BenchmarkError, Report, Table, ratio, ratios, spread

SUITE = "suite"
PEERS: Mapping[str, str] = {learner.SB3: "SB3", learner.SBX: "SBX", learner.RLOX: "rlox"}
"""Of `benchmarks/peers/learner.py`, and as the table has it."""
PYTHON = "PEERS_PYTHON"
"""Environment variable: the peers' Python."""
VARIABLES: Mapping[str, str] = {
    **OF_ONE_THREAD,
    "JAX_PLATFORMS": "cpu",
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1",
    "RAYON_NUM_THREADS": "1",  # rlox's
}
"""What a peer's process is started with."""
PACKAGES = ("stable_baselines3", "sbx-rl", "jax", "rlox", "torch", "gymnasium")
"""Of the peers' environment: the page names their versions."""
Found = Mapping[str, Sequence[float]]
"""Side to its env steps per second, turn by turn."""
T = TypeVar("T")


@dataclass(frozen=True)
class Comparison:
    """A row of the table.

    Attributes:
        name: As the table has it.
        case: What the suite does.
        learner: What the peers do: of `benchmarks/peers/learner.py`.
        target: How many times as fast the suite has to be; None where that is not asked.
        of: The peer that the target is about; "" for the fastest.
        peers: Those that have it.
    """

    name: str
    case: Case
    learner: str
    target: float | None = None
    of: str = ""
    peers: tuple[str, ...] = tuple(PEERS)

    def fastest(self, found: Found) -> str:
        """The peer with the highest median."""
        return max((peer for peer in self.peers if peer in found), key=lambda peer: median(found[peer]))

    def reached(self, found: Found) -> float:
        """How many times as fast the suite is as the peer that the target is about."""
        return ratio(found[SUITE], found[self.of or self.fastest(found)])

    def cells(self, found: Found) -> tuple[str, ...]:
        """Of the table."""
        speeds = (spread(found[side], ",.0f") if side in found else "" for side in (SUITE, *PEERS))
        target = f"{self.target:.1f} of {PEERS.get(self.of, 'the best')}" if self.target is not None else ""
        return (self.name, *speeds, ratios(found[SUITE], found[self.fastest(found)]), target)


_CASES = {case.name: case for case in (*MAIN, *OTHERS)}
_LARGE, _SMALL = "PPO, minibatches of 1000 x 4 epochs", "PPO, minibatches of 128 x 10 epochs"
_PLAIN = _CASES["DQN as SB3 has it: uniform, neither double nor dueling"]
_PRIORITISED = _CASES["DQN, prioritised"]
_UNIFORM = _CASES["SAC, critics of SB3's shape, uniform as SB3 has it"]
COMPARISONS = (
    Comparison(_LARGE, _CASES[_LARGE], "ppo-1000x4", 1.5),
    Comparison(_SMALL, _CASES[_SMALL], "ppo-128x10", 2.5),
    Comparison("DQN, plain", _PLAIN, "dqn", 1.2, learner.RLOX),
    Comparison("DQN, the suite's prioritised, the peers' plain", _PRIORITISED, "dqn", 1.0, learner.RLOX),
    Comparison("DQN, prioritised", _PRIORITISED, "dqn-prioritised", peers=(learner.RLOX,)),
    Comparison("SAC, uniform", _UNIFORM, "sac", 1.0, learner.SBX),
    Comparison("SAC, the suite's prioritised, the peers' uniform", _CASES["SAC, critics of SB3's shape"], "sac"),
)


class Peer:
    """A process of the peers' environment that serves, as `Side` does."""

    def __init__(self, name: str, python: Path, peer: str, case: str) -> None:
        """Start it; the first answer comes when it is ready.

        Args:
            name: For messages.
            python: Of the peers' environment.
            peer: Of `PEERS`.
            case: Of `benchmarks/peers/learner.py`.
        """
        self._name = name
        self._process = subprocess.Popen(
            [str(python), "-I", learner.__file__, peer, case],
            env={**os.environ, **VARIABLES},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,  # peers talk
            text=True,
        )
        assert self._process.stdin is not None and self._process.stdout is not None
        self._questions, self._answers = self._process.stdin, self._process.stdout

    def ask(self, seconds: float) -> None:
        """Begin a turn of at least so long."""
        self._questions.write(f"{seconds}\n")
        self._questions.flush()

    def answer(self) -> float:
        """The env steps per second of the turn; of none but its start, 0.

        Raises:
            BenchmarkError: It failed, or said nothing for minutes.
        """
        if not select.select([self._answers], [], [], START_S)[0]:
            raise BenchmarkError(f"{self._name}: nothing for {START_S:.0f} s")
        line = self._answers.readline().strip()
        if line == "ready":
            return 0.0
        answer = json.loads(line) if line else "it ended without a word"
        if isinstance(answer, str):
            raise BenchmarkError(f"{self._name}:\n{answer}")
        return float(answer)

    def end(self) -> None:
        """Let it end."""
        with suppress(BrokenPipeError):
            self._questions.close()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(30)
        self._process.kill()
        self._answers.close()


def measure(quick: bool) -> Report:
    """Run it."""
    python = peers_python()
    repeats, comparisons = (1, COMPARISONS[:1]) if quick else (5, COMPARISONS)
    found = [(each, _measured(each, python, repeats, 0.1 if quick else each.case.turn_s)) for each in comparisons]
    return _report(found, _versions(python))


def peers_python() -> Path:
    """The Python of the peers' environment.

    Raises:
        BenchmarkError: There is none.
    """
    own = Path(sys.prefix)
    python = Path(os.environ.get(PYTHON) or own.with_name(f"{own.name}-peers") / "bin" / "python").absolute()
    if not python.exists():
        raise BenchmarkError(f"the peers' environment is missing, {python} is not there: make peers")
    return python


def _versions(python: Path) -> str:
    folders = [str(path) for path in python.parents[1].glob("lib/python*/site-packages")]
    found = ((name, each.version) for name in PACKAGES for each in metadata.distributions(name=name, path=folders))
    return ", ".join(f"{name} {version}" for name, version in found)


def _measured(comparison: Comparison, python: Path, repeats: int, turn_s: float) -> dict[str, list[float]]:
    name, case = comparison.name, comparison.case
    starts: dict[str, Callable[[], Asked]] = {
        SUITE: partial(Side, f"{name}, {SUITE}", case.function, "fast", case.settings, OF_ONE_THREAD),
        **{peer: partial(Peer, f"{name}, {peer}", python, peer, comparison.learner) for peer in comparison.peers},
    }
    return turn_by_turn({side: partial(_on_one_core, start) for side, start in starts.items()}, repeats, turn_s)


def _on_one_core(start: Callable[[], T]) -> T:
    """Start a process, on the last core that this one may run on, with all that it starts itself."""
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {max(cores)})
    try:
        return start()
    finally:
        os.sched_setaffinity(0, cores)


def _report(found: Sequence[tuple[Comparison, Found]], versions: str) -> Report:
    ours = f"{SUITE} / best peer"
    return Report(
        name="peers",
        title="The suite's learners and those of SB3, SBX and rlox",
        compared=(
            "One core and one thread for each, evaluation left out. *Suite*: RLlib with `experiments/fast`. *SB3*: "
            "Stable-Baselines3. *SBX*: the same with JAX, which has compiled before the first turn. *rlox*: torch and "
            "Rust; its PPO steps a CartPole of its own in Rust, all others Gymnasium's. PPO: CartPole-v1 with 16 "
            "environments, separate nets of [64, 64] tanh, batches of 4000 env steps. DQN (CartPole-v1, [64, 64] ReLU) "
            "and SAC (Pendulum-v1, [256, 256] ReLU): one environment, an update of 32 and 256 transitions for each of "
            "its steps. *Plain*: uniform, and neither double nor dueling; *prioritised*: also double and dueling. "
            "PPO's other settings, and DQN's and SAC's warm-up and buffer, are alike; rlox explores with 0.05, since "
            "each call of its `train` begins anew; the rest is each one's default. The sides take turns of some "
            f"seconds, each in a warm process of its own. The peers' versions: {versions}."
        ),
        verdict=_verdict(found),
        tables=(
            Table(
                "Env steps per second",
                ("", *(f"{side}, env steps/s" for side in (SUITE, *PEERS.values())), ours, "target"),
                tuple(comparison.cells(speeds) for comparison, speeds in found),
                "Median (minimum-maximum) of turns; of ratios the lowest and the highest of a turn. Empty: the peer "
                "has no such thing.",
                {ours: True},
            ),
        ),
    )


def _verdict(found: Sequence[tuple[Comparison, Found]]) -> str:
    asked = [
        (comparison, comparison.target, comparison.reached(speeds), comparison.of or comparison.fastest(speeds))
        for comparison, speeds in found
        if comparison.target is not None
    ]
    missed = [
        f"{comparison.name} against {PEERS[peer]}: {reached:.2f} of {target:.1f}"
        for comparison, target, reached, peer in asked
        if reached < target
    ]
    met = f"{len(asked) - len(missed)} of {len(asked)} targets met"
    return met + (f"; missed: {'; '.join(missed)}." if missed else ".")
