"""The settings of searches and schedulers, and which of them suit which study."""

from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import ConfigDict, Field, StrictBool, StrictInt
from pydantic.dataclasses import dataclass

from experiments.config.confirm_settings import Names
from experiments.config.errors import ConfigurationError
from experiments.config.fields import MAX_TRIALS, STRICT, Count, Number, Positive
from experiments.config.measurement_settings import MeasurementSettings
from experiments.config.objective_settings import check_measurable

if TYPE_CHECKING:
    from experiments.config.schema import SuiteConfig


_NumSamples = Annotated[Positive, Field(le=MAX_TRIALS)] | None
_Earlier = Annotated[Annotated[Names, Field(min_length=1)] | None, Field(validation_alias="from")]
_BY_ALIAS = ConfigDict(**STRICT, validate_by_alias=True, validate_by_name=True)


@dataclass(frozen=True, config=STRICT)
class GridSearch:
    """Every combination of the lists in the study's space."""

    name: Literal["grid"] = "grid"


@dataclass(frozen=True, config=STRICT)
class RandomSearch:
    """Draws from lists and distributions alike.

    Attributes:
        num_samples: Configurations; None: as the space is large (`space.num_samples`).
        seed: Random seed of the draw.
    """

    name: Literal["random"]
    num_samples: _NumSamples
    seed: Count


Aim = Literal[
    "score",
    "auc",
    "env_steps_to_target",
    "minutes_to_target",
    "cost_to_target",
    "seconds_to_target",
    "train_s",
    "env_steps_per_s",
]
"""An aim of a search for the best compromises."""


@dataclass(frozen=True, config=_BY_ALIAS)
class OptunaSearch:
    """Configurations that Optuna suggests, each with one seed.

    Attributes:
        num_samples: Trials; None: as the space is large (`space.num_samples`).
        seed: Random seed of the sampler.
        sampler: Optuna's: `tpe`, `gp` or `random`.
        objective: Two aims, whose best compromises are sought, the Pareto front; `None`: the study's objective.
        earlier: Studies whose findings the search starts from, by name or run id, or `auto`; `None`: from nothing.
            In files and on the command line it is called `from`.
    """

    name: Literal["optuna"]
    num_samples: _NumSamples
    seed: Count
    sampler: Literal["tpe", "gp", "random"]
    objective: Annotated[tuple[Aim, ...], Field(min_length=1, max_length=2)] | None = None
    earlier: _Earlier = None


@dataclass(frozen=True, config=_BY_ALIAS)
class RacingSearch:
    """One seed for every configuration, more for those that lead, until they are significantly different.

    Attributes:
        proposals: Source of the configurations: the `grid`, `random` draws, or suggestions of `optuna`.
        num_samples: Random draws or suggestions of Optuna; None: as the space is large (`space.num_samples`).
        seed: Random seed of the draws or suggestions.
        sampler: Optuna's sampler.
        max_seeds: Most seeds of a configuration: the study's, and then the next whole numbers.
        max_trials: Most trials of the race; None: half as many again as there are configurations.
        earlier: As that of Optuna.
    """

    name: Literal["racing"]
    proposals: Literal["grid", "random", "optuna"]
    num_samples: _NumSamples
    seed: Count
    sampler: Literal["tpe", "gp", "random"]
    max_seeds: Annotated[Positive, Field(ge=2, le=MAX_TRIALS)]
    max_trials: Positive | None
    earlier: _Earlier = None


@dataclass(frozen=True, config=STRICT)
class CompareSearch:
    """A fixed number of seeds before each look, for configurations that are in an undecided pair, until none is.

    Attributes:
        seeds_per_look: Seeds that such a configuration gets before each look: of the study's,
            and then the next whole numbers.
        looks: Most looks.
        alpha: Risk of calling any pair different that is not, all pairs and all looks together.
    """

    name: Literal["compare"]
    seeds_per_look: Annotated[Positive, Field(le=MAX_TRIALS)]
    looks: Annotated[Positive, Field(le=100)]
    alpha: Annotated[Number, Field(gt=0, lt=1)]

    @property
    def most_seeds(self) -> int:
        """Of a configuration, at most."""
        return self.seeds_per_look * self.looks


@dataclass(frozen=True, config=STRICT)
class JointSearch:
    """Learning settings and layouts apart: env steps to target from trials side by side, throughput from rounds alone;
    of the products of both the soonest are confirmed, one at a time.

    Attributes:
        max_seeds: Most seeds that learn, of what is not decided by the study's: the next whole numbers.
        rounds: Measurements of each layout.
        measurement: How each is measured.
    """

    name: Literal["joint"]
    max_seeds: Annotated[Positive, Field(le=MAX_TRIALS)]
    rounds: Annotated[Positive, Field(le=100)]
    measurement: MeasurementSettings = MeasurementSettings()


SEARCHES = ("optuna", "racing", "joint")
"""Those whose later trials depend on earlier results."""
SearchSettings = Annotated[
    GridSearch | RandomSearch | OptunaSearch | RacingSearch | CompareSearch | JointSearch, Field(discriminator="name")
]
"""How configurations are taken from the study's space: the settings in `conf/search/*.yaml`."""


@dataclass(frozen=True, config=STRICT)
class Fifo:
    """Every trial has its whole budget."""

    name: Literal["fifo"] = "fifo"


@dataclass(frozen=True, config=STRICT)
class Asha:
    """At each rung of env steps only the best share of the trials goes on (Li et al. 2020, arXiv 1810.05934).

    Attributes:
        grace_env_steps: The first rung; None: a sixteenth of the budget.
        reduction_factor: One of so many goes on, and the next rung is so many times as far.
    """

    name: Literal["asha"]
    grace_env_steps: Positive | None
    reduction_factor: Annotated[Number, Field(gt=1)]


@dataclass(frozen=True, config=STRICT)
class Median:
    """A trial ends where its best is below the median of the others' means up to there
    (Golovin et al. 2017, "Google Vizier").

    Attributes:
        grace_env_steps: Before which none ends; None: a quarter of the budget.
        min_trials: Trials that must have come as far before one is ended.
    """

    name: Literal["median"]
    grace_env_steps: Positive | None
    min_trials: Annotated[Positive, Field(ge=2)]


@dataclass(frozen=True, config=STRICT)
class Pbt:
    """A population that trains in step; now and then the worst take over weights and settings of the best,
    and vary the settings (Jaderberg et al. 2017, arXiv 1711.09846).

    Attributes:
        population: Members.
        interval_env_steps: After which they are compared; None: a fifth of the budget.
        quantile: Share that is replaced, and share that is copied.
        resample_probability: Probability that a setting is drawn anew instead of moved to a neighbouring value.
        seed: Random seed of the first settings and of their variation.
    """

    name: Literal["pbt"]
    population: Annotated[StrictInt, Field(ge=2, le=MAX_TRIALS)]
    interval_env_steps: Positive | None
    quantile: Annotated[Number, Field(gt=0, le=0.5)]
    resample_probability: Annotated[Number, Field(ge=0, le=1)]
    seed: Count


SchedulerSettings = Annotated[Fifo | Asha | Median | Pbt, Field(discriminator="name")]
"""Which trials may stop early: what `conf/scheduler/*.yaml` holds."""


@dataclass(frozen=True, config=STRICT)
class ConfirmationSettings:
    """How the findings of a search are confirmed.

    Attributes:
        top: Configurations, the best by the search; the study's base configuration comes on top.
        seeds: Seeds that the search never sees. Of a fixed design they may be some of its own:
            the choice is then made by the others.
        always: Whether a fixed design is confirmed as well: every configuration with every seed,
            and then the best with these.
        rule: `fixed`: each of these configurations has all of these seeds; `race`: each has as many of them as it needs
            (`experiments/search/confirmation_race.py`).
    """

    top: Positive = 3
    seeds: tuple[Count, ...] = (1000, 1001, 1002, 1003, 1004)
    always: StrictBool = False
    rule: Literal["fixed", "race"] = "fixed"


def check_search(suite: "SuiteConfig") -> None:
    """Make sure that the search suits the study, and the scheduler the search.

    Raises:
        ConfigurationError: It does not.
    """
    search, scheduler = suite.search, suite.scheduler
    if isinstance(search, CompareSearch):
        _check_comparison(suite, search)
        return
    if not (suite.confirms or suite.max_env_steps or suite.max_minutes):
        return
    named = f"search={search.name}" if search.name in SEARCHES else f"scheduler={scheduler.name}"
    if not suite.is_search:
        limited = "max_env_steps" if suite.max_env_steps else "max_minutes"
        named = "confirmation.always=true" if suite.confirmation.always else limited
    if suite.measurement is not None:
        raise ConfigurationError(
            f"{named} searches by what trials learn, and a study of throughput learns nothing. Try search=grid "
            "scheduler=fifo without limits, or experiments/autotune.py, which searches for the fastest setting."
        )
    if suite.repeats > 1:
        raise ConfigurationError(
            f"repeats={suite.repeats} with {named}: a search runs each configuration and seed once. Try repeats=1."
        )
    if search.name in ("racing", "joint") and scheduler.name != "fifo":
        what = "a race compares trials" if search.name == "racing" else "env steps to target are compared at trials"
        raise ConfigurationError(
            f"scheduler={scheduler.name} with search={search.name}: {what} of the same budget. Try scheduler=fifo."
        )
    if isinstance(search, JointSearch):
        _check_joint(suite)
    if search.name == "optuna" and scheduler.name == "pbt":
        raise ConfigurationError(
            "scheduler=pbt changes settings itself, and needs no search=optuna. Try search=random or search=grid."
        )
    if isinstance(search, OptunaSearch) and search.objective is not None:
        _check_aims(suite, search.objective)
    if isinstance(scheduler, Asha | Median | Pbt):
        _check_scheduler(suite, scheduler)
    if suite.confirms:
        _check_confirmation(suite)


def _check_joint(suite: "SuiteConfig") -> None:
    if suite.objective.name not in ("minutes_to_target", "cost_to_target"):
        raise ConfigurationError(
            f"objective={suite.objective.name} with search=joint, which looks for what reaches the target soonest. "
            "Try objective=minutes_to_target, or search=racing."
        )
    if grouped := [path for path in ("algorithm", "env", "hardware", "preprocessing") if path in suite.study.space]:
        raise ConfigurationError(
            f"study.space: {grouped[0]} with search=joint, which is of one algorithm on one environment and one kind "
            f"of machine. Try a study for each: {grouped[0]}=... study.name=..."
        )


def _check_comparison(suite: "SuiteConfig", search: CompareSearch) -> None:
    if suite.measurement is not None:
        raise ConfigurationError("search=compare compares scores, and a study of throughput has none. Try search=grid.")
    if suite.repeats > 1:
        raise ConfigurationError(
            f"repeats={suite.repeats} with search=compare: a repeat is no other seed. Try repeats=1."
        )
    if suite.scheduler.name != "fifo":
        raise ConfigurationError(
            f"scheduler={suite.scheduler.name} with search=compare: trials of the same budget are compared. "
            "Try scheduler=fifo."
        )
    if suite.confirmation.always:
        raise ConfigurationError(
            "confirmation.always=true with search=compare: its risk of a false difference holds as it is. "
            "Try confirmation.always=false."
        )
    if "env" in suite.study.space:
        raise ConfigurationError(
            "search=compare compares configurations on one environment. Try a study for each: env=... study.name=..."
        )
    if len(suite.seeds) > search.most_seeds:
        raise ConfigurationError(
            f"seeds has {len(suite.seeds)} seeds, and search=compare uses at most "
            f"search.seeds_per_look={search.seeds_per_look} x search.looks={search.looks} = {search.most_seeds}. "
            "Leave some out, or raise one of the two."
        )


def _check_confirmation(suite: "SuiteConfig") -> None:
    seeds = suite.confirmation.seeds
    if suite.confirmation.rule == "race":
        _check_race(suite)
    if not seeds:
        raise ConfigurationError(
            "confirmation.seeds is empty: what a search finds must be confirmed. "
            "Try confirmation.seeds=[1000,1001,1002]."
        )
    if len(set(seeds)) != len(seeds):
        raise ConfigurationError(f"confirmation.seeds={list(seeds)} names a seed twice; each seed is one replicate.")
    if not suite.is_search:  # a fixed design is known beforehand, and chooses by its other seeds
        if set(suite.seeds) <= set(seeds):
            raise ConfigurationError(
                f"confirmation.seeds={list(seeds)} has all of seeds={list(suite.seeds)}: "
                "none is left to choose by what is confirmed. Leave one out at least."
            )
        return
    if seen := sorted(set(searching_seeds(suite)) & set(seeds)):
        raise ConfigurationError(
            f"confirmation.seeds={list(seeds)}: the search uses {seen[0]} as well, and would confirm a choice "
            "by what it was made by. Give it other seeds than `seeds`."
        )


def _check_race(suite: "SuiteConfig") -> None:
    """Make sure that there is one best configuration for a race to look for, and that the search knows of it."""
    why = ""
    if not suite.is_search:
        why = "it follows a search, such as search=racing, and a fixed design is none"
    elif isinstance(suite.search, JointSearch):
        why = "search=joint recommends by the product of env steps and seconds, on all of its trials"
    elif isinstance(suite.scheduler, Pbt):
        why = "with scheduler=pbt nothing is known yet of the last settings held constant"
    elif len(suite.objectives) > 1:
        why = "it looks for one best configuration, and two aims have many"
    if why:
        raise ConfigurationError(f"confirmation.rule=race: {why}. Try confirmation.rule=fixed.")


def searching_seeds(suite: "SuiteConfig") -> tuple[int, ...]:
    """The seeds that a search may use: the study's, and the next whole numbers as far as it needs more."""
    seeds = suite.seeds
    wanted = len(seeds)
    if isinstance(suite.scheduler, Pbt):
        wanted = suite.scheduler.population
    elif isinstance(suite.search, RacingSearch):
        wanted = suite.search.max_seeds
    elif isinstance(suite.search, JointSearch):
        wanted = max(wanted, suite.search.max_seeds)
    elif isinstance(suite.search, CompareSearch):
        wanted = suite.search.most_seeds
    return (*seeds, *range(max(seeds) + 1, max(seeds) + 1 + wanted - len(seeds)))[:wanted]


def _check_aims(suite: "SuiteConfig", objectives: tuple[Aim, ...]) -> None:
    if objectives == ("score",):  # as it was written before a study had an objective
        return
    if len(objectives) == 1:
        raise ConfigurationError(
            f"search.objective={list(objectives)}: is for two aims, whose best compromises are sought. One aim is the "
            f"whole study's: objective={objectives[0].replace('seconds', 'minutes')}."
        )
    if suite.objective.name != "score":
        raise ConfigurationError(
            f"search.objective={list(objectives)} and objective={suite.objective.name}: give one of them, the study's "
            "objective for one aim, or two aims of the search for their best compromises."
        )
    if len(set(objectives)) != len(objectives):
        raise ConfigurationError(f"search.objective={list(objectives)} names one twice.")
    for objective in objectives:
        check_measurable(suite, "search.objective", objective, otherwise="leave it out")


def _check_scheduler(suite: "SuiteConfig", scheduler: Asha | Median | Pbt) -> None:
    budget = suite.budget_env_steps
    if isinstance(scheduler, Pbt):
        key, every = "interval_env_steps", scheduler.interval_env_steps
        if suite.stop_at_target:
            raise ConfigurationError(
                "stop_at_target=true with scheduler=pbt: members are compared at the same env steps. Leave it out."
            )
        if not suite.checkpoint.replay:
            raise ConfigurationError(
                "checkpoint.replay=false with scheduler=pbt: members go on from these checkpoints. Leave it true."
            )
    else:
        key, every = "grace_env_steps", scheduler.grace_env_steps
    if every is not None and every >= budget:
        raise ConfigurationError(
            f"scheduler.{key}={every} leaves nothing to stop in budget_env_steps={budget}. "
            f"Try scheduler.{key}={max(1, budget // 4)} or a larger budget."
        )
