"""Points that Optuna suggests, each with one seed."""

import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import optuna
from optuna.trial import TrialState
from sqlalchemy import event
from typing_extensions import override

from experiments.config.fields import is_number
from experiments.config.space import Axis, Choice, IntegerSteps, Point, Uniform, is_there, size
from experiments.contract import FAILED, PRUNED
from experiments.contract.sqlite_address import sqlite_uri
from experiments.search.prior import Prior
from experiments.search.strategy import Ask, Outcome, Signal, Strategy, key_of, next_seed

SamplerName = Literal["tpe", "gp", "random"]
DIGITS = 4
"""Significant digits of what is suggested: a configuration is known by what it shows."""
MOST_REPEATS = 100
"""Suggestions in a row of points that have had all seeds, after which a search has seen its whole space."""
_NUMBER = "optuna"
"""Note of a trial: its number in Optuna's study."""
BEST_FIRST = 6
"""Suggestions that are the best of earlier studies: with a few others (`prior.OTHERS`) as many as TPE else draws at
random before it learns."""
_PLACE = "place among the points of earlier studies"
"""Attribute of a trial of Optuna's that an earlier study ran."""


class Suggested(Strategy):
    """Points that Optuna suggests, each with one seed, the next one in turn: no seed is every point's.

    A point that is suggested again gets its next seed; one that has had all of them is told to Optuna with its mean.
    What failed is told as failed, what a scheduler stopped as pruned.

    With a prior, the first suggestions are points of earlier studies. Where the order of these proves to hold here,
    Optuna is told all that they ran, each point with the value that the first suggestions have at the same place of
    their order: returns of another environment are not those of this one. Else it is told nothing of them.

    Each suggestion has a sampler of its own, seeded by the search's seed and the suggestion's number. What is
    suggested depends on what the storage holds and on nothing else, so that a search which was interrupted goes on
    as it would have.
    """

    def __init__(
        self,
        axes: Mapping[str, Axis],
        num_samples: int,
        seeds: Sequence[int],
        objectives: Sequence[str],
        sampler: SamplerName = "tpe",
        seed: int = 0,
        storage: Path | None = None,
        prior: Prior | None = None,
    ) -> None:
        """Open Optuna's study, or make it.

        Args:
            axes: The space.
            num_samples: Trials.
            seeds: Seeds that a point may have.
            objectives: One, or two for a Pareto front.
            sampler: Name of Optuna's sampler.
            seed: Random seed of the sampler.
            storage: SQLite file; None keeps the study in memory.
            prior: What earlier studies found of points of this space; None: nothing is known.
        """
        super().__init__(objectives)
        self._axes, self._num_samples, self._seeds = axes, num_samples, tuple(seeds)
        self._sampler, self._seed, self._prior = sampler, seed, prior
        self._tried = [] if prior is None else prior.first(BEST_FIRST)[:num_samples]  # places of the first suggestions
        self._most_trials = int(min(num_samples, size(axes) * len(self._seeds)))
        self._numbers: list[int] = []  # of each trial that was asked
        self._used: dict[str, list[int]] = {}  # point to its seeds
        self._has_told = False  # of the prior, in this process
        quiet()
        self._study = optuna.create_study(
            storage=None if storage is None else _sqlite(storage),
            study_name="search",
            directions=["maximize"] * len(objectives),
            load_if_exists=True,
        )
        self._next = len(self._study.get_trials(deepcopy=False))  # number of the next suggestion
        if storage is not None:
            self._study.set_metric_names(
                [name if Outcome(PRUNED, {name: 1.0}).worth(name) > 0 else f"-{name}" for name in objectives]
            )

    @property
    @override
    def most_trials(self) -> int:
        return self._most_trials

    @property
    @override
    def least_learning(self) -> int:  # of a space that ends, it may suggest the same points until it is given up
        is_endless = math.isinf(size(self._axes))
        return self._most_trials if is_endless else min(self._most_trials, len(self._seeds))

    @override
    def ask(self) -> Ask | Signal:
        if len(self.asked) >= self._num_samples:
            return Signal.DONE
        if self._prior is not None and not self._has_told and len(self.asked) >= len(self._tried):
            if (weights := self.belief) is None:
                return Signal.WAIT
            self._tell_of_earlier(self._prior, weights)
        for _ in range(MOST_REPEATS):
            trial = self._ask()
            point = self._point(trial)
            trial.set_user_attr("point", point)  # parameters that are lists have their places in Optuna
            seed = next_seed(self._used.get(key_of(point), ()), self._seeds, len(self.asked) % len(self._seeds))
            if seed is not None:
                return Ask(point, seed, note={_NUMBER: trial.number})
            self._tell_again(trial, point)
        return Signal.DONE

    def _ask(self) -> optuna.Trial:
        seed = int(np.random.SeedSequence([self._seed, self._next]).generate_state(1)[0])
        self._study.sampler = _SAMPLERS[self._sampler](seed)
        self._next += 1  # counted here, since the storage takes milliseconds to say it
        if self._prior is not None and len(self.asked) < len(self._tried):
            self._study.enqueue_trial(self._params(self._prior.points[self._tried[len(self.asked)]]))
        return self._study.ask()

    def _params(self, point: Point) -> dict[str, Any]:
        """A point as Optuna has it."""
        return {path: _as_suggested(self._axes[path], value) for path, value in point.items()}

    @property
    @override
    def belief(self) -> list[float] | None:
        return None if self._prior is None else self._prior.belief(self._tried, self.outcomes, self.objectives)

    def _tell_of_earlier(self, prior: Prior, weights: Sequence[float]) -> None:
        """Tell Optuna what earlier studies found, once, if that holds here."""
        self._has_told = True
        outcomes = [self.outcomes[i] for i in range(len(self._tried))]
        worths = [worth for outcome in outcomes if math.isfinite(worth := outcome.worth(self.objectives[0]))]
        told = {trial.user_attrs.get(_PLACE) for trial in self._study.get_trials(deepcopy=False)}  # before a kill
        places = prior.places(weights)
        for i in prior.order(weights):
            if i not in told:
                value = float(np.quantile(worths, places[i]))
                self._study.add_trial(self._earlier_trial(prior.points[i], value, i))
                self._next += 1

    def _earlier_trial(self, point: Point, value: float, place: int) -> optuna.trial.FrozenTrial:
        fixed = optuna.trial.FixedTrial(self._params(point))
        for path in point:
            _suggest(fixed, path, self._axes[path])
        return optuna.trial.create_trial(
            value=value,
            params=fixed.params,
            distributions=fixed.distributions,
            user_attrs={"point": point, _PLACE: place},
        )

    def _point(self, trial: optuna.Trial) -> Point:
        point: Point = {}
        for path, axis in self._axes.items():
            if is_there(axis, point):
                point[path] = _suggest(trial, path, axis)
        return point

    def _tell_again(self, trial: optuna.Trial, point: Point) -> None:
        """Tell Optuna the mean over the seeds of a point that has had them all."""
        outcomes = self.outcomes_by_point().get(key_of(point), [])
        rows = [
            row
            for row in ([outcome.worth(o) for o in self.objectives] for outcome in outcomes)
            if all(map(math.isfinite, row))
        ]
        trial.set_user_attr("repeats", "the mean of all seeds")
        if rows:
            self._study.tell(trial, [sum(row[i] for row in rows) / len(rows) for i in range(len(self.objectives))])
        else:
            self._study.tell(trial, state=TrialState.FAIL)

    @override
    def start(self, ask: Ask) -> None:
        super().start(ask)
        self._numbers.append(ask.note[_NUMBER])
        self._used.setdefault(key_of(ask.point), []).append(ask.seed)

    @override
    def tell(self, index: int, outcome: Outcome) -> None:
        super().tell(index, outcome)
        number, worths = self._numbers[index], [outcome.worth(o) for o in self.objectives]
        if outcome.status == FAILED or not all(map(math.isfinite, worths)):
            self._study.tell(number, state=TrialState.FAIL, skip_if_finished=True)
        elif outcome.status == PRUNED and len(worths) == 1:
            self._prune(number, worths[0], outcome.env_steps)
        else:
            self._study.tell(number, worths, skip_if_finished=True)

    def _prune(self, number: int, worth: float, env_steps: int) -> None:
        frozen = self._study.get_trials(deepcopy=False)[number]
        if not frozen.state.is_finished():
            optuna.Trial(self._study, frozen._trial_id).report(worth, env_steps)
            self._study.tell(number, state=TrialState.PRUNED)

    @override
    def resume(self) -> None:
        """Of suggestions that no trial was made of before the driver was killed, nothing will come."""
        for trial in self._study.get_trials(deepcopy=False, states=(TrialState.RUNNING, TrialState.WAITING)):
            if trial.number not in self._numbers:
                self._study.tell(trial.number, state=TrialState.FAIL)


def _sqlite(path: Path) -> optuna.storages.RDBStorage:
    """A store that outlives a kill of this process, though not a power cut to the last moment,
    which would take 2 ms a write.
    """
    storage = optuna.storages.RDBStorage(sqlite_uri(path))
    with storage.engine.begin() as connection:
        connection.exec_driver_sql("PRAGMA journal_mode=WAL")
    event.listen(storage.engine, "connect", lambda connection, _: connection.execute("PRAGMA synchronous=NORMAL"))
    storage.engine.dispose()  # the connection so far
    return storage


def quiet() -> None:
    """Keep Optuna's progress from the terminal."""
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    warnings.filterwarnings("ignore", category=optuna.exceptions.ExperimentalWarning)


def _suggest(trial: optuna.trial.BaseTrial, path: str, axis: Axis) -> Any:
    if isinstance(axis, Uniform):
        logarithmic = axis.distribution == "loguniform"
        if axis.integer:
            return trial.suggest_int(path, round(axis.low), round(axis.high), log=logarithmic)
        value = trial.suggest_float(path, axis.low, axis.high, log=logarithmic)
        return min(max(float(f"{value:.{DIGITS}g}"), axis.low), axis.high)
    if isinstance(axis, IntegerSteps):
        return trial.suggest_int(path, axis.low, axis.corners()[1], step=axis.step)
    return _suggest_of(trial, path, axis)


def _suggest_of(trial: optuna.trial.BaseTrial, path: str, axis: Choice) -> Any:
    """One of a list. Numbers in order are suggested by their place, so that neighbours are known for neighbours."""
    values = list(axis.values)
    if _are_in_order(values):
        return values[trial.suggest_int(path, 0, len(values) - 1)]
    names = [str(v) for v in values]
    return values[names.index(trial.suggest_categorical(path, names))]


def _as_suggested(axis: Axis, value: Any) -> Any:
    """A value as Optuna suggests it."""
    if not isinstance(axis, Choice):
        return value
    values = list(axis.values)
    return values.index(value) if _are_in_order(values) else str(value)


def _are_in_order(values: list[Any]) -> bool:
    numbers = all(map(is_number, values))
    return len(values) > 2 and numbers and values in (sorted(values), sorted(values, reverse=True))


def _tpe(seed: int) -> optuna.samplers.BaseSampler:
    return optuna.samplers.TPESampler(seed=seed, group=True, multivariate=True)


def _gp(seed: int) -> optuna.samplers.BaseSampler:
    return optuna.samplers.GPSampler(seed=seed)


def _random(seed: int) -> optuna.samplers.BaseSampler:
    return optuna.samplers.RandomSampler(seed=seed)


_SAMPLERS: Mapping[str, Callable[[int], optuna.samplers.BaseSampler]] = {"tpe": _tpe, "gp": _gp, "random": _random}
