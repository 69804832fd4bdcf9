"""An extension and a metric of a person's own, as docs/extensions.md has them, from the command line."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from analysis.load import load_study
from tests.support.files import write_files
from tests.support.suite import ROOT

SMALL = ("budget_env_steps=4096", "report_every_env_steps=2048", "evaluation.episodes=2", "evaluation.final_episodes=5")


def written(folder: Path) -> None:
    """Write the files of docs/extensions.md."""
    text = (ROOT / "docs/extensions.md").read_text()
    write_files(folder, dict(re.findall(r"```(?:python|yaml)\n# ([^\s:]+).*?\n(.*?)```", text, re.DOTALL)))
    (folder / "my/science/weight_norm/__init__.py").touch()


def done(folder: Path, *words: str) -> tuple[str, str]:
    """What a command prints in a folder: as results, and as warnings."""
    command = [sys.executable, *(str(ROOT / word) if word.endswith(".py") else word for word in words[:1]), *words[1:]]
    ran = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=240, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout, ran.stderr


@pytest.mark.ray
@pytest.mark.slow
def test_a_folder_and_a_file_of_ones_own_are_logged_and_reported_on_with_no_edit_elsewhere(tmp_path: Path) -> None:
    written(tmp_path)
    words = (
        "study=weight_norm",
        "seeds=[0,1]",
        "study.space={learning_rate: {distribution: multiples, factors: [1, 3]}}",
        *SMALL,
    )
    done(tmp_path, "experiments/run.py", "--config-dir", "my", "modules=[my_metric.py]", *words)
    store = f"sqlite:///{tmp_path / 'outputs/mlflow.db'}"
    study = load_study("weight_norm", store)
    assert (study.runs["weight_norm"] > 5).all() and study.runs["weight_norm"].nunique() == 4
    curve = study.curves[study.curves["metric"] == "own/weight_norm"]
    assert curve.groupby("run_id", observed=True)["env_steps"].apply(list).tolist() == [[2048, 4096]] * 4
    of_file = study.curves[study.curves["metric"] == "own/weights_seq_no"].groupby("run_id", observed=True)["value"]
    assert len(of_file) == 4 and all(values.is_monotonic_increasing for _, values in of_file)
    (report,) = tmp_path.glob("outputs/reports/*.html")
    for words_in_it in (
        "Do the weights grow?",
        "its weights end with a norm of",
        "Norm of all weights, a line a trial.",
    ):
        assert words_in_it in report.read_text(), words_in_it
    _, warned = done(tmp_path, "analysis/report.py", "--config-dir", "my", "study=weight_norm", "out=again.html")
    assert "--config-dir" not in warned
    assert "Do the weights grow?" in (tmp_path / "again.html").read_text()
    _, warned = done(tmp_path, "analysis/report.py", "study=weight_norm", "out=without.html")
    assert "the report lacks what my/science shows. To have it, add --config-dir my." in warned
    assert "Do the weights grow?" not in (tmp_path / "without.html").read_text()
