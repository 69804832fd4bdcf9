import gc
import subprocess
import sys

import pytest

from analysis.document.garbage import without_collections

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
    program = f"import gc\ngc.disable()\nfrom analysis.document.garbage import end_quickly\n{first}\n{CYCLE}"
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ended.stdout == said


def test_nothing_is_collected_while_a_page_is_built_and_then_as_before() -> None:
    for were_on in (True, False):
        (gc.enable if were_on else gc.disable)()
        try:
            with without_collections():
                assert not gc.isenabled()
            assert gc.isenabled() == were_on
        finally:
            gc.enable()
