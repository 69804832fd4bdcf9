"""Plans are those of before: an id that changed would part the trials of a store from those to come."""

import json
from typing import Any

import pytest

from tests.unchanged.pinned import FOLDER, STUDIES, config_ids, plan, text_of


def pins(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((FOLDER / f"{name}.json").read_text())
    return found


def test_configuration_ids_are_as_they_were() -> None:
    assert config_ids() == pins("config_ids")


@pytest.mark.slow
@pytest.mark.parametrize("words", STUDIES)
def test_plans_are_as_they_were(words: str) -> None:
    before = {name: pinned for name, pinned in pins("plans").items() if name.partition(": ")[0] == words}
    assert json.loads(text_of(plan(words))) == before
