"""Python files of a person's own."""

import importlib
import re
import sys
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest

from experiments.config import own_modules
from experiments.config.errors import ConfigurationError
from experiments.rllib.building import environment_of
from experiments.rllib.made_environments import spaces
from experiments.study.files.folder import StudyFolder
from tests.support.own_files import own_file
from tests.support.suite import ROOT, TINY, PlanOf, RunSuite

SINGLE = "study.space={}"


def written(path: Path, text: str = "") -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return str(path)


def test_an_environment_of_a_file_is_planned_with_what_the_file_registers(plan_of: PlanOf, tmp_path: Path) -> None:
    plan = plan_of("env=gym", *own_file(tmp_path, "of_a_file"), SINGLE)
    (trial, *_) = plan.trials
    assert plan.experiment == "lr_batch/ppo-of_a_file-v0"
    assert (trial.env.id, trial.env.target) == ("of_a_file:of_a_file-v0", 18.0)
    assert trial.modules == {"of_a_file": own_modules.digest(tmp_path / "of_a_file.py")}
    assert plan.composed["modules"] == trial.modules


def test_a_configuration_is_another_one_with_another_file(plan_of: PlanOf, tmp_path: Path) -> None:
    without = plan_of("env=pendulum", SINGLE).trials[0]
    one, other = (
        plan_of("env=pendulum", f"modules=[{written(tmp_path / f'{n}.py', f'x = {n!r}')}]", SINGLE).trials[0]
        for n in ("m1", "m2")
    )
    assert len({without.config_id, one.config_id, other.config_id}) == 3


def test_what_is_imported_is_a_copy_that_an_edit_does_not_reach(tmp_path: Path) -> None:
    path = Path(written(tmp_path / "copied_once.py", "x = 1"))
    taken = own_modules.take([str(path)])
    path.write_text("x = 2")
    assert own_modules.take([str(path)]) == taken
    module: Any = importlib.import_module("copied_once")
    assert module.x == 1
    assert Path(module.__file__).parent == own_modules.folder()
    own_modules.check_imported(taken)


def test_a_process_that_finds_another_file_of_the_name_says_so(tmp_path: Path) -> None:
    taken = own_modules.take([written(tmp_path / "other_elsewhere.py", "x = 1")])
    with pytest.raises(RuntimeError, match=r"the module other_elsewhere is .* not what the study began with"):
        own_modules.check_imported(dict.fromkeys(taken, "0" * 16))


def test_modules_find_each_other_and_a_package_its_files(tmp_path: Path) -> None:
    package = tmp_path / "own_package"
    written(package / "__init__.py", "from own_package.part import x\nfrom own_helper import y\n")
    written(package / "part.py", "from pathlib import Path\nx = (Path(__file__).parent / 'data/size.txt').read_text()")
    written(package / "data/size.txt", "7")
    written(package / "__pycache__/part.pyc", "stale")
    before = own_modules.digest(package)
    own_modules.take([str(package), written(tmp_path / "own_helper.py", "y = 3")])
    assert (sys.modules["own_package"].x, sys.modules["own_package"].y) == ("7", 3)
    written(package / "__pycache__/part.pyc", "newer")
    assert own_modules.digest(package) == before
    written(package / "data/size.txt", "8")
    assert own_modules.digest(package) != before


def test_files_that_a_module_names_go_with_it_and_are_a_part_of_it(tmp_path: Path) -> None:
    source = (
        "import pathlib\nHERE = pathlib.Path(__file__).parent\n"
        "x = [(HERE / n).read_text() for n in ('a b.csv', 'data/b.csv')]\n"
    )
    path = Path(
        written(
            tmp_path / "reads_beside.py",
            source + "others = '.hidden', 'other.py', '../up.csv', 'nothing.csv', 'data', 'x' * 9999\n",
        )
    )
    for name, text in (
        ("a b.csv", "1"),
        ("data/b.csv", "2"),
        (".hidden", "3"),
        ("other.py", ""),
        ("not_named.csv", "4"),
        ("../up.csv", ""),
    ):
        written(tmp_path / name, text)
    taken = own_modules.take([str(path)])
    assert sys.modules["reads_beside"].x == ["1", "2"]
    own_modules.check_imported(taken)
    own_modules.keep(taken, tmp_path / "kept")
    assert set(own_modules.texts(tmp_path / "kept")) == {"reads_beside.py", "a b.csv", "data/b.csv"}
    assert own_modules.digest(tmp_path / "kept/reads_beside.py") == taken["reads_beside"]  # what a resume goes by
    written(tmp_path / "data/b.csv", "another")
    assert own_modules.digest(path) != taken["reads_beside"]
    with pytest.raises(
        ConfigurationError,
        match=r"a b.csv, data/b.csv would not be beside it on the cluster's nodes. Make them a package",
    ):
        own_modules.check_sent()
    with pytest.raises(
        ConfigurationError, match=r"a b.csv is copied with it, and another file of that name with .*reads_beside.py"
    ):
        own_modules.take(
            [written(tmp_path / "elsewhere/reads_another.py", source), written(tmp_path / "elsewhere/a b.csv", "x")][:1]
        )


def test_files_that_go_with_a_module_have_a_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(own_modules, "MOST_BYTES", 10)
    written(tmp_path / "large.csv", "x" * 1000)
    path = written(tmp_path / "names_large.py", "'large.csv'")
    with pytest.raises(ConfigurationError, match=r"holds 0 MiB with large.csv; .* Keep large files elsewhere"):
        own_modules.take([path])


def test_a_file_beside_a_module_that_was_not_copied_is_named_with_the_fix(plan_of: PlanOf, tmp_path: Path) -> None:
    given = own_file(tmp_path, "misses_a_file")
    file = tmp_path / "misses_a_file.py"
    file.write_text(
        file.read_text().replace("size=3):", "size=3):\n        np.loadtxt(__file__[:-16] + 'data' + '/prices.csv')")
    )
    written(tmp_path / "data/prices.csv", "1")
    expected = (
        r"/data/prices.csv is not copied with misses_a_file.py. Write 'data/prices.csv' as one string in it, "
        r"or make a package"
    )
    with pytest.raises(ConfigurationError, match=expected):
        plan_of("env=gym", *given, SINGLE)


def test_files_that_settings_of_an_environment_name_are_found_from_any_folder(
    plan_of: PlanOf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = own_file(tmp_path, "takes_files")
    file = tmp_path / "takes_files.py"
    file.write_text(file.read_text().replace("size=3)", "size=3, files=(), **more)"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for name in ("a.csv", "with space.csv", "data/b", "home/c.csv", "word"):
        written(tmp_path / name)
    files = "['a.csv', './with space.csv', data/, {deep: data/b}, '~/c.csv', word, none.csv, /a.csv, 3]"
    whole = ["a.csv", "with space.csv", "data", {"deep": str(tmp_path / "data/b")}, "home/c.csv"]
    axis = "study.space={env.env_config.file: [a.csv, word]}"
    plan = plan_of("env=gym", *given, f"env.env_config={{files: {files}, file: word}}", axis)
    expected = [
        *(str(tmp_path / name) if isinstance(name, str) else name for name in whole),
        "word",
        "none.csv",
        "/a.csv",
        3,
    ]
    assert [c.suite.env.env_config["files"] for c in plan.configurations] == [expected] * 2
    assert [c.suite.env.env_config["file"] for c in plan.configurations] == [str(tmp_path / "a.csv"), "word"]


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        (
            "broken_a.py",
            "x = 1\ny = nosuch\n",
            r"line 2 of broken_a.py raises NameError: name 'nosuch' is not defined when it is imported",
        ),
        ("broken_b.py", "x = 1\n\ndef f(:\n", r"line 3 of broken_b.py raises SyntaxError"),
        ("broken_c.py", "raise SystemExit(3)\n", r"line 1 of broken_c.py raises SystemExit: 3"),
        (
            "needs_beside.py",
            "import lies_beside\n",
            r"raises ModuleNotFoundError.* Name that one too: modules=\[lies_beside.py,needs_beside.py\]",
        ),
        ("my-env.py", "", r"'my-env' is no Python name. Try my_env.py"),
        ("class.py", "", r"'class' is no Python name. Try my_class.py"),
        ("notes.txt", "", r"is no Python file. Name a file that ends in .py, or a folder with __init__.py"),
        ("json.py", "", r"there is another module json, .*json/__init__.py, which it would hide"),
        ("torch.py", "", r"there is another module torch, "),
        ("folder/x.py", "", None),
    ],
)
def test_what_cannot_be_imported_is_refused_with_the_line_or_the_fix(
    tmp_path: Path, name: str, text: str, message: str | None
) -> None:
    written(tmp_path / "lies_beside.py")
    path = Path(written(tmp_path / name, text))
    given, expected = (
        (path, message) if message else (path.parent, r"is a folder without __init__.py, and so no package")
    )
    with pytest.raises(ConfigurationError, match=expected) as refused:
        own_modules.take([str(given)])
    assert f"modules=[{given}]" in str(refused.value)


def test_two_of_one_name_are_refused(tmp_path: Path) -> None:
    paths = [written(tmp_path / f"{folder}/same_name.py") for folder in "ab"]
    with pytest.raises(ConfigurationError, match="same_name is given 2 times"):
        own_modules.take(paths)
    own_modules.take(paths[:1])
    with pytest.raises(ConfigurationError, match="has been imported by this name"):
        own_modules.take(paths[1:])


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("modules=my_env.py", r"modules='my_env.py': must be a list of paths: modules=\[my_env.py\]"),
        ("modules=[3]", r"must be a list of paths"),
        (
            "modules=[no_such_file.py]",
            r"no_such_file.py\]: there is no such file. Paths are relative to where the command is typed",
        ),
    ],
)
def test_bad_input_exits_with_2_before_ray_starts(
    suite_here: RunSuite, tmp_path: Path, given: str, message: str
) -> None:
    refused = suite_here(given, "dry_run=true")
    assert refused.returncode == 2
    assert re.search(message, refused.stderr)
    assert not (tmp_path / "out").exists()


def test_an_environment_that_a_module_registers_anew_is_the_modules_everywhere(plan_of: PlanOf, tmp_path: Path) -> None:
    own_file(tmp_path, "registers_anew")
    path = written(
        tmp_path / "registers_anew.py",
        (tmp_path / "registers_anew.py").read_text().replace("registers_anew-v0", "tiny/Anew-v0"),
    )
    plan = plan_of("env=cartpole", "env.vectorize_mode=sync", "env.id=tiny/Anew-v0", f"modules=[{path}]", SINGLE)
    assert plan.trials[0].env.id == "registers_anew:tiny/Anew-v0"  # of which Gymnasium imports the module first


def test_the_wrapped_environment_of_the_docs_is_planned(plan_of: PlanOf, tmp_path: Path) -> None:
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "docs/own_files.md").read_text(), re.DOTALL)
    path = written(tmp_path / "my_lake.py", next(block for block in blocks if "def lake" in block))
    for given in ((), ("env.env_config={is_slippery:false}",)):
        plan = plan_of(f"modules=[{path}]", "env=gym", "env.id=Lake-v0", *given, SINGLE)
        assert spaces(plan.trials[0].env)[0].shape == (2,)


def test_its_frames_are_stacked_and_its_episodes_cut_like_any_others(plan_of: PlanOf, tmp_path: Path) -> None:
    given = ("preprocessing.frame_stack=2", "env.max_episode_steps=3")
    env = environment_of(plan_of("env=gym", *own_file(tmp_path, "stacked_env"), *given, SINGLE).trials[0])
    made: Any = gym.make(env.id, **env.make_arguments)
    observation, _ = made.reset(seed=0)
    assert observation.shape == (6,)
    assert [made.step(0)[3] for _ in range(3)] == [False, False, True]


def test_nothing_is_imported_that_is_not_the_recorded_one(tmp_path: Path) -> None:
    marker = tmp_path / "imported"
    path = written(tmp_path / "not_recorded.py", f"open({str(marker)!r}, 'w')")
    for recorded, message in (
        ({"not_recorded": "0" * 16}, "not_recorded is not the one that was recorded: its content has the hash"),
        ({}, "not_recorded was not recorded"),
        ({"not_recorded": own_modules.digest(Path(path)), "more": "1"}, "more is missing, which was recorded"),
    ):
        with pytest.raises(ConfigurationError, match=message):
            own_modules.take([path], recorded)
    assert not marker.exists()


def test_a_study_keeps_its_modules_and_is_resumed_with_these_alone(plan_of: PlanOf, tmp_path: Path) -> None:
    given = own_file(tmp_path, "kept_with_study")
    plan = plan_of(*TINY, "env=gym", *given, "tracking.uri=null")
    folder = StudyFolder(tmp_path / "study")
    folder.create(plan)
    folder.close()
    (tmp_path / "kept_with_study.py").write_text("raise SystemExit")
    file = tmp_path / "study/modules/kept_with_study.py"
    assert own_modules.digest(file) == plan.suite.modules["kept_with_study"]
    assert own_modules.texts(file.parent) == {"kept_with_study.py": file.read_text()}
    file.write_text("x = 1")
    with pytest.raises(ConfigurationError, match=r"study/modules/kept_with_study.py\]: .*kept_with_study"):
        folder.take_modules()
    with pytest.raises(ConfigurationError, match=r"If it is yours, say where it is: output_dir=/"):
        folder.take_modules(within=tmp_path / "out")
