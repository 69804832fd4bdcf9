"""Seconds from `resume=` to the first new report, for a study of which most trials are finished."""

import shutil
import statistics
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import psutil

from benchmarks.support.harness import (
    BenchmarkError,
    Point,
    Report,
    Table,
    against,
    points,
    ratios,
    say,
    spread,
    started,
    suite_command,
    take_turns,
)

TARGET_S = 15.0
SEEDS = 10
REPORT, SCORE = "progress/wall_s", "final/score"
WAIT_S = 1800.0


def measure(quick: bool) -> Report:
    """Run it."""
    trials, finished, repeats = (20, 15, 1) if quick else (100, 90, 5)
    with tempfile.TemporaryDirectory(prefix="benchmark-") as folder:
        scratch = Path(folder)
        interrupted, kept, fresh = scratch / "interrupted", scratch / "kept", scratch / "fresh"
        say(f"a study of {trials} trials, killed when {finished} of them are finished")
        _wait(_study(trials), interrupted, SCORE, finished, kill=True)
        shutil.copytree(interrupted, kept)
        done = len(points(kept / "mlflow.db", SCORE))

        def resumed() -> float:
            shutil.rmtree(interrupted)
            shutil.copytree(kept, interrupted)
            (study,) = interrupted.glob("studies/*")
            return _wait([f"resume={study}"], interrupted, REPORT, 1)

        def begun() -> float:
            shutil.rmtree(fresh, ignore_errors=True)
            return _wait(_study(trials), fresh, REPORT, 1)

        seconds = take_turns({"resumed": resumed, "begun": begun}, repeats)
        again, new = seconds["resumed"], seconds["begun"]
    return Report(
        name="resume",
        title="How long until an interrupted study reports again",
        compared=(
            f"A study of {trials} short trials (PPO on CartPole, 4,096 env steps, 8 reports and 4 checkpoints each) "
            f"was killed with SIGKILL; {done} trials had finished by then. `resumed` is `python experiments/run.py "
            "resume=<its folder>` on that study, brought back to the same state before every turn; `begun` is the same "
            "study from a fresh `output_dir`. Seconds are from the command to the first report made after it, "
            "by the report's own timestamp in MLflow; the study is then stopped."
        ),
        verdict=f"Target of {TARGET_S:.0f} s {against(statistics.median(again), TARGET_S, ' s', '.1f')}.",
        tables=(
            Table(
                "From the command to the first new report",
                ("study", "seconds", "ratio"),
                (
                    (
                        "resumed",
                        spread(again),
                        ratios(again, new),
                    ),
                    ("begun", spread(new), "1"),
                ),
                f"Median (minimum-maximum) of {repeats}.",
                {"ratio": False},
            ),
        ),
    )


def _study(trials: int) -> list[str]:
    rates = ",".join(f"{1e-3 * (1 + i):.3f}" for i in range(trials // SEEDS))
    return [
        f"study.space={{algorithm.training.lr:[{rates}]}}",
        f"seeds=[{','.join(map(str, range(SEEDS)))}]",
        "budget_env_steps=4096",
        "report_every_env_steps=512",
        "checkpoint.every_env_steps=1024",
        "algorithm.training.train_batch_size_per_learner=512",
        "evaluation.episodes=5",
        "evaluation.final_episodes=5",
    ]


def _wait(overrides: Sequence[str], output_dir: Path, metric: str, count: int, kill: bool = False) -> float:
    """Run the suite's command until `count` new values of a metric are in its store, and then end it.

    Args:
        overrides: Of the command.
        output_dir: Of the study; it may have values from before.
        metric: Its name.
        count: How many.
        kill: Whether it is ended with SIGKILL.

    Returns:
        Seconds from the command to the first of the new values.
    """
    log = output_dir.with_suffix(".log")
    with log.open("w") as file, started(suite_command(overrides, output_dir), file) as (process, usage):
        start = usage().started_at
        while len(new := _since(start, points(output_dir / "mlflow.db", metric))) < count:
            if process.poll() is not None or time.time() - start > WAIT_S:
                raise BenchmarkError(f"{count} values of {metric} did not come:\n" + log.read_text()[-2000:])
            time.sleep(0.5)
        if kill:
            below = psutil.Process(process.pid).children(recursive=True)
            process.kill()
            psutil.wait_procs(below, timeout=30)  # Ray's processes end with it, some seconds later
    return min(p.at for p in new) - start


def _since(start: float, found: Sequence[Point]) -> list[Point]:
    return [p for p in found if p.at >= start]
