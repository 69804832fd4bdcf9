"""A study's own folder in an object store, seen from two machines.

The store is a folder here, which takes no conditional replacements.
"""

import contextlib
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest
from obstore.store import LocalStore, ObjectStore

from experiments.config.errors import ConfigurationError
from experiments.config.output_dir import absolute
from experiments.storage import objects
from experiments.storage.objects import Objects
from experiments.study.files.folder import StudyFolder
from experiments.study.lookup import folder_of
from experiments.study.removal import Holdings, Removal, all_but, held_in, remove
from experiments.tracking.place import Place
from experiments.tracking.study_archive import Stored, StoredRun
from tests.support.planning import composed_for

ADDRESS = "s3://bucket/kept"
WORDS = ("study=smoke", "seeds=[0]", "budget_env_steps=2048", "hardware.num_cpus=2")

On = Callable[[str], StudyFolder]


@pytest.fixture
def on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> On:
    """The study as a machine sees it, of which only the working directory is known."""

    def connected(uri: str, patience_s: float) -> ObjectStore:
        return LocalStore(tmp_path / "store" / uri.replace("://", "/"), mkdir=True)

    def at(machine: str) -> StudyFolder:
        (tmp_path / machine).mkdir(exist_ok=True)
        monkeypatch.chdir(tmp_path / machine)
        return StudyFolder(absolute(ADDRESS) / "studies" / "key-night", "study.key=night")

    monkeypatch.setattr(objects, "_connected", connected)
    return at


def begun(folder: StudyFolder) -> StudyFolder:
    plan, compose = composed_for(*WORDS)
    folder.create(plan, [({}, compose({}))])
    return folder


def test_a_study_goes_on_where_nothing_is_but_its_address(on: On) -> None:
    first = begun(on("first"))
    assert first.place == f"{ADDRESS}/studies/key-night"
    assert first.began_with({"commit": "one"}) == {"commit": "one"}
    first.note({"asked": 1})
    plan, _ = composed_for(*WORDS)
    cluster, tracking = plan.cluster, plan.suite.tracking
    assert first.trial_place(plan.trials[0]) == f"{first.place}/trials/{plan.trials[0].folder_name}"
    first.close()

    second = on("second")
    assert second.is_begun
    assert second.given() == first.given()
    assert second.journal() == [{"asked": 1}]  # before it is this process' study, as in a dry run
    second.lock()
    assert second.began_with({"commit": "another"}) == {"commit": "one"}
    assert second.plan(cluster, tracking).trials == plan.trials
    assert (
        second.standing(plan)
        == "resume      0 trials are finished, 0 go on from a checkpoint, 2 start from the beginning"
    )
    second.note({"asked": 2})
    second.close()

    first.lock()  # what was done elsewhere comes into the copy
    assert first.journal() == [{"asked": 1}, {"asked": 2}]
    first.close()


def test_a_study_that_was_begun_meanwhile_is_not_begun_again(on: On) -> None:
    begun(on("first")).close()
    with pytest.raises(ConfigurationError, match=r"study.key=night: another process has begun the study meanwhile"):
        begun(on("second"))
    assert on("third").is_begun
    assert not Objects(ADDRESS).exists("studies/key-night/lock")


def test_a_copy_of_a_study_that_was_removed_is_not_taken_for_the_new_one(on: On) -> None:
    first = begun(on("first"))
    first.note({"asked": 1})
    first.close()
    remove(Removal(folder=on("second").path), None)
    assert Objects(ADDRESS).names() == []
    again = begun(on("first"))
    assert again.journal() == []
    again.close()


def test_what_a_search_wrote_to_its_database_is_in_the_store_with_the_note_of_it(on: On) -> None:
    first = begun(on("first"))
    with contextlib.closing(sqlite3.connect(first.optuna_storage)) as database:  # open, as Optuna's is
        database.execute("PRAGMA journal_mode=WAL")
        database.execute("CREATE TABLE trials (point TEXT)")
        database.execute("INSERT INTO trials VALUES ('lr=0.1')")
        database.commit()
        first.note({"asked": 1})
        first.close()
    second = on("second")
    second.lock()
    with contextlib.closing(sqlite3.connect(second.optuna_storage)) as database:
        assert database.execute("SELECT point FROM trials").fetchall() == [("lr=0.1",)]
    second.close()


def test_a_study_is_found_by_its_address_where_it_is_said_to_be_ones_own(on: On, tmp_path: Path) -> None:
    begun(on("first")).close()
    address, store = f"{ADDRESS}/studies/key-night", f"sqlite:///{tmp_path / 'mlflow.db'}"
    second = on("second")
    assert folder_of(address, Place(absolute(ADDRESS), store)) == second.path
    with pytest.raises(
        ConfigurationError, match=f"the study is in {address}. Say that it is yours: output_dir={ADDRESS}"
    ):
        folder_of(address, Place(tmp_path, store))


def test_the_checkpoints_of_other_trials_are_removed_from_the_store(on: On) -> None:
    begun(on("first")).close()
    study = Objects(f"{ADDRESS}/studies/key-night")
    for trial in ("kept", "other"):
        study.write(f"trials/{trial}/checkpoints/000000001024.tar", b"12345")
        study.write(f"trials/{trial}/events/000001.jsonl", b"{}")
    folder = on("second").path
    runs = tuple(StoredRun(name, name, name, "FINISHED", "1", "") for name in ("kept", "other"))
    found = Holdings(folder, absolute(ADDRESS), Stored(runs[0], runs, (), ()))
    removal = all_but(found, {"kept"})
    assert removal.paths == {"checkpoints": (folder / "trials" / "other" / "checkpoints",)}
    assert removal.size == held_in(folder / "trials" / "other" / "checkpoints") == 5
    remove(removal, None)
    left = [name for name in study.names() if name.startswith("trials/")]
    assert left == [
        "trials/kept/checkpoints/000000001024.tar",
        *(f"trials/{trial}/events/000001.jsonl" for trial in ("kept", "other")),
    ]
