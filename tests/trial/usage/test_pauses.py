import itertools
import os
import signal
import subprocess
import sys

import pytest

from experiments.contract import METRICS, depends_on_clock
from experiments.trial.usage import pauses
from experiments.trial.usage.pauses import EVERY_S, LEAST_S, Pauses, Tick, tick, unpaused_s
from tests.support.suite import ROOT

SWITCH_S = 0.005


def found(
    gap_s: float, sleeps: int = 1, starved_s: float | None = 0.0, suspended_s: float = 0.0, switch_s: float = SWITCH_S
) -> Pauses:
    """In a gap, of a thread that went to sleep so often in it and had no CPU for so long."""
    before = Tick(100.0, 1100.0, 50, None if starved_s is None else 7.0)
    now = Tick(100.0 + gap_s, 1100.0 + gap_s + suspended_s, 50 + sleeps, None if starved_s is None else 7.0 + starved_s)
    return Pauses().after(before, now, switch_s)


def test_a_gap_that_the_thread_slept_through_is_a_pause() -> None:
    pause = found(200.0, sleeps=2)
    assert pause.count == 1
    assert pause.seconds == pause.clock_s == pytest.approx(200 - EVERY_S - 2 * SWITCH_S)


def test_a_thread_in_time_finds_none_and_neither_does_one_that_is_a_little_late() -> None:
    assert found(EVERY_S) == found(LEAST_S) == Pauses()
    assert found(LEAST_S + EVERY_S + 0.1).count == 1


@pytest.mark.parametrize("held_s", [3.0, 30.0, 3000.0])
@pytest.mark.parametrize("late", [1.0, 1.05, 3.0])  # no later than asked; as Linux does; with timers of 10 ms
def test_native_code_that_holds_the_lock_is_no_pause(held_s: float, late: float) -> None:
    assert found(EVERY_S + held_s, sleeps=1 + int(held_s / (late * SWITCH_S))) == Pauses()


def test_of_a_gap_with_a_pause_and_a_short_hold_of_the_lock_the_pause_counts() -> None:
    assert found(EVERY_S + 0.2 + 8.0, sleeps=41).seconds == pytest.approx(8.0, abs=0.01)


def test_waiting_for_a_cpu_is_no_pause() -> None:
    assert found(20.0, starved_s=19.7) == Pauses()
    assert found(20.0, sleeps=300, starved_s=18.2) == Pauses()  # for the lock as well


@pytest.mark.parametrize("untold", [{"sleeps": 0}, {"starved_s": None}])
def test_where_the_kernel_does_not_count_no_gap_is_a_pause(untold: dict[str, None]) -> None:
    assert found(200.0, **untold) == Pauses()  # type: ignore[arg-type]


def test_a_suspended_machine_stood_still_though_its_monotonic_clock_did_too() -> None:
    pause = found(EVERY_S, suspended_s=3600)
    assert (pause.count, pause.seconds, pause.clock_s) == (1, pytest.approx(3600), 0)
    assert found(EVERY_S, suspended_s=0.01) == Pauses()  # clocks are not read at once


def test_pauses_add_up() -> None:
    ticks = [Tick(at, at, number, 0.0) for number, at in enumerate([0.0, 0.25, 10.5, 10.75, 11.0, 31.25])]
    so_far = [Pauses()]
    for before, now in itertools.pairwise(ticks):
        so_far.append(so_far[-1].after(before, now, 0.0))
    assert [each.count for each in so_far] == [0, 0, 1, 1, 1, 2]
    assert so_far[-1].seconds == pytest.approx(30)
    assert so_far[-1] - so_far[3] == Pauses(1, pytest.approx(20), pytest.approx(20))


def test_a_pause_between_looking_at_the_pauses_and_at_the_clock_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    none, one = Pauses(), Pauses(1, 50.0, 50.0)
    said, now = iter([none, one, one, one]), iter([1050.0, 1050.1])
    monkeypatch.setattr(pauses, "so_far", lambda: next(said))
    monkeypatch.setattr(pauses.time, "perf_counter", lambda: next(now))
    assert unpaused_s() == pytest.approx(1000.1)


def test_a_thread_that_sleeps_is_seen_to_sleep() -> None:
    before = tick()
    pauses.time.sleep(0.01)
    now = tick()
    assert 0.01 <= now.at_s - before.at_s < LEAST_S
    if sys.platform == "linux":
        assert now.sleeps > before.sleeps
        assert Pauses().after(before, now, SWITCH_S) == Pauses()


def test_metrics_of_pauses_are_known_to_depend_on_the_clock() -> None:
    of_pauses = {"final/paused_s", "throughput/pauses", "system/stolen_cpu_percent", "system/cpu_pressure_percent"}
    assert of_pauses <= set(METRICS)
    assert all(map(depends_on_clock, of_pauses))


STOPPED = """
import ctypes, os, signal, time
from experiments.trial.usage import pauses
from experiments.trial.usage.pauses import so_far, unpaused_s
pauses.begin()
time.sleep(0.6)

def said(what, do):
    before, clock, wall = so_far(), unpaused_s(), time.perf_counter()
    do()
    clock, wall = unpaused_s() - clock, time.perf_counter() - wall  # at once: the thread that ticks may not have
    pause = so_far() - before
    print(what, pause.count, pause.seconds, clock, wall, flush=True)

def busy():
    end = time.perf_counter() + 2.6
    while time.perf_counter() < end:
        pass

said("sleeps", lambda: time.sleep(2.6))
said("computes", busy)
said("holds", lambda: ctypes.PyDLL(None).usleep(2_600_000))  # asleep, with Python's lock
said("stopped", lambda: os.kill(os.getpid(), signal.SIGSTOP))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="other kernels do not count")
def test_a_process_that_is_stopped_stood_still_and_one_that_sleeps_computes_or_holds_the_lock_did_not() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", STOPPED],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": "."},
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        os.waitpid(process.pid, os.WUNTRACED)  # until it has stopped itself
        pauses.time.sleep(3.0)
        process.send_signal(signal.SIGCONT)
        printed, _ = process.communicate(timeout=60)
    said = {what: [float(number) for number in numbers] for what, *numbers in map(str.split, printed.splitlines())}
    for what in ("sleeps", "computes", "holds"):
        count, seconds, clock, wall = said[what]
        assert (count, seconds) == (0, 0), said
        assert clock == pytest.approx(wall, abs=0.1)
        assert wall >= 2.6
    count, seconds, clock, wall = said["stopped"]
    assert count == 1
    assert wall >= 3
    assert 3 - EVERY_S - 0.1 <= seconds <= wall
    assert clock == pytest.approx(wall - seconds, abs=0.1)
