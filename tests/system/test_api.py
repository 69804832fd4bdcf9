"""Studies and policies from Python: what the command does, as functions."""

import os
import re
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import hydra
import nbformat
import numpy as np
import pytest
import ray
from hydra.core.global_hydra import GlobalHydra

from analysis.document.notebooks import PARAMETERS, execute
from analysis.load import Study, load_study
from experiments.api import load_policy, plan_study, run_study
from experiments.config.compose import CONF
from experiments.config.errors import ConfigurationError
from experiments.config.schema import HardwareSettings
from experiments.policies.policy import Policy
from experiments.study.cluster import ray_process
from experiments.study.cluster.ray_process import start_ray
from tests.support.own_files import own_file
from tests.support.policies import play, play_together
from tests.support.suite import ROOT, TINY, RunSuite

pytestmark = pytest.mark.slow


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working directory, in which Ray may not be started for a study."""

    def start(*_: object, **__: object) -> None:
        raise AssertionError("Ray was started")

    monkeypatch.setattr(ray, "init", start)
    monkeypatch.setattr(ray_process, "start_beside_imports", lambda *_: None)  # it may: the plan is not known yet
    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    monkeypatch.setattr(ray, "shutdown", lambda: None)
    monkeypatch.chdir(tmp_path)
    return tmp_path


SINGLE = ("study=single", "env=pendulum", "seeds=[3,4]", "hardware.num_env_runners=0")


def test_a_plan_is_the_commands(here: Path, suite_here: RunSuite, capsys: pytest.CaptureFixture[str]) -> None:
    plan = plan_study([*SINGLE, "algorithm.training.lr=1e-3"])
    assert [(trial.seed, trial.env.name) for trial in plan.trials] == [(3, "pendulum"), (4, "pendulum")]
    printed = capsys.readouterr().out
    commanded = suite_here(*SINGLE, "algorithm.training.lr=1e-3", "dry_run=true").stdout
    without_time = [re.sub(r"time .*", "", text) for text in (printed, commanded)]
    assert without_time[0] == without_time[1]
    assert list(here.iterdir()) == []


def test_a_quiet_plan_prints_nothing(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert (
        plan_study(["study=smoke", "study.space={algorithm.training.lr:[1e-4,1e-3,1e-2]}"], quiet=True).num_trials == 6
    )
    assert capsys.readouterr().out == ""


def test_a_folder_of_ones_own_is_read(here: Path) -> None:
    (here / "my/env").mkdir(parents=True)
    (here / "my/env/mine.yaml").write_text(
        (CONF / "env/pendulum.yaml").read_text().replace("name: pendulum", "name: mine")
    )
    assert plan_study(["--config-dir", "my", "env=mine", "study=single"], quiet=True).envs == "mine"
    assert (
        plan_study(["--config-dir", "my", "study=single", "study.space={env:[mine,cartpole]}"], quiet=True).envs
        == "mine+cartpole"
    )


def test_a_program_that_composes_with_hydra_itself_goes_on_as_before(here: Path) -> None:
    (here / "own").mkdir()
    (here / "own/config.yaml").write_text("mine: 1")
    before = GlobalHydra.instance().hydra
    GlobalHydra.instance().clear()
    try:
        with hydra.initialize_config_dir(str(here / "own"), version_base="1.3"):
            plan_study(SINGLE, quiet=True)
            with pytest.raises(ConfigurationError):
                plan_study(["lr=1"], quiet=True)
            assert hydra.compose("config").mine == 1
    finally:
        GlobalHydra.instance().hydra = before


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["algorithm=pppo"], "algorithm=pppo: conf/algorithm has no file pppo.yaml"),
        (["lr=1e-3"], "lr=1e-3: there is no such setting. Did you mean algorithm.training.lr=1e-3?"),
        (["budget_env_steps=-1"], "budget_env_steps"),
        (
            ["study=smoke", "algorithm.training.gamma=0.9"],
            "has no effect, since the study varies algorithm.training.gamma",
        ),
        (["resume=0123", "seeds=[1]"], "a study is resumed as it was begun"),
        (["resume=0123"], "resume=0123: there is no store"),
        (["hardware.num_cpus=1", "hardware=workstation"], "hardware=workstation needs 9 CPUs"),
        (["seeds=1,2"], r"seeds=1,2: stands for several studies\. .* A list is written in brackets: seeds=\[1,2\]"),
        (["dry_run=true"], "Call plan_study"),
        (["--multirun"], "--multirun: is for the command line"),
        ("study=smoke seeds=[0]", r"a list of words, not one text: \['study=smoke', 'seeds=\[0\]'\]"),
    ],
)
def test_bad_input_raises_the_commands_message_and_leaves_nothing(
    here: Path, overrides: list[str], message: str
) -> None:
    with pytest.raises(ConfigurationError, match=message):
        run_study(overrides)
    assert list(here.iterdir()) == []


def test_a_study_runs_in_the_main_thread_alone(here: Path) -> None:
    raised: list[Exception] = []

    def run() -> None:
        try:
            run_study(["study=smoke"])
        except ConfigurationError as error:
            raised.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert "in the main thread alone" in str(raised[0])


def test_a_module_that_was_edited_since_it_was_imported_is_refused(here: Path) -> None:
    words = ["env=gym", *own_file(here, "edited_later"), "study=single"]
    assert plan_study(words, quiet=True).envs == "edited_later-v0"
    (here / "edited_later.py").write_text("x = 1")
    with pytest.raises(ConfigurationError, match=r"was edited after this process imported it\. Restart the kernel"):
        plan_study(words, quiet=True)


def test_a_policy_that_is_not_there_is_refused(here: Path) -> None:
    with pytest.raises(ConfigurationError, match="there is no store"):
        load_policy("0123456789abcdef0123456789abcdef")
    with pytest.raises(ConfigurationError, match="there is no such folder"):
        load_policy(here / "none")


# With Ray.

EPISODES = ("evaluation.final_episodes=12", "registry.models=none", "report=false", "hardware.num_env_runners=0")


@pytest.fixture(scope="module")
def two_envs(tmp_path_factory: pytest.TempPathFactory, no_ray_afterwards: None) -> tuple[Study, Path]:
    """A study of two environments that was run from Python, in its output folder."""
    if not ray.is_initialized():
        start_ray(HardwareSettings("test", num_cpus=4, num_gpus=0))
    out, environment = tmp_path_factory.mktemp("api") / "out", dict(os.environ)
    study = run_study(
        [*TINY, *EPISODES, "seeds=[0]", "study.space={env:[cartpole,pendulum]}", f"output_dir={out}"], quiet=True
    )
    assert ray.is_initialized()  # it ran before
    assert dict(os.environ) == environment
    return study, out


def of_env(study: Study, env: str) -> tuple[str, float]:
    (row,) = study.runs[study.runs["env"] == env].to_dict("records")
    return row["run_id"], row["score"]


@pytest.mark.ray
def test_a_study_comes_back_as_analyses_read_it(two_envs: tuple[Study, Path]) -> None:
    study, out = two_envs
    assert (study.name, study.status, list(study.runs["status"])) == ("smoke", "finished", ["finished"] * 2)
    assert study.runs.equals(load_study(study.run_id, f"sqlite:///{out}/mlflow.db").runs)
    assert study.command.startswith("python experiments/run.py study=smoke ")
    assert study.command.endswith(f"'study.space={{env:[cartpole,pendulum]}}' output_dir={out}")
    with sqlite3.connect(out / "mlflow.db") as store:
        assert store.execute("SELECT DISTINCT value FROM tags WHERE key = 'command'").fetchall() in (
            [],
            [(study.command[:500],)],
        )


@pytest.mark.ray
@pytest.mark.parametrize(
    ("env", "loop"),
    [("cartpole", play_together), ("pendulum", play_together), ("pendulum", play)],
    ids=["cartpole", "together", "alone"],
)
def test_a_plain_loop_reaches_the_logged_score_to_the_bit(
    two_envs: tuple[Study, Path], env: str, loop: Callable[..., list[float]]
) -> None:
    study, _ = two_envs
    run_id, score = of_env(study, env)
    policy = load_policy(run_id, tracking_uri=study.tracking_uri)
    returns = loop(policy, policy.held_out_seeds())
    assert len(returns) == 12
    assert float(np.mean(returns)) == score


@pytest.mark.ray
def test_a_policy_is_loaded_by_its_folder_or_its_study(
    two_envs: tuple[Study, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    study, out = two_envs
    run_id, score = of_env(study, "pendulum")

    def reached(policy: Policy) -> float:
        return float(policy.evaluate(policy.held_out_seeds()).returns.mean())

    (folder,) = out.glob("studies/*/trials/*pendulum*")
    assert reached(load_policy(folder, output_dir=out)) == score
    monkeypatch.chdir(out.parent)
    assert reached(load_policy(run_id, output_dir="out")) == score
    with pytest.raises(ConfigurationError, match="trust=true"):
        load_policy(folder)
    with pytest.raises(ConfigurationError, match=r"has several environments \(cartpole, pendulum\)"):
        load_policy(study)


@pytest.mark.ray
@pytest.mark.usefixtures("ray_instance")
def test_a_failed_trial_is_in_the_study_and_the_others_can_be_used(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    env = ("env.id=tiny_envs:tiny/Faulty-v0", "env.vectorize_mode=sync", "hardware.num_envs_per_env_runner=4")
    space = "study.space={env.env_config.at:[40,100000]}"
    study = run_study(
        [
            *TINY,
            *EPISODES,
            *env,
            "env.env_config={fault:raise,at:40}",
            "seeds=[0]",
            space,
            "faults.max_restarts=0",
            f"output_dir={tmp_path / 'out'}",
        ]
    )
    assert sorted(study.runs["status"]) == ["failed", "finished"]
    assert list(study.incomplete["failure"]) == ["RuntimeError: the simulator crashed"]
    assert re.search(r"1 failed: RuntimeError: the simulator crashed", capsys.readouterr().out)
    assert load_policy(study).trial.env.env_config["at"] == 100000


@pytest.mark.ray
@pytest.mark.usefixtures("ray_instance")
def test_the_example_of_the_documentation_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (example,) = re.findall(r"```python\n(.*?)```", (ROOT / "docs/policies.md").read_text(), re.DOTALL)
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    exec(example, names)
    assert list(names["study"].runs["status"]) == ["finished"] * 4
    policy = names["policy"]
    assert names["episode_return"] == pytest.approx(policy.evaluate(policy.held_out_seeds()).returns[0])
    assert (tmp_path / "outputs/mlflow.db").is_file()


@pytest.mark.nightly
@pytest.mark.ray
def test_a_notebook_shows_what_a_log_file_would_and_can_go_on(tmp_path: Path) -> None:
    words = [*TINY, *EPISODES, "seeds=[0]", "study.space={}"]
    sources = [
        "",
        f"from experiments.api import load_policy, run_study\nstudy = run_study({words})",
        "load_policy(study)([0, 0, 0, 0])",
    ]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source) for source in sources])
    notebook.cells[0].metadata["tags"] = [PARAMETERS]
    nbformat.write(notebook, tmp_path / "own.ipynb")
    _, ran, acted = execute(tmp_path / "own.ipynb", tmp_path).cells
    assert {(output.output_type, output.name) for output in ran.outputs} == {("stream", "stdout")}
    printed = "".join(output.text for output in ran.outputs)
    assert printed.startswith("study       smoke: Does the suite work on this machine?")
    assert "ppo-cartpole  " in printed and "study run   " in printed
    assert "\x1b" not in printed
    assert next(output.data["text/plain"] for output in acted.outputs) in ("np.int64(0)", "np.int64(1)")
    assert (tmp_path / "outputs/mlflow.db").is_file()


@pytest.mark.nightly
def test_whoever_checks_types_sees_them(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        "from experiments.api import load_policy, plan_study, run_study\n"
        "reveal_type(run_study([])); reveal_type(plan_study([])); reveal_type(load_policy('')); load_policy(1)"
    )
    done = subprocess.run(
        [sys.executable, "-m", "mypy", str(program)], cwd=ROOT, capture_output=True, text=True, check=False
    )
    revealed = re.findall(r'Revealed type is "(.*?)"', done.stdout)
    assert revealed == ["analysis.load.Study", "experiments.planning.plan.Plan", "experiments.policies.policy.Policy"]
    assert 'Argument 1 to "load_policy" has incompatible type "int"' in done.stdout


@pytest.mark.nightly
@pytest.mark.ray
@pytest.mark.usefixtures("ray_instance")
def test_an_interrupted_study_raises_and_is_resumed(tmp_path: Path) -> None:
    out = tmp_path / "out"

    def interrupt() -> None:
        while not list(out.glob("studies/*/trials/*/checkpoints/*")):
            time.sleep(0.05)
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=interrupt, daemon=True).start()
    words = (
        "study=single",
        "seeds=[0]",
        "env=pendulum",
        "budget_env_steps=60000",
        "checkpoint.every_env_steps=7200",
        *EPISODES,
    )
    with pytest.raises(KeyboardInterrupt, match="Go on with resume=") as interrupted:
        run_study([*words, f"output_dir={out}"], quiet=True)
    resume = str(interrupted.value).rpartition(" ")[2]
    assert load_study(resume.partition("=")[2], f"sqlite:///{out}/mlflow.db").status == "interrupted"
    study = run_study([resume, f"output_dir={out}", "report=false"], quiet=True)
    assert list(study.runs["status"]) == ["finished"]


@pytest.mark.ray
@pytest.mark.usefixtures("ray_instance")
def test_ray_that_runs_already_is_left_and_does_not_find_modules_of_ones_own(tmp_path: Path) -> None:
    words = ["env=gym", *own_file(tmp_path, "not_found_by_workers"), "study=single", f"output_dir={tmp_path / 'out'}"]
    with pytest.raises(ConfigurationError, match=r"modules=: .* Call ray.shutdown\(\) first"):
        run_study(words, quiet=True)
    assert ray.is_initialized()
