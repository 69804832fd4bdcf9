"""Studies that were killed and are gone on with: what a resume takes up, refuses, and leaves:
the same as a study never touched.
"""

import contextlib
import io
import os
import random
import shutil
import socket
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from rich.console import Console

from analysis.document import conclusions
from experiments.planning.machines import Cluster, Node
from experiments.study.driver import run_study
from experiments.study.files.folder import StudyFolder
from experiments.study.source import Resumed
from experiments.tracking.place import Place
from tests.support.commands import run_here
from tests.support.driver import Driver
from tests.support.outputs import (
    SMALL,
    TRIALS,
    Killed,
    assert_same,
    checkpoints,
    contents,
    folder_of,
    is_halfway,
    left_in,
    reports,
    run_id,
    standing,
)
from tests.support.studies import run_new
from tests.support.suite import PlanOf

pytestmark = [pytest.mark.ray, pytest.mark.slow, pytest.mark.timeout(900)]


@pytest.mark.nightly  # tests/system/test_key.py kills one at every change
def test_a_study_whose_driver_is_killed_resumes_to_the_same_to_the_bit(killed: Killed, reference: Path) -> None:
    out = killed.out
    before = {path: path.read_bytes() for path in out.glob("studies/*/trials/*/events.jsonl")}
    done_before = {path: content for path, content in before.items() if b'"kind": "ended"' in content}
    begun = {path.parent.name for path in before} - {path.parent.name for path in done_before}
    resumed = Driver(out, f"resume={run_id(out, 'study')}")
    assert resumed.end() == 0
    finished, going_on, _ = standing(resumed.stdout)
    assert finished == len(done_before) >= 1
    assert going_on >= 1
    found = left_in(out / "mlflow.db")
    assert_same(found, left_in(reference / "mlflow.db"))
    # What had finished was left alone; what had begun was taken up once.
    assert {path: path.read_bytes() for path in done_before} == done_before
    after = {path.parent.name: path.read_bytes() for path in before}
    again = {trial for trial, content in after.items() if b'"kind": "restarted"' in content}
    assert again == begun
    assert {trial: found.restarts[trial] for trial in TRIALS} == {
        trial: int(tags["trial_id"] in begun) for trial, tags in found.tags.items()
    }


@pytest.mark.nightly
@pytest.mark.usefixtures("ray_instance")
def test_a_trial_whose_damaged_folder_is_removed_as_told_is_run_again(
    tmp_path: Path, killed: Killed, reference: Path
) -> None:
    out = killed.copy(tmp_path / "out")
    shutil.rmtree(unfinished(out))
    words = (
        f"resume={folder_of(out)}",
        f"tracking.uri=sqlite:///{tmp_path}/new.db",
        f"output_dir={out}",
        "report=false",
    )
    assert run_here("experiments/run.py", *words, with_ray=True).returncode == 0
    assert_same(left_in(tmp_path / "new.db"), left_in(reference / "mlflow.db"))


def only_plan(out: Path) -> None:
    shutil.rmtree(folder_of(out) / "trials")


def no_checkpoints(out: Path) -> None:
    for trial in (folder_of(out) / "trials").iterdir():
        shutil.rmtree(trial / "checkpoints", ignore_errors=True)
        if (trial / "events.jsonl").exists():
            (trial / "events.jsonl").write_bytes((trial / "events.jsonl").read_bytes().partition(b"\n")[0] + b"\n")


@pytest.mark.parametrize("leave", [only_plan, no_checkpoints])
def test_a_study_without_a_checkpoint_starts_from_the_beginning(
    leave: Callable[[Path], None], tmp_path: Path, killed: Killed
) -> None:
    out = killed.copy(tmp_path / "out")
    leave(out)
    planned = run_here("experiments/run.py", f"resume={folder_of(out)}", f"output_dir={out}", "dry_run=true")
    assert planned.returncode == 0, planned.stderr
    assert standing(planned.stdout) == (0, 0, 4)


MOMENTS: dict[str, Callable[[Path], bool]] = {
    "its plan was written": lambda out: bool(list(out.glob("studies/*/study.json"))),
    "the first report": lambda out: bool(reports(out)),
}


@pytest.mark.nightly
@pytest.mark.parametrize("moment", MOMENTS)
def test_a_study_that_is_killed_before_its_first_checkpoint_right_after(
    moment: str, tmp_path: Path, reference: Path
) -> None:
    out = tmp_path / "out"
    Driver(out, *SMALL).until(lambda: MOMENTS[moment](out)).kill()
    resumed = Driver(out, f"resume={folder_of(out)}")
    assert resumed.end() == 0
    assert standing(resumed.stdout) == (0, 0, 4)
    assert_same(left_in(out / "mlflow.db"), left_in(reference / "mlflow.db"))


def cut(path: Path) -> Path:
    os.truncate(path, path.stat().st_size // 2)
    return path


def unfinished(out: Path) -> Path:
    """The folder of a trial that has a checkpoint and has not finished."""
    counts = reports(out)
    name = next(trial for trial in sorted(checkpoints(out)) if counts[trial] < 8)
    return folder_of(out) / "trials" / name


def weights_of(out: Path) -> Path:
    return next(
        unfinished(out).glob("checkpoints/0*/algorithm/learner_group/learner/rl_module/default_policy/module_state.pkl")
    )


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
    "events cannot be read": (lambda out: spoil(unfinished(out) / "events.jsonl"), "Remove the folder"),
    "an event is missing": (lambda out: forget_first_line(unfinished(out) / "events.jsonl"), "Remove the folder"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_study_is_not_resumed_and_stays_as_it_is_if(damage: str, tmp_path: Path, killed: Killed) -> None:
    out = killed.copy(tmp_path / "out")
    damaged = DAMAGES[damage][0](out)
    before = contents(out)
    refused = run_here("experiments/run.py", f"resume={folder_of(out)}", f"output_dir={out}")
    assert refused.returncode == 2
    assert f"error: {damaged}: " in refused.stderr
    assert DAMAGES[damage][1] in refused.stderr
    assert "Traceback" not in refused.stderr
    assert contents(out) == before


def test_a_study_that_still_runs_is_not_resumed(tmp_path: Path, killed: Killed) -> None:
    out = killed.copy(tmp_path / "out")
    at_work = StudyFolder(folder_of(out))
    at_work.lock()
    refused = Driver(out, f"resume={folder_of(out)}")  # the lock is between processes
    assert refused.end() == 2
    assert f"the study is still running, in process {os.getpid()} on {socket.gethostname()}, since " in refused.stderr
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
    for (out, *arguments), reason in refusals.items():
        refused = run_here("experiments/run.py", *arguments, f"output_dir={out}")
        assert refused.returncode == 2
        assert refused.stderr.startswith("error: ")
        assert reason in refused.stderr
        assert "Traceback" not in refused.stderr
    assert contents(reference) == before
    assert not (tmp_path / "nowhere").exists()


@pytest.mark.usefixtures("ray_instance")
def test_a_study_that_is_finished_runs_nothing_when_it_is_resumed(tmp_path: Path, reference: Path) -> None:
    before = left_in(reference / "mlflow.db")
    mtimes = {path: path.stat().st_mtime_ns for path in reference.glob("studies/*/trials/**/*")}
    resumed = run_here(
        "experiments/run.py",
        f"resume={run_id(reference, 'study')}",
        f"output_dir={reference}",
        "report=false",
        with_ray=True,
    )
    assert resumed.returncode == 0
    assert standing(resumed.stdout) == (4, 0, 0)
    assert left_in(reference / "mlflow.db") == before
    assert {path: path.stat().st_mtime_ns for path in reference.glob("studies/*/trials/**/*")} == mtimes


@pytest.mark.usefixtures("ray_instance")
def test_a_store_that_lacks_everything_of_a_finished_study_is_given_it(tmp_path: Path, reference: Path) -> None:
    # artifacts are written beside the study
    new, out = tmp_path / "new.db", shutil.copytree(reference, tmp_path / "out")
    words = (f"resume={folder_of(out)}", f"tracking.uri=sqlite:///{new}", f"output_dir={out}", "report=false")
    assert run_here("experiments/run.py", *words, with_ray=True).returncode == 0
    found, expected = left_in(new), left_in(reference / "mlflow.db")
    assert_same(found, expected)
    own = ("study_run", "mlflow.source.name")
    assert {run: {k: v for k, v in tags.items() if k not in own} for run, tags in found.tags.items()} == {
        run: {k: v for k, v in tags.items() if k not in own} for run, tags in expected.tags.items()
    }


@pytest.mark.usefixtures("ray_instance")
def test_failed_trials_are_tried_again_also_on_another_machine(
    tmp_path: Path, plan_of: PlanOf, caplog: pytest.LogCaptureFixture
) -> None:
    licence = tmp_path / "licence"
    licence.touch()
    faulty = (
        "env.id=tiny_envs:tiny/Faulty-v0",
        "env.vectorize_mode=sync",
        f"+env.env_config.needs={licence}",
        "seeds=[0]",
    )
    small = [o for o in SMALL if not o.startswith("hardware")]
    plan = plan_of(*small, *faulty, "hardware.num_envs_per_env_runner=4", cluster=Cluster((Node(4, 0),)))
    licence.unlink()
    out = tmp_path / "out"
    console = Console(file=io.StringIO())
    outcome = run_new(plan, out, console)
    assert outcome.exit_code == 1
    failed = left_in(out / "mlflow.db")
    assert set(failed.statuses.values()) == {"FAILED"}
    assert all("the simulator has no licence" in tags["failure"] for tags in failed.tags.values())
    licence.touch()
    source = Resumed(StudyFolder(outcome.folder), plan.suite.tracking)
    smaller = source.plan(Cluster((Node(1, 0),)))
    standing = "resume      0 trials are finished, 0 go on from a checkpoint, 2 start from the beginning"
    assert source.lines(smaller) == [standing]
    place, folder = Place.of(plan.suite.tracking, out), source.begin(smaller, console.print)
    assert run_study(smaller, folder, place, console, conclusions, resumed=True).exit_code == 0
    found = left_in(out / "mlflow.db")
    assert set(found.statuses.values()) == {"FINISHED"}
    assert {tags["failure"] for tags in found.tags.values()} == {""}
    assert "MLflow" not in caplog.text  # it would refuse a parameter with another value


@pytest.mark.nightly
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


@pytest.mark.nightly
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
