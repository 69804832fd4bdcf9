"""Every command says what it does."""

import re
from pathlib import Path

import pytest

from tests.support.commands import run_here
from tests.support.suite import ROOT

COMMANDS = sorted(
    str(path.relative_to(ROOT))
    for folder in ("experiments", "analysis")
    for path in (ROOT / folder).glob("*.py")
    if "__main__" in path.read_text() and path.stem not in ("rl_scaling", "completion")
)


@pytest.mark.parametrize("flag", ["--help", "-h"])
@pytest.mark.parametrize("script", COMMANDS)
def test_every_command_has_help(script: str, flag: str) -> None:
    said = run_here(script, flag)
    assert (said.returncode, said.stderr) == (0, "")
    assert re.search(rf"python {script}|rl-scaling {Path(script).stem}", said.stdout)
    assert re.search(r"exit codes: 0", said.stdout, re.IGNORECASE)
