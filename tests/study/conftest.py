"""Trials that a test trains, to use what they leave behind."""

from tests.trial.conftest import make

__all__ = ["make"]
