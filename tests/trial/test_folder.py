"""What survives a trial's process, without Ray."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from experiments.trial.event_log import DamagedFileError
from experiments.trial.folder import STATE_FILE, TrialFolder, check_checkpoint


@pytest.fixture
def folder(tmp_path: Path) -> TrialFolder:
    opened = TrialFolder(tmp_path / "trial")
    opened.open()
    return opened


def save(folder: TrialFolder, env_steps: int, return_mean: float | None = None, keep: int = 2, keep_best: bool = False) -> Path:
    content = json.dumps({"return_mean": return_mean})
    return folder.add_checkpoint(env_steps, lambda path: (path / STATE_FILE).write_text(content), keep, keep_best)  # type: ignore[arg-type,return-value]


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
        folder.add_checkpoint(2000, fail, 1, keep_best=False)
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


def test_only_one_process_writes_in_a_folder(folder: TrialFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("experiments.trial.folder._LOCK_WAIT_S", 0.2)
    with pytest.raises(RuntimeError, match="in use by another process"):
        TrialFolder(folder.path).open()
    folder.close()
    TrialFolder(folder.path).open()


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
    TrialFolder(tmp_path / "trial").open()


def test_signs_of_life_are_seen_from_outside(folder: TrialFolder) -> None:
    assert TrialFolder(folder.path.parent / "none").last_heartbeat() is None
    first = folder.last_heartbeat()
    assert first is not None
    folder._next_heartbeat = 0.0
    (folder.path / "heartbeat").unlink()
    folder.heartbeat()
    assert folder.last_heartbeat() is not None


def test_what_a_process_printed_is_added_to_the_trials_files(folder: TrialFolder, tmp_path: Path) -> None:
    (tmp_path / "stdout").write_text("first\n")
    (tmp_path / "stderr").touch()
    folder.close(logs=tmp_path)
    (tmp_path / "stdout").write_text("second\n")
    folder.close(logs=tmp_path)
    assert (folder.path / "stdout").read_text() == "first\nsecond\n"
    assert not (folder.path / "stderr").exists()
