"""Faults within a study, injected for real: what `tiny_envs.Faulty` does wrong, a real trial survives, or says."""

import os
import re
import subprocess
import sys
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import psutil
import pytest

from analysis.load import load_study
from analysis.report import build
from experiments.planning.machines import Cluster, Node
from experiments.study.progress import failures
from experiments.trial.events import reports
from experiments.trial.folder import TrialFolder, check_checkpoint
from tests.support.full_disk import on_small_disk
from tests.support.studies import Study, query
from tests.support.suite import ROOT, TINY, PlanOf

pytestmark = [pytest.mark.ray, pytest.mark.slow, pytest.mark.usefixtures("ray_instance")]

FAULTY = (
    "env.id=tiny_envs:tiny/Faulty-v0",
    "env.vectorize_mode=sync",
    "hardware.num_envs_per_env_runner=4",
    "seeds=[0]",
)
FOUR_REPORTS = ("budget_env_steps=4096", "checkpoint.every_env_steps=2048")
FOUR_CPUS = Cluster((Node(4, 0),))

RunFaulty = Callable[..., Study]


@pytest.fixture
def run_faulty(plan_of: PlanOf, tmp_path: Path) -> RunFaulty:
    def run(*overrides: str, runners: int = 0, before: Callable[[], object] = lambda: None) -> Study:
        plan = plan_of(*TINY, *FAULTY, f"hardware.num_env_runners={runners}", *overrides, cluster=FOUR_CPUS)
        before()
        return Study(plan, tmp_path / "out")

    return run


def assert_complete(study: Study, label: str, steps: tuple[int, ...] = (1024, 2048, 3072, 4096)) -> None:
    """Every point of the curve once, in order."""
    curve = study.curve(label)
    for name in ("eval/return_mean", "train/return_mean", "progress/env_steps"):
        assert [step for step, _ in curve[name]] == list(steps), name
    env_steps = [value for _, value in curve["progress/env_steps"]]
    assert all(low < high for low, high in pairwise(env_steps))
    assert study.status(label) == "FINISHED"


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    folder = tmp_path / "trace"
    folder.mkdir()
    return folder


def traces(trace: Path) -> list[Path]:
    """What trials left; the plan, made in this process, tries environments as well."""
    return [path for path in trace.iterdir() if not path.name.endswith(f"-{os.getpid()}")]


def left_of(trace: Path) -> list[psutil.Process]:
    """The processes with environments that are still there some seconds after their study."""
    pids = {int(path.name.rpartition("-")[-1]) for path in traces(trace)}
    return list(psutil.wait_procs([psutil.Process(pid) for pid in pids if psutil.pid_exists(pid)], timeout=30)[1])


@pytest.mark.parametrize("runners", [0, *(pytest.param(number, marks=pytest.mark.nightly) for number in (1, 2))])
def test_an_environment_that_raises_once_costs_a_restart_and_the_claim_to_be_reproducible(
    run_faulty: RunFaulty, tmp_path: Path, runners: int
) -> None:
    # In the third report, after the checkpoint of the second.
    once = (
        f"+env.env_config.once={tmp_path / 'once'}",
        f"+env.env_config.at={650 // max(1, runners)}",
        "study.space={env.env_config.fault:[raise]}",
    )
    study = run_faulty(*once, *FOUR_REPORTS, runners=runners)
    assert study.outcome.exit_code == 0
    assert_complete(study, "fault=raise")
    tags = study.tags("fault=raise")
    assert (tags["restarts"], tags["reproducible"]) == ("1", "false")
    (restart,) = study.restarts("fault=raise")
    assert restart["reason"] == "RuntimeError: the simulator crashed"
    assert restart["env_steps"] == 2048
    assert "Traceback" not in study.shown


@pytest.mark.parametrize("runners", [0, pytest.param(2, marks=pytest.mark.nightly)])
def test_an_environment_that_always_raises_fails_its_trial_alone_with_its_reason(
    run_faulty: RunFaulty, runners: int
) -> None:
    study = run_faulty("study.space={env.env_config.fault:[raise,null]}", runners=runners)
    assert study.outcome.exit_code == 1
    assert study.status("fault=raise") == "FAILED"
    assert (
        study.tags("fault=raise")["failure"]
        == study.ended("fault=raise").failure
        == "RuntimeError: the simulator crashed"
    )
    assert_complete(study, "fault=None", steps=(1024, 2048))
    assert "Traceback" not in study.shown
    seconds = (
        "SELECT name, (end_time - start_time) / 1000.0 FROM runs WHERE status = 'FAILED' AND name LIKE '%fault=raise%'"
    )
    print(f"failed after {study.query(seconds)} s")


@pytest.mark.parametrize(
    ("vectorize_mode", "faults"),
    [
        ("async", ["hold"]),
        pytest.param("async", ["hang"], marks=pytest.mark.nightly),
        pytest.param("sync", ["hang", "hold"], marks=pytest.mark.nightly),
    ],
)
def test_a_step_that_never_returns_ends_its_trial_and_leaves_no_process(
    run_faulty: RunFaulty, trace: Path, vectorize_mode: str, faults: list[str]
) -> None:
    hang = (
        f"study.space={{env.env_config.fault:[{','.join(faults)},null]}}",
        f"+env.env_config.trace={trace}",
        "faults.stall_after_s=20",
    )
    study = run_faulty(*hang, f"env.vectorize_mode={vectorize_mode}")
    assert left_of(trace) == []
    assert study.outcome.exit_code == 1
    for label in (f"fault={fault}" for fault in faults):
        assert study.status(label) == "FAILED"
        assert study.tags(label)["failure"] == "stalled: no sign of life for 20 s (faults.stall_after_s)"
    assert_complete(study, "fault=None", steps=(1024, 2048))


@pytest.mark.nightly
def test_a_step_that_never_returns_in_a_runner_ends_its_trial_and_leaves_no_process(
    run_faulty: RunFaulty, trace: Path
) -> None:
    # Long enough for runners to start on a busy machine.
    hang = ("study.space={env.env_config.fault:[hold]}", f"+env.env_config.trace={trace}", "faults.stall_after_s=30")
    study = run_faulty(*hang, runners=2)
    assert len(traces(trace)) == 2
    assert left_of(trace) == []
    assert study.ended("fault=hold").failure == "stalled: no sign of life for 30 s (faults.stall_after_s)"


@pytest.mark.parametrize(
    ("victim", "runners", "learners"),
    [
        ("trial", 0, 0),
        ("runner", 1, 0),
        pytest.param("runner", 2, 0, marks=pytest.mark.nightly),
        pytest.param("learner", 0, 1, marks=pytest.mark.nightly),
    ],
)
def test_a_killed_process_of_a_trial_costs_a_restart_and_changes_no_bit(
    run_faulty: RunFaulty,
    tmp_path: Path,
    trace: Path,
    capfd: pytest.CaptureFixture[str],
    victim: str,
    runners: int,
    learners: int,
) -> None:
    study = run_faulty(
        "study.space={env.env_config.fault:[null,kill]}",
        *FOUR_REPORTS,
        f"+env.env_config.once={tmp_path / 'once'}",
        f"+env.env_config.trace={trace}",
        f"+env.env_config.at={650 // max(1, runners)}",  # in the third report, after the checkpoint of the second
        f"+env.env_config.victim={'ray::_WrappedExecutable' if victim == 'learner' else 'null'}",
        f"hardware.num_learners={learners}",
        "hardware.max_concurrent_trials=1",
        runners=runners,
    )
    assert study.outcome.exit_code == 0
    assert_complete(study, "fault=kill")
    assert study.learned("fault=kill") == study.learned("fault=None")
    assert study.ended("fault=kill").weights == study.ended("fault=None").weights
    tags = study.tags("fault=kill")
    assert (tags["restarts"], tags["reproducible"]) == ("1", "true")
    (restart,) = study.restarts("fault=kill")
    assert "died" in restart["reason"]
    assert victim in restart["reason"]
    assert restart["env_steps"] == 2048
    sampled = {
        fault: sum(file.stat().st_size for file in traces(trace) if file.name.startswith(f"{fault}-"))
        for fault in ("None", "kill")
    }
    assert 0 < sampled["kill"] - sampled["None"] <= 2048
    assert "(raylet)" not in capfd.readouterr().out


@pytest.mark.nightly
def test_an_asynchronous_algorithm_goes_on_after_its_runner_was_killed(run_faulty: RunFaulty, tmp_path: Path) -> None:
    kill = (
        "study.space={env.env_config.fault:[kill]}",
        f"+env.env_config.once={tmp_path / 'once'}",
        "+env.env_config.at=650",
    )
    study = run_faulty("algorithm=appo", *kill, *FOUR_REPORTS, runners=1)
    assert study.outcome.exit_code == 0
    assert_complete(study, "fault=kill")
    tags = study.tags("fault=kill")
    assert (tags["restarts"], tags["reproducible"]) == ("1", "false")


PLACES = {
    "nan_reward": "reward of environment 0 of runner 0",
    "inf_reward": "reward of environment 0 of runner 0",
    "nan_observation": "observation of environment 0 of runner 0",
    "inf_observation": "observation of environment 0 of runner 0",
    "large_reward": "learner/loss = nan",
}


@pytest.mark.parametrize(
    "numbers",
    [("nan_reward", "inf_observation", "large_reward"), pytest.param(tuple(PLACES), marks=pytest.mark.nightly)],
    ids=["few", "all"],
)
def test_a_number_that_is_not_finite_fails_its_trial_with_its_place_and_reaches_no_metric(
    run_faulty: RunFaulty, numbers: tuple[str, ...]
) -> None:
    places = {number: PLACES[number] for number in numbers}
    study = run_faulty(f"study.space={{env.env_config.fault:[{','.join(places)},null]}}")
    assert study.outcome.exit_code == 1
    for number, place in places.items():
        label = f"fault={number}"
        assert study.status(label) == "FAILED"
        assert re.fullmatch(rf"NonFiniteError: non-finite {place},? after \d+ env steps", study.tags(label)["failure"])
        assert study.restarts(label) == []
        assert "final/score" not in study.curve(label)
    assert_complete(study, "fault=None", steps=(1024, 2048))
    assert study.query("SELECT count(*) FROM metrics WHERE is_nan OR value IS NULL OR abs(value) > 1e300") == [(0,)]
    assert study.query("SELECT value FROM tags WHERE key = 'best'") == [("fault=None",)]


@pytest.mark.nightly
def test_a_number_that_is_not_finite_fails_a_trial_with_runners_too(run_faulty: RunFaulty) -> None:
    study = run_faulty("study.space={env.env_config.fault:[nan_reward]}", runners=1)
    assert re.fullmatch(
        r"NonFiniteError: non-finite reward of environment 0 of runner 1, after \d+ env steps",
        study.ended("fault=nan_reward").failure,
    )
    assert study.restarts("fault=nan_reward") == []


@pytest.mark.nightly
def test_a_loss_that_is_not_finite_fails_its_trial(run_faulty: RunFaulty) -> None:
    study = run_faulty("study.space={algorithm.training.lr:[1.0e+30]}")
    assert re.fullmatch(
        r"NonFiniteError: non-finite learner/\w+ = \S+ after \d+ env steps", study.ended("lr=1e30").failure
    )
    assert study.restarts("lr=1e30") == []


def test_a_study_in_which_no_episode_ends_finishes_and_its_report_says_so(run_faulty: RunFaulty) -> None:
    study = run_faulty("study.space={env.env_config.length:[1000000000,5]}")
    assert study.outcome.exit_code == 0
    endless = study.curve("length=1000000000")
    assert endless["train/episodes"] == [(1024, 0.0), (2048, 0.0)]
    assert "train/return_mean" not in endless
    assert endless["eval/episode_len_mean"] == [(1024, 1000.0), (2048, 1000.0)]  # the time limit
    assert study.status("length=1000000000") == "FINISHED"
    loaded = load_study(study.outcome.study_run, f"sqlite:///{study.out}/mlflow.db")
    page = build(loaded).html
    assert "In 1 trial no episode ended in training" in page


@pytest.mark.nightly
def test_many_trials_that_fail_are_one_line(run_faulty: RunFaulty, tmp_path: Path) -> None:
    needs = tmp_path / "licence"
    needs.touch()
    seeds = "seeds=[0,1,2,3]"
    study = run_faulty(
        "study.space={}", f"+env.env_config.needs={needs}", seeds, "faults.max_restarts=1", before=needs.unlink
    )
    assert study.outcome.exit_code == 1
    (line,) = failures(study.outcome.outcomes)
    assert re.fullmatch(
        r"4 failed: .*the simulator has no licence.*  \(ppo-cartpole s=0, ppo-cartpole s=1, "
        r"ppo-cartpole s=2 and 1 more\)",
        line,
    )
    runs = (
        "SELECT status, count(*) FROM runs JOIN tags USING (run_uuid) WHERE key = 'kind' AND value = 'trial' GROUP BY 1"
    )
    assert study.query(runs) == [("FAILED", 4)]
    assert len(study.shown.splitlines()) < 20
    assert "Traceback" not in study.shown


def test_a_full_disk_costs_what_there_was_no_room_for_and_nothing_else(tmp_path: Path) -> None:
    # Full from env step 2400 to 5000; a checkpoint is due at 2048, 4096 and 6144.
    # Everything is on this disk, MLflow's store too.
    out, kept = tmp_path / "out", tmp_path / "kept"
    out.mkdir()
    full = f"{{fault:full_disk,disk:{out},at:600,room_at:1250,once:{tmp_path / 'once'}}}"
    overrides = (*TINY, *FAULTY, "study.space={}", f"+env.env_config={full}", "hardware.num_env_runners=0")
    spacing = (
        "budget_env_steps=6144",
        "report_every_env_steps=512",
        "checkpoint.every_env_steps=2048",
        "checkpoint.keep=3",
    )
    command = [sys.executable, "experiments/run.py", *overrides, *spacing, "report=false", f"output_dir={out}"]
    # The file system vanishes with the last process that sees it.
    keep = ["sh", "-c", 'kept=$1; shift; "$@"; code=$?; cp -r "$0" "$kept"; exit $code', str(out), str(kept)]
    done = subprocess.run(
        on_small_disk(out, 24, [*keep, *command]), cwd=ROOT, capture_output=True, text=True, timeout=240, check=False
    )
    print(done.stdout, done.stderr)
    assert done.returncode == 0
    (folder,) = kept.glob("studies/*/trials/*")
    checkpoints = sorted((folder / "checkpoints").iterdir())
    assert [int(checkpoint.name) for checkpoint in checkpoints] == [2048, 6144]
    for checkpoint in checkpoints:
        check_checkpoint(checkpoint)
    steps = list(range(512, 6145, 512))
    # the late ones when there was room again
    assert [report.env_steps for report in reports(TrialFolder(folder).log.all())] == steps
    said = re.sub(r"\s", "", done.stdout)  # long paths are wrapped
    assert f"notsaved:ppo-cartpoleseed0:{out}/studies/{folder.parent.parent.name}/trials/{folder.name}" in said
    assert "events.jsonl:Nospaceleftondevice" in said
    store = kept / "mlflow.db"
    assert query(store, "PRAGMA integrity_check") == [("ok",)]
    assert query(store, "SELECT step FROM metrics WHERE key = 'eval/return_mean' ORDER BY timestamp") == [
        (step,) for step in steps
    ]
    assert query(store, "SELECT DISTINCT status FROM runs") == [("FINISHED",)]
    ((tag,),) = query(store, "SELECT value FROM tags WHERE key = 'unsaved'")
    assert str(out) in tag
    assert "No space left on device" in tag
