"""One message at the first failure, at a stall and at the end of a study, to whoever the environment names.

Addresses are Apprise's (https://github.com/caronc/apprise): e-mail, Slack, Telegram and a hundred more. They hold
passwords, so they are in no configuration, no plan and no store.
"""

import os
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from experiments.config.errors import ConfigurationError
from experiments.config.trial_config import TrialConfig
from experiments.contract import FAILED
from experiments.trial.events import Ended, Event

if TYPE_CHECKING:
    from apprise import Apprise

VARIABLE = "RL_SCALING_NOTIFY"
"""Addresses, with spaces between them, or the path of a file with one in each line."""
WAIT_S = 20.0
"""How long a study waits at its end for its messages to be taken."""


class Notifier:
    """Sends messages from threads of its own, in their order; what cannot be sent is counted, and does no harm."""

    def __init__(self, study: str, service: "Apprise") -> None:
        """Send about `study` through `service`."""
        self._study, self._service = study, service
        self._told: set[str] = set()
        self._threads: list[threading.Thread] = []
        self._unsent = 0

    def on_event(self, trial: TrialConfig, event: Event) -> None:
        """Tell of the first failure, and of the first stall."""
        if isinstance(event, Ended) and event.status == FAILED:
            kind = "a trial stalled" if event.reason.startswith("stalled") else "a trial failed"
            if kind not in self._told:
                self._told.add(kind)
                more = "The others go on. More of the same are not told before the end."
                self.send(kind, f"{trial.label} seed {trial.seed}: {event.reason}. {more}")

    def send(self, what: str, text: str) -> None:
        """Send a message after those before it.

        Args:
            what: Happened, for the subject.
            text: The message.
        """
        before = self._threads[-1:]

        def sent() -> None:
            for thread in before:
                thread.join()
            try:
                is_sent = bool(self._service.notify(title=f"{self._study}: {what}", body=text))
            except Exception:  # noqa: BLE001  # whatever a service raises; its words may hold the address
                is_sent = False
            self._unsent += not is_sent

        self._threads.append(threading.Thread(target=sent, daemon=True, name="notify"))
        self._threads[-1].start()

    def close(self) -> str:
        """Wait until all is sent; what was not, in words."""
        if self._threads:
            self._threads[-1].join(WAIT_S)
        late = sum(thread.is_alive() for thread in self._threads)
        unsent = self._unsent + late
        return f"{unsent} of {len(self._threads)} messages to {VARIABLE} could not be sent" if unsent else ""


def notifier(study: str, environment: Mapping[str, str] = os.environ) -> Notifier | None:
    """Who is to be told of a study; None if nobody.

    Raises:
        ConfigurationError: An address is none, there is no such file, or Apprise is not installed.
    """
    if not environment.get(VARIABLE, "").strip():
        return None
    try:
        from apprise import Apprise
    except ImportError:
        raise ConfigurationError(
            f"{VARIABLE} is set, and Apprise, which sends its messages, is not installed: "
            "pip install 'rl-scaling-suite[notify]'."
        ) from None
    service = Apprise()
    for i, address in enumerate(_addresses(environment[VARIABLE]), start=1):
        if not service.add(address):  # it holds passwords: not shown
            raise ConfigurationError(
                f"{VARIABLE}: address {i} is none of Apprise's, such as mailto://user:password@example.org or "
                "slack://token. To send nothing, unset it."
            )
    return Notifier(study, service)


def _addresses(value: str) -> Sequence[str]:
    if "://" in value:
        return value.split()
    file = Path(value.strip()).expanduser()
    try:
        lines = file.read_text().splitlines()
    except OSError as error:
        raise ConfigurationError(f"{VARIABLE}={file}: {error.strerror or error}.") from None
    return [line.strip() for line in lines if line.strip() and not line.lstrip().startswith("#")]
