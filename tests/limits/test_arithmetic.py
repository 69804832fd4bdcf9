"""Portable bits: what a process computes that was started for them, here and as if on other processors."""

from pathlib import Path

import pytest
import torch

from experiments.limits import arithmetic
from experiments.limits.arithmetic import DIGESTS, NATIVE, PORTABLE, VARIABLES, Arithmetic, UnportableError, lacking
from experiments.limits.processor import Processor
from experiments.planning.emulated import EMULATOR, PROCESSORS
from tests.support.processors import PORTABLY, assert_seen, computed, emulated

WRONG = {"an LSTM of torch's": "oneDNN's, of which QEMU 7.2 makes other numbers in the first digit"}


pytestmark = pytest.mark.skipif(bool(lacking()), reason=lacking())


def test_a_process_that_was_started_for_it_computes_what_was_seen_on_other_processors() -> None:
    digests, differs = computed(PORTABLY)
    assert_seen(digests, DIGESTS)
    assert differs == ""


@pytest.mark.slow
@emulated
@pytest.mark.parametrize(
    "processor", [pytest.param(name, marks=() if name == "EPYC" else pytest.mark.nightly) for name in PROCESSORS]
)
def test_another_makers_processor_computes_the_same(processor: str) -> None:
    digests, _ = computed(PORTABLY, (EMULATOR, "-cpu", processor))
    assert digests | WRONG == DIGESTS | WRONG


def test_a_c_library_without_wider_instructions_changes_nothing_of_it() -> None:
    narrow = {"GLIBC_TUNABLES": "glibc.cpu.hwcaps=-AVX512F,-AVX512VL,-AVX512DQ,-AVX512BW"}
    assert computed({**PORTABLY, **narrow}) == computed(PORTABLY)


def test_a_c_library_without_fma_is_noticed() -> None:
    older = {"GLIBC_TUNABLES": "glibc.cpu.hwcaps=-FMA,-AVX2,-FMA4"}
    digests, differs = computed({**PORTABLY, **older})
    assert digests["functions of the C library's"] != DIGESTS["functions of the C library's"]
    assert "functions of the C library's came out otherwise" in differs


@pytest.mark.parametrize("name", VARIABLES)
def test_a_variable_that_is_missing_is_named(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for other, value in VARIABLES.items():
        monkeypatch.setenv(other, value)
    monkeypatch.delenv(name)
    assert arithmetic.differences.__wrapped__() == f"this process was started without {name}"


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
    cpuinfo.write_text("processor\t: 0\nvendor_id\t: Some\nflags\t\t: fpu sse2 avx fma\n\nprocessor\t: 1\n")
    assert lacking("x86_64", Processor.read(cpuinfo)) == "this processor has no AVX2"
    cpuinfo.write_text("flags\t\t: avx2 fma\n")
    assert lacking("x86_64", Processor.read(cpuinfo)) == ""
    assert "this is Linux on aarch64" in lacking("aarch64", Processor.read(tmp_path / "none"))
