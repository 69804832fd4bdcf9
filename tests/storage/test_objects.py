"""Objects in a store that is in memory: what the stores of clouds do is tested with a server, in tests/system."""

from pathlib import Path

import pytest
from obstore.store import MemoryStore

from experiments.storage.objects import Objects


@pytest.fixture
def objects() -> Objects:
    return Objects("s3://bucket/study", store=MemoryStore(), prefix="study/")


def test_an_object_that_is_there_is_not_created_again_unless_it_is_the_same(objects: Objects) -> None:
    version = objects.create("events/1", b"mine")
    assert objects.create("events/1", b"mine") == version  # the answer to a first request was lost
    with pytest.raises(FileExistsError, match="s3://bucket/study/events/1"):
        objects.create("events/1", b"another's")
    assert objects.read("events/1") == b"mine"


def test_an_object_is_replaced_by_who_knows_its_version_alone(objects: Objects) -> None:
    first = objects.create("lock", b"mine")
    second = objects.replace("lock", b"mine again", first)
    with pytest.raises(FileExistsError):
        objects.replace("lock", b"another's", first)
    with pytest.raises(FileExistsError):
        objects.replace("gone", b"another's", second)
    assert objects.versioned("lock") == (b"mine again", second)


def test_names_are_those_below_and_files_those_beside_the_folders(objects: Objects) -> None:
    trial = objects.below("trials/gamma=0.9 s=0")
    for name in ("events/10", "events/2", "provenance.json"):
        trial.write(name, name.encode())
    objects.below("trials/gamma=0.9 s=01").write("events/1", b"")
    assert trial.names() == ["events/10", "events/2", "provenance.json"]
    assert trial.files() == ["provenance.json"]
    assert trial.below("events").names() == ["10", "2"]
    assert trial.read_all(["events/10", "events/2"]) == [b"events/10", b"events/2"]
    assert trial.folders() == ["events"]
    assert trial.sizes() == {"events/10": 9, "events/2": 8, "provenance.json": 15}
    trial.remove(trial.names())
    assert objects.names() == ["trials/gamma=0.9 s=01/events/1"]
    assert not trial.exists("provenance.json")


def test_a_folder_is_one_object_and_comes_back_in_the_place_of_what_was_there(objects: Objects, tmp_path: Path) -> None:
    (tmp_path / "saved" / "learner").mkdir(parents=True)
    (tmp_path / "saved" / "learner" / "weights").write_bytes(b"\x00\x01")
    (tmp_path / "saved" / "state.json").write_text("{}")
    objects.write_folder("checkpoints/1.tar", tmp_path / "saved")
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "old").touch()
    objects.read_folder("checkpoints/1.tar", tmp_path / "there")
    found = {
        str(p.relative_to(tmp_path / "there")): p.read_bytes() for p in (tmp_path / "there").rglob("*") if p.is_file()
    }
    assert found == {"learner/weights": b"\x00\x01", "state.json": b"{}"}
    assert objects.names() == ["checkpoints/1.tar"]


def test_what_is_not_there_is_named_with_its_address(objects: Objects, tmp_path: Path) -> None:
    for read in (lambda: objects.read("gone"), lambda: objects.read_folder("gone", tmp_path / "into")):
        with pytest.raises(FileNotFoundError, match="s3://bucket/study/gone"):
            read()
    assert not (tmp_path / "into").exists()


def test_an_address_of_no_store_is_refused_with_those_that_are_known() -> None:
    with pytest.raises(OSError, match=r"only s3://, gs://, az:// are known.*hdfs://host/path"):
        Objects("hdfs://host/path")
