"""The changes around a trial that ran twice, or need not run a second time."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from experiments.limits.arithmetic import NATIVE, PORTABLE, Bits

_NONE = "none"
_SECTIONS = ("versions", "environment", "arithmetic", "host", "packages")
"""Of a provenance record, by name and fact, the likeliest cause of another result first."""


@dataclass(frozen=True)
class Change:
    """Something that was recorded with both runs and is not the same.

    Attributes:
        what: In words.
        before: With the first run.
        after: With the second.
    """

    what: str
    before: str
    after: str

    def __str__(self) -> str:
        return f"{self.what} {self.before} -> {self.after}"


_WORDS = {
    "host.cpu": "CPU",
    "host.cpu_instructions": "the CPU's instructions",
    "host.cpu_count": "CPUs",
    "host.gpus": "GPUs",
    "versions.python": "Python",
    "arithmetic.torch_cpu_capability": "torch's instruction set",
    "arithmetic.torch_libraries": "torch's libraries",
    "arithmetic.mkl_kernels": "MKL's kernels",
    "arithmetic.numpy_cpu_features": "NumPy's instruction sets",
    "arithmetic.numpy_blas": "NumPy's BLAS",
    "arithmetic.numpy_blas_kernels": "NumPy's BLAS takes the kernels of",
}
"""Words for a fact of a provenance record, where its own name says too little."""
_NOT_ALWAYS_RECORDED = {
    _WORDS[name] for name in ("arithmetic.mkl_kernels", "arithmetic.numpy_blas_kernels", "host.cpu_instructions")
}
"""Facts that older records lack, which is no change of the machine."""


def changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[Change]:
    """The differences between two provenance records (`experiments.tracking.provenance.record`),
    the likeliest cause first.
    """
    old, new = _facts(before), _facts(after)
    return [
        Change(what, old.get(what, _NONE), new.get(what, _NONE))
        for what in {**old, **new}
        if old.get(what, _NONE) != new.get(what, _NONE)
        and (what not in _NOT_ALWAYS_RECORDED or (what in old and what in new))
    ]


def changes_of_bits(before: Mapping[str, Any], after: Mapping[str, Any], bits: Bits = NATIVE) -> list[Change]:
    """The differences between two records that may change the last bits of a result, the likeliest cause first.

    GPUs and packages count that both have: what trials need, both have.

    Args:
        before: A provenance record, or what is known of one.
        after: Likewise.
        bits: Of the trials. `portable` ones do not depend on processors and their libraries, which are left out then.
    """
    one, other = (_deciding(record, bits) for record in (before, after))
    return changes(_common(one, other), _common(other, one))


def _deciding(record: Mapping[str, Any], bits: Bits) -> dict[str, dict[str, Any]]:
    """Of a record those facts that decide on bits: of portable ones not which processor it has."""
    left_out = ("host", "arithmetic") if bits == PORTABLE else ()
    found = {name: {} if name in left_out else dict(record.get(name) or {}) for name in _SECTIONS}
    return {**found, "host": {name: fact for name, fact in found["host"].items() if name in ("cpu", "gpus")}}


def _common(record: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    """A record without GPUs and packages that another has not."""
    return {
        section: {
            name: fact
            for name, fact in facts.items()
            if section not in ("versions", "host", "packages") or name in other[section]
        }
        for section, facts in record.items()
    }


def _facts(record: Mapping[str, Any]) -> dict[str, str]:
    """A provenance record, flat and in words. The command is left out: it always differs."""
    facts = {
        what: _text(record.get(key))
        for what, key in (("commit", "commit"), ("uncommitted changes", "diff"), ("nodes", "num_nodes"))
    }
    for section in _SECTIONS:
        for key, value in (record.get(section) or {}).items():
            facts.setdefault(_WORDS.get(f"{section}.{key}", key), _text(value))
    return facts


def _text(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value or _NONE)
