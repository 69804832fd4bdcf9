"""This machine's processor, by Linux."""

import platform
from dataclasses import dataclass
from functools import cache
from pathlib import Path

CPUINFO = Path("/proc/cpuinfo")
_VECTOR = ("avx", "avx2", "fma", "avx_vnni", "avx512f", "avx512bw", "avx512_vnni", "avx512_bf16", "amx_tile")
"""Instructions that kernels of matrices and sums are chosen by, the oldest first."""


@dataclass(frozen=True)
class Processor:
    """A processor.

    Attributes:
        vendor: As it names itself: `GenuineIntel`, `AuthenticAMD`; "" where it is not known.
        family: Generations that the vendor counts as one, such as "25" for AMD's Zen 3 and 4.
        model: Number of the design within the family.
        name: What it is sold as; with family and model where that names no design, as on virtual machines.
        flags: Names of its instructions and the like.
    """

    vendor: str = ""
    family: str = ""
    model: str = ""
    name: str = ""
    flags: frozenset[str] = frozenset()

    @classmethod
    def read(cls, cpuinfo: Path = CPUINFO) -> "Processor":
        """The first one that Linux lists.

        Args:
            cpuinfo: File with a block of `name : value` for each, as /proc/cpuinfo.
        """
        try:
            first = cpuinfo.read_text().partition("\n\n")[0]
        except OSError:
            return cls(name=platform.processor())
        fields = (line.partition(":") for line in first.splitlines())
        facts = {name.strip(): value.strip() for name, _, value in fields}
        family, model = facts.get("cpu family", ""), facts.get("model", "")
        name = facts.get("model name") or platform.processor()
        if family and not any(character.isdigit() for character in name):  # virtual machines hide it: "AMD EPYC"
            name = f"{name} (family {family}, model {model})".strip()
        return cls(
            facts.get("vendor_id", ""),
            family,
            model,
            name,
            frozenset(facts.get("flags", "").split()),
        )

    @property
    def is_intel(self) -> bool:
        """Whether Intel made it."""
        return self.vendor == "GenuineIntel"

    @property
    def vector_instructions(self) -> tuple[str, ...]:
        """Those that kernels of matrices and sums are chosen by."""
        return tuple(name for name in _VECTOR if name in self.flags)


@cache
def this_processor() -> Processor:
    """That of this machine."""
    return Processor.read()
