"""Tests of the fast parts of RLlib."""

import pytest

pytest.register_assert_rewrite("tests.support.fast_ppo", "tests.support.fast_replay", "tests.support.fast_off_policy")
