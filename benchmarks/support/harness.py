"""What the benchmarks share: processes that are timed, repeats that take turns, medians,
and the page that a benchmark writes.
"""

import os
import signal
import sqlite3
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from datetime import date
from importlib import metadata
from pathlib import Path
from typing import IO, TypeVar

import psutil
from rich.console import Console
from rich.markup import escape
from rich.table import Table as RichTable

from benchmarks.support.fallen import fallen
from benchmarks.support.pages import machine_of, part_of, with_others
from experiments.tracking.provenance import git_state, host, versions

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs" / "benchmarks"
SAMPLE_EVERY_S = 0.5
"""Spacing of the looks at a process tree: CPU seconds of a process that ends between two looks are lost."""

_loads: list[float] = []  # load averages at the starts of the turns

T = TypeVar("T")


class BenchmarkError(RuntimeError):
    """A command of a benchmark failed; the message ends with its last lines."""


@dataclass(frozen=True)
class Usage:
    """What a command took.

    Attributes:
        started_at: Unix time just before it was started.
        wall_s: From start to exit.
        cpu_s: CPU seconds of it and all processes below it, sampled: about.
    """

    started_at: float
    wall_s: float
    cpu_s: float


@dataclass(frozen=True)
class Table:
    """A table of a page.

    Attributes:
        title: What it shows; "" for a table without a heading.
        columns: Headings, with units; the first column is text, the others are numbers.
        rows: Cells.
        note: What a reader has to know about it.
        more_is_better: Columns of ratios, each to whether a larger one is better: a later run is held against them.
    """

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    note: str = ""
    more_is_better: Mapping[str, bool] = field(default_factory=dict)

    def markdown(self) -> str:
        """As Markdown."""
        lines = [f"## {self.title}", ""] if self.title else []
        lines += [_row(self.columns), _row(["---", *["---:"] * (len(self.columns) - 1)]), *map(_row, self.rows)]
        return "\n".join([*lines, *(["", self.note] if self.note else [])])

    def rich(self) -> RichTable:
        """For a terminal."""
        table = RichTable(
            title=self.title,
            title_justify="left",
            caption=self.note or None,
            caption_justify="left",
            box=None,
            pad_edge=False,
        )
        for number, column in enumerate(self.columns):
            table.add_column(column, justify="right" if number else "left", overflow="fold")
        for row in self.rows:
            table.add_row(*row)
        return table


@dataclass(frozen=True)
class Report:
    """What a benchmark found.

    Attributes:
        name: Of the benchmark.
        title: Of the page.
        compared: What was compared with what, and how: Markdown.
        verdict: One sentence: the target, and met or missed by how much.
        tables: The numbers.
        notes: What else was seen: Markdown.
        packages: Versions to name beside the suite's own packages.
        by_machine: Whether its page keeps what was found on other machines: not where that is the same, or in it.
    """

    name: str
    title: str
    compared: str
    verdict: str
    tables: tuple[Table, ...]
    notes: str = ""
    packages: tuple[str, ...] = ()
    by_machine: bool = True

    def markdown(self) -> str:
        """The page."""
        machine = host()
        found = {**versions(), **{p: metadata.version(p) for p in self.packages}}
        facts = [
            f"- Command: `python -m benchmarks {self.name}`",
            f"- Date: {date.today().isoformat()}; commit "
            f"{(git_state().commit or 'unknown')[:12]}{' with changes' if git_state().dirty_diff else ''}",
            f"- Machine: {machine['cpu']}, {machine['cpu_count']} cores, {psutil.virtual_memory().total / 2**30:.0f} "
            "GiB; load average when the turns started, their predecessors' share included: "
            f"{spread(_loads or os.getloadavg()[:1])}",
            f"- Versions: {', '.join(f'{name} {version}' for name, version in found.items())}",
        ]
        parts = [
            f"# {self.title}",
            f"**{self.verdict}**",
            self.compared,
            "\n".join(facts),
            *(t.markdown() for t in self.tables),
        ]
        return "\n\n".join([*parts, *(["## Notes\n\n" + self.notes] if self.notes else [])]) + "\n"


def end_what_was_started() -> None:
    """Make SIGTERM unwind this process, as Ctrl-C does, so that no command outlives it."""
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))


def finish(report: Report, quick: bool, out: Path | None) -> list[str]:
    """Print a report, and write its page unless the sizes were tiny and no folder was named.

    Returns:
        What is slower than on the committed page, a sentence each.
    """
    console = Console() if sys.stdout.isatty() else Console(width=140)
    console.print(f"\n[bold]{report.title}[/]")
    for table in report.tables:
        console.print(table.rich())
    console.print(report.verdict, highlight=False)
    if quick and out is None:
        return []
    page = (out or DOCS) / f"{report.name}.md"
    page.parent.mkdir(parents=True, exist_ok=True)
    before, now = page.read_text() if page.exists() else "", report.markdown()
    guarded = {column: is_more for table in report.tables for column, is_more in table.more_is_better.items()}
    page.write_text(with_others(now, before) if report.by_machine else now)
    console.print(f"written to {page}", highlight=False)
    slower = fallen(part_of(_committed(page), machine_of(now)), now, guarded)
    for sentence in slower:
        console.print(f"[red]slower[/] {escape(sentence)}", highlight=False)
    return slower


def _committed(page: Path) -> str:
    """A page as it was committed last; "" if it was not."""
    command = ["git", "show", f"HEAD:./{page.name}"]
    done = subprocess.run(command, cwd=page.parent, capture_output=True, text=True, check=False)
    return done.stdout if done.returncode == 0 else ""


def take_turns(variants: Mapping[str, Callable[[], T]], repeats: int, once: Collection[str] = ()) -> dict[str, list[T]]:
    """Run every variant `repeats` times, A B C A B C: what else the machine does then hits all of them alike.

    Args:
        variants: By name.
        repeats: Turns.
        once: Those that are too slow for more than the first turn.

    Returns:
        What each gave, turn by turn.
    """
    found: dict[str, list[T]] = {name: [] for name in variants}
    for turn in range(repeats):
        for name, run in variants.items():
            if turn == 0 or name not in once:
                say(f"{name}: {turn + 1} of {repeats}")
                found[name].append(run())
    return found


def forget_loads() -> None:
    """Start another benchmark's record of the machine's load."""
    _loads.clear()


def say(text: str) -> None:
    """A line of progress, on stderr, with the load of the machine."""
    _loads.append(os.getloadavg()[0])
    print(f"[{time.strftime('%H:%M:%S')}, load {_loads[-1]:.1f}] {text}", file=sys.stderr, flush=True)


def spread(values: Sequence[float], form: str = ".1f") -> str:
    """`median (min-max)`."""
    return f"{statistics.median(values):{form}} ({min(values):{form}}-{max(values):{form}})"


def ratio(values: Sequence[float], reference: Sequence[float]) -> float:
    """Ratio of the medians."""
    return statistics.median(values) / statistics.median(reference)


def ratios(values: Sequence[float], reference: Sequence[float]) -> str:
    """Ratio of the medians, with the lowest and the highest ratio of a turn."""
    turns = [a / b for a, b in zip(values, reference, strict=False)]  # one may have had fewer turns
    return f"{ratio(values[: len(turns)], reference[: len(turns)]):.2f} ({min(turns):.2f}-{max(turns):.2f})"


def against(value: float, target: float, unit: str = "", form: str = ".2f") -> str:
    """`met: 0.52 against at most 0.70, 26% below it`."""
    distance = abs(value - target) / target
    word, side = ("met", "below") if value <= target else ("missed", "above")
    return f"{word}: {value:{form}}{unit} against at most {target:{form}}{unit}, {100 * distance:.0f}% {side} it"


def suite_command(overrides: Sequence[str], output_dir: Path) -> list[str]:
    """The command that a user types for a study."""
    return [sys.executable, "experiments/run.py", *overrides, f"output_dir={output_dir}"]


def environment(root: Path = ROOT) -> dict[str, str]:
    """Environment of a command: a checkout's packages first, wherever another one is installed."""
    return {**os.environ, "PYTHONPATH": str(root)}


@contextmanager
def checked_out(commit: str, folder: Path) -> Iterator[Path]:
    """An earlier commit of this repository.

    Args:
        commit: Its hash.
        folder: Where it is checked out; it must not exist.

    Yields:
        `folder`.

    Raises:
        BenchmarkError: The history at hand does not reach so far.
    """
    made = subprocess.run(
        ["git", "worktree", "add", "--detach", str(folder), commit], cwd=ROOT, capture_output=True, text=True
    )
    if made.returncode:
        raise BenchmarkError(f"commit {commit} cannot be checked out: {made.stderr.strip()}")
    try:
        yield folder
    finally:
        subprocess.run(
            ["git", "worktree", "remove", "--force", str(folder)], cwd=ROOT, capture_output=True, check=False
        )


def run(command: Sequence[str], log: Path, root: Path = ROOT) -> Usage:
    """Run a command to its end and measure it.

    Args:
        command: With its arguments.
        log: File for what it prints.
        root: The checkout in which it runs.

    Raises:
        BenchmarkError: It failed.
    """
    with log.open("a") as file, started(command, file, root) as (process, usage):
        status = process.wait()
    if status:
        raise BenchmarkError(
            f"{' '.join(command)} ended with {status}:\n" + "\n".join(log.read_text().splitlines()[-20:])
        )
    return usage()


@contextmanager
def started(
    command: Sequence[str], file: IO[str], root: Path = ROOT
) -> Iterator[tuple["subprocess.Popen[bytes]", Callable[[], Usage]]]:
    """Start a command in a session of its own; on leaving, it is gone with all it started.

    Args:
        command: With its arguments.
        file: For what it prints.
        root: The checkout in which it runs.

    Yields:
        The process, and what it took: from its start to the moment when it was last seen alive.
    """
    at, start = time.time(), time.perf_counter()
    process = subprocess.Popen(
        command, cwd=root, env=environment(root), stdout=file, stderr=subprocess.STDOUT, start_new_session=True
    )
    cpu_s: dict[int, float] = {}
    ended, end = threading.Event(), [0.0]

    def watch() -> None:
        with suppress(psutil.Error):
            root = psutil.Process(process.pid)
            while not ended.wait(SAMPLE_EVERY_S):
                for p in (root, *root.children(recursive=True)):
                    with suppress(psutil.Error):
                        times = p.cpu_times()
                        cpu_s[p.pid] = times.user + times.system

    def wait_for_end() -> None:
        process.wait()
        end[0] = time.perf_counter()

    threads = [threading.Thread(target=watch, daemon=True), threading.Thread(target=wait_for_end, daemon=True)]
    for thread in threads:
        thread.start()
    try:
        yield process, lambda: Usage(at, (end[0] or time.perf_counter()) - start, sum(cpu_s.values()))
    finally:
        ended.set()
        if process.poll() is None:
            below = psutil.Process(process.pid).children(recursive=True)
            process.send_signal(signal.SIGTERM)
            with suppress(subprocess.TimeoutExpired):
                process.wait(timeout=30)
            for p in below:
                with suppress(psutil.Error):
                    p.kill()
            process.kill()
        for thread in threads:
            thread.join(timeout=5)


@dataclass(frozen=True)
class Point:
    """One value in a study's store."""

    run: str
    step: int
    value: float
    at: float


def points(database: Path, metric: str) -> list[Point]:
    """All values of a metric in an embedded store, oldest first; none where the store is not there yet."""
    if not database.exists():
        return []
    with closing(sqlite3.connect(f"{database.absolute().as_uri()}?mode=ro", uri=True, timeout=10)) as connection:
        try:
            rows = connection.execute(
                "SELECT run_uuid, step, value, timestamp FROM metrics WHERE key = ? ORDER BY timestamp, step", (metric,)
            ).fetchall()
        except sqlite3.OperationalError:  # the tables are being made
            return []
    return [Point(run, step, value, ms / 1000) for run, step, value, ms in rows]


def run_tags(database: Path, tag: str) -> dict[str, str]:
    """Run id to the value of a tag, in an embedded store."""
    with closing(sqlite3.connect(f"{database.absolute().as_uri()}?mode=ro", uri=True, timeout=10)) as connection:
        return dict(connection.execute("SELECT run_uuid, value FROM tags WHERE key = ?", (tag,)).fetchall())


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"
