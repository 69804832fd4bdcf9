"""`search.from`: which searches may start from what earlier studies found."""

from typing import TYPE_CHECKING

from experiments.config.errors import ConfigurationError
from experiments.config.objective_settings import CLOCK
from experiments.config.search_settings import OptunaSearch, RacingSearch

if TYPE_CHECKING:
    from experiments.config.schema import SuiteConfig

AUTO = "auto"
"""The studies of the same store that ran the same algorithm."""


def earlier_of(suite: "SuiteConfig") -> tuple[str, ...]:
    """The studies whose findings a search starts from, or `AUTO`; none where it starts from nothing."""
    search = suite.search
    return (search.earlier or ()) if isinstance(search, OptunaSearch | RacingSearch) else ()


def check_earlier(suite: "SuiteConfig") -> None:
    """Make sure that a search that starts from earlier studies can put them to the test, and make use of them.

    Raises:
        ConfigurationError: It can't; names the fix.
    """
    search, earlier = suite.search, earlier_of(suite)
    if not earlier or not isinstance(search, OptunaSearch | RacingSearch):
        return
    given, proposals = f"search.from=[{','.join(earlier)}]", getattr(search, "proposals", "optuna")
    groups = ("algorithm", "env", "hardware", "preprocessing")
    grouped = next((path for path in groups if path in suite.study.space), "")
    if AUTO in earlier and len(earlier) > 1:
        raise ConfigurationError(f"{given}: auto finds studies by itself. Give it alone, or names alone.")
    if grouped:
        raise ConfigurationError(
            f"study.space: {grouped} with {given}: what earlier studies found is compared on one algorithm, "
            f"environment and kind of machine. Try a study for each: {grouped}=... study.name=..."
        )
    if len(suite.objectives) > 1:
        raise ConfigurationError(
            f"{given} with search.objective={list(suite.objectives)}: two aims put settings in no one order. "
            "Try one aim, or leave search.from out."
        )
    if (aim := suite.objectives[0]) in CLOCK:
        raise ConfigurationError(
            f"{given} with the objective {aim}, which goes by the clock: seconds of another day or machine say little "
            "of those of today. Leave search.from out, or try objective=env_steps_to_target."
        )
    if suite.scheduler.name != "fifo":
        raise ConfigurationError(
            f"{given} with scheduler={suite.scheduler.name}: the first trials are compared with earlier ones, which "
            "had their whole budgets. Try scheduler=fifo."
        )
    if proposals == "random":
        raise ConfigurationError(
            f"{given} with search.proposals=random, whose draws no earlier study has run. "
            "Try search.proposals=optuna, or grid."
        )
    if proposals == "optuna" and search.sampler == "random":
        raise ConfigurationError(
            f"{given} with search.sampler=random, whose draws heed no result. Try search.sampler=tpe."
        )
