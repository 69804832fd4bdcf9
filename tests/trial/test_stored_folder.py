"""What survives a trial's process in an object store, which is in memory here, and comes to another machine."""

import json
from pathlib import Path

import pytest
from obstore.store import MemoryStore

from experiments.contract import FAILED, FINISHED, PRUNED
from experiments.storage.objects import Objects
from experiments.trial.event_log import DamagedFileError, RefusedEventError
from experiments.trial.events import Ended, Reported, Started
from experiments.trial.folder import ERROR_FILE, STATE_FILE, TrialFolder, check_checkpoint, damage_of
from experiments.trial.stored_folder import StoredTrialFolder, folder_at

NAME = "gamma=0.9 s=0"


@pytest.fixture
def study() -> Objects:
    return Objects("s3://bucket/study", store=MemoryStore(), prefix="study/")


def on_machine(study: Objects, machine: Path, name: str = NAME) -> StoredTrialFolder:
    opened = StoredTrialFolder(study, name, machine / "trials" / name)
    opened.open()
    return opened


def save(folder: TrialFolder, env_steps: int, return_mean: float = 0.0, keep: int = 2, keep_best: bool = False) -> Path:
    content = json.dumps({"return_mean": return_mean})
    return folder.add_checkpoint(
        env_steps, folder.log.attempt, lambda path: (path / STATE_FILE).write_text(content), keep, keep_best
    )  # type: ignore[arg-type,return-value]


def test_events_are_in_the_store_and_those_of_an_earlier_attempt_are_refused(study: Objects, tmp_path: Path) -> None:
    first, second = (on_machine(study, tmp_path / machine).log for machine in ("a", "b"))
    first.add(Started())
    first.add(Reported(env_steps=1000, metrics={"x": 0.1 + 0.2, "y": -0.0}), attempt=1)
    second.add(Started())
    with pytest.raises(RefusedEventError, match="attempt 1 is over, attempt 2 has begun"):
        first.add(Reported(env_steps=2000, metrics={}), attempt=1)
    second.add(Ended(status=FINISHED, env_steps=2000, weights="ab"), attempt=2)
    found = on_machine(study, tmp_path / "c").log.all()
    assert [(event.kind, event.number, event.attempt) for event in found] == [
        ("started", 1, 1),
        ("reported", 2, 1),
        ("started", 3, 2),
        ("ended", 4, 2),
    ]
    assert isinstance(found[1], Reported)
    assert repr(found[1].metrics) == repr({"x": 0.1 + 0.2, "y": -0.0})


def test_a_log_that_lacks_an_event_names_the_folder_to_remove(study: Objects, tmp_path: Path) -> None:
    folder = on_machine(study, tmp_path)
    for _ in range(3):
        folder.log.add(Started())
    study.remove([f"trials/{NAME}/events/000002.jsonl"])
    with pytest.raises(
        DamagedFileError, match=f"lacks the event 2. Remove the folder s3://bucket/study/trials/{NAME} to run"
    ):
        on_machine(study, tmp_path / "b").log.all()


def test_a_log_is_read_with_a_request_for_every_16_events(
    study: Objects, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log, other, read = on_machine(study, tmp_path).log, on_machine(study, tmp_path / "b").log, []
    for _ in range(20):
        log.add(Started())
        other.add(Started())
    versioned = Objects.versioned
    monkeypatch.setattr(Objects, "versioned", lambda self, name: read.append(name) or versioned(self, name))  # type: ignore[func-returns-value]
    assert [event.number for event in on_machine(study, tmp_path / "c").log.all()] == list(range(1, 41))
    assert sorted(read) == [f"{number:06d}.jsonl" for number in (16, 32, *range(33, 41))]
    read.clear()
    assert [event.number for event in other.new()] == []
    assert [event.number for event in log.new()] == [40]
    assert read == ["000040.jsonl"]


def test_a_checkpoint_comes_to_another_machine_and_goes_where_the_policy_does_not_keep_it(
    study: Objects, tmp_path: Path
) -> None:
    first = on_machine(study, tmp_path / "a")
    for env_steps, return_mean in ((1000, 5.0), (2000, 9.0), (3000, 1.0), (4000, 2.0)):
        save(first, env_steps, return_mean, keep=1, keep_best=True)
    assert first.saved() == [2000, 4000]
    second = on_machine(study, tmp_path / "b")
    assert [int(path.name) for path in second.checkpoints()] == [2000, 4000]
    assert all(damage_of(path) == "" for path in second.checkpoints())
    save(second, 5000, 3.0, keep=1, keep_best=True)
    assert first.saved() == [2000, 5000]


def test_a_checkpoint_that_the_store_does_not_take_leaves_the_earlier_ones(
    study: Objects, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = on_machine(study, tmp_path)
    save(folder, 1000, keep=1)

    def refuse(self: Objects, name: str, content: bytes | Path) -> None:
        raise OSError(5, "no answer", name)

    monkeypatch.setattr(Objects, "write", refuse)
    with pytest.raises(OSError, match="no answer"):
        save(folder, 2000, keep=1)
    assert folder.saved() == [1000]


def test_a_trial_takes_the_checkpoint_of_another_and_the_files_of_its_study(study: Objects, tmp_path: Path) -> None:
    save(on_machine(study, tmp_path / "a", "parent"), 3000, 7.0)
    study.write("start.npz", b"weights")
    child = on_machine(study, tmp_path / "b", "child")
    taken = child.beside("parent").take(3000)
    check_checkpoint(taken)
    assert json.loads((taken / STATE_FILE).read_text()) == {"return_mean": 7.0}
    assert child.of_study("start.npz").read_bytes() == b"weights"
    assert child.saved() == []


def test_what_a_trial_began_with_and_said_comes_with_its_folder(study: Objects, tmp_path: Path) -> None:
    driver = StoredTrialFolder(study, NAME, tmp_path / "driver" / "trials" / NAME)
    assert driver.began_with({"commit": "one"}) == {"commit": "one"}
    assert driver.began_with({"commit": "another"}) == {"commit": "one"}
    folder = on_machine(study, tmp_path / "a")
    (folder.path / ERROR_FILE).write_text("Traceback")
    (tmp_path / "stdout").write_text("what an environment printed")
    folder.close(logs=tmp_path)
    driver.fetch()
    found = {file.name: file.read_text() for file in driver.path.iterdir() if file.is_file()}
    assert found == {
        "provenance.json": '{"commit": "one"}',
        ERROR_FILE: "Traceback",
        "stdout": "what an environment printed",
    }


def test_a_place_is_a_folder_or_an_address(tmp_path: Path) -> None:
    assert type(folder_at(str(tmp_path / "trials" / NAME))) is TrialFolder
    assert not (tmp_path / "trials").exists()
    stored = folder_at(f"s3://bucket/study/trials/{NAME}")
    assert isinstance(stored, StoredTrialFolder)
    assert stored.log._storage.place == f"s3://bucket/study/trials/{NAME}/events"
    stored.close()
    assert not stored.path.parent.parent.exists()  # what is on this machine is for the process that trains


def test_once_it_is_over_a_file_is_left_out_in_the_store_as_well(study: Objects, tmp_path: Path) -> None:
    def write(path: Path) -> None:
        (path / STATE_FILE).write_text(json.dumps({"return_mean": 0.0}))
        (path / "samples").write_text("many")

    folder = on_machine(study, tmp_path / "a")
    folder.log.add(Started())
    for env_steps in (1000, 2000):
        folder.add_checkpoint(env_steps, 1, write, keep=2, keep_best=False)
    folder.log.add(Ended(status=FAILED, env_steps=2000))
    assert not folder.leave_out_once_over("samples")  # it may be tried again
    folder.log.add(Started())
    folder.log.add(Ended(status=PRUNED, env_steps=2000))
    assert folder.leave_out_once_over("samples")
    found = on_machine(study, tmp_path / "b").checkpoints()
    assert [sorted(file.name for file in path.iterdir()) for path in found] == [["complete.json", STATE_FILE]] * 2
    assert not any(damage_of(path) for path in found)


def test_a_copy_of_another_trials_checkpoint_is_in_the_store(study: Objects, tmp_path: Path) -> None:
    local = TrialFolder(tmp_path / "local")
    local.open()
    on_machine(study, tmp_path / "a").copy_checkpoint(save(local, 1000, 1.0))
    copy = on_machine(study, tmp_path / "b")
    assert copy.saved() == [1000]
    check_checkpoint(copy.take(1000))
