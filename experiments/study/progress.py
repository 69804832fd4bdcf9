"""A study on the terminal, while it runs and at its end."""

import math
import re
import sys
import textwrap
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from experiments.config.trial_config import TrialConfig
from experiments.contract import CONFIRM, FAILED, FINISHED, PRUNED, RETURN, SCORE
from experiments.contract.words import LABEL_WIDTH, duration, some, span
from experiments.planning.durations import SCORING, so_far
from experiments.planning.plan import Plan
from experiments.study.outcomes import TrialOutcome
from experiments.trial.events import Ended, Event, Reported, Reused, Started
from experiments.trial.usage import pauses
from experiments.trial.usage.pauses import unpaused_s

LOG_WIDTH = 140
"""Columns of a log file."""
_COPIED = ("python ", "mlflow ", "make ", "http://", "https://", "/")
"""Beginnings of commands, addresses and paths."""
LINE_EVERY_S = 15.0
"""Spacing of progress lines where there is no terminal."""
MOST_ROWS = 16
MOST_OF_A_CAUSE = 3
"""Failures of one cause that are shown as they happen."""
_KNOWN_FROM = 20
"""Part of the work from which on the time left is told: before, it is mostly of starting."""
_MEAN_FROM = 3
"""Trials that ended, from which on the others are taken to be like them."""
_SIZE = re.compile(r"\d+\.\d [MG]iB")
_ENDS = (FINISHED, PRUNED, FAILED)


@dataclass
class _Row:
    label: str
    seed: int
    work: int  # env steps to sample; where throughput is measured, 1
    status: str = "starting"
    done: int = 0  # of the work
    env_steps: int = 0
    return_mean: float = math.nan
    env_steps_per_s: float = math.nan
    changed: float = 0.0
    wall_s: float = 0.0  # of the trial, at its newest report
    scoring_s: float = math.nan  # from its last report to its end; an estimate until it has ended
    reused: bool = False  # taken from another study, in no time
    confirms: bool = False


class Progress:
    """A live table on a terminal, a line now and then elsewhere, once it is entered.

    What it hears of before that happened earlier.
    """

    def __init__(self, plan: Plan, console: Console) -> None:
        """Show `plan` on `console`."""
        self._plan, self._console = plan, console
        self._rows: dict[str, _Row] = {}
        self._before = 0  # done by earlier executions
        self._is_live = False
        self._causes: Counter[str] = Counter()
        self._start = self._last_line = time.monotonic()
        self._start_unpaused = unpaused_s()
        self._before_training_s: float | None = None  # from there, by the first report
        self._what = "work" if plan.is_measured else "env steps"
        self._live = (
            Live(console=console, refresh_per_second=4, get_renderable=self._render) if console.is_terminal else None
        )

    def __enter__(self) -> "Progress":
        self._is_live, self._before = True, sum(row.done for row in self._rows.values())
        for row in self._rows.values():
            row.status = row.status if row.status in _ENDS else "waiting"
        self._start = self._last_line = time.monotonic()
        pauses.begin()
        self._start_unpaused = unpaused_s()
        if self._live:
            self._live.start()
        return self

    def __exit__(self, *exc: object) -> None:
        if self._live:
            self._live.stop()

    @property
    def _total(self) -> int:
        """The work of all trials, at most: without what those that ended left of theirs,
        of which nothing more will come.
        """
        if self._plan.is_measured:
            return self._plan.num_trials
        return self._plan.env_steps_in_all(
            sum(row.work - row.done for row in self._rows.values() if row.status in _ENDS)
        )

    @property
    def _done(self) -> int:
        """Of the work."""
        return sum(row.done for row in self._rows.values())

    @property
    def share(self) -> float:
        """Of the work that is done."""
        return min(1.0, self._done / max(1, self._total))

    def on_event(self, trial: TrialConfig, event: Event) -> None:
        """The newest of the trial's row."""
        row = self._row(trial)
        row.changed = time.monotonic()
        if isinstance(event, Started):
            row.status = "starting"
            if self._is_live and self._plan.is_measured and self._before_training_s is None:
                self._before_training_s = unpaused_s() - self._start_unpaused
        elif isinstance(event, Reused):
            row.reused = True
        elif isinstance(event, Reported):
            self._report(trial, row, event)
        elif isinstance(event, Ended):
            self._end(row, event)

    def _report(self, trial: TrialConfig, row: _Row, report: Reported) -> None:
        row.status, row.env_steps = "running", max(row.env_steps, report.env_steps)
        before = row.done
        row.done = row.done if trial.measurement else row.env_steps - trial.first_env_steps
        if row.reused:
            self._before += row.done - before
        row.return_mean = report.metrics.get(RETURN, row.return_mean)
        row.env_steps_per_s = report.metrics.get("throughput/env_steps_per_s", row.env_steps_per_s)
        if not row.reused:
            self._time(trial, row, report.metrics)
        if self._is_live:
            if report.unsaved:
                self._console.print(Text(f"not saved: {row.label} seed {row.seed}: {report.unsaved}", style="yellow"))
            self._line()

    def _time(self, trial: TrialConfig, row: _Row, metrics: Mapping[str, float]) -> None:
        """What of the time is no training at the trial's pace: until it begins, and the final evaluation."""
        share, wall_s = metrics.get("time/evaluation_share", 0.0), metrics.get("progress/wall_s", row.wall_s)
        learns = trial.measurement is None and "progress/train_s" in metrics
        if self._is_live and self._before_training_s is None and learns:
            trained_s = metrics["progress/train_s"] / (1 - min(share, 0.9))
            self._before_training_s = max(0.0, unpaused_s() - self._start_unpaused - trained_s)
        if share and trial.measurement is None:
            side_by_side = trial.env.vectorize_mode == "vector_entry_point"  # more environments take hardly longer
            episodes = 1.0 if side_by_side else trial.evaluation.final_episodes / trial.evaluation.episodes
            row.scoring_s = share * (wall_s - row.wall_s) * episodes
        row.wall_s = wall_s

    def _end(self, row: _Row, end: Ended) -> None:
        again, row.status = row.status == end.status, end.status
        row.scoring_s = max(0.0, end.metrics.get("final/wall_s", math.nan) - row.wall_s)
        row.return_mean = end.metrics.get(SCORE, row.return_mean)
        row.env_steps_per_s = end.metrics.get("final/env_steps_per_s", row.env_steps_per_s)
        if self._plan.is_measured:
            row.done = row.work
        if end.status != FAILED or again or not self._is_live:
            return
        # Said at once, but a cause that hits many trials only for the first of them.
        cause = _cause(end.reason)
        self._causes[cause] += 1
        if self._causes[cause] <= MOST_OF_A_CAUSE:
            more = "; more of the same are counted at the end" if self._causes[cause] == MOST_OF_A_CAUSE else ""
            self._console.print(Text(f"failed: {row.label} seed {row.seed}: {end.reason}{more}", style="red"))

    def _row(self, trial: TrialConfig) -> _Row:
        work = trial.budget_env_steps - trial.first_env_steps
        if trial.measurement:  # beside trials that learn it is little
            work = 1 if self._plan.is_measured else 0
        new = _Row(trial.label, trial.seed, work, changed=time.monotonic(), confirms=trial.phase == CONFIRM)
        return self._rows.setdefault(trial.folder_name, new)

    def _line(self) -> None:
        now = time.monotonic()
        if self._live is None and now - self._last_line >= LINE_EVERY_S:
            self._last_line = now
            self._console.print(self.overall())

    def overall(self) -> str:
        """How far the study is, in one sentence."""
        counts = Counter(row.status for row in self._rows.values())
        done, total = self._done, self._total
        trials = self._plan.num_trials
        failed = "".join(f", {counts[status]} {status}" for status in (PRUNED, FAILED) if counts[status])
        reused = sum(row.reused for row in self._rows.values())
        known = f", {reused} known before" if reused else ""
        return (
            f"{counts['finished']}/{trials} trials finished{failed}{known}, {100 * done / max(1, total):.0f}% "
            f"of the {self._what}, {duration(time.monotonic() - self._start)} so far{self._left(done, total)}"
        )

    def _left(self, done: int, total: int) -> str:
        new, likely = done - self._before, self._likely_total()
        left = (total if likely is None else likely) - done
        scored_s, to_score_s = self._scoring_s()
        if left <= 0 and to_score_s <= 0:
            return ""
        if new <= 0 or (new < (total - self._before) / _KNOWN_FROM and likely is None):
            return ", time left not known yet"
        seen = [row for row in self._rows.values() if row.done]
        begun = [row for row in seen if row.status not in _ENDS]
        unseen = max(0.0, left - sum(max(0.0, min(row.work, self._each or row.work) - row.done) for row in begun))
        so_far_s = unpaused_s() - self._start_unpaused
        trained_s = max(so_far_s - (self._before_training_s or 0.0) - scored_s, so_far_s / _KNOWN_FROM)
        left = max(left, 1)
        unit = so_far(trained_s, new, left, unseen, len(seen))
        takes = unit.over(left).then(to_score_s, SCORING).ended
        if least := self._least_left():
            return f", about {span(unit.over(least).ended.low, takes.high)} left"
        may_end_early = self._plan.search is not None or (likely is None and self._plan.suite.stop_at_target)
        return f", {takes.bound if may_end_early else takes} left"

    def _least_left(self) -> float:
        """The work that a search has left in any case, if trials to come take what those took that ended."""
        search, each = self._plan.search, self._each
        reused = any(row.reused for row in self._rows.values())  # of which there may be more
        if search is None or reused or (each is None and self._plan.suite.stop_at_target):
            return 0.0
        searching, confirming = search.least_learning
        if not searching:
            return 0.0
        each = min(c.suite.budget_env_steps for c in search.known) if each is None else each
        rows = [row for row in self._rows.values() if row.work > 1]
        running = sum(max(0.0, min(row.work, each) - row.done) for row in rows if row.status not in _ENDS)
        confirm = sum(row.confirms for row in rows)
        to_search = 0 if confirm else max(0, searching - len(rows))
        return running + each * (to_search + max(0, confirming - confirm))

    def _scoring_s(self) -> tuple[float, float]:
        """Seconds of the study that final evaluations took, and that those to come take."""
        ended = [row for row in self._rows.values() if row.status in _ENDS and not row.reused]
        known = [row.scoring_s for row in ended if row.status == FINISHED and not math.isnan(row.scoring_s)]
        known = known or [row.scoring_s for row in self._rows.values() if not math.isnan(row.scoring_s)]
        if not known or self._plan.search is not None:  # of which nobody knows how many trials are to come
            return 0.0, 0.0
        each = sum(known) / len(known) / min(self._plan.concurrency, self._plan.num_trials)
        reused = sum(row.reused for row in self._rows.values())
        return each * len(ended), each * (self._plan.num_trials - reused - len(ended))

    @property
    def _each(self) -> float | None:
        """The mean work of trials that ended; None where too few did, and where none can end early."""
        ended = [row.done for row in self._rows.values() if row.work > 1 and row.status == FINISHED]
        if self._plan.is_measured or not self._plan.suite.stop_at_target or len(ended) < _MEAN_FROM:
            return None
        return sum(ended) / len(ended)

    def _likely_total(self) -> float | None:
        """The work of all trials if those to come take as many env steps as those that ended; None if unknown."""
        each, rows = self._each, [row for row in self._rows.values() if row.work > 1]
        if each is None:
            return None
        to_come = self._plan.num_trials - len(self._rows)
        running = (row.done if row.status in _ENDS else max(row.done, each) for row in rows)
        return sum(running) + max(0, to_come) * each

    def _render(self) -> RenderableType:
        table = Table(box=None, header_style="bold", pad_edge=False)
        for name in ("configuration", "seed", "status", "env steps", "return", "env steps/s"):
            table.add_column(name, justify="left" if name in ("configuration", "status") else "right")
        rows = sorted(self._rows.values(), key=lambda r: (r.status in _ENDS, -r.changed))
        for row in rows[:MOST_ROWS]:
            style = {"finished": "green", "failed": "red"}.get(row.status, "")
            table.add_row(
                row.label,
                str(row.seed),
                Text(f"{row.status}, known" if row.reused else row.status, style=style),
                f"{row.env_steps:,}" if row.work <= 1 else f"{row.done:,}/{row.work:,}",
                _number(row.return_mean, ".1f"),
                _number(row.env_steps_per_s, ",.0f"),
            )
        hidden = len(self._rows) - MOST_ROWS
        more = [Text(f"and {hidden} more", style="dim")] if hidden > 0 else []
        bar = Table.grid()  # a bar alone in a group would not end its line
        bar.add_row(ProgressBar(total=self._total, completed=self._done, width=60))
        return Group(table, *more, bar, Text(self.overall()))


def console(quiet: bool = False) -> Console:
    """The terminal; a log file, and a notebook, gets lines of a fixed width.

    Args:
        quiet: Whether it prints nothing.
    """
    if Console().is_jupyter:  # there sys.stdout says that it is a terminal, and cannot go back a line
        return Console(width=LOG_WIDTH, quiet=quiet, force_jupyter=False, force_terminal=False)
    return Console(width=None if sys.stdout.isatty() else LOG_WIDTH, quiet=quiet)


def say(console: Console, line: str, style: str = "") -> None:
    """Print a line whose first columns say what it is about.

    On a terminal it is wrapped at words. In a log file, and of a command or an address, a line stays one: it can be
    searched and copied.
    """
    text = line[LABEL_WIDTH:]
    if console.is_terminal and not text.startswith(_COPIED):
        indent = " " * LABEL_WIDTH
        line = textwrap.fill(
            line, console.width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
        )
    console.print(Text(line, style=style), highlight=False, soft_wrap=True)


def failures(outcomes: Sequence[TrialOutcome]) -> list[str]:
    """The failures, one line per cause, not per trial."""
    by_cause: dict[str, list[TrialOutcome]] = {}
    for outcome in outcomes:
        if outcome.status == "failed":
            by_cause.setdefault(_cause(outcome.failure), []).append(outcome)
    lines = []
    for trials in by_cause.values():
        named = some([f"{t.label} s={t.seed}" for t in trials], 3)
        lines.append(f"{len(trials)} failed: {trials[0].failure}  ({named})")
    return lines


def _cause(reason: str) -> str:
    """The part of a reason that trials have in common: each had its own share of the memory."""
    return _SIZE.sub("", reason)


def _number(value: float, form: str) -> str:
    return "" if math.isnan(value) else f"{value:{form}}"
