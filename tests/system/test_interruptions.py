"""Studies whose driver gets a signal, loses Ray, its tracking server or its disk: how they end,
and that they go on as they say.
"""

import contextlib
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from experiments.tracking import writer
from tests.support.commands import type_here
from tests.support.driver import Driver, printed_command
from tests.support.full_disk import on_small_disk
from tests.support.mlflow_server import Proxy, Server
from tests.support.outputs import (
    SMALL,
    assert_same,
    checkpoints,
    folder_of,
    is_halfway,
    left_in,
    standing,
)
from tests.support.suite import ROOT, RunSuite

pytestmark = [pytest.mark.ray, pytest.mark.slow, pytest.mark.timeout(900)]

EVERYTHING, RAYLET, GCS = "all of Ray's processes", "the raylet", "the control store"


@pytest.mark.nightly
@pytest.mark.usefixtures("ray_instance")
@pytest.mark.parametrize("lost", [EVERYTHING, RAYLET, GCS])
def test_a_driver_that_loses_ray_ends_in_a_minute_says_how_to_go_on_and_resumes(
    lost: str, tmp_path: Path, reference: Path
) -> None:
    out = tmp_path / "out"
    driver = Driver(out, *SMALL).until(lambda: bool(checkpoints(out)))
    for process in psutil.Process(driver.process.pid).children(recursive=True):
        if lost == EVERYTHING or process.name() == {RAYLET: "raylet", GCS: "gcs_server"}.get(lost):
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
    start = time.monotonic()
    assert driver.end(timeout_s=60) == 1
    print(f"ended after {time.monotonic() - start:.1f} s")
    assert "interrupted by the end of Ray's processes" in driver.stdout
    statuses = left_in(out / "mlflow.db").statuses
    assert statuses["study"] == "KILLED"
    assert set(statuses.values()) <= {"KILLED", "FINISHED"}
    assert type_here(printed_command(driver.stdout, "resume")).returncode == 0
    assert_same(left_in(out / "mlflow.db"), left_in(reference / "mlflow.db"))


def interrupt_twice(pid: int) -> None:
    os.killpg(pid, signal.SIGINT)
    time.sleep(0.5)
    os.killpg(pid, signal.SIGINT)


SIGNALS: dict[str, tuple[Callable[[int], None], int]] = {
    "SIGINT": (lambda pid: os.kill(pid, signal.SIGINT), 130),
    "two Ctrl-C": (interrupt_twice, 130),
    "the end of a batch job": (lambda pid: os.killpg(pid, signal.SIGTERM), 143),
    "a terminal that is closed": (lambda pid: os.killpg(pid, signal.SIGHUP), 129),
}


@pytest.mark.usefixtures("ray_instance")
@pytest.mark.parametrize(
    "name", ["SIGINT", *(pytest.param(name, marks=pytest.mark.nightly) for name in list(SIGNALS)[1:])]
)
def test_a_study_that_is_interrupted_ends_its_runs_and_resumes_as_it_says(
    name: str, tmp_path: Path, reference: Path
) -> None:
    out, (send, code) = tmp_path / "out", SIGNALS[name]
    driver = Driver(out, *SMALL, report=True).until(lambda: is_halfway(out))
    send(driver.process.pid)
    start = time.monotonic()
    assert driver.end() == code
    print(f"ended after {time.monotonic() - start:.1f} s")
    assert f"interrupted by {signal.Signals(code - 128).name}" in driver.stdout
    assert "Traceback" not in driver.stdout + driver.stderr
    statuses = left_in(out / "mlflow.db").statuses
    assert statuses["study"] == "KILLED"
    assert set(statuses.values()) == {"KILLED", "FINISHED"}
    (report,) = out.glob("reports/*.html")
    # those that came to their end meanwhile finished
    were = {name: status for name, status in statuses.items() if name != "study"}
    assert ("of 4 trials interrupted: gamma=" in report.read_text()) == ("KILLED" in were.values())
    resumed = type_here(printed_command(driver.stdout, "resume"))
    assert resumed.returncode == 0
    assert standing(resumed.stdout)[0] >= list(statuses.values()).count("FINISHED")  # one may just have finished
    assert_same(left_in(out / "mlflow.db"), left_in(reference / "mlflow.db"))


@pytest.mark.nightly
@pytest.mark.usefixtures("ray_instance")
def test_a_study_whose_terminal_is_closed_is_saved_with_its_report(tmp_path: Path, reference: Path) -> None:
    out = tmp_path / "out"
    words = [sys.executable, "experiments/run.py", *SMALL, f"output_dir={out}", "report.video=false"]
    with subprocess.Popen(
        words, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True
    ) as driver:
        assert driver.stdout is not None
        assert driver.stdout.readline().startswith(b"study ")
        driver.stdout.close()
        while not is_halfway(out):
            assert driver.poll() is None
            time.sleep(0.01)
        driver.send_signal(signal.SIGHUP)
        assert driver.wait(600) == 129
    statuses = left_in(out / "mlflow.db").statuses
    assert statuses["study"] == "KILLED"
    assert set(statuses.values()) == {"KILLED", "FINISHED"}
    assert list(out.glob("reports/*.html"))
    resumed = type_here(f"python experiments/run.py resume={folder_of(out)} output_dir={out} report=false")
    assert resumed.returncode == 0, resumed.stderr
    assert_same(left_in(out / "mlflow.db"), left_in(reference / "mlflow.db"))


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), pytest.param(signal.SIGTERM, 143, marks=pytest.mark.nightly)]
)
def test_a_study_that_is_interrupted_while_ray_starts_leaves_nothing(
    tmp_path: Path, number: signal.Signals, code: int
) -> None:
    out = tmp_path / "out"
    driver = Driver(out, *SMALL)
    driver.until(lambda: any(child.name() == "gcs_server" for child in psutil.Process(driver.process.pid).children()))
    driver.process.send_signal(number)
    assert driver.end() == code
    assert "Traceback" not in driver.stdout + driver.stderr
    assert not out.exists()


def test_a_full_disk_at_the_very_start_is_named_and_nothing_is_begun(tmp_path: Path) -> None:
    disk = tmp_path / "small"
    disk.mkdir()
    fill_and_run = 'cat /dev/zero > "$0"/filler 2> /dev/null; "$@"; ended=$?; find "$0"; exit $ended'
    words = [*SMALL, "+measurement=throughput", f"output_dir={disk}"]  # without checkpoints, which would be planned
    command = ["sh", "-c", fill_and_run, str(disk), sys.executable, "experiments/run.py", *words]
    done = subprocess.run(
        on_small_disk(disk, 1, command), cwd=ROOT, capture_output=True, text=True, timeout=200, check=False
    )
    assert done.returncode == 2, done.stderr
    said = rf"error: {disk}: the store of MLflow takes about \S+ MiB more, and 0\.0 MiB are free"
    assert re.search(said, done.stderr)
    assert "Traceback" not in done.stderr
    assert set(done.stdout.split(f"{disk}\n")[-1].split()) <= {f"{disk}/filler", f"{disk}/studies"}


@pytest.mark.nightly
def test_two_studies_that_start_together_in_one_new_store_do_not_mix(tmp_path: Path, reference: Path) -> None:
    out = tmp_path / "out"
    drivers = [Driver(out, *SMALL) for _ in range(2)]
    assert [driver.end() for driver in drivers] == [0, 0]
    folders = list(out.glob("studies/*"))
    assert len(folders) == 2
    for folder in folders:
        assert_same(left_in(out / "mlflow.db", folder), left_in(reference / "mlflow.db"))


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    running = Server(tmp_path)
    yield running
    running.kill()


@pytest.mark.nightly
@pytest.mark.usefixtures("ray_instance")
def test_a_study_whose_server_never_comes_back_finishes_and_is_delivered_later(
    tmp_path: Path, server: Server, reference: Path, suite_here: RunSuite, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    monkeypatch.setattr(writer, "FINAL_WAIT_S", 2.0)
    over = threading.Event()

    def kill_server() -> None:
        while not is_halfway(out):
            if over.wait(0.01):
                return
        server.kill()

    killing = threading.Thread(target=kill_server)
    killing.start()
    try:
        done = suite_here(*SMALL, "tracking=server", f"tracking.uri={server.uri}", with_ray=True)
    finally:
        over.set()
        killing.join()
    assert done.returncode == 3, done.stderr
    assert re.search(r"MLflow did not take \d+ writes.*\n^deliver ", done.stdout, re.MULTILINE)
    server.start()
    monkeypatch.chdir(tmp_path)
    delivering = type_here(printed_command(done.stdout, "deliver"))
    assert delivering.returncode == 0
    assert standing(delivering.stdout) == (4, 0, 0)
    assert_same(left_in(server.database), left_in(reference / "mlflow.db"))


@pytest.mark.nightly
def test_a_study_with_a_slow_server_is_not_slowed_down_and_ends_complete(
    tmp_path: Path, server: Server, reference: Path
) -> None:
    proxy = Proxy(server)
    proxy.fate = lambda path: 1.0
    out, start = tmp_path / "out", time.monotonic()
    driver = Driver(out, *SMALL, "tracking=server", f"tracking.uri={proxy.uri}")
    code = driver.end()
    print(f"{time.monotonic() - start:.1f} s with {len(proxy.requests)} requests of 1 s and more")
    assert code == (3 if "deliver " in driver.stdout else 0)
    if "deliver " in driver.stdout:
        assert Driver(out, f"resume={folder_of(out)}", "tracking=server", f"tracking.uri={proxy.uri}").end() == 0
    proxy.stop()
    assert_same(left_in(server.database), left_in(reference / "mlflow.db"))
