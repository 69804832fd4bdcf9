"""What a trial tells of its memory."""

import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import psutil

from experiments.trial.usage.memory_use import MemoryUse, leave, left

_HELD = "import sys; held = bytearray(64 * 2**20); print('there', flush=True); sys.stdin.read()"


def test_each_peak_of_all_the_processes_is_told_and_nothing_less() -> None:
    told: list[int] = []
    has_told = threading.Event()

    def tell(size: int) -> None:
        told.append(size)
        has_told.set()

    use = MemoryUse(tell)
    try:
        assert has_told.wait(30)
        own = psutil.Process().memory_info().rss
        assert abs(told[0] - own) < 100 * 2**20
        with subprocess.Popen([sys.executable, "-c", _HELD], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
            assert other.stdout is not None and other.stdout.readline() == b"there\n"
            has_told.clear()
            use.add([psutil.Process(other.pid)])
            assert has_told.wait(30)
            other.communicate()
        with_other = told[-1]
        assert with_other >= told[0] + 64 * 2**20
        has_told.clear()
        held = np.ones(256 * 2**20, np.uint8)  # more than the other had, which is gone
        assert has_told.wait(30)
        assert told[-1] > with_other and told == sorted(told)
        del held
    finally:
        use.close()


def test_the_driver_finds_the_last_peak_that_was_left_if_there_is_one(tmp_path: Path) -> None:
    assert left(tmp_path) is None
    leave(tmp_path, 1, 5 * 2**30)
    leave(tmp_path, 2, 3 * 2**30)
    assert left(tmp_path) == (2, 3 * 2**30)
