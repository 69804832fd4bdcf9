"""A folder of configuration files of a person's own, beside conf/."""

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import hydra
import pytest

from experiments.config.choices import check_choices, env_choice, groups, hydra_search_path, own_folder
from experiments.config.compose import CONF, composer
from experiments.config.errors import ConfigurationError
from experiments.config.gym_registry import name_of
from experiments.config.schema import EnvSettings
from experiments.contract import extensions
from tests.support.commands import run_here
from tests.support.files import write_files
from tests.support.suite import ROOT, RunSuite

GLOBAL = "# @package _global_\n"
FILES = {
    "algorithm/clipped.yaml": "defaults: [ppo]\nname: clipped\ntraining: {clip_param: 0.3}\n",
    "env/mine.yaml": (
        "defaults: [cartpole]\nname: mine\nbudget_env_steps: 4096\nreport_every_env_steps: 2048\ntarget: 100.0\n"
    ),
    "hardware/desk.yaml": "defaults: [laptop]\nname: desk\nnum_cpus: 4\n",
    "measurement/longer.yaml": f"{GLOBAL}defaults: [throughput]\nmeasurement: {{seconds: 3.0}}\n",
    "preprocessing/wide.yaml": "defaults: [normalize]\nname: wide\nclip_observations: 20.0\n",
    "scheduler/halving.yaml": "defaults: [asha]\nreduction_factor: 2\n",
    "search/few.yaml": "defaults: [optuna]\nnum_samples: 7\n",
    "study/ours.yaml": (
        f"{GLOBAL}study: {{name: ours, question: Q, space: {{algorithm.training.lr: [0.001, 0.003]}}}}\nseeds: [0, 1]\n"
    ),
    "tracking/lab.yaml": "defaults: [sqlite]\nname: lab\ntensorboard: false\n",
    "tuned/clipped-mine.yaml": f"{GLOBAL}algorithm: {{training: {{train_batch_size_per_learner: 1024}}}}\n",
}
"""A file for each group."""


@pytest.fixture
def own(tmp_path: Path) -> Path:
    return write_files(tmp_path / "o w'n", FILES)


def test_there_is_a_file_of_every_group() -> None:
    assert sorted({name.partition("/")[0] for name in FILES}) == groups()


@pytest.mark.slow
def test_files_of_every_group_are_read_from_a_folder_of_ones_own(own: Path, suite_here: RunSuite) -> None:
    words = ["algorithm=clipped", "env=mine", "hardware=desk", "preprocessing=wide", "tracking=lab", "study=ours"]
    planned = suite_here("--config-dir", str(own), *words, "dry_run=true")
    assert planned.returncode == 0, planned.stderr
    assert re.search(r"hardware +desk", planned.stdout)
    assert re.search(r"lr=1e-3 .* 0,1 +4,096 +1,024", planned.stdout)  # the tuned batch is picked up by itself
    for more in (["search=few"], ["scheduler=halving"], ["+measurement=longer"]):
        planned = suite_here("--config-dir", str(own), *words, *more, "dry_run=true")
        assert planned.returncode == 0, planned.stderr


def test_they_compose_without_a_command_line_too(own: Path) -> None:
    with hydra.initialize_config_dir(str(CONF), version_base="1.3"):
        composed = hydra.compose("config", overrides=["env=mine", *hydra_search_path(own)])
    assert composed.env.name == "mine"


def test_an_axis_of_groups_reaches_them(own: Path, suite_here: RunSuite) -> None:
    planned = suite_here(
        "--config-dir",
        str(own),
        "study=ours",
        "study.space={env:[mine,cartpole]}",
        "budget_env_steps=8000",
        "dry_run=true",
    )
    assert planned.returncode == 0, planned.stderr
    assert "cartpole" in planned.stdout
    assert "mine" in planned.stdout


def ids(planned: subprocess.CompletedProcess[str]) -> dict[str, str]:
    """Configuration to its id, as the plan's table has them."""
    assert planned.returncode == 0, planned.stderr
    return dict(re.findall(r"^(\S+) +([0-9a-f]{8}) ", planned.stdout, re.MULTILINE))


@pytest.mark.parametrize("spelling", ["--config-dir {}", "--config-dir={}", "-cd {}"])
def test_the_folder_is_named_in_any_of_hydras_spellings(own: Path, suite_here: RunSuite, spelling: str) -> None:
    line = f"{spelling.format(shlex.quote(str(own)))} algorithm=clipped env=mine study=ours"
    assert len(ids(suite_here(*shlex.split(line), "dry_run=true"))) > 1


def test_help_lists_them(own: Path) -> None:
    said = run_here("experiments/run.py", "--help", "--config-dir", str(own))
    assert said.returncode == 0
    yours = said.stdout.partition(f"Files of {own}:")[2].partition("\n\n")[0]
    assert re.search(r"env= +mine\n", yours)
    assert re.search(r"tuned= +clipped-mine$", yours)
    assert "cartpole" not in yours.partition("tuned=")[0]


def test_a_mistyped_setting_is_looked_for_in_them(own: Path, suite_here: RunSuite) -> None:
    refused = suite_here("--config-dir", str(own), "algorithm=clipped", "algorithm.training.clip_parm=0.1")
    assert refused.returncode == 2
    assert "Did you mean algorithm.training.clip_param=0.1" in refused.stderr


def test_a_choice_that_neither_has_is_refused_with_those_there_are(own: Path) -> None:
    write_files(own, {"other.yaml": "name: other\n"})
    with pytest.raises(ConfigurationError) as refused:
        check_choices(["env=other"], own)
    assert f"neither conf/env nor {own}/env has a file other.yaml" in str(refused.value)
    assert "mine" in str(refused.value)
    assert f"{own}/env/other.yaml" in str(refused.value)  # where it belongs


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        (
            "env/cartpole.yaml",
            "name: cartpole\n",
            r"has the name of conf/env/cartpole.yaml, which is read in its place",
        ),
        ("base.yaml", "seeds: [0]\n", r"has the name of conf/base.yaml"),
        ("envs/mine.yaml", "name: mine\n", r"conf/ has no such group. Did you mean .*/env\?"),
        ("env/mine.yml", "name: mine\n", r"only files that end in .yaml are read. Rename it to mine.yaml"),
        ("env/copy.yaml", "name: cartpole\n", r"name: cartpole is not what its file is called.*Write name: copy"),
        ("env/copy.yaml", "defaults: [cartpole]\ntarget: 1.0\n", r"name is missing.*Write name: copy"),
        ("study/ours.yaml", "study: {name: ours}\n", r"its first line must be '# @package _global_'"),
        (
            "study/ours.yaml",
            f"# Ours.\n{GLOBAL}study: {{name: ours}}\n",
            r"its first line must be '# @package _global_'",
        ),
        ("study/ours.yaml", f"{GLOBAL}study: {{name: lr_batch}}\n", r"Write study.name: ours"),
        ("env/mine.yaml", f"{GLOBAL}name: mine\n", r"has a line '# @package'.*Take it out"),
        ("env/mine.yaml", "name: [\n", r"is no YAML"),
        ("env/mine.yaml", "- name\n", r"must hold settings, as conf/env/"),
        ("env/mine.yaml", "name: mine\nenv_config: {x: [{_target_: os.system}]}\n", r"has a key _target_"),
        (
            "study/ours.yaml",
            f"{GLOBAL}hydra: {{callbacks: {{}}}}\nstudy: {{name: ours}}\n",
            r"sets what is Hydra's own",
        ),
        (
            "study/ours.yaml",
            f"{GLOBAL}defaults: [override /hydra/launcher: x]\nstudy: {{name: ours}}\n",
            r"sets what is Hydra's own",
        ),
        (
            "study/ours.yaml",
            f"{GLOBAL}defaults: [/env@hydra.callbacks: x]\nstudy: {{name: ours}}\n",
            r"sets what is Hydra's own",
        ),
    ],
)
def test_a_file_that_would_not_be_read_as_it_is_meant_is_refused(
    tmp_path: Path, name: str, text: str, message: str
) -> None:
    write_files(tmp_path, {name: text})
    with pytest.raises(ConfigurationError, match=message) as refused:
        own_folder(["--config-dir", str(tmp_path), "env=acrobot"])
    assert str(tmp_path / name.split("/")[0]) in str(refused.value)


def test_folders_that_hold_no_settings_are_let_be(own: Path) -> None:
    write_files(own, {"code/envs.py": "", ".git/x.yaml": "a: 1\n", "docker-compose.yaml": "services: {}\n"})
    assert own_folder([f"--config-dir={own}", "env=mine"]) == (["env=mine"], own)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--config-dir", "/nowhere", "env=mine"], "/nowhere: there is no such folder"),
        (["env=cartpole", "--config-dir="], "names no folder. For example: --config-dir ~/my env=mine"),
        (["--config-dir", "README.md"], "README.md: is a file, not folder"),
        (["--config-dir", "conf", "--config-d=/nowhere"], "is given 2 times"),
    ],
)
def test_a_folder_that_is_none_is_refused_before_anything_starts(
    arguments: list[str], message: str, tmp_path: Path
) -> None:
    for script in ("experiments/run.py", "experiments/autotune.py"):
        refused = run_here(script, *arguments, f"output_dir={tmp_path / 'out'}")
        assert refused.returncode == 2
        assert message in refused.stderr
        assert not (tmp_path / "out").exists()


def test_what_a_file_names_is_never_called(tmp_path: Path) -> None:
    marker = tmp_path / "called"
    text = f"{GLOBAL}hydra: {{callbacks: {{x: {{_target_: os.mkdir, path: {marker}}}}}}}\nstudy: {{name: ours}}\n"
    own = write_files(tmp_path / "own", {"study/ours.yaml": text})
    refused = run_here(
        "experiments/run.py", "--config-dir", str(own), "study=ours", "dry_run=true", f"output_dir={tmp_path}"
    )
    assert refused.returncode == 2
    assert "_target_" in refused.stderr
    assert not marker.exists()


def test_the_clones_own_folder_may_be_named() -> None:
    assert own_folder(["--config-dir", str(ROOT / "conf")]) == ([], ROOT / "conf")


def test_an_environment_without_a_file_is_pointed_to_gymnasiums_of_that_name() -> None:
    for given in ("walker2d-v5", "Walker2d-v5"):
        with pytest.raises(ConfigurationError, match=r"Gymnasium has it: env=gym env.id=Walker2d-v5"):
            check_choices([f"env={given}"])


def test_a_command_chooses_an_environment_by_its_file_or_by_its_id(own: Path) -> None:
    file, mine = (
        EnvSettings(name, "CartPole-v1", {}, "sync", 100, 10, None, (None, None)) for name in ("cartpole", "mine")
    )
    general = EnvSettings(name_of("Walker2d-v5"), "Walker2d-v5", {}, "sync", 100, 10, None, (None, None))
    assert env_choice(file) == "env=cartpole"
    assert env_choice(mine, own) == "env=mine"
    assert env_choice(general) == "env=gym env.id=Walker2d-v5"


def test_what_a_file_reads_of_the_environment_it_reads_with_other_choices_as_well(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with hydra.initialize_config_dir(str(CONF), version_base="1.3"):
        monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:5000")
        words = ["tracking.uri=${oc.env:MLFLOW_TRACKING_URI}"]
        composed = composer(hydra.compose("config", overrides=words), words)
        monkeypatch.delenv("MLFLOW_TRACKING_URI")  # as a command does with those of MLflow's that it does not honour
        assert [composed(choices)["tracking"]["uri"] for choices in ({}, {"hardware": "laptop"})] == [
            "http://127.0.0.1:5000"
        ] * 2
        assert "MLFLOW_TRACKING_URI" not in os.environ


MANIFEST = """
from experiments.contract.extensions import Manifest

MANIFEST = Manifest(name={name!r}, metrics={metrics!r}, training=".training:Own")
"""
TRAINING = """
from pydantic.dataclasses import dataclass

from experiments.config.extension import Training


@dataclass(frozen=True)
class Own(Training):
    on: bool = False
"""


@pytest.mark.parametrize(
    ("name", "metrics", "settings", "message"),
    [
        ("own_fine", {"own/a": "a count"}, "# @package extension.own_fine\non: false\n", ""),
        (
            "own_clash",
            {"learner/entropy": "nats"},
            "",
            "own_clash has a metric learner/entropy, which is there already",
        ),
        ("own_bare", {}, "", r"own_bare/conf/extension/own_bare\.yaml: is not there. Write the settings"),
        ("own_lost", {}, "on: false\n", r"its first line must be '# @package extension\.own_lost'"),
    ],
)
def test_the_extensions_of_a_folder_of_ones_own_are_checked_before_anything_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, metrics: Mapping[str, str], settings: str, message: str
) -> None:
    monkeypatch.setattr(extensions, "_own", {})
    monkeypatch.setattr("sys.path", [*sys.path])
    folder = tmp_path / "science" / name
    (folder / "conf/extension").mkdir(parents=True)
    for file, text in (
        ("__init__", ""),
        ("manifest", MANIFEST.format(name=name, metrics=metrics)),
        ("training", TRAINING),
    ):
        (folder / f"{file}.py").write_text(text)
    if settings:
        (folder / f"conf/extension/{name}.yaml").write_text(settings)
    words = ["--config-dir", str(tmp_path), "study=single"]
    if not message:
        assert own_folder(words) == (["study=single"], tmp_path)
        assert re.search(rf"[\[,]{name}\]$", hydra_search_path(tmp_path)[1])
        return
    with pytest.raises(ConfigurationError, match=message):
        own_folder(words)
