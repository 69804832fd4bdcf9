"""A lock in an object store, which knows nothing of processes: it is kept by who renews it,
and lost by who does not.
"""

import secrets
import threading
import time
from collections.abc import Callable

from experiments.storage.objects import Objects

RENEW_S = 10.0
"""How often it is renewed."""
SILENT_S = 40.0
"""After what time without a renewal it may be taken over. Measured by the clock of who waits:
no two clocks are compared."""


class Lease:
    """An object that one process at a time owns.

    It is made, renewed and taken over by conditional writes alone, of which a store carries out one. An owner that was
    silent for `SILENT_S`, and whose lease was taken over meanwhile, learns of it when it tries to renew it again:
    `lost` is called then. What it writes between its return and that moment is not prevented.
    """

    def __init__(
        self,
        objects: Objects,
        name: str,
        lost: Callable[[], None],
        renew_s: float = RENEW_S,
        silent_s: float = SILENT_S,
    ) -> None:
        """A lease that nobody asks for yet.

        Args:
            objects: Objects that its own is among.
            name: Name of the object.
            lost: Called, in a thread of its own, if another process has taken the lease over.
            renew_s: How often it is renewed.
            silent_s: After what time without a renewal it is taken over.
        """
        self._objects, self._name, self._lost = objects, name, lost
        self._renew_s, self._silent_s = renew_s, silent_s
        self._token, self._count, self._version = secrets.token_hex(8), 0, ""
        self._released = threading.Event()
        self._thread: threading.Thread | None = None

    def take(self, owner: str) -> str:
        """Take the lease, if nobody has it, or who had it is silent. That takes `silent_s`.

        Args:
            owner: A description of this process for others.

        Returns:
            Who has it; "" if it is this process now.

        Raises:
            OSError: The store does not answer.
        """
        self._owner = owner
        while True:
            try:
                self._version = self._objects.create(self._name, self._content())
                break
            except FileExistsError:
                pass
            said, version = self._watched()
            if said:
                return said
            if version:
                try:
                    self._version = self._objects.replace(self._name, self._content(), version)
                    break
                except FileExistsError:  # another one was quicker
                    continue
        self._thread = threading.Thread(target=self._keep, daemon=True)
        self._thread.start()
        return ""

    def owner(self) -> str:
        """The owner; "" if nobody has, or who had it is silent. Raises as `take`."""
        return self._watched()[0]

    def release(self) -> None:
        """Give the lease back; one that is not given back is silent from now on."""
        if self._thread is None:
            return
        self._released.set()
        self._thread.join()
        self._thread = None
        if self._version:
            self._objects.remove([self._name])

    def _content(self) -> bytes:
        self._count += 1
        # never the same twice: its version is its content's hash
        return f"{self._owner}\n{self._token} {self._count}".encode()

    def _watched(self) -> tuple[str, str]:
        """The owner who renews it, and the version of one that nobody does; both "" if there is none any more."""
        first, give_up = "", time.monotonic() + self._silent_s
        while True:
            try:
                content, version = self._objects.versioned(self._name)
            except FileNotFoundError:
                return "", ""
            if version != (first := first or version):
                return content.decode().partition("\n")[0], ""
            if time.monotonic() >= give_up:
                return "", version
            time.sleep(self._renew_s / 10)

    def _keep(self) -> None:
        while not self._released.wait(self._renew_s):
            try:
                self._version = self._objects.replace(self._name, self._content(), self._version)
            except FileExistsError:
                self._version = ""
                self._lost()
                return
            except OSError:  # the store does not answer: it may do so next time
                continue
