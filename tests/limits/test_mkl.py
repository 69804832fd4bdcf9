"""MKL's kernels on processors that Intel did not make."""

import ctypes
import os
from collections.abc import Mapping
from pathlib import Path

import pytest
import ray

from experiments.limits import mkl
from experiments.limits.elf import returning_one
from experiments.limits.processor import this_processor
from tests.support.processors import printed

pytestmark = pytest.mark.skipif(os.uname().machine != "x86_64", reason="MKL is of x86-64")
of_others = pytest.mark.skipif(this_processor().is_intel, reason="this is one of Intel's processors")


def kernels(first: str, variables: Mapping[str, str]) -> list[str]:
    """What MKL takes in a process of its own, and why not others."""
    asked = (
        f"import json; {first}; from experiments.limits import mkl; print(json.dumps([mkl.kernels(), mkl.answer()]))"
    )
    return list(printed(asked, variables))


def test_a_library_is_written_whose_function_returns_one(tmp_path: Path) -> None:
    file = tmp_path / "library.so"
    file.write_bytes(returning_one("some_function"))
    assert ctypes.CDLL(str(file)).some_function() == 1


@pytest.mark.skipif("avx2" not in this_processor().flags, reason="this processor has no AVX2")
def test_mkl_takes_this_processors_instructions() -> None:
    found, why = kernels("import experiments", {})
    assert found in ("AVX2", "AVX-512")
    assert why == ""


@of_others
def test_it_can_be_left_as_it_comes() -> None:
    assert kernels("import experiments", {mkl.VARIABLE: mkl.SHIPPED}) == [
        mkl.OTHERS,
        "RL_SCALING_MKL=shipped leaves it as it comes",
    ]


@of_others
def test_where_torch_was_imported_before_it_is_said() -> None:
    assert kernels("import torch", {}) == [mkl.OTHERS, mkl.TOO_LATE]


@pytest.mark.ray
@pytest.mark.usefixtures("ray_instance")
def test_a_process_of_ray_that_imports_torch_before_the_suite_takes_them_too() -> None:
    def in_a_process() -> tuple[str, str]:
        import torch  # noqa: F401  as RLlib's own runners do

        from experiments.limits import mkl

        return mkl.kernels(), mkl.answer()

    assert ray.get(ray.remote(in_a_process).remote()) == (mkl.kernels(), mkl.answer())
    assert mkl.answer() == ""
