"""Tests of the fast parts of RLlib."""

import pytest

_HELPERS = ("fast_off_policy", "fast_ppo", "fast_replay", "fast_sampling")
pytest.register_assert_rewrite(*(f"tests.support.{name}" for name in _HELPERS))
