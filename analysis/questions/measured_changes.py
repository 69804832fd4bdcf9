"""The changes that are advised, as far as a study has measured them: pure functions of its frame of runs."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from analysis.evidence import conclusive
from analysis.questions.advice import Change, overrides_of
from analysis.questions.convergence import by_seed, speed_ratio
from analysis.questions.labels import shown
from experiments.contract.words import plural

_FARTHEST = 2.0
"""Times the value that is advised, up to which another one, measured in its place, counts."""


class MeasuredChanges:
    """The speeds of a study's configurations, to look up whether what is advised was measured.

    Speeds are compared only where each trial ran alone on the machine.
    """

    def __init__(self, runs: pd.DataFrame, axes: Sequence[str]) -> None:
        """Take the speeds of a study's trials.

        Args:
            runs: As `analysis.load` gives them, of one environment.
            axes: The searched columns of `runs`, which say what a configuration is.
        """
        finished = conclusive(runs)
        alone = finished[finished["exclusive"] & finished["env_steps_per_s"].gt(0)]
        self._axes = [axis for axis in axes if axis in runs]
        self._speeds = by_seed(alone, "env_steps_per_s") if len(alone) and self._axes else pd.DataFrame()
        self._settings = alone.drop_duplicates("config").set_index("config")

    def with_measurements(self, config: str, changes: Sequence[Change]) -> tuple[Change, ...]:
        """Changes, with what was measured of them in the place of what may be hoped for.

        Args:
            config: That they are advised for.
            changes: In their order.

        Returns:
            The same. One that was measured says how fast it was; one that was not faster names no settings any more.
        """
        return tuple(self._with_measurement(config, change) for change in changes)

    def _with_measurement(self, config: str, change: Change) -> Change:
        other = self._measured(config, change.settings)
        if other is None:
            return change
        ratio, num_seeds = speed_ratio(self._speeds, other, config)
        if not num_seeds:
            return change
        speeds = [float(np.exp(np.log(self._speeds.loc[c]).mean())) for c in (other, config)]
        values = ((name, self._settings.loc[other, name]) for name in change.settings)
        settings = {name: value if isinstance(value, str) else int(value) for name, value in values}
        rests = f"{speeds[0]:,.0f} against {speeds[1]:,.0f} env steps/s, {plural(num_seeds, 'seed')}"
        head = f"{overrides_of(settings)} was measured here: {shown(ratio, '.2f')} times as fast ({rests})"
        if ratio.low > 1:
            return Change(f"{head}.", settings, change.learning)
        if math.isnan(ratio.low):
            return Change(f"{head}; that has no interval.", settings, change.learning)
        return Change(f"{head}, {'so it does not help' if ratio.high < 1 else 'which is not significantly different'}.")

    def _measured(self, config: str, settings: Mapping[str, int | str]) -> str | None:
        """The configuration with the settings, else with the closest to a single number,
        that differs in nothing else.
        """
        if not settings or config not in self._speeds.index or any(name not in self._settings for name in settings):
            return None
        own = self._settings.loc[config]
        same = [axis for axis in self._axes if axis not in settings]
        others = self._settings[(self._settings[same] == own[same]).all(axis=1)].drop(index=config, errors="ignore")
        exact = others[
            [all(_equal(row[name], value) for name, value in settings.items()) for _, row in others.iterrows()]
        ]
        if len(exact):
            return str(exact.index[0])
        if len(settings) > 1:
            return None
        ((name, wanted),) = settings.items()
        if isinstance(wanted, str) or name not in self._axes:
            return None
        values = others[name].astype(float)
        near = values[(np.sign(values - own[name]) == np.sign(wanted - own[name])) & (values > 0) & (wanted > 0)]
        distance = np.log(near / wanted).abs()
        return str(distance.idxmin()) if len(distance) and distance.min() <= math.log(_FARTHEST) + 1e-9 else None


def _equal(value: Any, wanted: int | str) -> bool:
    return bool(value == wanted) if isinstance(wanted, str) else bool(float(value) == wanted)
