"""The trials that a search asks for, in order, within its limits, and on disk before they begin.

The journal has a line for each step: a trial was asked for, it ended, its outcome was told to the strategy, the
search was closed. What a trial came to is in the trial's own log. A search that was killed is brought back by taking
the same steps again.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from experiments.search.strategy import Ask, Confirming, Outcome, Signal, Strategy

RESERVE = 0.5
"""Share of a limit that is kept for confirmation at most."""

Write = Callable[[Mapping[str, Any]], None]


@dataclass(frozen=True)
class Limits:
    """The limits of a search's cost.

    Attributes:
        trial_env_steps: Env steps of a trial, at most.
        max_env_steps: Env steps of all trials; None: no limit.
        max_minutes: Minutes of wall-clock, all executions of the study together; None: no limit.
    """

    trial_env_steps: int
    max_env_steps: int | None = None
    max_minutes: float | None = None


@dataclass
class TrialQueue:
    """The trials that a search runs, by ask and tell.

    Outcomes are told to its strategy in the order in which trials began, and each only when there is no other way to go
    on: before the n-th trial begins, exactly the outcomes of all but the last `ahead` before it. So what is run does
    not depend on which trial ended first.

    Attributes:
        strategy: The strategy that asks.
        ahead: Trials that may be under way while another one is chosen.
        limits: The limits of its cost.
        write: Adds a line to the journal; must not raise.
        journal: Lines of earlier executions.
        outcome_of: Outcome of the trial of an index and an ask; None if it has not ended, or is tried again.
        clock: Seconds from any start.
        elapsed_s: Seconds that earlier executions took.
        closed: Which limit ended the search, or the study; empty if none did.
        outcomes: Index into `asked` to the trial's outcome.
    """

    strategy: Strategy
    ahead: int
    limits: Limits
    write: Write = lambda line: None
    journal: Sequence[Mapping[str, Any]] = ()
    outcome_of: Callable[[int, Ask], Outcome | None] = lambda index, ask: None
    clock: Callable[[], float] = time.monotonic
    elapsed_s: float = 0.0
    closed: str = ""
    outcomes: dict[int, Outcome] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._start = self.clock()
        for line in self.journal:
            self._step_again(line)
        self.strategy.resume()
        ended = {line["ended"] for line in self.journal if "ended" in line}
        for index, ask in enumerate(self.asked):
            if index not in self.outcomes and (outcome := self.outcome_of(index, ask)) is not None:
                if index in ended:
                    self.outcomes[index] = outcome
                else:  # it ended just before the kill
                    self.tell(index, outcome)
        self._again = [index for index in range(len(self.asked)) if index not in self.outcomes]

    def _step_again(self, line: Mapping[str, Any]) -> None:
        self.elapsed_s = line["at_s"]
        if "asked" in line:
            self.strategy.start(Ask(**line["asked"]))
        elif "told" in line:
            index = line["told"]
            if (outcome := self.outcome_of(index, self.asked[index])) is not None:
                self.outcomes[index] = outcome
                self.strategy.tell(index, outcome)
        elif "closed" in line:
            self._close(line["closed"])

    @property
    def asked(self) -> list[Ask]:
        """The trials that were asked for, in order."""
        return self.strategy.asked

    def ask(self) -> int | Signal:
        """The next trial's index into `asked`; `WAIT` if an outcome is needed first, `DONE` if there is none."""
        while self._again:
            index = self._again[0]
            if index in self.outcomes:
                self._again.pop(0)
            elif self._has_to_wait(self.asked[index], waiting=self._again):
                return Signal.WAIT
            else:
                return self._again.pop(0)
        while True:
            if (why := self._beyond_limits()) and not self._end(why):
                return Signal.DONE
            if self.strategy.in_order and self._untold() >= self.ahead:
                if not self._tell_next():
                    return Signal.WAIT
                continue
            found = self.strategy.ask()
            if isinstance(found, Ask):
                if self._has_to_wait(found):
                    return Signal.WAIT
                self.strategy.start(found)
                self._note(asked=asdict(found))
                return len(self.asked) - 1
            if found is Signal.DONE:
                while self._tell_next():
                    pass
                return found
            if not self._tell_next():
                return found

    def tell(self, index: int, outcome: Outcome) -> None:
        """A trial ended.

        Args:
            index: Index into `asked`.
            outcome: The outcome of the trial.
        """
        if index in self.outcomes:
            return
        self.outcomes[index] = outcome
        self._note(ended=index)
        if not self.strategy.in_order:
            self._tell(index)

    def _has_to_wait(self, ask: Ask, waiting: Sequence[int] = ()) -> bool:
        """Whether something runs beside which it may not begin."""
        running = [a for i, a in enumerate(self.asked) if i not in self.outcomes and i not in waiting]
        return any(ask.alone or other.alone for other in running)

    def _untold(self) -> int:
        return len(self.asked) - len(self.strategy.outcomes)

    def _tell_next(self) -> bool:
        """Tell the oldest outcome that was not told, if it is there."""
        index = next((i for i in range(len(self.asked)) if i not in self.strategy.outcomes), None)
        if index is None or index not in self.outcomes:
            return False
        self._tell(index)
        return True

    def _tell(self, index: int) -> None:
        self.strategy.tell(index, self.outcomes[index])
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
        confirming = isinstance(self.strategy, Confirming) and (
            self.strategy.is_confirming or bool(self.strategy.closed)
        )
        reserve = self.strategy.num_confirming if isinstance(self.strategy, Confirming) and not confirming else 0
        limits = self.limits
        if limits.max_env_steps is not None:
            under_way = sum(
                ask.note.get("env_steps", limits.trial_env_steps)
                for i, ask in enumerate(self.asked)
                if i not in self.outcomes
            )
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

    def _note(self, **step: Any) -> None:
        self.write({"at_s": round(self.elapsed(), 3), **step})
