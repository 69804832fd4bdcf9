"""The end of a study before its time: by signals, and the end of Ray's processes."""

import math
import signal
import socket
import threading
import time
from collections.abc import Callable
from types import FrameType
from typing import Any

import ray
from ray.tune.stopper import NoopStopper, Stopper

from experiments.signals import received_by

GRACE_S = 15.0
"""How long whatever is under way may take after a signal; a second signal ends the wait."""
LOOK_EVERY_S = 1.0
REFUSED_S, SILENT_S = 5.0, 30.0
"""After what time Ray counts as gone, where nothing listens any more and where nothing answers.
Ray itself ends a process that has lost it after 60 s, whatever that process still has to do."""


class StopOnRequest(Stopper):  # type: ignore[misc]  # Tune ships no type information
    """Ends Tune's loop when asked to."""

    def __init__(self) -> None:
        self.asked = threading.Event()

    def __reduce__(self) -> tuple[Any, tuple[()]]:  # Tune saves it with the experiment
        return NoopStopper, ()

    def __call__(self, trial_id: str, result: dict[str, Any]) -> bool:
        """No trial is stopped by itself."""
        return False

    def stop_all(self) -> bool:
        """True once all trials shall stop."""
        return self.asked.is_set()


class Interruption:
    """Notes the signals that end a command and the end of Ray's processes while it is entered, in the main thread.

    Work that may wait for a Ray that is gone runs in a thread of its own,
    since nothing gets a thread out of such a wait.

    Attributes:
        signals: Those that came, in order.
        ray_lost: Whether Ray's processes are gone.
        gave_up: For want of what, if for want of something.
    """

    def __init__(self) -> None:
        self.signals: list[signal.Signals] = []
        self.ray_lost = False
        self.gave_up = ""

    def __enter__(self) -> "Interruption":
        self._addresses = _addresses()
        self._receiving = received_by(self._receive)
        self._receiving.__enter__()
        return self

    def __exit__(self, *exc: object) -> None:
        self._receiving.__exit__(None, None, None)

    def _receive(self, number: int, frame: FrameType | None) -> None:
        self.signals.append(signal.Signals(number))

    @property
    def reason(self) -> str | None:
        """The first signal's name, that Ray is gone, or what was waited for in vain; None without any."""
        if self.signals:
            return self.signals[0].name
        return "the end of Ray's processes" if self.ray_lost else self.gave_up or None

    def run(self, work: Callable[[], Any], ask_to_end: Callable[[], Any] | None = None) -> bool:
        """Run `work` in a thread, and wait for its end, but leave it at a second signal or `GRACE_S` after a first one.

        Args:
            work: What to do.
            ask_to_end: Called at the first signal. Work that can be asked to end is taken to need Ray, and left when
                Ray is gone as well.

        Returns:
            Whether it came to its end. Else its thread goes on, and is best ended with the process.

        Raises:
            Exception: `work` raised it, and not for want of Ray.
        """
        raised: list[Exception] = []

        def attempt() -> None:
            try:
                work()
            except Exception as error:  # noqa: BLE001  # raised again below
                raised.append(error)

        thread = threading.Thread(target=attempt, daemon=True)
        thread.start()
        signals_before, leave_at, answered_at = len(self.signals), math.inf, time.monotonic()
        while True:
            thread.join(LOOK_EVERY_S)
            if ask_to_end:
                patience_s = min(_patience_s(address) for address in self._addresses)
                if patience_s == math.inf:
                    answered_at = time.monotonic()
                elif raised or time.monotonic() - answered_at >= patience_s:
                    self.ray_lost = True
                    return False
            if not thread.is_alive():
                break
            if self.signals and leave_at == math.inf:
                leave_at = time.monotonic() + GRACE_S
                if ask_to_end:
                    ask_to_end()
            if len(self.signals) > max(1, signals_before) or time.monotonic() >= leave_at:
                return False
        if raised:
            raise raised[0]
        return True


def _addresses() -> tuple[tuple[str, int], ...]:
    """Where Ray listens: its control store, and this node's raylet; nowhere if it was not started,
    for a study that is finished.
    """
    if not ray.is_initialized():
        return ()
    context = ray.get_runtime_context()
    host, _, port = context.gcs_address.rpartition(":")
    own = [node for node in ray.nodes() if node["NodeID"] == context.get_node_id()]
    return ((host.strip("[]"), int(port)), *((node["NodeManagerAddress"], node["NodeManagerPort"]) for node in own))


def _patience_s(address: tuple[str, int]) -> float:
    """How long an address may go on as it is now: for ever if it answers."""
    try:
        socket.create_connection(address, timeout=2.0).close()
    except ConnectionRefusedError:
        return REFUSED_S
    except OSError:
        return SILENT_S
    return math.inf
