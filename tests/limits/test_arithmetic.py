"""Portable bits: what a process computes that was started for them, here and as if on other processors."""

import shutil
import subprocess
from pathlib import Path

import pytest
import torch

from experiments.limits import arithmetic
from experiments.limits.arithmetic import DIGESTS, NATIVE, PORTABLE, VARIABLES, Arithmetic, UnportableError, lacking
from tests.support.processors import PORTABLY, assert_seen, computed

INTEL = """
int mkl_serv_intel_cpu_true(void) { return 1; }
int mkl_serv_intel_cpu(void) { return 1; }
"""
"""By which MKL is told that it is on one of Intel's processors."""

pytestmark = pytest.mark.skipif(bool(lacking()), reason=lacking())


@pytest.fixture(scope="module")
def native() -> dict[str, str]:
    return computed({})[0]


def test_a_process_that_was_started_for_it_computes_what_was_seen_on_other_processors() -> None:
    digests, differs = computed(PORTABLY)
    assert_seen(digests, DIGESTS)
    assert differs == ""


def as_on_intel(folder: Path) -> dict[str, str]:
    (folder / "intel.c").write_text(INTEL)
    library = folder / "intel.so"
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", library, folder / "intel.c"], check=True)
    return {"LD_PRELOAD": str(library)}


@pytest.mark.skipif(shutil.which("gcc") is None, reason="needs gcc")
def test_what_mkl_takes_the_processor_for_changes_native_bits_and_not_portable_ones(
    tmp_path: Path, native: dict[str, str]
) -> None:
    other = as_on_intel(tmp_path)
    if computed(other)[0] == native:
        pytest.skip("this is one of Intel's processors, or one that MKL serves alike")
    assert computed({**PORTABLY, **other}) == computed(PORTABLY)


def test_a_c_library_without_wider_instructions_changes_nothing_of_it() -> None:
    narrow = {"GLIBC_TUNABLES": "glibc.cpu.hwcaps=-AVX512F,-AVX512VL,-AVX512DQ,-AVX512BW"}
    assert computed({**PORTABLY, **narrow}) == computed(PORTABLY)


def test_a_c_library_without_fma_is_noticed() -> None:
    older = {"GLIBC_TUNABLES": "glibc.cpu.hwcaps=-FMA,-AVX2,-FMA4"}
    digests, differs = computed({**PORTABLY, **older})
    assert digests["functions of the C library's"] != DIGESTS["functions of the C library's"]
    assert "functions of the C library's came out otherwise" in differs


@pytest.mark.parametrize("name", VARIABLES)
def test_a_variable_that_is_missing_is_named(name: str) -> None:
    without = {other: value for other, value in PORTABLY.items() if other != name}
    assert computed(without)[1] == f"this process was started without {name}"


def test_a_process_that_was_not_started_for_it_refuses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MKL_CBWR", raising=False)
    arithmetic.differences.cache_clear()
    with pytest.raises(UnportableError, match=r"bits=portable: this process was started without .*MKL_CBWR"):
        Arithmetic(1, PORTABLE).take()
    Arithmetic(1, NATIVE).take()
    arithmetic.differences.cache_clear()


def test_to_look_draws_nothing() -> None:
    before = torch.get_rng_state()
    arithmetic.digests()
    assert torch.equal(torch.get_rng_state(), before)


def test_what_a_machine_lacks_is_said(tmp_path: Path) -> None:
    cpuinfo = tmp_path / "cpuinfo"
    cpuinfo.write_text("processor\t: 0\nflags\t\t: fpu sse2 avx fma\n")
    assert lacking("x86_64", cpuinfo) == "this processor has no AVX2"
    cpuinfo.write_text("flags\t\t: avx2 fma\n")
    assert lacking("x86_64", cpuinfo) == ""
    assert "this is Linux on aarch64" in lacking("aarch64", cpuinfo)
