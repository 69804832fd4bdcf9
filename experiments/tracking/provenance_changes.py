"""The changes around a trial that ran twice."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

_NONE = "none"


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


def _facts(record: Mapping[str, Any]) -> dict[str, str]:
    """A provenance record, flat and in words. The command is left out: it always differs."""
    facts = {
        what: _text(record.get(key))
        for what, key in (("commit", "commit"), ("uncommitted changes", "diff"), ("nodes", "num_nodes"))
    }
    for section in ("versions", "environment", "arithmetic", "host", "packages"):
        for key, value in (record.get(section) or {}).items():
            facts.setdefault(_WORDS.get(f"{section}.{key}", key), _text(value))
    return facts


def _text(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value or _NONE)
