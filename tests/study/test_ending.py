"""What a study prints at its end."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from experiments.study.ending import resume_command
from tests.support.suite import PlanOf

OUTCOME = SimpleNamespace(study_run="abc", folder=None)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ((), "resume=abc output_dir=/there"),
        (("tracking=server", "tracking.uri=http://h:5000"), "resume=abc output_dir=/there tracking=server tracking.uri=http://h:5000"),
        (("tracking.name=lab",), "--config-dir '/my files' resume=abc output_dir=/there tracking=lab"),
    ],
)
def test_the_command_that_resumes_names_the_store_and_where_its_file_is(plan_of: PlanOf, words: tuple[str, ...], expected: str) -> None:
    suite = plan_of("study=smoke", "output_dir=/there", *words).suite
    assert resume_command(suite, OUTCOME, Path("/my files")) == f"python experiments/run.py {expected}"
