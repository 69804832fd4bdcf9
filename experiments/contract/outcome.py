"""How a trial ended, as a driver knows it and the analysis asks for it."""

from collections.abc import Mapping
from typing import Protocol


class Outcome(Protocol):
    """How one trial ended."""

    @property
    def label(self) -> str:
        """Its configuration."""

    @property
    def seed(self) -> int:
        """Its seed."""

    @property
    def repeat(self) -> int:
        """Which run of the same configuration and seed it is."""

    @property
    def phase(self) -> str:
        """What it was run for."""

    @property
    def exploratory(self) -> bool:
        """Whether other trials confirm what it found."""

    @property
    def status(self) -> str:
        """`finished`, `pruned`, `failed` or `interrupted`."""

    @property
    def failure(self) -> str:
        """Why it failed."""

    @property
    def diverged(self) -> bool:
        """Whether it failed on a value that was not finite."""

    @property
    def env_steps(self) -> int:
        """Of its last report."""

    @property
    def final(self) -> Mapping[str, float]:
        """Its `final/` metrics, if it finished."""

    @property
    def weights(self) -> str:
        """Digest of its final weights, if it finished."""

    @property
    def restarts(self) -> int:
        """How often it was taken up again."""

    @property
    def reproducible(self) -> bool | None:
        """Whether it would come out the same to the bit; None if it never said."""

    @property
    def reused_from(self) -> str:
        """Run id of another study's trial that it was taken from; "" if it ran here."""
