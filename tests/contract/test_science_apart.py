"""What one kind of study alone needs is in its folder of science/, and the rest of the suite does not know it."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from experiments.contract import extensions
from tests.support.suite import ROOT

ALLOWED = {
    "analysis/sensitivity.py": "the command where it was before, which hands over by its word",
    "conf/algorithm/ppo_ewma.yaml": "says where the algorithm and its question are described",
    "conf/base.yaml": "says of env.stagger, which every study has, where its question is answered",
    "experiments/config/schema.py": "likewise",
}
"""A file of the core to why it has the name of an extension."""


def test_no_file_of_the_core_has_the_name_of_an_extension() -> None:
    names = [one.name for one in extensions.found() if one.is_built_in]
    words = re.compile("|".join(rf"{name}\b" for name in names))
    files = [file for tree in ("experiments", "analysis", "conf") for file in sorted((ROOT / tree).rglob("*"))]
    known = {
        file.relative_to(ROOT).as_posix()
        for file in files
        if file.suffix in (".py", ".yaml", ".j2", ".ipynb") and words.search(file.read_text(encoding="utf-8"))
    }
    assert known == {*ALLOWED}


@pytest.mark.nightly
@pytest.mark.timeout(1800)
def test_without_the_folder_the_rest_passes_its_tests_and_runs_a_study(tmp_path: Path) -> None:
    here = ("experiments", "analysis", "conf", "tests", "docs", "benchmarks", "deploy", ".ci")
    files = ("Makefile", "pyproject.toml", "README.md", *(file.name for file in ROOT.glob("requirements*.txt")))
    for source in (ROOT / name for name in (*here, *files)):
        name = source.name
        (shutil.copytree if source.is_dir() else shutil.copy)(source, tmp_path / name)
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}

    (tmp_path / "analysis/sensitivity.py").unlink()  # the command of one of them

    def done(*words: str) -> str:
        ran = subprocess.run(
            [sys.executable, *words], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
        )
        assert ran.returncode == 0, ran.stdout[-4000:] + ran.stderr[-4000:]
        return ran.stdout

    assert "science" not in done("-c", "from experiments.contract import extensions; print(extensions.found())")
    done("experiments/run.py", "study=smoke", f"output_dir={tmp_path / 'out'}")
    of_the_whole = ["tests/unchanged", "tests/system/test_readme.py", "tests/contract/test_science_apart.py"]
    of_the_whole += [f"tests/stats/test_{name}.py" for name in ("comparisons", "moderated", "pools")]  # of benchmarks
    left_out = [f"--ignore={path}" for path in of_the_whole]
    done("-m", "pytest", "-q", "tests", "-n", "2", "--dist", "worksteal", *left_out)
