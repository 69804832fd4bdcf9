"""`reuse`: which studies may take trials from other studies, in place of running them."""

from typing import TYPE_CHECKING

from experiments.config.errors import ConfigurationError
from experiments.config.objective_settings import CLOCK
from experiments.config.search_settings import JointSearch, Pbt

if TYPE_CHECKING:
    from experiments.config.schema import SuiteConfig


def check_reuse(suite: "SuiteConfig") -> None:
    """Make sure that a study that takes trials from other studies measures no speed, and decides by none.

    The same trial learns the same on another day, but the machine may have had other things to do, or run hotter: its
    seconds are those of that day.

    Raises:
        ConfigurationError: It does, or its trials go on from one another; names the fix.
    """
    if not suite.reuse:
        return
    by_clock = next((name for name in suite.objectives if name in CLOCK), "")
    if suite.measurement is not None or isinstance(suite.search, JointSearch):
        what = "search=joint" if suite.measurement is None else f"study={suite.study.name}"
        raise ConfigurationError(
            f"reuse=true with {what}, which measures throughput, and that is measured now. Leave reuse out."
        )
    if by_clock:
        raise ConfigurationError(
            f"reuse=true with the objective {by_clock}, which goes by the clock: seconds of another day are not "
            "compared with those of today. Leave reuse out, or try objective=env_steps_to_target."
        )
    if suite.hardware.max_concurrent_trials == 1:
        raise ConfigurationError(
            "reuse=true with hardware.max_concurrent_trials=1, by which the speeds of trials are compared: those of "
            "another day are not compared with those of today. Leave one of the two out."
        )
    if isinstance(suite.scheduler, Pbt):
        raise ConfigurationError(
            "reuse=true with scheduler=pbt, whose trials go on from one another's checkpoints. Leave reuse out."
        )
