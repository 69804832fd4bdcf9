"""Whether a study writes a report, and what is in it."""

import pytest

from experiments.config.errors import ConfigurationError
from experiments.config.report_settings import ReportSettings
from tests.support.suite import TINY, PlanOf


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ((), ReportSettings(video=True)),
        (("report=true",), ReportSettings(video=True)),
        (("report=false",), None),
        (("report.failure_below=200",), ReportSettings(failure_below=200)),
        (("report.video=false",), ReportSettings(video=False)),
    ],
)
def test_a_report_is_written_with_video_or_without_or_not_at_all(
    plan_of: PlanOf, words: tuple[str, ...], expected: ReportSettings | None
) -> None:
    assert plan_of(*TINY, *words).suite.report == expected


@pytest.mark.parametrize(
    "word", ["report=5", "report.video=2", "+report.vidoe=true", "report.failure_below=low", "report.delta=0"]
)
def test_what_is_no_setting_of_it_is_refused(plan_of: PlanOf, word: str) -> None:
    with pytest.raises(ConfigurationError, match=r"report"):
        plan_of(*TINY, word)
