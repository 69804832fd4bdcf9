"""The command that evaluates trained policies, on a study that ran."""

import shutil
from collections.abc import Callable
from pathlib import Path

import onnx
import pandas as pd
import pytest
import ray
from mlflow.entities import Metric
from mlflow.tracking import MlflowClient

from analysis.load import load_clips, load_study
from analysis.report import build
from experiments.config.schema import HardwareSettings
from experiments.evaluate import main
from experiments.study.cluster.ray_process import start_ray
from tests.support.commands import run_here

pytestmark = [pytest.mark.ray, pytest.mark.slow]


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory, no_ray_afterwards: None) -> Path:
    """The output folder of a study of two seeds, with two checkpoints each."""
    if not ray.is_initialized():
        start_ray(HardwareSettings("test", num_cpus=4, num_gpus=0))
    out = tmp_path_factory.mktemp("evaluate") / "out"
    keep = ("checkpoint.every_env_steps=2048", "checkpoint.keep=2", "evaluation.final_episodes=12")
    study = ("study=smoke", "study.space={}", "seeds=[0,1]", "env=pendulum", "hardware.num_env_runners=0", *keep)
    done = run_here("experiments/run.py", *study, f"output_dir={out}", "report=false", with_ray=True)
    assert done.returncode == 0, done.stderr
    return out


@pytest.fixture
def copied(ran: Path, tmp_path: Path) -> Path:
    """The same for a test that changes it."""
    shutil.copytree(ran, tmp_path / "out")
    return tmp_path / "out"


def client(out: Path) -> MlflowClient:
    return MlflowClient(f"sqlite:///{out}/mlflow.db")


def runs(out: Path) -> list[str]:
    """Ids of the trials' runs, by seed."""
    experiment = client(out).get_experiment_by_name("smoke/ppo-pendulum")
    found = client(out).search_runs([experiment.experiment_id])
    return [run.info.run_id for run in sorted(found, key=lambda run: run.data.tags["seed"])]


def study_run(out: Path) -> str:
    return str(client(out).get_run(runs(out)[0]).data.tags["study_run"])


def logged(out: Path, run_id: str) -> float:
    return float(client(out).get_run(run_id).data.metrics["final/score"])


def trial_folder(out: Path, seed: int = 0) -> Path:
    return next(out.glob(f"studies/*/trials/*_s{seed}"))


def evaluated(out: Path, *words: str, code: int = 0) -> str:
    done = run_here("experiments/evaluate.py", *words, f"output_dir={out}")
    assert done.returncode == code, done.stderr
    assert code != 2 or (done.stdout == "" and "Traceback" not in done.stderr)
    return " ".join((done.stdout if code != 2 else done.stderr).split())


def test_a_run_reaches_its_logged_score_and_its_episodes_are_kept(ran: Path) -> None:
    run_id = runs(ran)[1]
    said = evaluated(ran, f"run={run_id}")
    assert "the logged final/score, to the bit" in said
    episodes = pd.read_parquet(ran / "policies" / run_id / "episodes.parquet")
    assert episodes["return"].mean() == logged(ran, run_id)
    assert (len(episodes), set(episodes["seeds"]), episodes["env_seed"].nunique()) == (12, {"held-out"}, 12)
    assert set(episodes["length"]) == {200}


def test_an_exported_policy_says_what_it_was_compared_on(ran: Path) -> None:
    run_id = runs(ran)[0]
    said = evaluated(ran, f"run={run_id}", "export=onnx")
    path = ran / "policies" / run_id / "policy.onnx"
    assert f"exported {path}: its actions differ by at most" in said
    assert "of their range on" in said
    metadata = {entry.key: entry.value for entry in onnx.load(path).metadata_props}
    assert metadata["run"] == run_id and float(metadata["score"]) == logged(ran, run_id)


def test_more_episodes_are_played_on_fresh_seeds_the_same_in_each_environment(ran: Path) -> None:
    run_id = runs(ran)[0]
    said = evaluated(ran, f"run={run_id}", "episodes=5", "env.env_config.g=[5,10,15]")
    assert all(f"{name} 5 " in said for name in ("as trained", "g=5", "g=10", "g=15"))
    episodes = pd.read_parquet(ran / "policies" / run_id / "episodes.parquet")
    fresh = episodes[episodes["seeds"] == "fresh"]
    by_setting = fresh.pivot(index="env_seed", columns="setting", values="return")
    assert by_setting.shape == (5, 4)
    assert not set(fresh["env_seed"]) & set(episodes.loc[episodes["seeds"] == "held-out", "env_seed"])
    assert (by_setting["g=10"] == by_setting["as trained"]).all()  # Pendulum's own
    assert (by_setting["g=5"] != by_setting["as trained"]).all()
    assert (ran / "policies" / run_id / "returns_by_setting.svg").read_text().startswith("<?xml")


def test_exploring_episodes_are_other_ones_and_the_score_stays(ran: Path) -> None:
    run_id = runs(ran)[0]
    said = evaluated(ran, f"run={run_id}", "episodes=3", "explore=true")
    assert "to the bit" in said
    assert "of the exploring policy" in said
    assert pd.read_parquet(ran / "policies" / run_id / "episodes.parquet")["explore"].sum() == 3


def test_of_a_study_the_best_and_the_median_seed_are_evaluated(ran: Path) -> None:
    best, other = sorted(runs(ran), key=lambda run_id: logged(ran, run_id), reverse=True)
    for name in ("smoke", study_run(ran)):
        said = evaluated(ran, f"study={name}")
        assert said.count("to the bit") == 2
        assert said.index("best seed") < said.index(best) < said.index("median seed") < said.index(other)


def test_a_folder_is_evaluated_like_its_run_and_an_earlier_checkpoint_without_a_score(ran: Path) -> None:
    assert "to the bit" in evaluated(ran, f"checkpoint={trial_folder(ran)}")
    first, last = sorted((trial_folder(ran) / "checkpoints").iterdir())
    said = evaluated(ran, f"checkpoint={first}")
    assert "No score to compare with: the trial did not end with this checkpoint" in said
    assert f"also: checkpoint={last}" in said


def test_a_checkpoint_from_elsewhere_is_opened_on_ones_word(ran: Path, tmp_path: Path) -> None:
    shutil.copytree(trial_folder(ran), tmp_path / "found")
    words = f"checkpoint={tmp_path / 'found'}"
    assert "trust=true" in evaluated(tmp_path / "out", words, code=2)
    assert "to the bit" in evaluated(tmp_path / "out", words, "trust=true")


def test_another_score_than_the_logged_one_is_said_with_the_difference(copied: Path) -> None:
    run_id = runs(copied)[0]
    score = logged(copied, run_id)
    client(copied).log_batch(run_id, [Metric("final/score", score + 1.5, 2**41, 4096)])
    said = evaluated(copied, f"run={run_id}", code=1)
    assert "-1.5" in said
    assert f"{score + 1.5:.17g}" in said
    assert "since then" in said


def test_an_interrupted_trial_is_evaluated_without_a_score(copied: Path) -> None:
    run_id = runs(copied)[0]
    client(copied).set_terminated(run_id, "KILLED")
    shutil.rmtree(max((trial_folder(copied) / "checkpoints").iterdir()))
    said = evaluated(copied, f"run={run_id}")
    assert "No score to compare with: the trial was interrupted" in said
    assert "checkpoint of 2,048 env steps" in said


def failed(out: Path) -> None:
    client(out).set_terminated(runs(out)[0], "FAILED")
    client(out).set_tag(runs(out)[0], "failure", "NonFiniteError: a loss")


def other_module(out: Path) -> None:
    file = next(
        trial_folder(out).glob(
            "checkpoints/*4096/algorithm/learner_group/learner/rl_module/default_policy/module_state.pkl"
        )
    )
    file.write_bytes(bytes(file.stat().st_size))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (failed, "the trial failed: NonFiniteError: a loss. Name a run that finished"),
        (other_module, "default_policy does not fit the trial that it belongs to"),
        (lambda out: shutil.rmtree(trial_folder(out) / "checkpoints"), "has no checkpoint in"),
        (lambda out: shutil.rmtree(out / "studies"), "trust=true"),  # where it ran they still are, and that is not here
        (lambda out: client(out).delete_tag(study_run(out), "study_folder"), "the run of its study is gone"),
        (lambda out: client(out).set_tag(runs(out)[0], "config_id", "ffffffff"), "the tag config_id says ffffffff"),
    ],
    ids=["failed", "damaged", "without checkpoint", "moved", "without study", "altered"],
)
def test_a_run_that_cannot_be_evaluated_is_refused_with_the_reason(
    copied: Path, change: Callable[[Path], None], message: str
) -> None:
    run_id = runs(copied)[0]
    change(copied)
    assert message in evaluated(copied, f"run={run_id}", code=2)


def test_what_is_no_trial_of_this_suite_is_refused(ran: Path) -> None:
    assert "there is no such run" in evaluated(ran, "run=0123456789abcdef0123456789abcdef", code=2)
    assert "is the run of a whole study" in evaluated(ran, f"run={study_run(ran)}", code=2)
    assert "there is no store" in evaluated(ran.parent / "none", f"run={runs(ran)[0]}", code=2)
    assert "another" in evaluated(ran, "study=another", code=2)
    foreign = client(ran).create_run("0").info.run_id
    assert "is no run of this suite" in evaluated(ran, f"run={foreign}", code=2)


def test_spaces_that_differ_are_refused_before_anything_is_evaluated(ran: Path) -> None:
    said = evaluated(ran, f"run={runs(ran)[0]}", "env=cartpole", code=2)
    assert "env=cartpole: the policy was trained on observations" in said


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "name what to evaluate"),
        (["run=a", "study=b"], "run= and study= are given"),
        (["run=a", "explore"], "'explore' is not understood"),
        (["run=a", "exlpore=true"], "'exlpore=true' is not understood"),
        (["run=a", "explore=maybe"], "explore=maybe: must be true or false"),
        (["run=a", "export=torchscript"], "export=torchscript: must be onnx"),
        (["run=a", "episodes=-1"], "episodes=-1: must be a whole number"),
        (["run=a", "episodes=1.5"], "episodes=1.5: must be a whole number"),
        (["run=a", "episodes=0", "env=cartpole"], "1 or more"),
    ],
)
def test_bad_input_is_refused_with_the_key_at_fault(
    words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words) == 2
    assert message in capsys.readouterr().err


def test_a_setting_that_no_evaluation_depends_on_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run=a", "env.target=5"]) == 2
    assert "env.target=: is nothing that an evaluation depends on" in capsys.readouterr().err


def artifacts(out: Path, run_id: str, path: str) -> set[str]:
    return {found.path for found in client(out).list_artifacts(run_id, path)}


@pytest.fixture(scope="module")
def filmed(ran: Path) -> Path:
    """The same study, with videos."""
    said = evaluated(ran, f"study={study_run(ran)}", "video=true")
    assert said.count("to the bit") == 2
    return ran


def test_videos_are_among_the_artifacts_of_the_trials_run_and_of_the_study(filmed: Path) -> None:
    ran = filmed
    files = {f"{role}.{kind}" for role in ("best", "median", "worst") for kind in ("mp4", "webp")}
    for run_id in runs(ran):
        assert {path.name for path in (ran / "policies" / run_id / "video").iterdir()} == files
        assert artifacts(ran, run_id, "video") == {f"video/{name}" for name in files}
    for at in ("video/pendulum/best-seed", "video/pendulum/median-seed"):
        assert artifacts(ran, study_run(ran), at) == {f"{at}/{name}" for name in files}


def test_the_report_shows_what_was_recorded_of_the_median_seed(filmed: Path) -> None:
    ran, study = filmed, load_study(study_run(filmed), f"sqlite:///{filmed}/mlflow.db")
    (clips,) = load_clips(study)
    median = min(runs(ran), key=lambda run_id: logged(ran, run_id))  # of two seeds the lower one
    assert (clips.env, clips.seed) == ("pendulum", "median")
    assert clips.animations["worst"] == (ran / "policies" / median / "video" / "worst.webp").read_bytes()
    page = build(study, [clips]).html
    assert page.count("data:image/webp;base64,") == 3
    assert (
        "at play, on held-out env seeds: the best episode, the median episode and the worst episode of its median seed."
        in page
    )
    assert "data:image/webp" not in build(study).html
