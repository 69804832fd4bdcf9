import json
import math
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from experiments.autotune import Order, main
from experiments.config.errors import ConfigurationError
from experiments.config.schema import EnvSettings
from experiments.planning.machines import Cluster, Node
from experiments.search.contest import Ratio, Setting
from experiments.study.hardware_profile import MARK, TuningOutcome, profile, profile_path
from tests.support.commands import run_here
from tests.support.suite import ROOT

START, FAST = Setting(0, 16, "sync"), Setting(4, 16, "async")
MACHINE = Cluster((Node(2, 0),))
CARTPOLE = EnvSettings("cartpole", "CartPole-v1", {}, "sync", 100, 10, None, (None, None))


def outcome(confirmation: Ratio | None) -> TuningOutcome:
    return TuningOutcome(START, FAST if confirmation else START, confirmation, 1000.0)


def test_a_confirmed_winner_is_the_profile(tmp_path: Path) -> None:
    found = outcome(Ratio(1.5, 1.2, 1.8, 10))
    assert found.is_faster
    text = profile("mine", found, MACHINE, "ppo", CARTPOLE, "auto", 5, tmp_path)
    assert text.startswith(MARK)
    assert "1.50 x [1.20, 1.80] hardware=auto (10 rounds, 95% interval)" in text
    assert yaml.safe_load(text) == {
        "defaults": ["auto"], "name": "mine", "num_cpus": 5, "num_env_runners": 4, "num_envs_per_env_runner": 16,
        "vectorize_mode": "async",
    }  # fmt: skip
    assert "1.50 x [1.20, 1.80] the start" in found.lines()[1]


@pytest.mark.parametrize("confirmation", [None, Ratio(1.1, 0.9, 1.3, 10)])
def test_a_winner_that_is_not_confirmed_is_not_written(confirmation: Ratio | None) -> None:
    found = outcome(confirmation)
    assert not found.is_faster
    assert "nothing better was found" in found.lines()[1]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["minutes=0.1"], r"minutes=0.1: too short to mean anything. Try minutes=3"),
        (["minutes=soon"], r"minutes=soon: must be a number"),
        (["minutes=nan"], r"minutes=nan: too short"),
        (["max_total_envs=0"], r"max_total_envs=0: must be a whole number, 1 or more"),
        (["name=../x"], r"name=../x: must be a word"),
        (["study=smoke"], r"study=smoke: autotune runs no study"),
        (["ppo"], r"'ppo' is not understood. rl-scaling autotune --help lists what there is"),
    ],
)
def test_a_command_line_that_makes_no_sense_is_refused(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    assert message in capsys.readouterr().err


def test_what_is_not_its_own_goes_to_hydra(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Order] = []
    monkeypatch.setattr("experiments.autotune.autotune", lambda order: asked.append(order) or 0)
    assert main(["algorithm=appo", "env=acrobot", "minutes=1", "+algorithm.training.lr=0.1"]) == 0
    assert asked == [Order(1.0, None, 64, ("algorithm=appo", "env=acrobot", "+algorithm.training.lr=0.1"))]


def test_a_profile_of_somebody_elses_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "hardware").mkdir()
    (tmp_path / "hardware" / "desk.yaml").write_text("name: desk\n")
    with pytest.raises(ConfigurationError, match=r"name=desk.*was not written by autotune"):
        profile_path("desk", tmp_path)
    profile_path("mine", tmp_path).write_text(f"{MARK} yesterday\n")
    assert profile_path("mine", tmp_path).name == "mine.yaml"


def test_a_profile_goes_to_a_folder_of_ones_own_and_says_how_it_is_read_from_there(tmp_path: Path) -> None:
    path = profile_path("desk", tmp_path)
    assert path == tmp_path / "hardware" / "desk.yaml"
    with pytest.raises(ConfigurationError, match=r"name=laptop: conf/hardware has a profile of that name"):
        profile_path("laptop", tmp_path)
    path.parent.mkdir()
    found = TuningOutcome(START, Setting(1, 8, "sync"), Ratio(1.5, 1.2, 1.8, 10), 1000.0)
    path.write_text(profile("desk", found, MACHINE, "ppo", CARTPOLE, "auto", 2, tmp_path, tmp_path))
    (command,) = re.findall(r"# +python (experiments/run.py .*)", path.read_text())
    planned = run_here(*shlex.split(command), "dry_run=true", f"output_dir={tmp_path / 'out'}")
    assert planned.returncode == 0, planned.stderr
    assert "desk: this machine" in planned.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["algorithm=nosuch"], "has a file nosuch.yaml"),
        (["env=synthetic", "env.env_config.step_cost_ms=0"], "step_cost_ms=0"),
        (["algorithm=dqn", "env=pendulum"], "needs discrete actions"),
    ],
)
def test_wrong_input_exits_with_2_and_writes_nothing(arguments: list[str], message: str, tmp_path: Path) -> None:
    folders = ["--config-dir", str(tmp_path), f"output_dir={tmp_path}"]  # the clone's may be read-only
    ended = run_here("experiments/autotune.py", *arguments, "minutes=1", "name=never", *folders)
    assert ended.returncode == 2
    assert message in ended.stderr
    assert "Traceback" not in ended.stderr
    assert list(tmp_path.rglob("never.yaml")) == []


def test_a_folder_that_cannot_take_the_profile_is_named_with_the_fix(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ConfigurationError, match=r"hardware cannot be written.*Name another folder: --config-dir"):
        profile_path("mine", tmp_path / "file")


@pytest.mark.ray
@pytest.mark.slow
@pytest.mark.alone
def test_it_writes_a_profile_that_composes(tmp_path: Path) -> None:
    words = ["algorithm=ppo", "env=cartpole", "minutes=0.7", "name=test-autotune", f"output_dir={tmp_path}"]
    ended = subprocess.run(
        [sys.executable, "experiments/autotune.py", *words],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    (record,) = (tmp_path / "autotune").glob("*.json")
    found = json.loads(record.read_text())
    assert found["tried"]
    assert math.isfinite(found["start_speed"])
    path = tmp_path / "conf" / "hardware" / "test-autotune.yaml"
    faster = found["confirmation"] is not None and found["confirmation"]["low"] > 1
    assert path.exists() == faster
    assert ("none was written: nothing faster than hardware=auto was confirmed" in ended.stdout) != faster
    if faster:
        written, (command,) = yaml.safe_load(path.read_text()), re.findall(r"# +python (.*)", path.read_text())
        planned = run_here(*shlex.split(command), "dry_run=true", f"output_dir={tmp_path}")
        assert planned.returncode == 0, planned.stderr
        assert f"{written['num_envs_per_env_runner']} env" in planned.stdout
