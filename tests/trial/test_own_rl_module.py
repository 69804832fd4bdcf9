"""An RLModule of a person's own in a trial."""

from pathlib import Path

import pytest

from tests.support.own_files import own_rl_module
from tests.support.suite import PlanOf
from tests.support.trials import WEIGHTS, Make, run, tiny


@pytest.mark.slow
@pytest.mark.ray
@pytest.mark.usefixtures("ray_instance")
def test_it_learns_the_same_with_the_fast_parts_as_with_rllibs_own(plan_of: PlanOf, make: Make, tmp_path: Path) -> None:
    given = own_rl_module(tmp_path, "learning_module")
    fast, stock = (run(make(tiny(plan_of, *given, f"fast={fast}")))[-1] for fast in ("true", "false"))
    assert fast[WEIGHTS] == stock[WEIGHTS]
    assert fast["eval/return_mean"] == stock["eval/return_mean"]
