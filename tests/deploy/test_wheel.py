"""What a person has who installs the wheel, and nothing else of the clone."""

import os
import shutil
import site
import subprocess
import sys
import venv
from pathlib import Path

import pytest

from tests.support.stored_studies import PLAN, Written, uri_of, write_studies
from tests.support.suite import ROOT

EVERYTHING = """
import importlib, pkgutil
import analysis, conf, experiments, science
for package in (analysis, conf, experiments, science):
    assert package.__file__.startswith({prefix!r}), package.__file__
    for module in pkgutil.walk_packages(package.__path__, f"{{package.__name__}}."):
        if "test" in module.name.rpartition(".")[2]:
            continue  # what is there to test with is not
        print(module.name)
        importlib.import_module(module.name)
"""

MINE = """\
# @package _global_
study: {name: mine, question: "Which?", space: {algorithm.training.lr: [1e-3]}}
"""

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter of an environment that has the wheel.

    Its dependencies are these tests' own, whose .pth files it does not read.
    """
    folder = tmp_path_factory.mktemp("wheel")
    source = folder / "source"  # setuptools builds beside the sources, and would take up what lies there
    source.mkdir()
    for name in ("analysis", "conf", "experiments", "science"):
        shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check"]
    subprocess.run(
        [*pip, "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--wheel-dir", folder, source], check=True
    )
    venv.create(folder / "venv", symlinks=True)
    own = folder / "venv/bin/python"
    (wheel,) = folder.glob("*.whl")
    # there pip would find the suite installed
    alone = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    subprocess.run(
        [*pip, "--python", own, "install", "--quiet", "--no-deps", "--no-index", wheel], env=alone, check=True
    )
    return own


def run(python: Path, folder: Path, *words: str) -> str:
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(site.getsitepackages())}
    done = subprocess.run(
        [python, *words], cwd=folder, env=environment, capture_output=True, text=True, timeout=240, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_every_module_is_in_the_wheel_and_imports(python: Path, tmp_path: Path) -> None:
    imported = run(python, tmp_path, "-c", EVERYTHING.format(prefix=str(python.parents[1]))).splitlines()
    packages = ("analysis", "experiments", "science")
    modules = (path for name in packages for path in (ROOT / name).rglob("*.py") if "test" not in path.stem)
    assert set(imported) == {
        ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__") for path in modules
    } - {
        "analysis",
        "experiments",
        "science",
    }


def test_a_plan_and_a_report_are_made_in_an_empty_folder_with_files_of_ones_own(python: Path, tmp_path: Path) -> None:
    program = str(python.parent / "rl-scaling")
    assert "4 trials" in run(python, tmp_path, program, "run", "study=smoke", "dry_run=true")
    (tmp_path / "conf/study").mkdir(parents=True)
    (tmp_path / "conf/study/mine.yaml").write_text(MINE)
    own = run(python, tmp_path, program, "run", "--config-dir", "conf", "study=mine", "seeds=[0]", "dry_run=true")
    assert "1 trial" in own
    write_studies(Written(tmp_path / "store"))
    page = tmp_path / "report.html"
    run(
        python,
        tmp_path,
        "-m",
        "analysis.report",
        "study=lr",
        f"tracking_uri={uri_of(tmp_path / 'store')}",
        f"out={page}",
    )
    assert PLAN["question"] in page.read_text()
