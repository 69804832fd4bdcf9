"""What survives a trial's process, without Ray."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from experiments.trial.event_log import DamagedFileError, RefusedEventError
from experiments.trial.events import Started
from experiments.trial.folder import STATE_FILE, TrialFolder, check_checkpoint, locked


@pytest.fixture
def folder(tmp_path: Path) -> TrialFolder:
    opened = TrialFolder(tmp_path / "trial")
    opened.open()
    return opened


def save(
    folder: TrialFolder, env_steps: int, return_mean: float | None = None, keep: int = 2, keep_best: bool = False
) -> Path:
    content = json.dumps({"return_mean": return_mean})
    return folder.add_checkpoint(
        env_steps, folder.log.attempt, lambda path: (path / STATE_FILE).write_text(content), keep, keep_best
    )  # type: ignore[arg-type,return-value]


def test_the_newest_checkpoints_are_kept_and_the_best_if_asked(folder: TrialFolder) -> None:
    for env_steps, return_mean in ((1000, 5.0), (2000, 9.0), (3000, None), (4000, 1.0), (5000, 2.0)):
        save(folder, env_steps, return_mean, keep=2, keep_best=True)
    assert [int(p.name) for p in folder.checkpoints()] == [2000, 4000, 5000]
    save(folder, 6000, 3.0, keep=1)
    assert [int(p.name) for p in folder.checkpoints()] == [6000]


def test_a_checkpoint_that_cannot_be_written_leaves_the_earlier_ones(folder: TrialFolder) -> None:
    kept = save(folder, 1000)

    def fail(path: Path) -> None:
        (path / STATE_FILE).write_text("half")
        raise OSError(28, "No space left on device", str(path))

    with pytest.raises(OSError, match="No space left"):
        folder.add_checkpoint(2000, 0, fail, 1, keep_best=False)
    assert folder.checkpoints() == [kept]
    assert [p.name for p in kept.parent.iterdir()] == [kept.name]


def test_a_checkpoint_can_be_written_again(folder: TrialFolder) -> None:
    save(folder, 1000, 1.0)
    again = save(folder, 1000, 2.0)
    assert json.loads((again / STATE_FILE).read_text()) == {"return_mean": 2.0}


@pytest.mark.parametrize("damage", ["truncate", "remove", "sizes"])
def test_a_damaged_checkpoint_is_found_and_named(folder: TrialFolder, damage: str) -> None:
    path = save(folder, 1000, 1.0)
    check_checkpoint(path)
    state = path / STATE_FILE
    if damage == "truncate":
        state.write_text(state.read_text()[:5])
    else:
        (state if damage == "remove" else path / "complete.json").unlink()
    with pytest.raises(DamagedFileError, match=rf"{path}/.*Remove the folder {path}"):
        check_checkpoint(path)


def test_a_copy_of_another_trials_checkpoint_is_whole(folder: TrialFolder, tmp_path: Path) -> None:
    own, other = save(folder, 1000, 1.0), TrialFolder(tmp_path / "other")
    other.copy_checkpoint(own)
    (copy,) = other.checkpoints()
    check_checkpoint(copy)
    assert copy.name == own.name
    assert (copy / STATE_FILE).read_text() == (own / STATE_FILE).read_text()


def test_a_checkpoint_of_an_earlier_attempt_is_refused_and_changes_nothing(folder: TrialFolder) -> None:
    late = TrialFolder(folder.path)
    folder.log.add(Started())
    late.log.new()
    late.log.add(Started())
    kept = save(late, 1000, 2.0)

    def write(path: Path) -> None:
        (path / STATE_FILE).write_text(json.dumps({"return_mean": 1.0}))

    for env_steps in (1000, 2000):
        with pytest.raises(RefusedEventError, match="attempt 1 is over, attempt 2 has begun"):
            folder.add_checkpoint(env_steps, 1, write, 1, keep_best=False)
    assert list(kept.parent.iterdir()) == [kept]
    assert json.loads((kept / STATE_FILE).read_text()) == {"return_mean": 2.0}


def test_what_a_killed_attempt_left_of_a_checkpoint_is_removed_by_the_next(folder: TrialFolder) -> None:
    for left in ("000000001000.partial", "000000002000.1.partial"):
        (folder.path / "checkpoints" / left).mkdir(parents=True)
    folder.log.add(Started())
    folder.log.add(Started())
    kept = save(folder, 3000)
    assert list(kept.parent.iterdir()) == [kept]


def test_a_process_at_work_keeps_its_folder_from_being_deleted_and_others_from_nothing(folder: TrialFolder) -> None:
    other = TrialFolder(folder.path)
    other.open()
    folder.close()
    with (folder.path / "lock").open("a+") as file:
        assert not locked(file)
        other.close()
        assert locked(file)


def test_a_killed_process_lets_go_of_its_folder(tmp_path: Path) -> None:
    hold = (
        f"import sys, time\nfrom pathlib import Path\nfrom experiments.trial.folder import TrialFolder\n"
        f"TrialFolder(Path({str(tmp_path / 'trial')!r})).open()\nprint('open', flush=True)\ntime.sleep(600)"
    )
    process = subprocess.Popen([sys.executable, "-c", hold], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "open\n"
    finally:
        process.kill()
        process.wait()
    with (tmp_path / "trial" / "lock").open("a+") as file:
        assert locked(file)


def test_what_a_process_printed_is_added_to_the_trials_files(folder: TrialFolder, tmp_path: Path) -> None:
    (tmp_path / "stdout").write_text("first\n")
    (tmp_path / "stderr").touch()
    folder.close(logs=tmp_path)
    (tmp_path / "stdout").write_text("second\n")
    folder.close(logs=tmp_path)
    assert (folder.path / "stdout").read_text() == "first\nsecond\n"
    assert not (folder.path / "stderr").exists()
