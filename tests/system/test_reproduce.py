import json
import math
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mlflow.entities import Metric
from mlflow.tracking import MlflowClient

from analysis.stats.curves import Curves, compare_curves
from analysis.stats.interval import prediction_interval
from analysis.stats.verdict import Judgement, Verdict, judge
from experiments.config.errors import ConfigurationError
from experiments.config.schema import HardwareSettings
from experiments.config.trial_config import Start, TrialConfig
from experiments.contract import METRICS, depends_on_clock
from experiments.planning.machines import Cluster, Node
from experiments.reproduce import main
from experiments.study.reproduction import plan_again, recorded_trial
from experiments.study.verdict import conclude
from experiments.tracking import provenance
from experiments.tracking.archive import Archive, LoggedTrial
from experiments.tracking.place import Place
from experiments.tracking.provenance_changes import Change, changes
from experiments.tracking.store import Store
from tests.support.commands import run_here
from tests.support.suite import ROOT, TINY, PlanOf, RunSuite

pytestmark = pytest.mark.slow

MACHINE = Cluster((Node(2, 0),))
NAMES = [name for name in METRICS if not depends_on_clock(name)]

curves_of = st.dictionaries(
    st.sampled_from(NAMES),
    st.dictionaries(st.integers(1, 20).map(lambda i: 1000 * i), st.floats(), min_size=1),
    min_size=1,
)


# Comparing curves


@given(curves_of)
def test_curves_are_the_same_as_themselves_nan_included(curves: Curves) -> None:
    found = compare_curves(curves, {name: dict(curve) for name, curve in curves.items()})
    assert found.difference is None
    assert set(found.metrics) == set(curves)
    assert found.reports == len({step for curve in curves.values() for step in curve})


@given(curves_of, st.data())
def test_the_first_report_that_differs_is_named_with_its_metrics_and_values(
    curves: dict[str, dict[int, float]], data: st.DataObject
) -> None:
    points = [(step, name) for name, curve in curves.items() for step in curve]
    altered = data.draw(st.sets(st.sampled_from(points), min_size=1))
    again = {
        name: {step: other(value) if (step, name) in altered else value for step, value in curve.items()}
        for name, curve in curves.items()
    }
    difference = compare_curves(curves, again).difference
    assert difference is not None
    assert difference.env_steps == min(altered)[0]
    assert set(difference.values) == {name for step, name in altered if step == difference.env_steps}
    for name, (before, after) in difference.values.items():
        assert repr(before) == repr(curves[name][difference.env_steps])
        assert repr(after) == repr(again[name][difference.env_steps])


def other(value: float) -> float:
    """The next number, which no tolerance would tell from the first."""
    return math.nextafter(value, 0.0) if value and math.isfinite(value) else 1.0


def test_a_report_that_only_one_run_made_is_a_difference() -> None:
    difference = compare_curves({"train/return_mean": {1: 5.0, 2: 6.0}}, {"train/return_mean": {1: 5.0}}).difference
    assert difference is not None
    assert (difference.env_steps, difference.values) == (2, {"train/return_mean": (6.0, None)})


def test_nothing_beyond_the_end_of_a_stopped_run_is_compared() -> None:
    whole = {"eval/return_mean": {1: 5.0, 2: 6.0}, "final/score": {2: 6.0}}
    found = compare_curves({"eval/return_mean": {1: 5.0}}, whole, until=1)
    assert (found.difference, found.metrics, found.reports, found.added) == (None, ("eval/return_mean",), 1, ())


def test_a_metric_that_only_one_version_logs_is_named_and_does_not_count() -> None:
    found = compare_curves(
        {"learner/kl": {1: 0.1}, "learner/loss": {1: 2.0}}, {"learner/loss": {1: 2.0}, "learner/new": {1: 3.0}}
    )
    assert found.difference is None
    assert (found.metrics, found.missing, found.added) == (("learner/loss",), ("learner/kl",), ("learner/new",))


# The verdict


SAME = compare_curves({"learner/loss": {1: 2.0}}, {"learner/loss": {1: 2.0}})
APART = compare_curves({"learner/loss": {1: 2.0}}, {"learner/loss": {1: 2.5}})
NOTHING = compare_curves({"learner/loss": {1: 2.0}}, {})


def verdict(
    curves: Any, weights: tuple[str | None, str | None], score: float | None, others: list[float], asynchronous: bool
) -> Verdict:
    return judge(curves, weights, score, others, asynchronous).verdict


def test_a_synchronous_algorithm_is_identical_or_different() -> None:
    seeds = [1.0, 2.0, 3.0]
    assert verdict(SAME, ("a", "a"), 2.0, seeds, False) is Verdict.IDENTICAL
    assert verdict(SAME, (None, "a"), 2.0, seeds, False) is Verdict.IDENTICAL
    assert verdict(SAME, ("a", "b"), 2.0, seeds, False) is Verdict.DIFFERENT
    assert verdict(APART, ("a", "a"), 2.0, seeds, False) is Verdict.DIFFERENT
    assert verdict(NOTHING, ("a", "a"), 2.0, seeds, False) is Verdict.UNDECIDED


def test_an_asynchronous_algorithm_is_judged_by_the_scores_of_the_other_seeds() -> None:
    # Mean 2, standard deviation 1, t(0.975, 2) = 4.302653: 2 +- 4.302653 * sqrt(4/3).
    expected = prediction_interval([1.0, 2.0, 3.0])
    assert (expected.estimate, expected.low, expected.high) == pytest.approx((2.0, -2.968275, 6.968275), abs=1e-6)
    assert verdict(APART, ("a", "b"), 6.9, [1.0, 2.0, 3.0], True) is Verdict.EQUIVALENT
    assert verdict(APART, ("a", "b"), 7.0, [1.0, 2.0, 3.0], True) is Verdict.DIFFERENT
    assert verdict(SAME, ("a", "a"), 7.0, [1.0, 2.0, 3.0], True) is Verdict.IDENTICAL
    assert verdict(APART, ("a", "b"), None, [1.0, 2.0, 3.0], True) is Verdict.UNDECIDED


def test_too_few_seeds_cannot_judge_and_the_verdict_says_how_many_are_needed() -> None:
    judgement = judge(APART, ("a", "b"), 2.0, [1.0], True)
    assert judgement.verdict is Verdict.UNDECIDED
    assert "1 other finished seed " in judgement.reason
    assert "2 more needed" in judgement.reason


# What changed


def test_only_what_changed_is_told_the_likeliest_cause_first() -> None:
    before = {
        "commit": "aaa",
        "diff": "",
        "versions": {"python": "3.11.7", "ray": "2.59.0", "torch": "2.13.0"},
        "packages": {"ray": "2.59.0", "torch": "2.13.0", "rich": "14", "box2d": "2.3.9"},
        "environment": {"OMP_NUM_THREADS": "1"},
        "arithmetic": {"torch_cpu_capability": "AVX512"},
        "host": {"host": "a", "cpu": "EPYC", "cpu_count": 8, "gpus": ["T4", "T4"]},
        "command": "python one.py",
    }
    after = {
        **before,
        "diff": "d1",
        "versions": {**before["versions"], "ray": "2.60.0"},  # type: ignore[dict-item]
        "packages": {**before["packages"], "ray": "2.60.0", "box2d": "2.3.10"},  # type: ignore[dict-item]
        "environment": {},
        "arithmetic": {"torch_cpu_capability": "AVX2"},
        "host": {"host": "a", "cpu": "EPYC", "cpu_count": 8},
        "command": "python another.py",
    }
    assert [str(change) for change in changes(before, after)] == [
        "uncommitted changes none -> d1",
        "ray 2.59.0 -> 2.60.0",
        "OMP_NUM_THREADS 1 -> none",
        "torch's instruction set AVX512 -> AVX2",
        "GPUs T4, T4 -> none",
        "box2d 2.3.9 -> 2.3.10",
    ]
    assert changes(before, before) == []


def test_a_record_says_where_a_result_comes_from() -> None:
    record = provenance.record()
    assert json.loads(json.dumps(record)) == record
    assert {"python", "ray", "torch", "gymnasium", "numpy"} <= set(record["versions"])
    assert record["packages"]["hypothesis"]
    assert all(record["arithmetic"].values())
    assert record["host"]["cpu_count"] >= 1
    assert changes(record, record) == []


def test_the_environment_that_rounds_differently_is_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    assert provenance.environment()["OMP_NUM_THREADS"] == "3"


def test_the_commit_of_another_users_clone_is_recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name = ("-c", "user.name=a", "-c", "user.email=a@b")
    for arguments in (["init"], [*name, "commit", "--allow-empty", "-m", "first"]):
        subprocess.run(["git", "-C", str(tmp_path), *arguments], check=True, capture_output=True)
    monkeypatch.setenv("GIT_TEST_ASSUME_DIFFERENT_OWNER", "1")  # git's own, for such tests
    assert subprocess.run(["git", "-C", str(tmp_path), "status"], capture_output=True, check=False).returncode
    assert provenance.git_state(tmp_path).commit is not None


def test_the_recorded_diff_brings_a_clean_checkout_to_the_code_that_ran(tmp_path: Path) -> None:
    def git(folder: Path, *arguments: str) -> None:
        name = ("-c", "user.name=a", "-c", "user.email=a@b")
        subprocess.run(["git", "-C", str(folder), *name, *arguments], check=True, capture_output=True)

    repository, clean = tmp_path / "repository", tmp_path / "clean"
    (repository / "experiments").mkdir(parents=True)
    git(repository, "init")
    (repository / "experiments" / "a.py").write_bytes(b"one\r\ntwo\r\n")
    git(repository, "add", ".")
    git(repository, "commit", "-m", "first")
    assert provenance.git_state(repository).dirty_diff == ""
    provenance.git_state.cache_clear()
    shutil.copytree(repository, clean)
    (repository / "experiments" / "a.py").write_bytes(b"one\r\n2\r\n")
    (repository / "experiments" / "new.py").write_bytes(b"new\n")
    (repository / "experiments" / "data.bin").write_bytes(bytes(range(256)))
    (repository / "private.txt").write_text("secret")
    diff = provenance.git_state(repository).dirty_diff
    assert "secret" not in diff
    (clean / "a.diff").write_bytes(diff.encode())
    git(clean, "apply", "a.diff")
    for name in ("a.py", "new.py", "data.bin"):
        assert (clean / "experiments" / name).read_bytes() == (repository / "experiments" / name).read_bytes()


# Records


Log = Callable[..., str]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("store")
    Store(f"sqlite:///{folder}/mlflow.db", folder / "mlartifacts", 5.0)
    return folder


@pytest.fixture
def log(store: Path) -> Log:
    """Logs a trial's run as the suite does; its run id."""
    client = MlflowClient(f"sqlite:///{store}/mlflow.db")

    def log_trial(
        trial: TrialConfig | None,
        tags: Mapping[str, str] | None = None,
        status: str = "FINISHED",
        curves: Curves | None = None,
        config: str | None = None,
        record: Mapping[str, Any] | None = None,
    ) -> str:
        found = client.get_experiment_by_name("lr/ppo-cartpole")
        experiment = (
            found.experiment_id
            if found
            else client.create_experiment("lr/ppo-cartpole", (store / "mlartifacts" / "lr").as_uri())
        )
        identity = {"config_id": trial.config_id, "seed": str(trial.seed), "hardware": "auto"} if trial else {}
        run = client.create_run(
            experiment, tags={"kind": "trial", "study_run": "s0", **identity, **(tags or {})}, run_name="b=512 s=0"
        )
        run_id = str(run.info.run_id)
        points = [
            (n, s, v)
            for n, curve in ({"eval/return_mean": {1024: 5.0}} if curves is None else curves).items()
            for s, v in curve.items()
        ]
        client.log_batch(run_id, [Metric(name, value, 1, step) for name, step, value in points])
        if trial is not None and config is None:
            config = json.dumps(
                {**trial.to_mapping(), "provenance": record or {"commit": "abc", "host": {"cpu_count": 64}}}
            )
        if config is not None:
            client.log_text(run_id, config, "config.json")
        client.set_terminated(run_id, status)
        return run_id

    return log_trial


@pytest.fixture
def tiny(plan_of: PlanOf) -> TrialConfig:
    return plan_of(*TINY, "seeds=[0]", "study.space={}").trials[0]


def hardware_of(trial: TrialConfig) -> HardwareSettings:
    return HardwareSettings("auto", threads_per_process=trial.threads_per_process)


def archive(store: Path) -> Archive:
    return Archive(place_of(store))


def place_of(store: Path) -> Place:
    return Place(store, f"sqlite:///{store}/mlflow.db", 5.0)


def test_a_logged_trial_is_read_back_without_what_depends_on_the_clock(
    store: Path, log: Log, tiny: TrialConfig
) -> None:
    run_id = log(tiny, curves={"eval/return_mean": {1024: 5.0, 2048: 7.25}, "throughput/env_steps_per_s": {1024: 99.0}})
    found = archive(store).trial(run_id)
    assert found.curves == {"eval/return_mean": {1024: 5.0, 2048: 7.25}}
    assert (found.experiment, found.status, found.last_env_steps) == ("lr/ppo-cartpole", "FINISHED", 2048)
    assert recorded_trial(found) == tiny


def test_a_plan_of_a_recorded_trial_has_that_trial_and_no_other(store: Path, log: Log, plan_of: PlanOf) -> None:
    fitting = Cluster((Node(64, 0),))
    for overrides in (
        (
            "algorithm=ppo",
            "env=lunarlander",
            "hardware=workstation",
            "hardware.num_gpus=0",
            "hardware.threads_per_process=2",
        ),
        ("algorithm=dqn", "env=cartpole", "stop_at_target=true", "checkpoint.every_env_steps=5000"),
        ("algorithm=sac", "env=pendulum", "evaluation.final_episodes=7"),
        ("algorithm.training.lr={rule:sqrt,base_lr:1e-3,base_batch:512}",),
    ):
        trial = plan_of("study.space={}", "seeds=[7]", "repeats=2", *overrides, cluster=fitting).trials[-1]
        first = archive(store).trial(log(trial))
        plan = plan_again(recorded_trial(first), first, hardware_of(trial), MACHINE, place_of(store))
        assert [(t.config_id, t.seed, t.label, t.checkpoint) for t in plan.trials] == [
            (trial.config_id, 7, trial.label, trial.checkpoint)
        ]
        assert plan.experiment == f"reproduce/{trial.algorithm['name']}-{trial.env.name}"


def test_the_scores_of_the_other_seeds_are_those_of_its_finished_trials(store: Path, log: Log, plan_of: PlanOf) -> None:
    def score(trial: TrialConfig, value: float, status: str = "FINISHED", **tags: str) -> str:
        return log(trial, {"study_run": "s1", **tags}, status, {"final/score": {2048: value}})

    same = plan_of(*TINY, "seeds=[0,1,2,3]", "study.space={}").trials
    different = plan_of(*TINY, "seeds=[5]", "study.space={}", "algorithm.training.lr=1e-5").trials[0]
    own = score(same[0], 1.0)
    score(same[0], 2.0, repeat="1")
    score(same[1], 3.0)
    score(same[1], 4.0, repeat="1")
    score(same[2], 5.0, repeat="0")
    score(same[3], 6.0, "FAILED")
    score(different, 7.0)
    score(same[3], 8.0, study_run="s2")
    reader = archive(store)
    assert reader.scores_of_other_seeds(reader.trial(own)) == {1: 3.0, 2: 5.0}


def test_a_store_that_was_moved_still_has_its_records(store: Path, log: Log, tiny: TrialConfig, tmp_path: Path) -> None:
    run_id = log(tiny)
    moved = tmp_path / "moved"
    shutil.copytree(store, moved)
    shutil.rmtree(store / "mlartifacts" / "lr" / run_id)
    assert recorded_trial(archive(moved).trial(run_id)) == tiny


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(arguments) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    return printed.err


def test_what_is_no_finished_record_of_a_trial_is_refused(
    store: Path, log: Log, tiny: TrialConfig, capsys: pytest.CaptureFixture[str]
) -> None:
    altered = json.dumps({**tiny.to_mapping(), "seed": 0, "budget_env_steps": 4096, "provenance": {"commit": "c0ffee"}})
    for run_id, message in (
        ("0" * 32, "there is no such run"),
        (log(None, {"kind": "study"}), "the run of a whole study"),
        (log(None, {"kind": ""}), "not of a trial"),
        (log(tiny, config="{"), "damaged"),
        (log(tiny, config='{"seed": 0}'), "another version of the suite"),
        (log(None), "has no config.json"),
        (log(tiny, config=altered), "c0ffee"),
        (log(tiny, status="RUNNING"), "has not ended"),
        (log(tiny, curves={}), "logged no report"),
        (log(replace(tiny, start=Start("lr=1e-3_0_s4", 1024, True))), "went on with the weights of lr=1e-3_0_s4"),
    ):
        error = refused(capsys, f"run={run_id}", f"output_dir={store}")
        assert error.startswith(f"error: run={run_id}")
        assert message in error


def test_what_does_not_fit_or_is_not_installed_here_is_refused(
    store: Path, log: Log, plan_of: PlanOf, tiny: TrialConfig, capsys: pytest.CaptureFixture[str]
) -> None:
    gpus = plan_of(*TINY, "hardware=workstation", "study.space={}", cluster=Cluster((Node(9, 1),))).trials[0]
    many = plan_of(
        "study=smoke",
        "algorithm=impala",
        "hardware.num_env_runners=900",
        "study.space={}",
        cluster=Cluster((Node(999, 0),)),
    )
    mapping = tiny.to_mapping()
    absent = TrialConfig.from_mapping(
        {**mapping, "env": {**mapping["env"], "id": "no_such_module:X-v0", "extra": "box2d"}}
    )
    for trial, cpus, message in (
        (gpus, 9, "use a machine that has them"),
        (many.trials[0], 999, "use a machine with 90"),
        (absent, 9, "pip install -e '.[box2d]'"),
    ):
        run_id = log(trial, record={"commit": "abc", "host": {"cpu_count": cpus}})
        error = refused(capsys, f"run={run_id}", f"output_dir={store}")
        assert error.startswith(f"error: run={run_id}")
        assert message in error


def test_a_cluster_that_does_not_answer_is_refused(
    store: Path, log: Log, tiny: TrialConfig, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "hardware.address=127.0.0.1:9" in refused(
        capsys, f"run={log(tiny)}", f"output_dir={store}", "hardware.address=127.0.0.1:9"
    )


def test_a_trial_of_a_cluster_needs_all_the_cpus_that_it_had_there(store: Path, log: Log, plan_of: PlanOf) -> None:
    wide = ("study=smoke", "algorithm=impala", "hardware.num_env_runners=900", "study.space={}")
    trial = plan_of(*wide, cluster=Cluster((Node(999, 0),))).trials[0]
    first = archive(store).trial(log(trial, record={"host": {"cpu_count": 2}, "num_nodes": 9}))
    with pytest.raises(ConfigurationError, match="use a machine with 90"):
        plan_again(trial, first, hardware_of(trial), MACHINE, place_of(store))


def test_processes_beyond_the_cpus_take_turns_where_that_changes_nothing(
    store: Path, log: Log, plan_of: PlanOf
) -> None:
    cluster = Cluster((Node(999, 0),))
    wide = ("study=smoke", "hardware.num_env_runners=8", "study.space={}")  # more have no memory here
    synchronous = plan_of(
        *wide,
        "algorithm.training.train_batch_size_per_learner=14400",
        "budget_env_steps=28800",
        "report_every_env_steps=14400",
        cluster=cluster,
    ).trials[0]
    asynchronous = plan_of(*wide, "algorithm=impala", cluster=cluster).trials[0]
    reader = archive(store)
    # the asynchronous one took turns when it was recorded, too
    for trial, had in ((synchronous, 999), (asynchronous, 1)):
        first = reader.trial(log(trial, record={"host": {"cpu_count": had}}))
        plan = plan_again(trial, first, hardware_of(trial), MACHINE, place_of(store))
        assert plan.suite.hardware.num_cpus is not None
        assert plan.suite.hardware.num_cpus > 8


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "run= is missing"),
        (["run="], "run= is empty"),
        (["runs=1"], "'runs=1' is not understood"),
        (["run"], "'run' is not understood"),
        (["run=1", "tracking_uri=http://127.0.0.1:9"], "tracking_uri=http://127.0.0.1:9"),
        (["run=1", "tracking_uri=ftp://x"], "tracking_uri=ftp://x"),
        (["run=1", "hardware=laptop"], "'hardware=laptop' is not understood"),
        (["run=1", "output_dir=/proc/none"], "output_dir=/proc/none"),
        (["run=1", "tracking_uri=sqlite:///nowhere/mlflow.db", "output_dir=/tmp"], "there is no store"),
    ],
)
def test_bad_input_is_refused_with_the_key_at_fault(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert message in refused(capsys, *arguments)


def test_the_command_says_its_exit_codes_and_refuses_without_a_traceback(tmp_path: Path) -> None:
    def command(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "experiments/reproduce.py", *arguments],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
        )

    shown = command("--help")
    assert shown.returncode == 0
    assert all(f"{code} " in shown.stdout for code in ("0", "1", "2", "130", "143"))
    done = command("run=1", f"output_dir={tmp_path}")
    assert done.returncode == 2
    assert done.stderr.startswith(f"error: tracking_uri=sqlite:///{tmp_path}/mlflow.db: there is no store")
    assert "Traceback" not in done.stderr
    assert list(tmp_path.iterdir()) == []


# Conclusions


def logged(**given: Any) -> LoggedTrial:
    tags = {"weights": "w", **given.pop("tags", {})}
    values = {
        "run_id": "r",
        "name": "n",
        "status": "FINISHED",
        "experiment": "e",
        "experiment_id": "1",
        "config": {},
        "curves": {},
    }
    return LoggedTrial(**{**values, "tags": tags, **given})


CURVES = {"eval/return_mean": {1: 5.0, 2: 6.0}, "final/score": {2: 6.0}}


def test_a_different_verdict_tells_the_first_difference_and_what_changed() -> None:
    first = logged(curves=CURVES, config={"provenance": {"commit": "a", "versions": {"ray": "2.59.0"}}})
    second = logged(
        curves={**CURVES, "eval/return_mean": {1: 5.0, 2: 6.5}},
        config={"provenance": {"commit": "a", "versions": {"ray": "2.60.0"}}},
    )
    found = conclude(first, second, "", False, [])
    assert found.judgement.verdict is Verdict.DIFFERENT
    assert found.first_difference == "eval/return_mean at 2"
    assert found.changed == [Change("ray", "2.59.0", "2.60.0")]
    told = "\n".join(found.lines())
    assert "eval/return_mean 6.0 -> 6.5" in told
    assert "ray 2.59.0 -> 2.60.0" in told
    assert "[n](#/experiments/1/runs/r)" in found.note()
    assert json.loads(json.dumps(found.to_mapping()))["first_difference"] == {
        "env_steps": 2,
        "values": {"eval/return_mean": [6.0, 6.5]},
    }


def test_weights_alone_can_differ_and_a_cause_that_nobody_recorded_is_said_to_be_none() -> None:
    found = conclude(logged(curves=CURVES), logged(curves=CURVES, tags={"weights": "v"}), "", False, [])
    assert (found.judgement.verdict, found.first_difference) == (Verdict.DIFFERENT, "final weights")
    assert "nothing that was recorded" in found.lines()[-1]


def test_a_trial_that_fails_again_and_a_store_that_lost_the_second_run_are_no_success() -> None:
    first = logged(curves=CURVES, status="FAILED", tags={"failure": "ValueError: x"})
    found = conclude(first, logged(curves=CURVES), "ValueError: x", False, [])
    assert found.judgement == Judgement(Verdict.FAILED, "ValueError: x, as the first run did")
    assert conclude(logged(curves=CURVES), None, "", False, []).judgement.verdict is Verdict.UNDECIDED


def test_an_interrupted_record_is_compared_as_far_as_it_goes() -> None:
    first = logged(curves={"eval/return_mean": {1: 5.0}}, status="KILLED")
    found = conclude(first, logged(curves=CURVES), "", False, [])
    assert found.judgement.verdict is Verdict.IDENTICAL
    assert "up to 1 env steps" in "\n".join(found.lines())


# For real


def run_ids(out: Path, study: str) -> list[str]:
    with sqlite3.connect(out / "mlflow.db") as database:
        rows = database.execute(
            "SELECT run_uuid FROM runs JOIN tags AS a USING (run_uuid) JOIN tags AS b USING (run_uuid) "
            "WHERE a.key = 'study' AND a.value = ? AND b.key = 'kind' AND b.value = 'trial' ORDER BY start_time",
            [study],
        ).fetchall()
    return [run_id for (run_id,) in rows]


def tags_of(out: Path, run_id: str) -> dict[str, str]:
    with sqlite3.connect(out / "mlflow.db") as database:
        return dict(database.execute("SELECT key, value FROM tags WHERE run_uuid = ?", [run_id]).fetchall())


@pytest.mark.ray
@pytest.mark.usefixtures("ray_instance")
def test_a_logged_trial_comes_out_identical_and_a_tampered_record_does_not(
    suite_here: RunSuite, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    assert suite_here(*TINY, "seeds=[1]", "study.space={}", with_ray=True).returncode == 0
    (first,) = run_ids(out, "smoke")
    words = ("experiments/reproduce.py", f"run={first}", f"output_dir={out}")

    # In a process of its own, as on the day after.
    done = subprocess.run([sys.executable, *words], cwd=ROOT, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "identical: " in done.stdout
    second = run_ids(out, "reproduce")[-1]
    tags = tags_of(out, second)
    assert (tags["reproduces"], tags["verdict"]) == (first, "identical")
    assert f"/runs/{first})" in tags["mlflow.note.content"]
    assert tags["weights"] == tags_of(out, first)["weights"]
    assert second in done.stdout

    with sqlite3.connect(out / "mlflow.db") as database:
        database.execute(
            "UPDATE metrics SET value = value + 1e-9 WHERE run_uuid = ? AND key = 'learner/loss' AND step = 1024",
            [first],
        )
    done = run_here(*words, with_ray=True)
    assert done.returncode == 1, done.stdout + done.stderr
    second = run_ids(out, "reproduce")[-1]
    tags = tags_of(out, second)
    assert (tags["verdict"], tags["first_difference"]) == ("different", "learner/loss at 1024")
    assert "nothing that was recorded" in done.stdout
    (verdict_file,) = out.glob(f"mlartifacts/reproduce/**/{second}/artifacts/verdict.json")
    (before, after), *_ = json.loads(verdict_file.read_text())["first_difference"]["values"].values()
    assert before == after + 1e-9


def test_a_trial_that_a_scheduler_stopped_is_compared_as_far_as_it_went() -> None:
    # a run that MLflow calls finished
    first = logged(curves={"eval/return_mean": {1: 5.0}}, tags={"stopped_at_env_steps": "1"})
    found = conclude(first, logged(curves=CURVES), "", False, [])
    assert found.judgement.verdict is Verdict.IDENTICAL
    assert "was stopped early by its study's scheduler: what it logged is compared, up to 1 env steps" in "\n".join(
        found.lines()
    )
