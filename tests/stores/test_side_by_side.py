"""`report.py studies=`: from names to the page, with a store of files and with a server."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from analysis import AnalysisError
from analysis.load import load_settings, load_study
from analysis.stores.executions import only_execution
from tests.support.commands import run_here
from tests.support.stored_studies import PLAN, START_MS, Written, uri_of


def test_two_studies_of_a_store_are_set_side_by_side(uri: str, written: Written, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    said = run_here(
        "analysis/report.py", f"studies=[lr,{written.ids['old/ppo-cartpole']}]", f"tracking_uri={uri}", f"out={page}"
    )
    assert (said.returncode, said.stderr) == (0, "")
    assert said.stdout.startswith("A           lr/ppo-cartpole, ")
    assert said.stdout.rstrip().endswith(str(page))
    assert "B old/ppo-cartpole" in page.read_text()


def test_a_study_may_be_in_another_store(written: Written, copied: Callable[[], Written], tmp_path: Path) -> None:
    other = copied()
    run = other.study("lr", "lr/ppo-cartpole", START_MS, PLAN)
    other.trial(run, "lr/ppo-cartpole", "lr=3e-3", 0, [({"final/score": 480.0}, 2000, 5)], params={"lr": 0.003})
    stores = f"tracking_uri=[{uri_of(written.folder)},{uri_of(other.folder)}]"
    said = run_here("analysis/report.py", "studies=[lr,lr]", stores, f"out={tmp_path / 'page.html'}")
    assert (said.returncode, said.stderr) == (0, "")
    assert run in said.stdout
    assert written.ids["lr/ppo-cartpole"] in said.stdout


def test_settings_are_read_as_they_were_recorded(copied: Callable[[], Written]) -> None:
    store = copied()
    run = store.study("lr", "lr/ppo-cartpole", START_MS, PLAN)
    store.store.log_texts(run, {"config.yaml": "search: {name: grid}\nbudget_env_steps: .inf\n"})
    trial = store.trial(run, "lr/ppo-cartpole", "lr=3e-3", 0, params={"lr": 0.003})
    store.store.log_texts(trial, {"config.json": json.dumps({"algorithm": {"training": {"lr": 0.003}}})})
    settings, composed = load_settings(load_study("lr", uri_of(store.folder)))
    assert settings == {"lr=3e-3": {"algorithm": {"training": {"lr": 0.003}}}}
    assert composed == {"search": {"name": "grid"}, "budget_env_steps": float("inf")}


def test_a_name_of_several_executions_lists_them(copied: Callable[[], Written]) -> None:
    store = copied()
    ids = [store.study("lr", "lr/ppo-cartpole", START_MS + i, PLAN) for i in range(2)]
    with pytest.raises(AnalysisError) as refused:
        only_execution("lr", uri_of(store.folder))
    assert "'lr' has 2 executions. Name one by its run id:" in str(refused.value)
    assert all(f"{run_id} (lr/ppo-cartpole, " in str(refused.value) for run_id in ids)
    assert only_execution(ids[0], uri_of(store.folder)) == ids[0]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["studies=[lr]"],
            "it takes two studies or more. Of one there is a report: python analysis/report.py study=lr.",
        ),
        (["studies=[]"], "it takes two studies or more"),
        (["studies=[lr,lr]"], "names one study twice"),
        (["studies=[lr,odl]"], "There is no study 'odl' in sqlite+pysqlite:///"),
        (["studies=[lr,odl]"], "near: old"),
        (["studies=[lr,old]", "study=lr"], "study= and studies= are given"),
    ],
)
def test_what_makes_no_sense_is_refused_and_nothing_is_written(
    arguments: list[str], message: str, written: Written, tmp_path: Path
) -> None:
    said = run_here(
        "analysis/report.py", *arguments, f"tracking_uri={uri_of(written.folder)}", f"out={tmp_path / 'page.html'}"
    )
    assert said.returncode == 2
    assert message in said.stderr
    assert not (tmp_path / "page.html").exists()


def test_stores_are_one_for_all_or_one_for_each(written: Written) -> None:
    uri = uri_of(written.folder)
    said = run_here("analysis/report.py", "studies=[lr,old,long]", f"tracking_uri=[{uri},{uri}]")
    assert said.returncode == 2
    assert "tracking_uri= names 2 stores for 3 studies" in said.stderr
