"""The same command again, by `study.key`: after a kill, and when the study is finished."""

import contextlib
import html
import json
import re
import shutil
import sqlite3
from pathlib import Path

import pytest

from experiments.study.notify import VARIABLE
from tests.support.commands import run_here
from tests.support.driver import Driver
from tests.support.outputs import SMALL, assert_same, contents, folder_of, is_halfway, left_in, standing
from tests.support.sink import listening
from tests.system.conftest import made_once, run_to_the_end

pytestmark = [pytest.mark.ray, pytest.mark.slow, pytest.mark.timeout(900)]

COMMAND = (*SMALL, "study.key=night")


@pytest.fixture(scope="session")
def given_twice(tmp_path_factory: pytest.TempPathFactory, no_ray_afterwards: None) -> Path:
    """Output of a study whose driver was killed, and then started again by the same command, told to a sink."""

    def make(folder: Path) -> None:
        out = folder / "out"
        Driver(out, *COMMAND, report=True).until(lambda: is_halfway(out)).kill()
        (page,) = (out / "reports").glob("*.html")
        shutil.copy(page, folder / "page.html")
        with listening() as sink, pytest.MonkeyPatch.context() as patch:
            patch.setenv(VARIABLE, sink.address)
            (folder / "printed").write_text(run_to_the_end(out, *COMMAND, report=True))
            (folder / "told.json").write_text(json.dumps(sink.taken))

    return made_once(tmp_path_factory, "given-twice", make)


def test_a_command_given_again_after_a_kill_ends_with_one_study_and_the_same_bits(
    given_twice: Path, reference: Path
) -> None:
    printed = (given_twice / "printed").read_text()
    finished, going_on, _ = standing(printed)
    assert "key         the study night was begun and goes on" in printed
    assert finished >= 1
    assert going_on >= 1
    assert folder_of(given_twice / "out").name == "key-night"
    assert_same(left_in(given_twice / "out" / "mlflow.db"), left_in(reference / "mlflow.db"))
    with contextlib.closing(sqlite3.connect(given_twice / "out" / "mlflow.db")) as connection:
        kinds = [kind for (kind,) in connection.execute("SELECT value FROM tags WHERE key = 'kind' ORDER BY value")]
    assert kinds == ["study", *["trial"] * 4]


def test_nobody_has_to_watch_it(given_twice: Path) -> None:
    page = (given_twice / "page.html").read_text()
    assert 'http-equiv="refresh"' in page
    assert "<h2>cartpole</h2>" in page  # written at the first event, and not again within the seconds of this study
    assert "trials finished" in page
    (report,) = (given_twice / "out" / "reports").glob("*.html")
    answer = re.search(r'class="headline">(.+?)</p>', report.read_text())
    assert answer is not None
    (message,) = json.loads((given_twice / "told.json").read_text())
    assert message["title"] == "smoke: ended"
    assert "4 trials: 4 finished." in message["message"]
    assert html.unescape(re.sub("<[^>]*>", "", answer[1]))[:40] in message["message"]


@pytest.mark.parametrize("where", [(), ("hardware.address=127.0.0.1:1",)], ids=["here", "whose cluster is gone"])
def test_a_command_given_again_after_the_end_says_where_the_results_are_and_runs_nothing(
    where: tuple[str, ...], given_twice: Path
) -> None:
    out = given_twice / "out"
    before, trained = left_in(out / "mlflow.db"), {p: p.stat().st_mtime_ns for p in out.glob("studies/*/trials/**/*")}
    # fails if Ray is started
    again = run_here("experiments/run.py", *COMMAND, *where, f"output_dir={out}", "report=false")
    assert again.returncode == 0, again.stderr
    assert "key         the study night is finished: nothing is run again" in again.stdout
    assert f"files       {folder_of(out)}" in again.stdout
    assert left_in(out / "mlflow.db") == before
    assert {p: p.stat().st_mtime_ns for p in out.glob("studies/*/trials/**/*")} == trained


def test_another_command_with_the_key_of_a_finished_study_is_refused_and_changes_nothing(
    tmp_path: Path, given_twice: Path
) -> None:
    out = Path(shutil.copytree(given_twice / "out", tmp_path / "out"))
    before = contents(out)
    refused = run_here("experiments/run.py", *COMMAND, "seeds=[0,1,2]", f"output_dir={out}", "report=false")
    assert refused.returncode == 2
    assert "  seeds: [0, 1] then, [0, 1, 2] now" in refused.stderr
    assert contents(out) == before
