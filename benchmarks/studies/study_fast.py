"""A whole study, from the command to the exit: fast, with RLlib's own parts, as a stock Tune script,
with SB3 in a process pool, and as the suite was before.

What is run is frozen (`benchmarks.support.frozen`): a change of the suite's defaults leaves the comparison whole.
"""

import json
import math
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from analysis.document.command_line import hydra_value
from benchmarks.support.frozen import DEFAULT, SHORT, frozen, overrides
from benchmarks.support.harness import (
    ROOT,
    BenchmarkError,
    Report,
    Table,
    Usage,
    checked_out,
    points,
    ratio,
    ratios,
    run,
    spread,
    suite_command,
    take_turns,
)
from experiments.contract import TIME_PARTS

EARLIER = "7c43745"
"""The commit that the default study was frozen at."""
EVERY, EPISODES = 6000, 20
"""Env steps between the evaluations of the short study, where it has them, and episodes of each."""
END_TARGET_S = 2.0
EVALUATED = {"evaluation": {"episodes": EPISODES, "final_episodes": 1, "every_env_steps": EVERY}}

SUITE, SLOW, SB3, STOCK = "the suite", "the suite, fast=false", "SB3 in a process pool", "stock RLlib and Tune"
BEFORE = f"the suite at {EARLIER}"


@dataclass(frozen=True)
class Comparison:
    """The suite beside others that do the same.

    Attributes:
        title: Of its table.
        sides: What takes turns, by name; the suite is one of them.
        targets: Side to the share of its wall-clock that the suite may take at most.
        repeats: Turns.
        once: Those that are too slow for more than the first.
    """

    title: str
    sides: Mapping[str, Callable[[], "Done"]]
    targets: Mapping[str, float]
    repeats: int
    once: tuple[str, ...] = ()


@dataclass(frozen=True)
class Done:
    """One study.

    Attributes:
        usage: What it took.
        shares: Of the suite: share of the trials' wall-clock by what it went to.
        start_s: Of the suite: from the command to the first report.
        end_s: Of the suite: from the last trial's score to the end of the process.
    """

    usage: Usage
    shares: Mapping[str, float]
    start_s: float = math.nan
    end_s: float = math.nan


def measure(quick: bool) -> Report:
    """Run it."""
    with (
        tempfile.TemporaryDirectory(prefix="benchmark-") as folder,
        checked_out(EARLIER, Path(folder) / "earlier") as earlier,
    ):
        comparisons = _comparisons(Path(folder), earlier, quick)
        found = [take_turns(comparison.sides, comparison.repeats, comparison.once) for comparison in comparisons]
    by_title = {comparison.title: of_one for comparison, of_one in zip(comparisons, found, strict=True)}
    missed = [
        f"{comparison.title}, {side}: {reached:.2f} against at most {most:.2f}"
        for comparison, of_one in zip(comparisons, found, strict=True)
        for side, most in comparison.targets.items()
        if (reached := _reached(of_one, side)) > most
    ]
    tables = [_table(comparison, of_one) for comparison, of_one in zip(comparisons, found, strict=True)]
    return Report(
        name="study_fast",
        title="A study, fast",
        compared=(
            "Wall-clock of whole commands, start-up included: PPO on CartPole-v1, 16 environments, nets of [64, 64], "
            "minibatch 256, 6 epochs. The suite tracks and writes checkpoints. The short study is 3 learning rates "
            "x 3 batches x 3 seeds of 30,000 env steps. The default study is that of November 2026: 5 learning rates x "
            "3 batches x 3 seeds of 60,000 env steps, 15 evaluations of 20 episodes and one of 100 a trial, and the "
            f"report; commit {EARLIER} runs the same command. *Stock*: `benchmarks/peers/stock_script.py` with the "
            "layout of the suite's trials, without evaluation and without Tune's MLflow callback, which would make it "
            "slower. *SB3*: `benchmarks/peers/sb3_pool.py` in a pool of 2 "
            f"processes, which records nothing; with evaluations it plays {EPISODES} episodes every {EVERY:,} env "
            "steps, as the suite does. Times are median (minimum-maximum); CPU seconds are of all processes, sampled."
        ),
        verdict="All targets met." if not missed else f"Missed: {'; '.join(missed)}.",
        tables=(*tables, _around(by_title), _shares(by_title)),
        packages=("stable-baselines3",),
    )


def _comparisons(scratch: Path, earlier: Path, quick: bool) -> list[Comparison]:
    repeats = 1 if quick else 3
    short, whole = (_first_trial(name) if quick else {} for name in (SHORT, DEFAULT))
    evaluated = {**short, **EVALUATED}
    return [
        Comparison(
            "The short study, without evaluations on the way",
            {
                SUITE: lambda: _suite(scratch, SHORT, short),
                SB3: lambda: _sb3(scratch, short),
                SLOW: lambda: _suite(scratch, SHORT, short, "fast=false"),
                STOCK: lambda: _stock(scratch, SHORT, short, "--evaluation-interval", "0", "--no-mlflow"),
            },
            {SB3: 0.8, SLOW: 0.4, STOCK: 0.33},
            repeats,
            (SLOW, STOCK),
        ),
        Comparison(
            "The short study, with evaluations",
            {SUITE: lambda: _suite(scratch, SHORT, evaluated), SB3: lambda: _sb3(scratch, evaluated, EVERY)},
            {SB3: 0.6},
            repeats,
        ),
        Comparison(
            "The default study",
            {
                SUITE: lambda: _suite(scratch, DEFAULT, whole),
                BEFORE: lambda: _before(scratch, whole, earlier),
                SLOW: lambda: _suite(scratch, DEFAULT, whole, "fast=false"),
            },
            {BEFORE: 0.55, SLOW: 0.4},
            min(repeats, 2),
            (SLOW,),
        ),
    ]


def _first_trial(name: str) -> dict[str, Any]:
    """What makes a study one trial of two reports."""
    study, every = frozen(name)["study"], frozen(name)["report_every_env_steps"]
    return {
        "seeds": [0],
        "budget_env_steps": 2 * every,
        "study": {**study, "space": {path: axis[:1] for path, axis in study["space"].items()}},
    }


def _reached(found: Mapping[str, Sequence[Done]], side: str) -> float:
    """The share of a side's wall-clock that the suite takes, over the turns that both had."""
    other = _wall(found[side])
    return ratio(_wall(found[SUITE])[: len(other)], other)


def _wall(done: Sequence[Done]) -> list[float]:
    return [one.usage.wall_s for one in done]


def _table(comparison: Comparison, found: Mapping[str, Sequence[Done]]) -> Table:
    suite = _wall(found[SUITE])
    rows = [
        (
            side,
            str(len(done)),
            spread(_wall(done)),
            spread([one.usage.cpu_s for one in done], ".0f"),
            "" if side == SUITE else ratios(suite[: len(done)], _wall(done)),
            f"{comparison.targets[side]:.2f}" if side in comparison.targets else "",
        )
        for side, done in found.items()
    ]
    return Table(
        comparison.title,
        ("", "turns", "seconds", "CPU s", "the suite / it", "at most"),
        tuple(rows),
        more_is_better={"the suite / it": False},
    )


def _around(found: Mapping[str, Mapping[str, Sequence[Done]]]) -> Table:
    """What the suite's studies take before their first report, and after their last trial."""
    rows = [
        (title, spread([done.start_s for done in of_one[SUITE]]), spread([done.end_s for done in of_one[SUITE]]))
        for title, of_one in found.items()
    ]
    note = (
        "Seconds of the suite, its own report, policies and video included where the study has them. The end "
        f"is aimed at in {END_TARGET_S:g}."
    )
    return Table(
        "Start and end", ("", "to the first report", "from the last trial's score to the exit"), tuple(rows), note
    )


def _shares(found: Mapping[str, Mapping[str, Sequence[Done]]]) -> Table:
    """Where the wall-clock of the suite's trials goes."""
    columns = {title: of_one[SUITE][0].shares for title, of_one in found.items()}
    rows = [
        (part.replace("_", " "), *(f"{100 * shares.get(part, 0.0):.1f}%" for shares in columns.values()))
        for part in TIME_PARTS
    ]
    rows = [row for row in rows if set(row[1:]) != {"0.0%"}]
    note = (
        "Shares of the wall-clock of the suite's trials from their first report to the last "
        "(metrics `time/*_share`), the first turn."
    )
    return Table("Where a trial's time goes", ("", *columns), tuple(rows), note)


def _suite(scratch: Path, name: str, changes: Mapping[str, Any], *more: str) -> Done:
    return _done(scratch, [*overrides(name, **changes), *more], _num_trials(_settings(name, changes)), ROOT)


def _before(scratch: Path, changes: Mapping[str, Any], root: Path) -> Done:
    """The default study by the configuration files of an earlier checkout, which the frozen one repeats."""
    flat = {"seeds": frozen(DEFAULT)["seeds"], **changes}
    study = flat.pop("study", {})
    if "space" in study:
        flat["study.space"] = study["space"]
    words = [f"{name}={hydra_value(value)}" for name, value in flat.items()]
    return _done(scratch, words, _num_trials(_settings(DEFAULT, changes)), root)


def _done(scratch: Path, words: Sequence[str], trials: int, root: Path) -> Done:
    output_dir = Path(tempfile.mkdtemp(dir=scratch))
    usage = run(suite_command(words, output_dir), scratch / "suite.log", root)
    database = output_dir / "mlflow.db"
    scored = {point.run: point.at for point in points(database, "final/score")}
    if len(scored) != trials:
        raise BenchmarkError(f"{trials} trials were asked for; finished: {len(scored)}")
    first = min(point.at for point in points(database, "progress/wall_s"))
    end_s = usage.started_at + usage.wall_s - max(scored.values())
    return Done(usage, _shares_of(database), first - usage.started_at, end_s)


def _shares_of(database: Path) -> dict[str, float]:
    """Share of the trials' wall-clock between reports that each part of it took."""
    seconds: dict[tuple[str, int], float] = {}  # by run and step: since the report before
    before: dict[str, float] = {}
    for point in sorted(points(database, "progress/wall_s"), key=lambda p: (p.run, p.step)):
        if point.run in before:
            seconds[point.run, point.step] = point.value - before[point.run]
        before[point.run] = point.value
    total = sum(seconds.values())
    return {
        part: sum(p.value * seconds.get((p.run, p.step), 0.0) for p in points(database, f"time/{part}_share")) / total
        if total
        else 0.0
        for part in TIME_PARTS
    }


def _stock(scratch: Path, name: str, changes: Mapping[str, Any], *more: str) -> Done:
    output, settings = Path(tempfile.mkdtemp(dir=scratch)), _settings(name, changes)
    usage = run(_command("stock_script", output, settings, *more), scratch / "stock.log")
    _check([trial["env_steps"] for trial in json.loads((output / "summary.json").read_text())], settings)
    return Done(usage, {})


def _sb3(scratch: Path, changes: Mapping[str, Any], every: int = 0) -> Done:
    output, settings = Path(tempfile.mkdtemp(dir=scratch)) / "done.json", _settings(SHORT, changes)
    evaluation = ["--evaluate-every", str(every), "--episodes", str(EPISODES)] if every else []
    usage = run(_command("sb3_pool", output, settings, *evaluation), scratch / "sb3.log")
    done = json.loads(output.read_text())
    _check([env_steps for env_steps, _ in done], settings)
    if every and min(evaluations for _, evaluations in done) < settings["budget_env_steps"] // every:
        raise BenchmarkError(f"evaluations every {every} env steps were asked for; done: {done}")
    return Done(usage, {})


def _settings(name: str, changes: Mapping[str, Any]) -> dict[str, Any]:
    return {**frozen(name), **changes}


def _command(module: str, output: Path, settings: Mapping[str, Any], *more: str) -> list[str]:
    (lrs, batches), budget = settings["study"]["space"].values(), str(settings["budget_env_steps"])
    grid = ["--lr", *map(str, lrs), "--batch", *map(str, batches), "--seed", *map(str, settings["seeds"])]
    return [
        sys.executable,
        "-m",
        f"benchmarks.peers.{module}",
        "--output",
        str(output),
        "--budget",
        budget,
        *grid,
        *more,
    ]


def _num_trials(settings: Mapping[str, Any]) -> int:
    return math.prod(len(axis) for axis in settings["study"]["space"].values()) * len(settings["seeds"])


def _check(env_steps: Sequence[float], settings: Mapping[str, Any]) -> None:
    (_, batches), budget = settings["study"]["space"].values(), settings["budget_env_steps"]
    if len(env_steps) != _num_trials(settings) or min(env_steps) < budget - max(batches) / 2:
        raise BenchmarkError(
            f"{_num_trials(settings)} trials of {budget} env steps were asked for; done: {list(env_steps)}"
        )
