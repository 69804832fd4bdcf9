"""What a driver takes with thousands of trials: memory, time per event, MLflow's writes, and the time to resume."""

import json
import shutil
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.support.harness import BenchmarkError, Report, Table, against, points, say, started

TARGET_MIB, TARGET_MS = 600.0, 3.0
SEEDS, REPORTS = 10, 5
NODES, TRIALS_PER_NODE = 100, 4
EVENTS = REPORTS + 2
"""Of a trial: its start, its reports, its end."""
FINISHED_SHARE = 0.9
"""Of the events, after which the driver is killed."""


@dataclass(frozen=True)
class Done:
    """A study of stub trials that was killed, and resumed to its end."""

    trials: int
    begun: dict[str, Any]
    resumed: dict[str, Any]
    resume_s: float


def measure(quick: bool) -> Report:
    """Run it."""
    sizes = (20, 40) if quick else (500, 2000, 5000)
    with tempfile.TemporaryDirectory(prefix="benchmark-") as folder:
        found = [_study(Path(folder), trials) for trials in sizes]
    largest = found[-1]
    peak = max(largest.begun["peak_rss_mib"], largest.resumed["peak_rss_mib"])
    grown = largest.begun["peak_rss_mib"] - found[0].begun["peak_rss_mib"]
    growth_kib = 1024 * grown / (largest.trials - found[0].trials)
    slowest = max(part["cpu_ms"] for part in largest.begun["tenths"][1:])
    return Report(
        name="scale",
        title="Thousands of trials on many nodes, simulated",
        compared=(
            f"Studies of {', '.join(f'{trials:,}' for trials in sizes)} trials that report {REPORTS} times with "
            f"every metric of the contract, as many side by side as {NODES} nodes hold with {TRIALS_PER_NODE} each; "
            "SQLite store, TensorBoard files. The trials train nothing and are objects of the driver's process "
            "in place of Ray's actors (`benchmarks/support/in_process.py`); Tune's controller and all of the suite's "
            "listeners are the real ones. Reports come as fast as the driver takes them. Each study is killed "
            f"with SIGKILL after {100 * FINISHED_SHARE:.0f}% of its events and resumed by `resume=`; what MLflow holds "
            "in the end is counted. CPU time is that of the driver's main thread, without the trials'."
        ),
        verdict=(
            f"Target of {TARGET_MIB:g} MiB with {largest.trials:,} trials {against(peak, TARGET_MIB, ' MiB', '.0f')}; "
            f"target of {TARGET_MS:g} ms for an event {against(slowest, TARGET_MS, ' ms of CPU', '.1f')} "
            "in the slowest tenth of the study, its start aside."
        ),
        tables=(
            Table(
                "The driver",
                (
                    "trials",
                    "plan s",
                    "peak MiB before the plan",
                    "peak MiB",
                    "peak MiB, resumed",
                    "CPU ms an event",
                    "while all start",
                    "last tenth",
                    "MLflow values/s",
                    "resume s",
                ),
                tuple(_row(done) for done in found),
                "One study each. `plan`: from the composed configuration to the checked plan. `peak MiB before the "
                f"plan`: of Python with Ray, RLlib, torch, MLflow and pandas; each trial adds {growth_kib:.0f} KiB. "
                "`while all start`: the first tenth of the events. `MLflow values/s`: per second that the writer was "
                "at work. `resume`: from the command to the first new report.",
            ),
        ),
    )


def _row(done: Done) -> tuple[str, ...]:
    begun, marks = done.begun, done.begun["marks"]
    return (
        f"{done.trials:,}",
        f"{marks['plan_study.end'] - marks['plan_study.start']:.0f}",
        f"{begun['peaks_mib']['plan_study.start']:.0f}",
        f"{begun['peak_rss_mib']:.0f}",
        f"{done.resumed['peak_rss_mib']:.0f}",
        f"{begun['cpu_ms']:.1f}",
        f"{begun['tenths'][0]['cpu_ms']:.1f}",
        f"{begun['tenths'][-1]['cpu_ms']:.1f}",
        f"{begun['values'] / begun['writer_busy_s']:,.0f}" if begun["writer_busy_s"] else "",  # killed before it wrote
        f"{done.resume_s:.0f}",
    )


def _study(scratch: Path, trials: int) -> Done:
    """Begin a study, kill it, resume it."""
    output_dir = Path(tempfile.mkdtemp(dir=scratch))
    say(f"{trials} trials")
    begun = drive(scratch, overrides(trials, REPORTS), output_dir, int(FINISHED_SHARE * EVENTS * trials))
    (folder,) = output_dir.glob("studies/*")
    say(f"{trials} trials, resumed")
    start = time.time()
    resumed = drive(scratch, [f"resume={folder}", "report=false"], output_dir)
    check_stored(output_dir, trials, REPORTS)
    shutil.rmtree(output_dir)
    return Done(trials, begun, resumed, resumed["first_report_at"] - start)


def overrides(trials: int, reports: int) -> list[str]:
    """Of a study with so many trials that report so often each, as many at once as the nodes hold."""
    lrs = ",".join(f"{1e-6 * (1 + i):.6f}" for i in range(trials // SEEDS))
    return [
        f"study.space={{algorithm.training.lr:[{lrs}]}}",
        f"seeds=[{','.join(map(str, range(SEEDS)))}]",
        f"budget_env_steps={4000 * reports}",
        "report_every_env_steps=4000",
        f"hardware.num_cpus={NODES * TRIALS_PER_NODE}",
        "report=false",
    ]


def check_stored(output_dir: Path, trials: int, reports: int) -> None:
    """Count what MLflow holds.

    Raises:
        BenchmarkError: It is not every report of every trial.
    """
    stored = points(output_dir / "mlflow.db", "eval/return_mean")
    if len({(p.run, p.step) for p in stored}) != trials * reports:
        raise BenchmarkError(
            f"{trials} trials with {reports} reports were asked for; in the store: {len(stored)} reports"
        )


def drive(scratch: Path, overrides: list[str], output_dir: Path, kill_after: int | None = None) -> dict[str, Any]:
    """Run the suite's command, to its end or until it is killed; what was measured."""
    measured, log = scratch / "measured.json", scratch / "suite.log"
    measured.unlink(missing_ok=True)
    kill = [] if kill_after is None else ["--kill-after-events", str(kill_after)]
    command = [
        sys.executable,
        "-m",
        "benchmarks.support.driver",
        "--stub",
        "--in-process",
        "--measure",
        str(measured),
        *kill,
    ]
    with log.open("w") as file, started([*command, "--", *overrides, f"output_dir={output_dir}"], file) as (process, _):
        status = process.wait()
    if not measured.exists() or (status and kill_after is None):
        raise BenchmarkError(
            f"{' '.join(overrides[-2:])} ended with {status}:\n" + "\n".join(log.read_text().splitlines()[-20:])
        )
    found: dict[str, Any] = json.loads(measured.read_text())
    return found
