import contextlib
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Iterator

import pytest

from experiments.config.schema import HardwareSettings
from experiments.signals import exit_at_signals
from experiments.study import interruption
from experiments.study.cluster import ray_process
from experiments.study.interruption import Interruption
from experiments.study.several import run_each


@pytest.fixture
def listener(monkeypatch: pytest.MonkeyPatch) -> Iterator[socket.socket]:
    """Stands for Ray: it is gone when this is closed."""
    monkeypatch.setattr(interruption, "LOOK_EVERY_S", 0.05)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        address = listening.getsockname()
        monkeypatch.setattr(interruption, "_addresses", lambda: (address,))
        yield listening


def soon(action: object, *arguments: object) -> None:
    threading.Timer(0.2, action, arguments).start()  # type: ignore[arg-type]


def for_ever() -> None:
    threading.Event().wait()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_the_first_signal_asks_the_work_to_end(listener: socket.socket, number: signal.Signals) -> None:
    asked = threading.Event()
    with Interruption() as interrupted:
        soon(os.kill, os.getpid(), number)
        assert interrupted.run(asked.wait, asked.set)
    assert interrupted.reason == number.name
    assert not interrupted.ray_lost


def test_work_that_does_not_end_is_left_some_time_after_a_signal(
    listener: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(interruption, "GRACE_S", 0.3)
    with Interruption() as interrupted:
        soon(os.kill, os.getpid(), signal.SIGTERM)
        assert not interrupted.run(for_ever, lambda: None)


def test_work_that_does_not_end_is_left_at_a_second_signal(listener: socket.socket) -> None:
    with Interruption() as interrupted:
        soon(os.kill, os.getpid(), signal.SIGTERM)
        assert not interrupted.run(for_ever, lambda: soon(os.kill, os.getpid(), signal.SIGINT))
        assert interrupted.reason == "SIGTERM"
        # What comes then has its own time, until a third one.
        soon(os.kill, os.getpid(), signal.SIGINT)
        assert not interrupted.run(for_ever)


def test_work_that_waits_for_a_ray_that_is_gone_is_left(
    listener: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(interruption, "REFUSED_S", 0.3)
    with Interruption() as interrupted:
        soon(listener.close)
        assert not interrupted.run(for_ever, lambda: None)
        assert interrupted.ray_lost
        assert interrupted.reason == "the end of Ray's processes"
        assert interrupted.run(lambda: time.sleep(0.5))  # what needs no Ray still ends


def test_a_ray_that_comes_back_in_time_is_not_given_up(
    listener: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = iter([interruption.math.inf, 0.3, 0.3])
    monkeypatch.setattr(interruption, "_patience_s", lambda address: next(answers, interruption.math.inf))
    with Interruption() as interrupted:
        assert interrupted.run(lambda: time.sleep(1), lambda: None)
    assert not interrupted.ray_lost


def test_what_the_work_raises_is_raised(listener: socket.socket) -> None:
    def fail() -> None:
        raise ValueError("its reason")

    with Interruption() as interrupted, pytest.raises(ValueError, match="its reason"):
        interrupted.run(fail, lambda: None)


def test_what_the_work_raises_for_want_of_ray_is_the_end_of_ray(listener: socket.socket) -> None:
    def fail() -> None:
        raise ConnectionError

    listener.close()
    with Interruption() as interrupted:
        assert not interrupted.run(fail, lambda: None)
    assert interrupted.ray_lost


def test_the_signals_are_python_s_again_afterwards(listener: socket.socket) -> None:
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)]
    with Interruption():
        pass
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)] == before


@pytest.mark.parametrize(
    ("number", "raised"),
    [(signal.SIGINT, KeyboardInterrupt), (signal.SIGTERM, SystemExit), (signal.SIGHUP, SystemExit)],
)
def test_a_signal_that_is_lost_while_ray_starts_ends_the_start(
    monkeypatch: pytest.MonkeyPatch, number: signal.Signals, raised: type[BaseException]
) -> None:
    def start(hardware: object) -> None:
        with contextlib.suppress(BaseException):
            signal.raise_signal(number)

    monkeypatch.setattr(ray_process, "_start_ray", start)
    before = signal.getsignal(number)
    with pytest.raises(raised):
        ray_process.start_ray(HardwareSettings("laptop"))
    assert signal.getsignal(number) is before


def test_a_signal_that_was_ignored_at_the_start_as_under_nohup_stays_ignored(listener: socket.socket) -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        exit_at_signals()
        with Interruption() as interrupted:
            signal.raise_signal(signal.SIGHUP)
            assert interrupted.reason is None
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_a_signal_in_the_first_seconds_of_a_command_ends_it_with_its_number(number: signal.Signals, code: int) -> None:
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        exit_at_signals()
        with pytest.raises(SystemExit) as ended:
            signal.raise_signal(number)
        assert ended.value.code == code
    finally:
        for changed, handler in before.items():
            signal.signal(changed, handler)


STUDY = "import signal, sys, time; print(sys.argv[1], flush=True); sys.exit(int(sys.argv[1]))"
"""In the place of one: it ends with the code that it is given."""


def test_several_studies_end_with_the_worst_code_and_none_begins_after_one_that_was_interrupted(
    capfd: pytest.CaptureFixture[str],
) -> None:
    assert run_each([sys.executable, "-c", STUDY], [["0"], ["2"], ["1"]]) == 2
    announced_and_run = [f"study {at} of 3: {code}\n{code}\n" for at, code in ((1, 0), (2, 2), (3, 1))]
    assert capfd.readouterr().out == "".join(announced_and_run)
    assert run_each([sys.executable, "-c", STUDY], [["1"], ["130"], ["0"]]) == 130
    assert "study 3" not in capfd.readouterr().out
    # killed, and nobody asked the others to end
    assert run_each([sys.executable, "-c", STUDY], [["137"], ["0"]]) == 137
    assert "study 2" in capfd.readouterr().out


def test_a_signal_to_several_studies_reaches_the_one_that_runs_once_and_is_the_end() -> None:
    waits = (
        "import signal, sys\nsignal.signal(signal.SIGHUP, lambda number, frame: sys.exit(129))\n"
        "print('ready', flush=True)\nsignal.pause()"
    )
    soon(os.kill, os.getpid(), signal.SIGHUP)
    assert run_each([sys.executable, "-c", waits], [[], []]) == 129
