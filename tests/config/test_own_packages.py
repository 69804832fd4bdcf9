"""A person's own folders that are called like the suite's packages, where Python finds them first."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.suite import ROOT

MINE = "raise RuntimeError('mine')\n"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    for name in ("experiments", "analysis"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text(MINE)
    (tmp_path / "conf").mkdir()  # without __init__.py, as Hydra's mostly are
    return tmp_path


def python(project: Path, *words: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": "."}
    return subprocess.run(
        [sys.executable, *words], cwd=project, env=environment, capture_output=True, text=True, timeout=100, check=False
    )


@pytest.mark.slow
def test_a_command_has_the_packages_of_its_own_clone(project: Path) -> None:
    refused = python(project, str(ROOT / "experiments/run.py"), "algorithm=pppo")
    assert (refused.returncode, refused.stderr.partition(":")[0]) == (2, "error")
    assert "conf/algorithm has no file pppo.yaml" in refused.stderr
    assert python(project, str(ROOT / "analysis/report.py"), "--help").returncode == 0
    assert python(project, str(ROOT / "experiments/list.py"), "--help").returncode == 0


def test_a_notebook_beside_such_a_folder_is_told_which_and_what_to_do(project: Path) -> None:
    reach = f"import sys; sys.path.append({str(ROOT)!r}); "
    for package, other in (("analysis", "experiments"), ("experiments", "analysis")):
        (project / package / "__init__.py").unlink()
        (project / package).rmdir()
        refused = python(project, "-c", f"{reach}import {package}")
        assert refused.stderr.splitlines()[-1].startswith(
            f"ImportError: {project / other} is imported as {other}, in place of the suite's"
        )
        (project / package).mkdir()
        (project / package / "__init__.py").write_text(MINE)
