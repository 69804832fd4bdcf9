"""The page of a study that runs: what it shows, when it is written, and that it does no harm."""

import io
import re
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest
from rich.console import Console

from experiments.contract import CONFIRM, FAILED, FINISHED, RETURN, SCORE
from experiments.planning.machines import Cluster, Node
from experiments.planning.plan import Plan
from experiments.study import live_page
from experiments.study.live_page import LivePage
from experiments.study.progress import Progress
from experiments.trial.events import Ended, Event, Reported, Started
from tests.support.suite import PlanOf

SPEED = {"throughput/env_steps_per_s": 1000.0}


class Followed:
    """A page and the progress that it goes by."""

    def __init__(self, plan: Plan, file: Path | None) -> None:
        self.plan, self.file, self.said = plan, file, list[str]()
        self.progress = Progress(plan, Console(file=io.StringIO(), force_terminal=False))
        self.page = LivePage(plan, self.progress, lambda: self.file, self.said.append)

    def hear(self, index: int, *events: Event) -> None:
        for event in events:
            self.progress.on_event(self.plan.trials[index], event)
            self.page.on_event(self.plan.trials[index], event)

    def text(self) -> str:
        assert self.file is not None
        return self.file.read_text(encoding="utf-8")


@pytest.fixture
def followed(plan_of: PlanOf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Followed:
    """Of the smoke study, two configurations of two seeds; each event may be written."""
    monkeypatch.setattr(live_page, "EVERY_S", 0.0)
    monkeypatch.setattr(live_page, "_SHARE", float("inf"))
    return Followed(plan_of("study=smoke", "env.target=100"), tmp_path / "reports" / "page.html")


def reported(env_steps: int, mean: float) -> Reported:
    return Reported(env_steps=env_steps, metrics={**SPEED, RETURN: mean})


def test_it_shows_curves_returns_and_how_far_the_study_is(followed: Followed) -> None:
    with followed.progress:
        end = Ended(status=FINISHED, env_steps=4096, metrics={SCORE: 90.0})
        followed.hear(0, Started(), reported(2048, 30.0), reported(4096, 60.0), end)
        followed.hear(2, reported(2048, 50.0))
    page = followed.text()
    assert 'http-equiv="refresh"' in page
    assert "1/4 trials finished, 38% of the env steps" in page
    rows = [re.sub(r"<[^>]*>", " ", row).split() for row in page.split("<tr>")[2:]]
    by_label = {row[0]: " ".join(row[1:]) for row in rows}
    first, second = (followed.plan.trials[i] for i in (0, 2))
    assert first.label == second.label
    assert by_label[first.label] == "1 of 2 2,048 to 4,096 70.0 50.0 to 90.0, 2 seeds 1,000"
    svg = ElementTree.fromstring(page[page.index("<svg") : page.index("</svg>") + 6])
    lines = [line for line in svg.iter() if line.tag.endswith("polyline")]
    assert sorted(len(line.attrib["points"].split()) for line in lines) == [1, 3]
    assert "target 100" in page


def test_where_it_is_is_said_once_it_is_there_and_not_before(followed: Followed) -> None:
    there, followed.file = followed.file, None
    followed.hear(0, reported(2048, 30.0))
    assert followed.said == []
    followed.file = there
    followed.hear(0, reported(4096, 31.0))
    followed.hear(1, reported(2048, 32.0))
    (said,) = followed.said
    assert f"{there}" in said


def test_it_is_written_now_and_then_and_not_for_what_happened_before(
    followed: Followed, monkeypatch: pytest.MonkeyPatch
) -> None:
    followed.hear(0, Started(at_ms=1))
    assert followed.said == []
    monkeypatch.setattr(live_page, "EVERY_S", 1e9)
    followed.hear(0, reported(2048, 30.0))
    before = followed.text()
    followed.hear(0, reported(4096, 60.0))
    assert followed.text() == before
    followed.page.end()
    assert "60.0" in followed.text()
    assert "The report is being written" in followed.text()
    assert 'http-equiv="refresh"' in followed.text()  # until it is there
    assert "trials finished" not in followed.text()  # and what is left


def test_failures_are_told_once_a_cause_and_nothing_is_taken_for_html(followed: Followed) -> None:
    for index in (0, 1):
        followed.hear(index, Ended(status=FAILED, env_steps=0, reason="ValueError: <b>no</b>"))
    page = followed.text()
    assert page.count("Failed: ValueError: &lt;b&gt;no&lt;/b&gt;") == 1
    assert "<b>no" not in page


def test_a_folder_that_takes_no_file_is_told_once_and_stops_nothing(
    followed: Followed, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "reports").write_text("in the way")
    for env_steps in (2048, 4096):
        followed.hear(0, reported(env_steps, 30.0))
    followed.page.end()
    assert len(caplog.records) == 1
    assert followed.said == []


def test_a_study_of_throughput_has_speeds_and_no_curves(
    plan_of: PlanOf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live_page, "EVERY_S", 0.0)
    own = Followed(plan_of("study=runner_scaling", cluster=Cluster((Node(16, 0),))), tmp_path / "page.html")
    own.hear(0, Reported(env_steps=9000, metrics=SPEED))
    assert own.said == []  # it would disturb
    own.hear(0, Ended(status=FINISHED, env_steps=9000, metrics={"final/env_steps_per_s": 1234.0}))
    assert "1,234" in own.text()
    assert "<svg" not in own.text()
    assert "return so far" not in own.text()


def test_an_error_of_the_page_stops_nothing(
    followed: Followed, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(followed.progress, "overall", lambda: 1 / 0)
    followed.hear(0, reported(2048, 30.0))
    assert "division by zero" in caplog.text


def test_confirmed_trials_have_rows_of_their_own_and_what_was_not_evaluated_comes_last(
    plan_of: PlanOf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live_page, "EVERY_S", 0.0)
    monkeypatch.setattr(live_page, "_SHARE", float("inf"))
    own = Followed(plan_of("study=smoke"), tmp_path / "page.html")
    speed, learned, confirming = own.plan.trials[1], own.plan.trials[0], replace(own.plan.trials[0], phase=CONFIRM)
    own.page.on_event(speed, Reported(env_steps=9000, metrics={"throughput/env_steps_per_s": 1e6}))
    for trial, mean in ((learned, -30.0), (replace(confirming, seed=9), -20.0)):
        own.page.on_event(trial, reported(2048, mean))
    rows = re.findall(r'class="key( k\d)?"></span>(.*?)</td>', own.text())
    assert rows == [
        (" k0", f"{learned.label}, confirmed"),
        (" k1", learned.label),
        ("", speed.label),
    ]
