"""The command line, end to end."""

import re
import sqlite3
import subprocess
from pathlib import Path

import pytest

from analysis.document.answer import closing_table
from analysis.load import load_study
from analysis.questions.labels import with_interval
from experiments.limits.cpus import usable_cpus
from tests.support.commands import run_here
from tests.support.head import ray_head
from tests.support.suite import ALGORITHMS, PAIRS, TINY, RunSuite


def runs(out: Path, kind: str) -> list[tuple[str, str]]:
    """(name, status) of the runs of a kind."""
    with sqlite3.connect(out / "mlflow.db") as database:
        return database.execute(
            "SELECT name, status FROM runs JOIN tags USING (run_uuid) WHERE key = 'kind' AND value = ? ORDER BY 1",
            [kind],
        ).fetchall()


@pytest.mark.ray
@pytest.mark.usefixtures("ray_instance")
def test_a_study_runs_from_the_command_to_comparable_runs(suite_here: RunSuite, tmp_path: Path) -> None:
    done = suite_here(*TINY, "tracking.tensorboard=true", "report=true", with_ray=True)
    out = tmp_path / "out"
    assert done.returncode == 0, done.stderr
    assert runs(out, "trial") == [(f"gamma={g} s={s}", "FINISHED") for g in (0.98, 0.99) for s in (0, 1)]
    assert [status for _, status in runs(out, "study")] == ["FINISHED"]
    with sqlite3.connect(out / "mlflow.db") as database:
        steps = database.execute("SELECT DISTINCT step FROM metrics WHERE key NOT LIKE 'best/%' ORDER BY 1").fetchall()
        best = {key for (key,) in database.execute("SELECT key FROM metrics WHERE key LIKE 'best/%'")}
        experiments = {name for (name,) in database.execute("SELECT name FROM experiments")}
        views = {key for (key,) in database.execute("SELECT key FROM experiment_tags")}
        points = database.execute("SELECT count(*) FROM metrics WHERE key = 'eval/return_mean'").fetchone()
    assert steps == [(1024,), (2048,)]
    assert points == (8,)
    assert {"studies", "smoke/ppo-cartpole"} <= experiments
    assert {f"mlflow.sharedViewState.{key}" for key in ("byconfig", "sweep", "time", "studies")} <= views
    assert list(out.glob("studies/*/tune/*/events.out.tfevents.*"))
    assert list(out.glob("mlartifacts/smoke/ppo-cartpole/*/artifacts/config.yaml"))
    assert list(out.glob("mlartifacts/studies/*/artifacts/configurations.json"))
    assert {p.name for p in out.iterdir()} <= {
        "mlflow.db",
        "mlflow.db-shm",
        "mlflow.db-wal",
        "mlartifacts",
        "policies",
        "reports",
        "studies",
    }
    (report,) = out.glob("reports/smoke-ppo-cartpole-*.html")
    (attached,) = out.glob("mlartifacts/studies/*/artifacts/report.html")
    assert report.read_bytes() == attached.read_bytes()
    assert list(out.glob("mlartifacts/studies/*/artifacts/figures/learning-env_steps.svg"))
    assert {"best/score", "best/score_low", "best/env_steps_per_s", "best/num_seeds"} <= best
    # The terminal, the report and whoever loads the study see the same numbers.
    study = load_study("smoke", f"sqlite:///{out}/mlflow.db")
    rows = closing_table(study.evidence)
    for _, row in rows.iterrows():
        assert re.search(rf"{row['config']} .*{re.escape(with_interval(row, 'score'))}", done.stdout)
        assert f"<td>{row['score']:.1f}<small>" in report.read_text()
    # What a person reads: a row per configuration with its seeds and interval, and the links; no library's chatter.
    assert re.search(r"gamma=0.99 +2/2 +[\d.]+ \[-?[\d.,]+, [\d.,]+\]", done.stdout)
    assert "viewStateShareKey=byconfig" in done.stdout
    assert done.stderr == ""
    assert not re.search(r"warning|deprecat", done.stdout, re.IGNORECASE)


def test_dry_run_prints_the_plan_and_starts_nothing(suite_here: RunSuite, tmp_path: Path) -> None:
    done = suite_here("dry_run=true")
    assert done.returncode == 0, done.stderr
    assert "45 trials, 2,700,000 env steps" in done.stdout
    assert re.search(r"lr=3e-3 b=2048 +[0-9a-f]{8}", done.stdout)
    assert re.search(r"time +about .*, an estimate for this machine\..*No trial of ppo on cartpole ", done.stdout)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["algorithm.training.lrr=1"], "Did you mean algorithm.training.lr=1? To add it: ++algorithm.training.lrr=1"),
        (
            ["algorithm.rl_module.use_lstm=true"],
            "its file has no such setting. To add it: ++algorithm.rl_module.use_lstm=true",
        ),
        (["algorithm=pppo"], "pppo"),
        (["+new=1"], "new: there is no such setting"),
        (
            ["hardware=workstation", "hardware.num_cpus=2", "hardware.num_gpus=null"],
            "hardware=workstation needs 9 CPUs and 1 GPU per trial",
        ),
        (["tracking=server", "tracking.uri=http://127.0.0.1:9"], "does not answer"),
        (["tracking=server"], "tracking.uri=http://127.0.0.1:5000"),
        (["lr=1e-3"], "lr=1e-3: there is no such setting. Did you mean algorithm.training.lr=1e-3?"),
        (["num_env_runners=2"], "hardware.num_env_runners=2"),
        (["algorithm=dqn", "batch=64"], "algorithm.training.train_batch_size_per_learner=64"),
        (["seeds=5"], "seeds=[5] for that one, seeds=[0,1,2,3,4] for 5 of them"),
        (["tuned=null"], "write '~tuned'"),
        (["output_dir=/proc/none"], "cannot be written"),
        (
            ["output_dir=hdfs://host/studies"],
            "output_dir=hdfs://host/studies: hdfs:// is none of the addresses that results can be kept at",
        ),
        (["hardware.address=127.0.0.1:9"], "hardware.address=127.0.0.1:9"),
        (["study.space=5"], "study.space"),
        (["--no-such-flag"], "--no-such-flag"),
    ],
)
def test_bad_input_exits_with_2_one_message_and_leaves_nothing(
    suite_here: RunSuite, tmp_path: Path, arguments: list[str], message: str
) -> None:
    assert_refused(suite_here(*arguments), message)
    assert not (tmp_path / "out").exists()


def test_bad_input_ends_a_process_with_2_and_without_a_traceback(run_suite: RunSuite, tmp_path: Path) -> None:
    assert_refused(run_suite("algorithm.training.lrr=1", timeout_s=100), "lrr")
    assert not (tmp_path / "out").exists()


def assert_refused(done: subprocess.CompletedProcess[str], message: str) -> None:
    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert "Error executing job" not in done.stderr


def test_hydras_own_flags_work(suite_here: RunSuite) -> None:
    printed = suite_here("--cfg", "job", "algorithm=sac", "env=pendulum")
    assert printed.returncode == 0
    assert "config_class: experiments.rllib.sac.SACConfig" in printed.stdout


def test_help_lists_the_choices_and_what_every_study_has_with_what_it_means(suite_here: RunSuite) -> None:
    said = suite_here("--help")
    assert said.returncode == 0
    assert re.search(rf"algorithm= +{', '.join(ALGORITHMS)}\n", said.stdout)
    assert "stall_after_s: 600 # seconds without a sign of life that end a trial" in said.stdout


def test_a_whole_number_may_be_written_with_an_exponent(suite_here: RunSuite) -> None:
    assert "45 trials, 4,500,000 env steps" in suite_here("budget_env_steps=1e5", "dry_run=true").stdout


def test_declared_cpus_are_called_declared(suite_here: RunSuite) -> None:
    said = suite_here("hardware.num_cpus=64", "dry_run=true").stdout
    assert f"this machine is declared to have 64 CPUs ({usable_cpus().usable} are there) and 0 GPUs" in said


FIRST = {
    "ppo": "mountaincar_continuous",
    "dqn": "acrobot",
}
"""A pair of each kind of actions, trained in every run of the tests, beside the other tests; the others are for the
night."""


@pytest.mark.ray
@pytest.mark.usefixtures("ray_instance")
@pytest.mark.parametrize(
    ("algorithm", "env"),
    [pytest.param(a, e, marks=pytest.mark.slow if FIRST.get(a) == e else pytest.mark.nightly) for a, e in PAIRS],
)
def test_smoke_runs_and_its_policy_plays_with_every_pair_that_the_action_space_allows(
    suite_here: RunSuite, tmp_path: Path, algorithm: str, env: str
) -> None:
    done = suite_here("study=smoke", f"algorithm={algorithm}", f"env={env}", "seeds=[0]", with_ray=True)
    if re.search("needs (discrete|continuous) actions", done.stderr):
        assert done.returncode == 2  # which pairs these are, tests of the plan say
        return
    assert done.returncode == 0, done.stdout + done.stderr
    assert [status for _, status in runs(tmp_path / "out", "trial")] == ["FINISHED"] * 2
    played = run_here("experiments/evaluate.py", "study=smoke", f"output_dir={tmp_path / 'out'}")
    assert played.returncode == 0, played.stdout + played.stderr
    assert "the logged final/score, to the bit" in played.stdout


@pytest.mark.ray
@pytest.mark.nightly
def test_declared_logical_cpus_run_a_large_profile_on_a_small_machine(run_suite: RunSuite, tmp_path: Path) -> None:
    done = run_suite(
        *TINY, "hardware=workstation", "hardware.num_cpus=16", "hardware.num_gpus=0", "seeds=[0]", "study.space={}"
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert runs(tmp_path / "out", "trial") == [("ppo-cartpole s=0", "FINISHED")]


@pytest.mark.ray
@pytest.mark.nightly
def test_a_study_joins_the_cluster_that_the_environment_names_with_its_token_alone(
    run_suite: RunSuite, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = (*TINY, "seeds=[0]", "study.space={}")
    token, other = "0123456789abcdef" * 4, "fedcba9876543210" * 4
    with ray_head({"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": token}) as address:
        monkeypatch.setenv("RAY_AUTH_TOKEN", other)
        assert_refused(
            run_suite(*words, f"hardware.address={address}"), "perhaps the one that was found here is not the cluster's"
        )
        assert not (tmp_path / "out").exists()
        # As Ray sets it for a job.
        monkeypatch.setenv("RAY_AUTH_TOKEN", token)
        monkeypatch.setenv("RAY_ADDRESS", address)
        monkeypatch.setenv("RAY_JOB_CONFIG_JSON_ENV_VAR", '{"runtime_env": {}, "metadata": {}}')
        done = run_suite(*words)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"cluster     at RAY_ADDRESS={address}, joined" in done.stdout
    assert runs(tmp_path / "out", "trial") == [("ppo-cartpole s=0", "FINISHED")]
