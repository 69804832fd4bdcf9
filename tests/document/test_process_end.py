import subprocess
import sys

import pytest

CYCLE = """
class Cycle:
    def __init__(self):
        self.itself = self

    def __del__(self):
        print("looked at", flush=True)

Cycle()
"""


@pytest.mark.parametrize(("first", "said"), [("", "looked at\n"), ("end_quickly()", "")])
def test_python_does_not_look_for_cycles_at_the_end(first: str, said: str) -> None:
    program = f"import gc\ngc.disable()\nfrom analysis.document.process_end import end_quickly\n{first}\n{CYCLE}"
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ended.stdout == said
