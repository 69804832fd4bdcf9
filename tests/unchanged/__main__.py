"""Write the pins anew."""

from tests.support.quick_rllib import quick_rllib
from tests.unchanged.pinned import FOLDER, PINS, text_of

FOLDER.mkdir(exist_ok=True)
with quick_rllib():
    for name, found in PINS.items():
        (FOLDER / f"{name}.json").write_text(text_of(found()))
