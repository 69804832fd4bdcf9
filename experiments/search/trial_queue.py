"""What a search asks for, in order, within its limits, and on disk before it begins.

The journal has a line for each event: a trial began, it ended, its outcome was told to the strategy, the search was closed. A search that
was killed is brought back by telling its strategy the same events again.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from experiments.search.strategy import FAILED, SEARCH, Ask, Confirming, Ended, Signal, Strategy

RESERVE = 0.5
"""Share of a limit that is kept for confirmation at most."""

Write = Callable[[Mapping[str, Any]], None]


@dataclass(frozen=True)
class Limits:
    """What a search may cost.

    Attributes:
        trial_env_steps: Env steps of a trial, at most.
        max_env_steps: Of all trials; None: no limit.
        max_minutes: Of the wall-clock, all executions of the study together; None: no limit.
    """

    trial_env_steps: int
    max_env_steps: int | None = None
    max_minutes: float | None = None


@dataclass
class Agenda:
    """What a search runs next.

    Outcomes are told to its strategy in the order in which trials began, and each only when there is no other way to go on: before the n-th
    trial begins, exactly the outcomes of all but the last `ahead` before it. So what is run does not depend on which trial ended first.

    Attributes:
        strategy: What asks.
        ahead: Trials that may be under way while another one is chosen.
        limits: What it may cost.
        write: Keeps an event; must not raise.
        elapsed_s: Seconds that earlier executions took.
        clock: Seconds from any start.
        closed: Which limit ended the search, or the study; empty if none did.
        outcomes: Index into `asked` to what the trial came to.
    """

    strategy: Strategy
    ahead: int
    limits: Limits
    write: Write = lambda event: None
    elapsed_s: float = 0.0
    clock: Callable[[], float] = time.monotonic
    closed: str = ""
    outcomes: dict[int, Ended] = field(default_factory=dict)
    _again: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._start = self.clock()

    @property
    def asked(self) -> list[Ask]:
        """The trials that began, in order."""
        return self.strategy.asked

    def replay(self, events: list[Mapping[str, Any]]) -> None:
        """Bring back what an earlier execution did.

        Args:
            events: As they were written.
        """
        for event in events:
            self.elapsed_s = event["at_s"]
            if "asked" in event:
                self.strategy.began(Ask(**event["asked"]))
            elif "ended" in event:
                outcome = Ended(**event["outcome"])
                # What failed is tried again, unless the search has gone on from there.
                if outcome.status != FAILED or self.asked[event["ended"]].phase == SEARCH:
                    self.outcomes[event["ended"]] = outcome
            elif "told" in event and event["told"] in self.outcomes:
                self.strategy.ended(event["told"], self.outcomes[event["told"]])
            elif "closed" in event:
                self._close(event["closed"])
        self.strategy.settle()
        self._again = [i for i in range(len(self.asked)) if i not in self.outcomes]

    def next(self) -> int | Signal:
        """The next trial's index into `asked`; `WAIT` if an outcome is needed first, `DONE` if there is none."""
        while self._again:
            index = self._again.pop(0)
            if index not in self.outcomes:
                return index
        while True:
            if (why := self._beyond_limits()) and not self._end(why):
                return Signal.DONE
            if self.strategy.in_order and self._untold() >= self.ahead:
                if not self._tell_next():
                    return Signal.WAIT
                continue
            found = self.strategy.choose()
            if isinstance(found, Ask):
                self.strategy.began(found)
                self._note(asked=asdict(found))
                return len(self.asked) - 1
            if found is Signal.DONE:
                while self._tell_next():
                    pass
                return found
            if not self._tell_next():
                return found

    def ended(self, index: int, outcome: Ended) -> None:
        """A trial ended.

        Args:
            index: Into `asked`.
            outcome: What it came to.
        """
        if index in self.outcomes:
            return
        self.outcomes[index] = outcome
        self._note(ended=index, outcome=asdict(outcome))
        if not self.strategy.in_order:
            self._tell(index)

    def _untold(self) -> int:
        return len(self.asked) - len(self.strategy.told)

    def _tell_next(self) -> bool:
        """Tell the oldest outcome that was not told, if it is there."""
        index = next((i for i in range(len(self.asked)) if i not in self.strategy.told), None)
        if index is None or index not in self.outcomes:
            return False
        self._tell(index)
        return True

    def _tell(self, index: int) -> None:
        self.strategy.ended(index, self.outcomes[index])
        self._note(told=index)

    def _end(self, why: str) -> bool:
        """End the search; whether there is something to confirm."""
        self._note(closed=why)
        return self._close(why)

    def _close(self, why: str) -> bool:
        self.closed = self.closed or why
        if isinstance(self.strategy, Confirming) and not self.strategy.is_confirming and not self.strategy.closed:
            self.strategy.close(why)
            return True
        return False

    def _beyond_limits(self) -> str:
        """Why no other trial may begin; empty if one may."""
        confirming = isinstance(self.strategy, Confirming) and (self.strategy.is_confirming or bool(self.strategy.closed))
        reserve = self.strategy.num_confirming if isinstance(self.strategy, Confirming) and not confirming else 0
        limits = self.limits
        if limits.max_env_steps is not None:
            under_way = sum(ask.note.get("env_steps", limits.trial_env_steps) for i, ask in enumerate(self.asked) if i not in self.outcomes)
            spent = sum(outcome.env_steps for outcome in self.outcomes.values()) + under_way
            kept = min(reserve * limits.trial_env_steps, RESERVE * limits.max_env_steps)
            if spent + limits.trial_env_steps + kept > limits.max_env_steps:
                return f"max_env_steps={limits.max_env_steps}"
        if limits.max_minutes is not None:
            most_s = 60 * limits.max_minutes
            seconds = [outcome.seconds for outcome in self.outcomes.values() if outcome.seconds > 0]
            of_a_trial = sum(seconds) / len(seconds) if seconds else 0.0
            kept = min(reserve * of_a_trial / self.ahead, RESERVE * most_s)
            if self.elapsed() + of_a_trial + kept > most_s:
                return f"max_minutes={limits.max_minutes:g}"
        return ""

    def elapsed(self) -> float:
        """Seconds, all executions together."""
        return self.elapsed_s + self.clock() - self._start

    def _note(self, **event: Any) -> None:
        self.write({"at_s": round(self.elapsed(), 3), **event})
