"""Several studies, one after the other (`--multirun`): each in a process of its own, which starts and ends its Ray."""

import shlex
import subprocess
from collections.abc import Sequence

from experiments.signals import received_by

INTERRUPTED = (129, 130, 143)
"""Exit codes of a study that a signal ended in good order."""


def run_each(command: Sequence[str], jobs: Sequence[Sequence[str]]) -> int:
    """Run studies one after the other.

    Args:
        command: What runs one, without its settings: Python and a script.
        jobs: The settings of each.

    Returns:
        The worst exit code, which is the highest. A study that was interrupted is the last.
    """
    worst, signals, running = 0, list[int](), list[subprocess.Popen[bytes]]()

    def pass_on(number: int, _: object) -> None:
        signals.append(number)
        for study in running:
            study.send_signal(number)

    with received_by(pass_on):
        for at, job in enumerate(jobs, start=1):
            print(f"study {at} of {len(jobs)}: {shlex.join(job)}", flush=True)
            # In a group of its own: else it would hear twice what a terminal sends to all,
            # and a second signal ends it without grace.
            running[:] = [subprocess.Popen([*command, *job], stdin=subprocess.DEVNULL, process_group=0)]
            for number in signals:  # that came meanwhile
                running[0].send_signal(number)
            code = running[0].wait()
            worst = max(worst, code if code >= 0 else 128 - code)
            if signals or code in INTERRUPTED:
                break
    return max(worst, 128 + signals[0]) if signals else worst
