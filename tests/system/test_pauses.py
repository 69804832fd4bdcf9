"""A study of which a trial's process, or everything, is stopped for a while: no number says that it was slow."""

import os
import signal
import sys
import time
from pathlib import Path

import psutil
import pytest

from analysis.document.caveats import caveats
from analysis.load import load_study
from tests.support.driver import Driver
from tests.support.outputs import left_in

pytestmark = [pytest.mark.ray, pytest.mark.slow, pytest.mark.skipif(sys.platform != "linux", reason="not counted")]

PAUSE_S = 9.0
LONG = (
    "study=smoke",
    "study.space={}",
    "budget_env_steps=49152",
    "report_every_env_steps=2048",
    "hardware.max_concurrent_trials=1",
    "hardware.num_env_runners=0",
    "tracking.tensorboard=false",
)
"""Two trials, one after the other, of some seconds each."""


def reports_in(out: Path) -> int:
    logs = sorted(out.glob("studies/*/trials/*/events.jsonl"))
    return logs[0].read_text().count('"reported"') if logs else 0


@pytest.mark.usefixtures("no_ray_afterwards")
@pytest.mark.nightly
@pytest.mark.parametrize("stopped", ["trial", "everything"])
def test_a_trial_that_is_stopped_for_a_while_is_no_slower(stopped: str, tmp_path: Path) -> None:
    out = tmp_path / "out"
    driver = Driver(out, *LONG).until(lambda: reports_in(out) >= 4)
    below = psutil.Process(driver.process.pid).children(recursive=True)
    named = [process for process in below if "".join(process.cmdline()[:1]).startswith("ray::")]
    processes = (
        [process for process in named if "Trial" in process.cmdline()[0]]
        if stopped == "trial"
        else [psutil.Process(driver.process.pid), *below]
    )
    assert processes, [process.cmdline() for process in named]
    for process in processes:
        os.kill(process.pid, signal.SIGSTOP)
    time.sleep(PAUSE_S)
    for process in reversed(processes):
        os.kill(process.pid, signal.SIGCONT)
    assert driver.end() == 0

    assert set(left_in(out / "mlflow.db").statuses.values()) == {"FINISHED"}
    study = load_study("smoke", f"sqlite:///{out}/mlflow.db")
    paused, other = study.runs.sort_values("seed").to_dict("records")
    for trial in (paused, other):
        print({name: trial[name] for name in ("paused_s", "train_s", "wall_s", "env_steps_per_s")})
    assert PAUSE_S - 0.5 <= paused["paused_s"] <= PAUSE_S + 1
    assert not other["paused_s"] > 0
    # With the pause, it would be the whole time of the run, and the speed that of these seconds and the pause.
    assert paused["wall_s"] < (paused["ended"] - paused["started"]).total_seconds() - 0.9 * PAUSE_S
    assert paused["train_s"] <= paused["wall_s"]
    assert paused["env_steps_per_s"] > paused["budget_env_steps"] / (paused["train_s"] + 0.5 * PAUSE_S)
    pauses = study.curves[study.curves["metric"] == "throughput/pauses"]
    assert pauses["value"].tolist() == [1]
    assert pauses["seed"].tolist() == [0]
    assert any("1 trial stood still, with the machine or alone, for" in caveat for caveat in caveats(study.evidence))
