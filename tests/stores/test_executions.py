"""The list of a store's studies."""

import json
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from analysis import AnalysisError
from analysis.stores.executions import executions
from experiments.tracking.writes import SetTags
from tests.support.commands import run_here
from tests.support.stored_studies import START_MS, Written, uri_of


def test_every_execution_is_listed_the_latest_first(uri: str, written: Written) -> None:
    found = executions(None, uri)
    assert len(found) >= 1
    assert [e.started for e in found] == sorted((e.started for e in found), reverse=True)
    (mine,) = [e for e in found if e.run_id == written.ids["lr/ppo-cartpole"]]
    assert (mine.experiment, mine.status) == ("lr/ppo-cartpole", "failed")
    assert {e.run_id for e in executions("lr", uri)} <= {e.run_id for e in found}
    with pytest.raises(AnalysisError, match="There is no study 'none'"):
        executions("none", uri)


def test_a_study_is_listed_with_its_question_and_answers_whatever_marks_they_have(
    copied: Callable[[], Written], tmp_path: Path
) -> None:
    written = copied()
    told = {"question": "Which map?\n**Or none of them?**", "answers": json.dumps(["Use map=**a b**."])}
    study = written.study("maps", "maps/ppo-lake", START_MS)
    note = f"**Question.** {told['question']}\n\n**Answer.** **Use `map=**a b**`.**"
    written.store.log_rows(study, SetTags({**told, "mlflow.note.content": note}))
    (found,) = executions("maps", uri_of(tmp_path))
    assert (found.question, found.answers) == (told["question"], ("Use map=**a b**.",))
    written.study("old", "old/ppo-lake", START_MS)  # of an earlier version: its description alone says it
    earlier = next(e for e in executions("old", uri_of(tmp_path)) if e.experiment == "old/ppo-lake")
    assert (earlier.question, earlier.answers) == ("What about old?", ())


def test_the_command_prints_what_resume_and_report_take(uri: str, written: Written) -> None:
    said = run_here("experiments/list.py", f"tracking_uri={uri}")
    assert said.returncode == 0
    assert f"study run {written.ids['lr/ppo-cartpole']}" in said.stdout
    assert "lr/ppo-cartpole   failed" in said.stdout
    refused = run_here("experiments/list.py", f"tracking_uri={uri}", "study=none")
    assert (refused.returncode, refused.stdout) == (2, "")
    assert refused.stderr.startswith("error: There is no study 'none'")
    assert not [file for file in psutil.Process().open_files() if "mlflow.db" in file.path]  # as after a process
