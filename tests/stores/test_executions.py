"""The list of a store's studies."""

import pytest

from analysis import AnalysisError
from analysis.stores.executions import executions
from tests.support.commands import run_here
from tests.support.stored_studies import Written


def test_every_execution_is_listed_the_latest_first(uri: str, written: Written) -> None:
    found = executions(None, uri)
    assert len(found) >= 1
    assert [e.started for e in found] == sorted((e.started for e in found), reverse=True)
    (mine,) = [e for e in found if e.run_id == written.ids["lr/ppo-cartpole"]]
    assert (mine.experiment, mine.status) == ("lr/ppo-cartpole", "failed")
    assert {e.run_id for e in executions("lr", uri)} <= {e.run_id for e in found}
    with pytest.raises(AnalysisError, match="There is no study 'none'"):
        executions("none", uri)


def test_the_command_prints_what_resume_and_report_take(uri: str, written: Written) -> None:
    said = run_here("experiments/list.py", f"tracking_uri={uri}")
    assert said.returncode == 0
    assert f"study run {written.ids['lr/ppo-cartpole']}" in said.stdout
    assert "lr/ppo-cartpole   failed" in said.stdout
    refused = run_here("experiments/list.py", f"tracking_uri={uri}", "study=none")
    assert (refused.returncode, refused.stdout) == (2, "")
    assert refused.stderr.startswith("error: There is no study 'none'")
