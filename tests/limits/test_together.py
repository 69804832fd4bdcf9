"""How much slower cores are together."""

import pytest

from experiments.limits import together
from experiments.limits.together import slowdown


@pytest.mark.parametrize(("of_both", "times"), [(100.0, 2.0), (160.0, 1.25), (200.0, 1.0), (210.0, 1.0)])
def test_it_is_what_each_lacks_of_what_it_does_alone(
    monkeypatch: pytest.MonkeyPatch, of_both: float, times: float
) -> None:
    monkeypatch.setattr(together, "_rate", {1: 100.0, 2: of_both}.__getitem__)
    assert slowdown.__wrapped__(2) == pytest.approx(times)
    assert slowdown.__wrapped__(1) == 1.0


def test_more_threads_than_cores_come_to_an_end() -> None:
    assert together._rate(8) > 0
    assert slowdown(2) >= 1
