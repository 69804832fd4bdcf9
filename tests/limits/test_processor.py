"""What Linux says of a processor."""

from pathlib import Path

import pytest

from experiments.limits.processor import Processor


@pytest.mark.parametrize(
    ("sold_as", "named"),
    [
        ("AMD EPYC 7763 64-Core Processor", "AMD EPYC 7763 64-Core Processor"),
        ("AMD EPYC", "AMD EPYC (family 25, model 1)"),
        ("Intel Xeon Processor (Skylake)", "Intel Xeon Processor (Skylake) (family 25, model 1)"),
    ],
)
def test_two_designs_that_a_virtual_machine_names_alike_are_told_apart(
    sold_as: str, named: str, tmp_path: Path
) -> None:
    file = tmp_path / "cpuinfo"
    file.write_text(
        f"vendor_id\t: A\ncpu family\t: 25\nmodel\t\t: 1\nmodel name\t: {sold_as}\nflags\t: fma\n\nmodel\t: 2\n"
    )
    assert Processor.read(file) == Processor("A", "25", "1", named, frozenset({"fma"}))
