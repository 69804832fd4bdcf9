"""What becomes of a command whose terminal goes away, is full or cannot show a letter."""

import os
import subprocess
import sys

import pytest

from tests.support.suite import ROOT

WRITE = (
    "import sys; from analysis.document.standard_streams import keep_streams; keep_streams()\n"
    "for _ in range(5000): print('L\\u00fccke \\u2265', sys.argv[1:])\n"
    "print('also here', file=sys.stderr)\n"
    "fd = open('/dev/null').fileno()\n"
    "sys.exit(7 if fd > 2 else 1)\n"
)


def shell(line: str, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), **variables}
    command = ["bash", "-c", line, sys.executable, WRITE]
    return subprocess.run(command, env=environment, capture_output=True, encoding="utf-8", timeout=60, check=False)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ('"$0" -c "$1" | head -1; exit ${PIPESTATUS[0]}', "also here\n"),
        ('"$0" -c "$1" >&-', "also here\n"),
        ('"$0" -c "$1" 2>&-', ""),
        ('"$0" -c "$1" <&- >&- 2>&-', ""),
        (
            '"$0" -c "$1" > /dev/full',
            "standard output cannot be written (No space left on device): the rest of the output is lost\nalso here\n",
        ),
        ('"$0" -c "$1" > /dev/full 2>&1', ""),
    ],
)
def test_a_command_whose_output_nobody_takes_ends_as_it_would_have(line: str, said: str) -> None:
    done = shell(line)
    assert (done.returncode, done.stderr) == (7, said)


@pytest.mark.parametrize(
    ("variables", "shown"),
    [
        ({}, "Lücke \u2265 ['ö']"),
        ({"PYTHONIOENCODING": "ascii"}, "L?cke ? ['?']"),
        ({"LC_ALL": "C", "PYTHONUTF8": "0"}, "L?cke ? ['?']"),
        ({"PYTHONIOENCODING": "latin-1"}, "L\ufffdcke ? ['\ufffd']"),
    ],
)
def test_what_a_terminal_cannot_show_is_replaced(variables: dict[str, str], shown: str) -> None:
    """Two bytes of UTF-8 are a letter of a command line in any locale."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), **variables}
    done = subprocess.run(
        [sys.executable, "-c", WRITE, "ö"], env=environment, capture_output=True, timeout=60, check=False
    )
    assert (done.returncode, done.stderr) == (7, b"also here\n")
    assert done.stdout.decode("utf-8", "replace").splitlines()[0] == shown


@pytest.mark.parametrize("name", ["stdout", "stderr"])
def test_what_is_not_to_be_buffered_is_not(name: str) -> None:
    code = f"""
import os, sys
from analysis.document.standard_streams import keep_streams
keep_streams()
print("here", file=sys.{name})
os._exit(0)
"""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=60, check=False
    )
    assert getattr(done, name) == "here\n"
