"""The notebooks: what is committed, and that they run from top to bottom on any study."""

import ast
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import psutil
import pytest

from analysis import load
from analysis.document import notebooks
from analysis.load import Study, load_study
from tests.support.suite import ROOT

ANALYSES = ("convergence", "learning_rate_batch", "reproducibility", "throughput")
"""They show a study's frames, whatever became of it; the other one a policy,
which is there once a trial has finished."""
NAMES = (*ANALYSES, "policy")
MOST_BYTES = 1_500_000


def path_of(name: str) -> Path:
    return ROOT / "analysis" / f"{name}.ipynb"


def code_cells(name: str) -> list[dict[str, Any]]:
    return [cell for cell in json.loads(path_of(name).read_text())["cells"] if cell["cell_type"] == "code"]


def texts_shown(cells: list[dict[str, Any]]) -> list[str]:
    return [
        "".join(text if isinstance(text, list) else [text])
        for cell in cells
        for output in cell["outputs"]
        for kind, text in output["data"].items()
        if kind.startswith("text/")
    ]


def test_there_are_five() -> None:
    assert sorted(path.stem for path in (ROOT / "analysis").glob("*.ipynb")) == sorted(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_the_first_code_cell_says_which_study(name: str) -> None:
    first, *others = code_cells(name)
    assert first["metadata"]["tags"] == [notebooks.PARAMETERS]
    assert re.findall(r"^(\w+) = (\w+)", "".join(first["source"]), re.MULTILINE) == [
        ("STUDY", "None"),
        ("TRACKING_URI", "None"),
    ]
    assert not any(cell["metadata"].get("tags") for cell in others)


@pytest.mark.parametrize("name", NAMES)
def test_what_a_notebook_imports_is_there(name: str) -> None:
    cells = ast.parse("\n".join("".join(cell["source"]) for cell in code_cells(name)))
    imports = [node for node in cells.body if isinstance(node, ast.Import | ast.ImportFrom)]
    assert imports
    exec(compile(ast.Module(imports, []), name, "exec"), {})


@pytest.mark.parametrize("name", NAMES)
def test_notebooks_narrate_and_define_nothing(name: str) -> None:
    assert not re.search(
        r"^\s*(def|class|async def) |lambda", "\n".join("".join(c["source"]) for c in code_cells(name)), re.MULTILINE
    )


@pytest.mark.parametrize("name", NAMES)
def test_the_committed_outputs_show_figures_and_no_folder_of_a_machine(name: str) -> None:
    cells = code_cells(name)
    assert [cell["execution_count"] for cell in cells] == list(range(1, len(cells) + 1))
    assert sum("image/png" in output.get("data", {}) for cell in cells for output in cell["outputs"]) >= 3
    assert path_of(name).stat().st_size < MOST_BYTES
    shown = [*texts_shown(cells), *("".join(cell["source"]) for cell in cells)]
    assert not re.findall(r"(?:^|[\s'\"=(])(?:\w+:/+)?/[\w.-]+/[\w.-]+", "\n".join(shown))


@pytest.mark.parametrize("name", NAMES)
def test_the_committed_outputs_come_from_a_study_of_the_kind_that_the_notebook_is_about(name: str) -> None:
    kind, shown = json.loads(path_of(name).read_text())["metadata"]["study"], "\n".join(texts_shown(code_cells(name)))
    assert (ROOT / "conf" / "study" / f"{kind}.yaml").is_file()
    assert re.findall(r"Study\('(\w+)/", shown) == [kind]
    assert "Empty DataFrame" not in shown


@pytest.mark.ray
@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_a_notebook_runs_on_a_real_study(name: str, store: str, tmp_path: Path) -> None:
    before = path_of(name).read_bytes()
    executed = notebooks.execute(path_of(name), tmp_path, "smoke", store)
    cells = [cell for cell in executed.cells if cell.cell_type == "code"]
    assert any("Does the suite work on this machine?" in text for text in texts_shown(cells))
    assert [output for cell in cells for output in cell.outputs if output.output_type == "stream"] == []  # no warnings
    assert "STUDY = None" in cells[0].source
    assert path_of(name).read_bytes() == before
    assert not [child for child in psutil.Process().children() if "ipykernel_launcher" in child.cmdline()]
    if name == "reproducibility":
        assert any("4 of 4 repeats are the same to the bit" in text for text in texts_shown(cells))
    if name == "learning_rate_batch":
        assert any("does not search learning rate and train batch together" in text for text in texts_shown(cells))
    if name == "policy":
        assert any("0.0" in text and "difference" in text for text in texts_shown(cells))


def lost(study: Study, rows: slice, status: str) -> Study:
    """The study as if these trials had ended otherwise."""
    runs = study.runs.copy()
    runs.loc[rows, "status"] = status
    runs.loc[rows, list(load.final_metrics({}))] = np.nan
    return replace(study, runs=runs)


def only(study: Study, keep: pd.Series) -> Study:
    """The study as if it had planned these trials alone."""
    runs = study.runs[keep].reset_index(drop=True)
    kept = study.curves[study.curves["run_id"].isin(runs["run_id"])].reset_index(drop=True)
    return replace(study, runs=runs.assign(config=runs["config"].cat.remove_unused_categories()), curves=kept)


def twelve_seeds(study: Study) -> Study:
    """The study as if it had planned these trials six times over, on as many seeds."""
    runs, curves = (
        pd.concat(
            [f.assign(seed=f["seed"] + 2 * i, run_id=f["run_id"].astype(str) + f"/{i}") for i in range(6)],
            ignore_index=True,
        )
        for f in (study.runs, study.curves)
    )
    return replace(
        study, runs=runs, curves=curves.assign(run_id=pd.Categorical(curves["run_id"], categories=list(runs["run_id"])))
    )


VARIANTS = {
    "a trial failed": lambda s: lost(s, slice(1, 1), "failed"),
    "all trials failed": lambda s: lost(s, slice(None), "failed"),
    "one seed": lambda s: only(s, s.runs["seed"] == 0),
    "each seed once": lambda s: replace(only(s, s.runs["repeat"] == 0), repeats=1),
    "no promise of bits": lambda s: replace(
        s, runs=s.runs.assign(reproducible=pd.array([False] * len(s.runs), dtype="boolean"))
    ),
    "twelve seeds": twelve_seeds,
    "one configuration": lambda s: only(s, s.runs["gamma"] == 0.99),
    "no target": lambda s: replace(s, runs=s.runs.assign(target=np.nan)),
    "trials alone": lambda s: replace(s, runs=s.runs.assign(exclusive=True)),
    "two environments": lambda s: replace(
        s, runs=s.runs.assign(env=np.where(s.runs["gamma"] == 0.99, "cartpole", "acrobot"))
    ),
    "searched": lambda s: replace(
        s,
        axes=("lr", "train_batch_size_total"),
        runs=s.runs.assign(lr=s.runs["gamma"] - 0.97, train_batch_size_total=1000 * s.runs["gamma"]),
    ),
    "no provenance": lambda s: replace(s, provenance={}, points={}, command="", question=""),
    "no curves": lambda s: replace(s, curves=s.curves[:0]),
}


MATRIX = [(name, variant) for variant in VARIANTS for name in ANALYSES]
EVERY_VARIANT = [(ANALYSES[i % len(ANALYSES)], variant) for i, variant in enumerate(VARIANTS)]
"""Each once, the notebooks in turn."""


@pytest.mark.ray
@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "variant"),
    [pair if pair in EVERY_VARIANT else pytest.param(*pair, marks=pytest.mark.nightly) for pair in MATRIX],
)
def test_the_cells_run_on_any_study(name: str, variant: str, store: str, monkeypatch: pytest.MonkeyPatch) -> None:
    study = VARIANTS[variant](load_study("smoke", store))
    monkeypatch.setattr(load, "load_study", lambda *_: study)
    said: list[object] = []
    monkeypatch.setattr(notebooks, "display", said.append)
    names = {"display": said.append}
    for cell in code_cells(name):
        exec("".join(cell["source"]), names)
    assert said


def test_the_command_names_an_unknown_setting(capsys: pytest.CaptureFixture[str]) -> None:
    assert notebooks.main(["studdy=smoke"]) == 2
    assert "'studdy' is not understood. Usage: python -m analysis.document.notebooks [study=" in capsys.readouterr().err
