"""TensorBoard's files, read back; and a disk that takes no more."""

import resource
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from tensorboardX.proto import event_pb2

from experiments.contract import FINISHED
from experiments.tracking.tensorboard import TensorBoardListener
from experiments.trial.events import Ended, Reported
from tests.support.suite import PlanOf


def written(folder: Path) -> list[tuple[int, dict[str, float]]]:
    """Step and values of each record, of all files of a trial."""
    found = []
    for path in sorted(folder.iterdir()):
        content = path.read_bytes()
        while len(content) >= 12:
            size = int.from_bytes(content[:8], "little")
            if len(content) < size + 16:  # half a record, where the disk was full
                break
            event = event_pb2.Event.FromString(content[12 : 12 + size])
            if event.summary.value:
                found.append((event.step, {value.tag: value.simple_value for value in event.summary.value}))
            content = content[16 + size :]
    return found


def reported(env_steps: int, num: int = 1) -> Reported:
    return Reported(env_steps=env_steps, metrics={f"metric/{i}": 0.5 for i in range(num)})


def test_reports_and_the_end_are_written_once_over_env_steps(plan_of: PlanOf, tmp_path: Path) -> None:
    listener, trial = TensorBoardListener(tmp_path), plan_of("study=smoke").trials[0]
    end = Ended(status=FINISHED, env_steps=2000, metrics={"final/score": 7.0})
    for event in (reported(1000), reported(1000), reported(2000), end, end):
        listener.on_event(trial, event)
    assert written(tmp_path / trial.folder_name) == [
        (1000, {"metric/0": 0.5}),
        (2000, {"metric/0": 0.5}),
        (2000, {"final/score": 7.0}),
    ]


@pytest.fixture
def small_files() -> Iterator[None]:
    """The system lets no file of this process grow beyond 4000 bytes: a write is cut short there, as on a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4000, hard))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.usefixtures("small_files")
def test_a_disk_that_takes_no_more_holds_up_no_study_and_later_reports_are_there(
    plan_of: PlanOf, tmp_path: Path
) -> None:
    listener, trial = TensorBoardListener(tmp_path), plan_of("study=smoke").trials[0]
    for env_steps, num in ((1000, 1), (2000, 1000), (3000, 1)):
        listener.on_event(trial, reported(env_steps, num))
    listener.on_event(replace(trial, seed=7), reported(1000))
    assert [env_steps for env_steps, _ in written(tmp_path / trial.folder_name)] == [1000, 3000]
