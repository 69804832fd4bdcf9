"""Studies that are killed, interrupted or damaged, and gone on with: real processes, real signals, the real command line.

A study that was interrupted and resumed has to leave what one leaves that never was, to the bit.
"""

import contextlib
import io
import os
import random
import re
import shlex
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest
from rich.console import Console

from analysis.document import conclusions
from experiments.metrics import depends_on_clock
from experiments.planning.resources import Cluster, Node
from experiments.study.driver import resume_study, run_study
from experiments.study.folder import StudyFolder
from tests.support.full_disk import on_small_disk
from tests.support.suite import ROOT, PlanOf
from tests.system.test_tracking_faults import Proxy, Server

pytestmark = [pytest.mark.ray, pytest.mark.slow, pytest.mark.timeout(900)]

SMALL = (
    "study=smoke",
    "budget_env_steps=4096",
    "report_every_env_steps=512",
    "checkpoint.every_env_steps=1024",
    "algorithm.training.train_batch_size_per_learner=256",
    "evaluation.final_episodes=5",
    "tracking.tensorboard=false",
    "tracking.system_metrics=false",
    "hardware.num_cpus=2",
)
"""Four trials of eight reports and four checkpoints, two at a time."""
TRIALS = [f"gamma={gamma} s={seed}" for gamma in (0.98, 0.99) for seed in (0, 1)]


class Driver:
    """`python experiments/run.py`, in a process group of its own as a shell makes it, with its output in files."""

    def __init__(self, out: Path, *arguments: str, report: bool = False) -> None:
        words = [sys.executable, "experiments/run.py", *arguments, f"output_dir={out}", f"report={report}"]
        self._start(out.with_name(f"{out.name}-{time.monotonic_ns()}"), words)

    @classmethod
    def typed(cls, line: str, log: Path) -> "Driver":
        """As it is typed into a shell."""
        driver = cls.__new__(cls)
        driver._start(log, shlex.split(line))
        return driver

    def _start(self, log: Path, words: Sequence[str]) -> None:
        log.parent.mkdir(parents=True, exist_ok=True)
        self._stdout, self._stderr = log.with_suffix(".out"), log.with_suffix(".err")
        environment = {**os.environ, "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])}
        with self._stdout.open("w") as out, self._stderr.open("w") as err:
            self.process = subprocess.Popen(words, cwd=ROOT, env=environment, stdout=out, stderr=err, start_new_session=True)

    @property
    def stdout(self) -> str:
        return self._stdout.read_text()

    @property
    def stderr(self) -> str:
        return self._stderr.read_text()

    def until(self, condition: Callable[[], bool]) -> "Driver":
        """Wait, while it runs."""
        give_up = time.monotonic() + 600
        while not condition():
            assert self.process.poll() is None, self.stdout + self.stderr
            assert time.monotonic() < give_up, self.stdout + self.stderr
            time.sleep(0.01)
        return self

    def kill(self) -> None:
        """SIGKILL, to this process alone."""
        self.process.kill()
        self.process.wait()

    def end(self, timeout_s: float = 600) -> int:
        """Its exit code, in the end; nothing that it started is left."""
        below = [psutil.Process(self.process.pid), *psutil.Process(self.process.pid).children(recursive=True)]
        try:
            self.process.wait(timeout_s)
            assert not left_of(below)
        finally:
            print(self.stdout, self.stderr)
            for process in below:
                with contextlib.suppress(psutil.Error):
                    process.kill()
        return self.process.returncode


def left_of(processes: Sequence[psutil.Process]) -> list[psutil.Process]:
    """Those that have not ended by themselves after some seconds."""
    give_up = time.monotonic() + 20
    while (left := [process for process in processes if is_alive(process)]) and time.monotonic() < give_up:
        time.sleep(0.1)
    return left


def is_alive(process: psutil.Process) -> bool:
    """Whether it is still there; Ray's two agents of a node are left out, which look for a lost control store for a minute."""
    with contextlib.suppress(psutil.NoSuchProcess):
        return process.status() != psutil.STATUS_ZOMBIE and not process.name().startswith(("ray::Dashboard", "ray::RuntimeEnv"))
    return False


@dataclass(frozen=True)
class Left:
    """What a study leaves.

    Attributes:
        learned: Run, metric and step to value, without the metrics that depend on the clock.
        points: Run, metric and step of every value, as often as it is there.
        statuses: Run to status, with the study's own.
        tags: Run to tags.
    """

    learned: dict[tuple[str, str, int], float]
    points: list[tuple[str, str, int]]
    statuses: dict[str, str]
    tags: dict[str, dict[str, str]]

    @property
    def weights(self) -> dict[str, str]:
        return {run: tags["weights"] for run, tags in self.tags.items() if "weights" in tags}

    @property
    def restarts(self) -> dict[str, int]:
        return {run: int(tags["restarts"]) for run, tags in self.tags.items() if "restarts" in tags}


def left_in(database: Path, study_folder: Path | None = None) -> Left:
    """What a study left in a store; `study_folder` tells it from others."""
    with contextlib.closing(sqlite3.connect(database)) as connection:
        runs = {run: (name, status) for run, name, status in connection.execute("SELECT run_uuid, name, status FROM runs")}
        tags: dict[str, dict[str, str]] = {run: {} for run in runs}
        for run, key, value in connection.execute("SELECT run_uuid, key, value FROM tags"):
            tags[run][key] = value
        metrics = connection.execute("SELECT run_uuid, key, step, value FROM metrics").fetchall()
    (study,) = (r for r in runs if tags[r]["kind"] == "study" and study_folder in (None, Path(tags[r]["study_folder"])))
    trials = [r for r in runs if tags[r]["kind"] == "trial" and tags[r]["study_run"] == study]
    names = {run: runs[run][0] for run in trials}
    assert len(set(names.values())) == len(trials)
    points = [(names[run], key, step) for run, key, step, _ in metrics if run in names]
    return Left(
        learned={(names[run], key, step): value for run, key, step, value in metrics if run in names and not depends_on_clock(key)},
        points=sorted(points),
        statuses={"study": runs[study][1], **{names[r]: runs[r][1] for r in trials}},
        tags={names[r]: tags[r] for r in trials},
    )


def assert_same(found: Left, reference: Left) -> None:
    """To the bit, with every point once."""
    assert set(found.statuses.values()) == {"FINISHED"}
    assert found.learned == reference.learned
    assert found.points == reference.points
    assert found.weights == reference.weights
    assert len(found.weights) == len(found.statuses) - 1
    assert {tags["reproducible"] for tags in found.tags.values()} == {"true"}


def folder_of(out: Path) -> Path:
    (folder,) = out.glob("studies/*")
    return folder


def reports(out: Path) -> dict[str, int]:
    """Folder of a trial to its reports."""
    return {p.parent.name: p.read_bytes().count(b"\n") for p in out.glob("studies/*/trials/*/reports.jsonl")}


def checkpoints(out: Path) -> set[str]:
    """Folders of the trials that have one."""
    return {p.parents[1].name for p in out.glob("studies/*/trials/*/checkpoints/0*") if p.name.isdigit()}


def is_halfway(out: Path) -> bool:
    """Some trials have finished, others have a checkpoint and have not."""
    counts = reports(out)
    return 8 in counts.values() and any(counts.get(trial, 0) < 7 for trial in checkpoints(out))


def standing(stdout: str) -> tuple[int, int, int]:
    """Trials that are finished, go on, start from the beginning: as a resumed study says."""
    found = re.search(r"resume +(\d+) trials are finished, (\d+) go on from a checkpoint, (\d+) start from the beginning", stdout)
    assert found, stdout
    return int(found[1]), int(found[2]), int(found[3])


def contents(out: Path) -> dict[str, bytes]:
    """All files, and the rows of the store: its own files change when it is read."""
    found = {str(p.relative_to(out)): p.read_bytes() for p in out.rglob("*") if p.is_file() and not p.name.startswith("mlflow.db")}
    with contextlib.closing(sqlite3.connect(out / "mlflow.db")) as connection:
        return {**found, "rows": "\n".join(connection.iterdump()).encode()}


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Output of a study that was never touched."""
    out = tmp_path_factory.mktemp("reference") / "out"
    assert Driver(out, *SMALL).end() == 0
    return out


@dataclass(frozen=True)
class Killed:
    """A study that was killed halfway.

    Attributes:
        out: Its output.
        kept: A copy that no test touches. Its study is known by its folder alone: the store knows it by another one.
    """

    out: Path
    kept: Path

    def copy(self, to: Path) -> Path:
        return Path(shutil.copytree(self.kept, to))


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Killed:
    out = tmp_path_factory.mktemp("killed") / "out"
    driver = Driver(out, *SMALL).until(lambda: is_halfway(out))
    below = psutil.Process(driver.process.pid).children(recursive=True)
    driver.kill()
    assert not left_of(below)  # trials write on for a moment
    return Killed(out, Path(shutil.copytree(out, out.with_name("kept"))))


def run_id(out: Path, kind: str) -> str:
    """The id of a run of a kind."""
    with contextlib.closing(sqlite3.connect(out / "mlflow.db")) as connection:
        return str(connection.execute("SELECT run_uuid FROM tags WHERE key = 'kind' AND value = ?", [kind]).fetchone()[0])


def test_a_study_whose_driver_is_killed_resumes_to_the_same_to_the_bit(killed: Killed, reference: Path) -> None:
    out = killed.out
    before = {path: path.read_bytes() for path in out.glob("studies/*/trials/*/reports.jsonl")}
    done_before = {path: content for path, content in before.items() if content.count(b"\n") == 8}
    begun = {path.parent.name for path in out.glob("studies/*/trials/*/heartbeat")} - {path.parent.name for path in done_before}
    resumed = Driver(out, f"resume={run_id(out, 'study')}")
    assert resumed.end() == 0
    finished, going_on, _ = standing(resumed.stdout)
    assert finished == len(done_before) >= 1
    assert going_on >= 1
    found = left_in(out / "mlflow.db")
    assert_same(found, left_in(reference / "mlflow.db"))
    # What had finished was left alone; what had begun was taken up once.
    assert {path: path.read_bytes() for path in done_before} == done_before
    again = {path.parent.name for path in out.glob("studies/*/trials/*/restarts.jsonl")}
    assert again == begun
    assert {trial: found.restarts[trial] for trial in TRIALS} == {
        trial: int(tags["trial_id"] in begun) for trial, tags in found.tags.items()
    }


EVERYTHING, RAYLET, GCS = "all of Ray's processes", "the raylet", "the control store"


@pytest.mark.parametrize("lost", [EVERYTHING, RAYLET, GCS])
def test_a_driver_that_loses_ray_ends_in_a_minute_says_how_to_go_on_and_resumes(lost: str, tmp_path: Path, reference: Path) -> None:
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
    assert resume_as_printed(driver, tmp_path).end() == 0
    assert_same(left_in(out / "mlflow.db"), left_in(reference / "mlflow.db"))


def resume_as_printed(driver: Driver, folder: Path) -> Driver:
    """Type the command that the driver printed."""
    printed = re.search(r"^resume +(python experiments/run.py .*)$", driver.stdout, re.MULTILINE)
    assert printed, driver.stdout
    return Driver.typed(printed[1], folder / "resumed")


MOMENTS: dict[str, Callable[[Path], bool]] = {
    "its plan was written": lambda out: bool(list(out.glob("studies/*/study.json"))),
    "the first report": lambda out: bool(reports(out)),
}


@pytest.mark.parametrize("moment", MOMENTS)
def test_a_study_that_is_killed_before_its_first_checkpoint_right_after(moment: str, tmp_path: Path, reference: Path) -> None:
    out = tmp_path / "out"
    Driver(out, *SMALL).until(lambda: MOMENTS[moment](out)).kill()
    resumed = Driver(out, f"resume={folder_of(out)}")
    assert resumed.end() == 0
    assert standing(resumed.stdout) == (0, 0, 4)
    assert_same(left_in(out / "mlflow.db"), left_in(reference / "mlflow.db"))


def interrupt_twice(pid: int) -> None:
    os.killpg(pid, signal.SIGINT)
    time.sleep(0.5)
    os.killpg(pid, signal.SIGINT)


SIGNALS: dict[str, tuple[Callable[[int], None], int]] = {
    "SIGINT": (lambda pid: os.kill(pid, signal.SIGINT), 130),
    "two Ctrl-C": (interrupt_twice, 130),
    "the end of a batch job": (lambda pid: os.killpg(pid, signal.SIGTERM), 143),
}


@pytest.mark.parametrize("name", SIGNALS)
def test_a_study_that_is_interrupted_ends_its_runs_and_resumes_as_it_says(name: str, tmp_path: Path, reference: Path) -> None:
    out, (send, code) = tmp_path / "out", SIGNALS[name]
    driver = Driver(out, *SMALL, report=True).until(lambda: is_halfway(out))
    send(driver.process.pid)
    start = time.monotonic()
    assert driver.end() == code
    print(f"ended after {time.monotonic() - start:.1f} s")
    assert f"interrupted by {'SIGINT' if code == 130 else 'SIGTERM'}" in driver.stdout
    assert "Traceback" not in driver.stdout + driver.stderr
    statuses = left_in(out / "mlflow.db").statuses
    assert statuses["study"] == "KILLED"
    assert set(statuses.values()) == {"KILLED", "FINISHED"}
    (report,) = out.glob("reports/*.html")
    assert "of 4 trials interrupted: gamma=" in report.read_text()
    resumed = resume_as_printed(driver, tmp_path)
    assert resumed.end() == 0
    assert standing(resumed.stdout)[0] >= list(statuses.values()).count("FINISHED")  # one may just have finished
    assert_same(left_in(out / "mlflow.db"), left_in(reference / "mlflow.db"))


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_study_that_is_interrupted_while_ray_starts_leaves_nothing(tmp_path: Path, number: signal.Signals, code: int) -> None:
    out = tmp_path / "out"
    driver = Driver(out, *SMALL)
    driver.until(lambda: any(child.name() == "gcs_server" for child in psutil.Process(driver.process.pid).children()))
    driver.process.send_signal(number)
    assert driver.end() == code
    assert "Traceback" not in driver.stdout + driver.stderr
    assert not out.exists()


def cut(path: Path) -> Path:
    os.truncate(path, path.stat().st_size // 2)
    return path


def unfinished(out: Path) -> Path:
    """The folder of a trial that has a checkpoint and has not finished."""
    counts = reports(out)
    name = next(trial for trial in sorted(checkpoints(out)) if counts[trial] < 8)
    return folder_of(out) / "trials" / name


def weights_of(out: Path) -> Path:
    return next(unfinished(out).glob("checkpoints/0*/algorithm/learner_group/learner/rl_module/default_policy/module_state.pkl"))


def remove(path: Path) -> Path:
    path.unlink()
    return path


def spoil(path: Path) -> Path:
    path.write_bytes(b"\xff" + path.read_bytes())
    return path


def forget_first_line(path: Path) -> Path:
    path.write_bytes(path.read_bytes().partition(b"\n")[2])
    return path


DAMAGES: dict[str, tuple[Callable[[Path], Path], str]] = {
    "study.json is cut short": (lambda out: cut(folder_of(out) / "study.json"), "Start it again"),
    "study.json is missing": (lambda out: remove(folder_of(out) / "study.json"), "Start it again"),
    "a checkpoint's file is cut short": (lambda out: cut(weights_of(out)), "Remove the folder"),
    "a checkpoint's file is missing": (lambda out: remove(weights_of(out)), "Remove the folder"),
    "reports cannot be read": (lambda out: spoil(unfinished(out) / "reports.jsonl"), "Remove the folder"),
    "a report is missing": (lambda out: forget_first_line(unfinished(out) / "reports.jsonl"), "Remove the folder"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_study_is_not_resumed_and_stays_as_it_is_if(damage: str, tmp_path: Path, killed: Killed) -> None:
    out = killed.copy(tmp_path / "out")
    damaged = DAMAGES[damage][0](out)
    before = contents(out)
    refused = Driver(out, f"resume={folder_of(out)}")
    assert refused.end() == 2
    assert f"error: {damaged}: " in refused.stderr
    assert DAMAGES[damage][1] in refused.stderr
    assert "Traceback" not in refused.stderr
    assert contents(out) == before


def test_a_trial_whose_damaged_folder_is_removed_as_told_is_run_again(tmp_path: Path, killed: Killed, reference: Path) -> None:
    out = killed.copy(tmp_path / "out")
    shutil.rmtree(unfinished(out))
    resumed = Driver(out, f"resume={folder_of(out)}", f"tracking.uri=sqlite:///{tmp_path}/new.db")
    assert resumed.end() == 0
    assert_same(left_in(tmp_path / "new.db"), left_in(reference / "mlflow.db"))


def test_a_study_that_still_runs_is_not_resumed(tmp_path: Path, killed: Killed) -> None:
    out = killed.copy(tmp_path / "out")
    at_work = StudyFolder(folder_of(out))
    at_work.lock()
    refused = Driver(out, f"resume={folder_of(out)}")
    assert refused.end() == 2
    assert "the study is still running, in another process" in refused.stderr
    at_work.close()


def test_what_cannot_be_resumed_is_refused_with_the_reason(tmp_path: Path, reference: Path) -> None:
    before = contents(reference)
    study, trial = run_id(reference, "study"), run_id(reference, "trial")
    refusals = {
        (reference, f"resume={study}", "seeds=[0,1,2]"): "seeds=[0,1,2]: a study is resumed as it was begun.",
        (reference, f"resume={study}", "study=lr_batch"): "study=lr_batch: a study is resumed as it was begun.",
        (reference, "resume=0123456789abcdef0123456789abcdef"): "has no study with this run id",
        (reference, f"resume={trial}"): f"is the run of a trial. Name its study's: resume={study}",
        (tmp_path / "nowhere", f"resume={study}"): f"there is no store {tmp_path / 'nowhere' / 'mlflow.db'}",
        (reference, f"resume={tmp_path}"): "study.json: is missing",
    }
    drivers = {arguments: Driver(*arguments) for arguments in refusals}  # type: ignore[arg-type]
    for arguments, reason in refusals.items():
        assert drivers[arguments].end() == 2
        assert drivers[arguments].stderr.startswith("error: ")
        assert reason in drivers[arguments].stderr
        assert "Traceback" not in drivers[arguments].stderr
    assert contents(reference) == before
    assert not (tmp_path / "nowhere").exists()


def test_a_full_disk_at_the_very_start_is_named_and_nothing_is_begun(tmp_path: Path) -> None:
    disk = tmp_path / "small"
    disk.mkdir()
    fill_and_run = 'cat /dev/zero > "$0"/filler 2> /dev/null; "$@"; ended=$?; find "$0"; exit $ended'
    command = ["sh", "-c", fill_and_run, str(disk), sys.executable, "experiments/run.py", *SMALL, f"output_dir={disk}"]
    done = subprocess.run(on_small_disk(disk, 1, command), cwd=ROOT, capture_output=True, text=True, timeout=200, check=False)
    assert done.returncode == 2, done.stderr
    assert re.search(rf"error: output_dir: {disk}/studies/\S+ cannot be written \(No space left on device\)", done.stderr)
    assert "Traceback" not in done.stderr
    assert set(done.stdout.split(f"{disk}\n")[-1].split()) == {f"{disk}/filler", f"{disk}/studies"}


def test_a_study_that_is_finished_runs_nothing_when_it_is_resumed(tmp_path: Path, reference: Path) -> None:
    before = left_in(reference / "mlflow.db")
    mtimes = {path: path.stat().st_mtime_ns for path in reference.glob("studies/*/trials/**/*")}
    resumed = Driver(reference, f"resume={run_id(reference, 'study')}")
    assert resumed.end() == 0
    assert standing(resumed.stdout) == (4, 0, 0)
    assert left_in(reference / "mlflow.db") == before
    assert {path: path.stat().st_mtime_ns for path in reference.glob("studies/*/trials/**/*")} == mtimes


def test_a_store_that_lacks_everything_of_a_finished_study_is_given_it(tmp_path: Path, reference: Path) -> None:
    new = tmp_path / "new.db"
    assert Driver(reference, f"resume={folder_of(reference)}", f"tracking.uri=sqlite:///{new}").end() == 0
    found, expected = left_in(new), left_in(reference / "mlflow.db")
    assert_same(found, expected)
    own = ("study_run", "mlflow.source.name")
    assert {run: {k: v for k, v in tags.items() if k not in own} for run, tags in found.tags.items()} == {
        run: {k: v for k, v in tags.items() if k not in own} for run, tags in expected.tags.items()
    }


@pytest.mark.usefixtures("ray_instance")
def test_failed_trials_are_tried_again_also_on_another_machine(tmp_path: Path, plan_of: PlanOf, caplog: pytest.LogCaptureFixture) -> None:
    licence = tmp_path / "licence"
    licence.touch()
    faulty = ("env.id=tiny_envs:tiny/Faulty-v0", "env.vectorize_mode=sync", f"+env.env_config.needs={licence}", "seeds=[0]")
    small = [o for o in SMALL if not o.startswith("hardware")]
    plan = plan_of(*small, *faulty, "hardware.num_envs_per_env_runner=4", cluster=Cluster((Node(4, 0),)))
    licence.unlink()
    out = tmp_path / "out"
    outcome = run_study(plan, out, Console(file=io.StringIO()), conclusions)
    assert outcome.exit_code == 1
    failed = left_in(out / "mlflow.db")
    assert set(failed.statuses.values()) == {"FAILED"}
    assert all("the simulator has no licence" in tags["failure"] for tags in failed.tags.values())
    licence.touch()
    folder = StudyFolder(outcome.folder)
    folder.lock()
    assert folder.standing(plan).endswith("0 trials are finished, 0 go on from a checkpoint, 2 start from the beginning")
    smaller = folder.plan(Cluster((Node(1, 0),)), plan.suite.tracking)
    assert resume_study(smaller, folder, out, Console(file=io.StringIO()), conclusions).exit_code == 0
    found = left_in(out / "mlflow.db")
    assert set(found.statuses.values()) == {"FINISHED"}
    assert {tags["failure"] for tags in found.tags.values()} == {""}
    assert "MLflow" not in caplog.text  # it would refuse a parameter with another value


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


def test_a_study_whose_server_never_comes_back_finishes_and_is_delivered_later(tmp_path: Path, server: Server, reference: Path) -> None:
    out = tmp_path / "out"
    driver = Driver(out, *SMALL, "tracking=server", f"tracking.uri={server.uri}").until(lambda: is_halfway(out))
    server.kill()
    assert driver.end() == 0
    printed = re.search(r"MLflow did not take \d+ writes.*\n^deliver +(python experiments/run.py .*)$", driver.stdout, re.MULTILINE)
    assert printed
    server.start()
    delivering = Driver.typed(printed[1], tmp_path / "delivering")
    assert delivering.end() == 0
    assert standing(delivering.stdout) == (4, 0, 0)
    assert_same(left_in(server.database), left_in(reference / "mlflow.db"))


def test_a_study_with_a_slow_server_is_not_slowed_down_and_ends_complete(tmp_path: Path, server: Server, reference: Path) -> None:
    proxy = Proxy(server)
    proxy.fate = lambda path: 1.0
    out, start = tmp_path / "out", time.monotonic()
    driver = Driver(out, *SMALL, "tracking=server", f"tracking.uri={proxy.uri}")
    assert driver.end() == 0
    print(f"{time.monotonic() - start:.1f} s with {len(proxy.requests)} requests of 1 s and more")
    if "deliver " in driver.stdout:
        assert Driver(out, f"resume={folder_of(out)}", "tracking=server", f"tracking.uri={proxy.uri}").end() == 0
    proxy.stop()
    assert_same(left_in(server.database), left_in(reference / "mlflow.db"))


def test_a_study_with_a_replay_buffer_that_is_killed_and_resumed_is_the_same_to_the_bit(tmp_path: Path) -> None:
    replay = (
        *SMALL,
        "algorithm=dqn",
        "algorithm.training.train_batch_size_per_learner=32",
        "algorithm.training.num_steps_sampled_before_learning_starts=100",
        "budget_env_steps=1024",
        "report_every_env_steps=128",
        "checkpoint.every_env_steps=256",
    )
    never, out = tmp_path / "never", tmp_path / "out"
    assert Driver(never, *replay).end() == 0
    Driver(out, *replay).until(lambda: is_halfway(out)).kill()
    resumed = Driver(out, f"resume={folder_of(out)}")
    assert resumed.end() == 0
    assert standing(resumed.stdout)[1] >= 1
    assert_same(left_in(out / "mlflow.db"), left_in(never / "mlflow.db"))


def test_a_study_that_is_killed_five_times_at_any_moment_ends_the_same_to_the_bit(tmp_path: Path) -> None:
    longer = ("budget_env_steps=16384", "report_every_env_steps=1024", "checkpoint.every_env_steps=2048")
    small = (*SMALL, "study.space={algorithm.training.gamma:[0.97,0.98,0.99]}", *longer)
    never, out = tmp_path / "never", tmp_path / "out"
    assert Driver(never, *small).end() == 0
    rng = random.Random(5)
    driver, kills = Driver(out, *small), 0
    while kills < 5:
        driver.until(lambda: bool(list(out.glob("studies/*/study.json"))))
        with contextlib.suppress(subprocess.TimeoutExpired):
            driver.process.wait(rng.uniform(2, 12))
            break  # a fast machine is done before the fifth
        driver.kill()
        kills += 1
        driver = Driver(out, f"resume={folder_of(out)}")
    assert driver.process.wait(600) == 0, driver.stdout + driver.stderr
    assert kills >= 3
    found = left_in(out / "mlflow.db")
    assert_same(found, left_in(never / "mlflow.db"))
    print(f"{kills} kills, {sum(found.restarts.values())} restarts")
