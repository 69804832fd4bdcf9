"""Every action that an environment gets is one of its own, whatever its spaces are, or it is refused
before anything starts.
"""

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.wrappers import ClipAction, TransformAction
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from experiments.config.errors import ConfigurationError
from experiments.rllib.building import build_algorithm_config
from tests.support.algorithms import ON_POLICY
from tests.support.drawn_spaces import (
    ANYTHING,
    DRAWN_ACTIONS,
    DRAWN_MASKS,
    DRAWN_OBSERVATIONS,
    TWO,
    AnySpaces,
    Drawn,
    made_with,
    played,
    sampled,
    trial_with,
)
from tests.support.suite import ALGORITHMS

pytestmark = pytest.mark.filterwarnings("ignore")


def is_taken(drawn: Drawn) -> bool:
    """Whether spaces are taken: by RLlib's runner and the fast one, in an evaluation,
    by a policy and its graph; or refused.
    """
    trial = trial_with(*drawn)
    try:
        assert len(sampled(trial)) >= 12
    except ConfigurationError as refused:
        if "env=drawn" in str(refused):
            return False
        raise
    assert len(sampled(trial, fast=False)) >= 12
    played(trial)
    return True


def share_taken(strategy: st.SearchStrategy[Drawn], examples: int) -> float:
    """Of so many draws."""
    found: list[bool] = []

    @settings(
        max_examples=examples, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck)
    )
    @given(strategy)
    def draw(drawn: Drawn) -> None:
        found.append(is_taken(drawn))

    draw()
    return sum(found) / len(found)


@pytest.mark.parametrize(
    "strategy", [DRAWN_ACTIONS, DRAWN_OBSERVATIONS, DRAWN_MASKS], ids=["actions", "observations", "masks"]
)
def test_drawn_spaces_are_taken_by_every_part_or_refused(strategy: Any) -> None:
    assert 0.3 < share_taken(strategy, 15) < 1


@pytest.mark.nightly
@pytest.mark.parametrize(
    "strategy",
    [DRAWN_ACTIONS, DRAWN_OBSERVATIONS, DRAWN_MASKS, ANYTHING],
    ids=["actions", "observations", "masks", "anything"],
)
def test_many_drawn_spaces_are_taken_by_every_part_or_refused(strategy: Any) -> None:
    assert 0 < share_taken(strategy, 300) < 1


def shifted(index: int) -> gym.Env[Any, Any]:
    """As a person would wrap `TABLE`."""
    start, shape = TABLE.start, TABLE.shape
    return TransformAction(
        AnySpaces(index), lambda action: action.reshape(shape) + start, gym.spaces.MultiDiscrete(TABLE.nvec.reshape(-1))
    )


TABLE = gym.spaces.MultiDiscrete(np.array([[3, 4], [1, 2]]), start=np.array([[1, 2], [-5, 0]]))
MIXED = gym.spaces.Box(
    np.array([0, -np.inf, -0.1, -np.inf], np.float32), np.array([np.inf, -0.2, 0.1, np.inf], np.float32)
)
BY_HAND = {"shifted": (TABLE, shifted), "clipped": (MIXED, lambda index: ClipAction(AnySpaces(index)))}


@pytest.mark.parametrize("fast", [True, False], ids=["fast", "stock"])
@pytest.mark.parametrize("algorithm", ON_POLICY)
@pytest.mark.parametrize("which", BY_HAND)
def test_actions_are_those_of_the_wrapper_that_a_person_would_write_to_the_bit(
    which: str, algorithm: str, fast: bool
) -> None:
    space, wrapped = BY_HAND[which]
    ours = sampled(trial_with(algorithm, space), fast)
    theirs = sampled(made_with(algorithm, space, wrapped), fast)
    assert len(ours) == len(theirs) >= 12
    for our, their in zip(ours, theirs, strict=True):
        assert (our.shape, our.tobytes()) == (their.shape, their.tobytes())
    assert len(np.unique(np.array(ours)[:, 0])) > 1


@pytest.mark.parametrize("kind", [np.bool_, np.uint8, np.int64, np.float16])
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_box_of_other_numbers_is_refused(algorithm: str, kind: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"env=drawn has actions Box.*Register it anew"):
        build_algorithm_config(trial_with(algorithm, gym.spaces.Box(0, 1, (2,), kind)))


def test_all_of_a_shifted_space_is_in_reach_and_nothing_else() -> None:
    taken = {tuple(action.reshape(-1)) for action in sampled(trial_with("ppo", TABLE), env_steps=600)}
    assert taken == {(a, b, -5, d) for a in (1, 2, 3) for b in (2, 3, 4, 5) for d in (0, 1)}


def test_choices_that_are_counted_from_0_are_sent_as_rllib_sends_them() -> None:
    assert {type(action) for action in sampled(trial_with("ppo", TWO))} == {np.int32}
