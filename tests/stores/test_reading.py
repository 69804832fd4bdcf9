"""How stores are read: without a trace, within a server's limits, and from the cache."""

import json
import sqlite3
import time
import urllib.request
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pandas.testing import assert_frame_equal

from analysis import AnalysisError
from analysis.load import load_study
from analysis.stores import executions
from analysis.stores import server as server_module
from analysis.stores.records import Run
from analysis.stores.server import ServerReader
from analysis.stores.sqlite import SqliteReader
from tests.support.stored_studies import MORE_THAN_ONE_ANSWER, START_MS, Written, insert_points, uri_of

# Reading leaves the store as it is.


def test_reading_waits_for_no_writer_and_changes_no_byte(written: Written) -> None:
    path = written.folder / "mlflow.db"
    with closing(sqlite3.connect(path)) as writer:
        writer.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        before = path.read_bytes()
        writer.execute("BEGIN IMMEDIATE")
        writer.execute("UPDATE runs SET name = 'half written'")
        start = time.perf_counter()
        assert load_study("lr", uri_of(written.folder)).experiment == "lr/ppo-cartpole"
        assert time.perf_counter() - start < 5
        writer.rollback()
    assert path.read_bytes() == before


def test_a_store_that_is_not_there_is_not_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(executions, "PROJECT", tmp_path / "project")  # where a person may have run studies
    with pytest.raises(AnalysisError, match=r"no store at .*/outputs/mlflow.db: run a study first \(make study\)"):
        load_study()
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("without", [(), (0,), (1, 2), (0, 1, 2)])
def test_runs_that_logged_nothing_are_read_beside_others(written: Written, without: Sequence[int]) -> None:
    reader = SqliteReader(written.folder / "mlflow.db")
    runs = [run for run in reader.runs("lr/ppo-cartpole") if "eval/return_mean" in run.latest]
    assert len(runs) == 3
    asked = [replace(run, run_id="0") if index in without else run for index, run in enumerate(runs)]
    assert set(reader.points("", asked, ["eval/return_mean"]).run) == {0, 1, 2} - set(without)


# The server's limits, and the cache.


@pytest.mark.nightly
def test_more_points_than_the_server_gives_in_one_answer_are_all_read(written: Written, server: str) -> None:
    runs = [written.ids["a s=0"], written.ids["b s=0"]]
    cut = urllib.request.urlopen(
        f"{server}{server_module._BULK}?metric_key=eval/return_mean&" + "&".join(f"run_id={run}" for run in runs),
        timeout=60,
    ).read()
    assert len(json.loads(cut)["metrics"]) == server_module.MAX_POINTS  # and not a word of the other 1,100
    served = load_study("long", server)
    assert served.curves["run_id"].value_counts().tolist() == [MORE_THAN_ONE_ANSWER, 100]
    assert_frame_equal(served.curves, load_study("long", uri_of(written.folder)).curves)


class CuttingReader(ServerReader):
    """A server that gives at most two points in one bulk answer, and of a single curve all but the last."""

    def __init__(self, single_is_cut: bool) -> None:
        self._shown, self._single_is_cut, self.requests = "http://cutting", single_is_cut, []

    def _json(self, method: str, path: str, **options: Any) -> dict[str, Any]:
        ids = options["params"]["run_id"]
        self.requests.append(ids)
        bulk = path == server_module._BULK
        points = [
            {"run_id": i, "step": step, "timestamp": step, "value": 1.0}
            for i in (ids if bulk else [ids])
            for step in range(3)
        ]
        return {"metrics": points[:2] if bulk or self._single_is_cut else points}


def test_a_cut_below_the_known_limit_is_noticed_by_the_missing_last_point() -> None:
    runs = [Run(i, i, "FINISHED", 0, 1, "", {}, {}, {"m": server_module.Latest(1.0, 2, 2)}) for i in ("a", "b")]
    store = CuttingReader(single_is_cut=False)
    assert [(row["run_id"], row["step"]) for row in store._history("m", runs)] == [
        (i, step) for i in ("a", "b") for step in range(3)
    ]
    assert store.requests == [["a", "b"], ["a"], "a", ["b"], "b"]
    with pytest.raises(AnalysisError, match="only in part: load the study again"):
        CuttingReader(single_is_cut=True)._history("m", runs)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, list[str]]]:
    """The curves that a server is asked for."""
    asked, history = [], ServerReader._history

    def note(self: ServerReader, metric: str, runs: Sequence[Run]) -> list[dict[str, Any]]:
        asked.append((metric, [run.name for run in runs]))
        return history(self, metric, runs)

    monkeypatch.setattr(ServerReader, "_history", note)
    return asked


def test_reading_that_takes_long_shows_how_far_it_is_on_a_terminal_alone(
    server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(server_module, "SHOW_PROGRESS_AFTER_S", -1.0)
    load_study("lr", server, cache_dir=tmp_path / "one")
    assert capsys.readouterr() == ("", "")
    monkeypatch.setenv("TTY_COMPATIBLE", "1")
    load_study("lr", server, cache_dir=tmp_path / "two")
    out, err = capsys.readouterr()
    assert out == ""
    assert "Reading curves" in err and "4/4" in err


def test_a_second_load_asks_only_for_runs_that_go_on(server: str, asked: list[tuple[str, list[str]]]) -> None:
    first = load_study("lr", server)
    assert {name for _, names in asked for name in names} == {"lr=3e-3 s=0", "lr=1e-3 s=0", "lr=1e-3 s=1"}
    asked.clear()
    assert_frame_equal(load_study("lr", server).curves, first.curves)
    assert asked == [("eval/return_mean", ["lr=1e-3 s=1"])]


def test_a_point_that_was_added_is_read_although_the_rest_is_cached(
    written: Written, server: str, asked: list[tuple[str, list[str]]]
) -> None:
    first = load_study("growing", server)
    asked.clear()
    with closing(sqlite3.connect(written.folder.parent / "served" / "server.db", timeout=20)) as database:
        insert_points(database, written.ids["d s=0"], "eval/return_mean", [(5.5, START_MS + 60_000, 77_000)])
    assert load_study("growing", server).curves["value"].tolist() == [*first.curves["value"], 5.5]
    assert asked == [("eval/return_mean", ["d s=0"])]


@pytest.mark.parametrize("damage", [b"", b"not Parquet", None])
def test_a_damaged_or_unwritable_cache_is_as_good_as_none(damage: bytes | None, server: str, cache_dir: Path) -> None:
    if damage is None:
        cache_dir.write_text("a file where the folder should be")
    first = load_study("lr", server).curves
    if damage is not None:
        files = list(cache_dir.rglob("*.parquet"))
        assert len(files) == 2
        for file in files:
            file.write_bytes(damage)
    assert_frame_equal(load_study("lr", server).curves, first)
