"""What a number out of its range is told."""

import math

import pytest

from experiments.config.errors import ConfigurationError
from experiments.config.number_ranges import check_number


@pytest.mark.parametrize(
    ("name", "value", "told"),
    [
        ("clip_param", math.inf, "must be above 0 and finite. 1e9 switches it off."),
        ("grad_clip", math.inf, "must be above 0 and finite. null switches it off."),
        ("clip_param", 0.0, "must be above 0 and finite."),
        ("lr", math.inf, "must be above 0 and finite."),
    ],
)
def test_who_gives_infinity_is_told_what_switches_a_setting_off(name: str, value: float, told: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        check_number(f"algorithm.training.{name}", name, value)
    assert str(refused.value) == f"algorithm.training.{name}={value}: {told}"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("target_entropy", -1),
        ("v_min", -100),
        ("log_std_init", -2),
        ("state_dependent_log_std", -3),
        ("alpha_lr", 0.0),
    ],
)
def test_what_may_be_negative_or_nothing_is_taken(name: str, value: float) -> None:
    check_number(f"algorithm.training.{name}", name, value)
