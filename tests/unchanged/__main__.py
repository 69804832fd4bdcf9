"""Write the pins anew.

Where settings changed that `tests/system/test_portable.py` trains with, its weights are written anew by a command of
their own, in two minutes: `python -m tests.system.test_portable`.

Those of an earlier commit's own, the frames and the events of its studies, stay as it gave them.
"""

import tempfile
from pathlib import Path

from analysis.load import load_study
from tests.support.quick_rllib import quick_rllib
from tests.unchanged.old import report_of, unpack
from tests.unchanged.pinned import FOLDER, PINS, text_of

with quick_rllib():
    for name, found in PINS.items():
        (FOLDER / f"{name}.json").write_text(text_of(found()))
with tempfile.TemporaryDirectory() as folder:
    out, _ = unpack(Path(folder))
    (FOLDER / "report.txt").write_text(report_of(load_study("smoke", f"sqlite:///{out}/mlflow.db"), out))
