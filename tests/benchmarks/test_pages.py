"""Pages that keep what was measured on other machines."""

from benchmarks.support.fallen import fallen
from benchmarks.support.pages import machine_of, part_of, with_others

PAGE = """# Title

**Met: {ratio}.**

What is compared.

- Command: `python -m benchmarks fast`
- Machine: {machine}; load 1

## Table

|  | fast / it |
| --- | ---: |
| PPO | {ratio} (1.00-9.00) |

## Notes

The same everywhere.
"""


def page(machine: str, ratio: str) -> str:
    return PAGE.format(machine=machine, ratio=ratio)


def test_each_machine_keeps_its_newest_numbers() -> None:
    found = ""
    for machine, ratio in (("a", "1.00"), ("b", "2.00"), ("a", "3.00"), ("c", "4.00")):
        found = with_others(page(machine, ratio), found)
    assert found.startswith(page("c", "4.00"))
    headings = [line for line in found.splitlines() if line.startswith("## ")]
    assert headings == ["## Table", "## Notes", "## On a", "## On b"]
    assert found.count("**Met: 3.00.**") == found.count("| PPO | 2.00 (1.00-9.00) |") == 1
    assert "1.00." not in found and found.count("The same everywhere.") == 1
    assert [machine_of(part_of(found, machine)) for machine in "abcd"] == ["a", "b", "c", ""]


def test_a_ratio_is_held_against_that_of_the_same_machine() -> None:
    pages = with_others(page("b", "9.00"), page("a", "5.00"))
    now = page("a", "0.50").replace("1.00-9.00", "0.40-0.60")
    (said,) = fallen(part_of(pages, "a"), now, {"fast / it": True})
    assert said == "PPO: fast / it fell to 0.5 (0.4-0.6) from 5 (1-9)"
    assert not fallen(part_of(pages, "c"), now, {"fast / it": True})
