"""bits=portable: what is refused before anything starts, and what it does to a configuration's id."""

import pytest

from experiments.config.errors import ConfigurationError
from experiments.limits import arithmetic
from experiments.limits.arithmetic import lacking
from experiments.planning import portable
from tests.support.suite import PlanOf

pytestmark = pytest.mark.skipif(bool(lacking()), reason=lacking())


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("algorithm=appo",), "bits=portable: appo samples while it learns.*try algorithm=ppo"),
        (("hardware.num_gpus=1", "hardware.num_gpus_per_learner=1"), "GPUs differ.*hardware.num_gpus=0"),
        (("bits=native", "hardware.bits=portable"), r"hardware.bits=portable: it follows bits. Try bits=portable"),
        (("env.backend=envpool",), "EnvPool does not even.*env.backend=gymnasium"),
    ],
)
def test_what_cannot_be_promised_is_refused_with_the_fix(words: tuple[str, ...], message: str, plan_of: PlanOf) -> None:
    with pytest.raises(ConfigurationError, match=message):
        plan_of("study=single", "bits=portable", *words)


def test_a_machine_that_cannot_is_refused(plan_of: PlanOf, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(portable, "lacking", lambda: "this processor has no AVX2")
    with pytest.raises(ConfigurationError, match=r"bits=portable: this processor has no AVX2. Leave bits=portable out"):
        plan_of("study=single", "bits=portable")


def test_a_portable_configuration_is_another_one_and_says_so(plan_of: PlanOf) -> None:
    native, same, other = (
        plan_of("study=single", *words).trials[0] for words in ((), ("bits=native",), ("bits=portable",))
    )
    assert native.config_id == same.config_id != other.config_id
    assert other.arithmetic.variables.items() >= dict(arithmetic.VARIABLES).items()
    assert native.arithmetic.variables.keys() == {"OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"}
