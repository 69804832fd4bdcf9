"""Pages of benchmarks against those of a later run."""

import pytest

from benchmarks.support.fallen import fallen
from benchmarks.support.harness import Report, Table

COLUMNS = ("", "against", "env steps/s", "fast / it", "stock / it")
GUARDED = {"fast / it": True, "stock / it": False}


def page(ratio: str, other: str = "0.50 (0.40-0.60)") -> str:
    rows = (
        ("PPO, 128", "stock", "1,000 (900-1,100)", ratio, other),
        ("PPO, 128", "sb3", "500 (1-2)", "9.00 (8.00-10.00)", ""),
    )
    table = Table("Learners", COLUMNS, rows, "Median.", GUARDED)
    return Report("fast", "Fast", "One against another.", "Met.", (table,)).markdown()


@pytest.mark.parametrize(
    ("now", "other", "said"),
    [
        ("5.00 (4.50-5.50)", "0.50 (0.40-0.60)", []),
        ("4.60 (4.00-5.20)", "0.55 (0.40-0.70)", []),
        ("4.00 (3.00-5.20)", "0.70 (0.45-0.90)", []),
        ("2.00 (2.00-2.00)", "0.90 (0.90-0.90)", []),
        ("4.00 (3.80-4.40)", "0.40 (0.30-0.45)", ["fast / it fell to 4 (3.8-4.4) from 5 (4.5-5.5)"]),
        ("6.00 (5.80-6.40)", "0.70 (0.65-0.90)", ["stock / it rose to 0.7 (0.65-0.9) from 0.5 (0.4-0.6)"]),
    ],
    ids=["as before", "within the range", "ranges that overlap", "a single turn", "slower", "dearer"],
)
def test_what_is_worse_by_more_than_both_vary_is_named(now: str, other: str, said: list[str]) -> None:
    found = fallen(page("5.00 (4.50-5.50)"), page(now, other), GUARDED)
    assert found == [f"PPO, 128, stock: {each}" for each in said]
