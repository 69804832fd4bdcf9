"""Which trials shared a machine, by what really ran there. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass, field


@dataclass
class Occupancy:
    """The trials of a study on their machines, as they come and go."""

    _here: dict[str, Sequence[str]] = field(default_factory=dict)  # trial to the hosts that it runs on
    _left: dict[str, list[tuple[int, str]]] = field(default_factory=dict)  # host to when trials left it, ms
    _shared: set[str] = field(default_factory=set)

    def place(self, trial: str, hosts: Sequence[str], at_ms: int) -> set[str]:
        """A trial runs on some machines, and no longer where it was.

        What a trial does is heard when it reports: another one that was there may have left meanwhile.

        Args:
            trial: Any name.
            hosts: Names of the machines.
            at_ms: Since when, ms since the epoch.

        Returns:
            The trials that shared a machine, as is now known, and was not before.
        """
        self.leave(trial, at_ms)
        others = {other for other, places in self._here.items() if not set(places).isdisjoint(hosts)}
        for host in hosts:
            for left_ms, other in reversed(self._left.get(host, [])):
                if left_ms <= at_ms:
                    break
                others.add(other)
        self._here[trial] = hosts
        others.discard(trial)
        new = ({trial, *others} if others else set()) - self._shared
        self._shared |= new
        return new

    def leave(self, trial: str, at_ms: int) -> None:
        """A trial runs no more."""
        for host in self._here.pop(trial, ()):
            self._left.setdefault(host, []).append((at_ms, trial))

    def clear(self, at_ms: int) -> None:
        """No trial runs: what did ended with an earlier execution of the study."""
        for trial in list(self._here):
            self.leave(trial, at_ms)

    def was_alone(self, trial: str) -> bool:
        """True of a trial that runs and has had its machines to itself."""
        return trial in self._here and trial not in self._shared
