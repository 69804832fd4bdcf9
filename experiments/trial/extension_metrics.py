"""The metrics of extensions, and of files of a person's own, in a trial."""

import sys
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import TYPE_CHECKING, Any

from experiments.config.extension import Measured, known
from experiments.config.trial_config import TrialConfig
from experiments.contract.extensions import METRICS_OF_MODULE

if TYPE_CHECKING:
    from ray.rllib.algorithms.algorithm import Algorithm


class MeasuredByModule(Measured):
    """The metrics of a module of a person's own: what its function `metrics` makes of RLlib's results."""

    def __init__(self, module: ModuleType) -> None:
        self.key, self._module = f"module {module.__name__}", module
        self._last: dict[str, float] = {}

    def add(self, result: Mapping[str, Any]) -> None:
        """Ask the module what it makes of an iteration."""
        self._last.update(self._module.metrics(result))

    def report(self) -> dict[str, float]:
        """Those of the last iteration that gave them."""
        last, self._last = self._last, {}
        return last


@dataclass(frozen=True)
class _Named:
    """Whose a measurement is, where its metrics are named, and their names."""

    what: str
    where: str
    names: Collection[str]
    measured: Measured

    def checked(self, metrics: Mapping[str, Any]) -> dict[str, float]:
        if unnamed := metrics.keys() - set(self.names):
            raise RuntimeError(
                f"{self.what} gives the metric {min(unnamed)}, which {self.where} does not name: "
                "add it there, with its meaning and unit."
            )
        return {name: float(value) for name, value in metrics.items()}


class ExtensionMetrics:
    """All that is measured in one trial beside what the suite measures itself."""

    def __init__(self, trial: TrialConfig, algorithm: "Algorithm", reserved: Collection[str]) -> None:
        """Begin.

        Args:
            trial: The trial, whose modules are imported.
            algorithm: The trial's algorithm, just built.
            reserved: Keys of what else a checkpoint holds of the trial.

        Raises:
            RuntimeError: A key is taken.
        """
        manifests = {extension.name: extension.manifest for extension in known()}
        self._each = [
            _Named(f"the extension {name}", "its manifest", manifests[name].metrics, measured)
            for name, settings in trial.extension.items()
            if (measured := settings.measure_in(algorithm)) is not None
        ]
        for name in trial.modules:
            if (names := getattr(sys.modules[name], METRICS_OF_MODULE, None)) is not None:
                measured = MeasuredByModule(sys.modules[name])
                self._each.append(_Named(f"{name}.metrics", f"{METRICS_OF_MODULE} of the module", names, measured))

        keys = [each.measured.key for each in self._each]
        if taken := next((key for key in keys if key in reserved or keys.count(key) > 1), None):
            raise RuntimeError(f"{taken!r} is taken as the key of what is measured. Give Measured.key another word.")

    def add(self, result: Mapping[str, Any]) -> None:
        """Tell all of a training iteration."""
        for each in self._each:
            each.measured.add(result)

    def report(self) -> dict[str, float]:
        """The metrics since the last report.

        Raises:
            RuntimeError: One is not named.
        """
        return {name: value for each in self._each for name, value in each.checked(each.measured.report()).items()}

    def final(self) -> dict[str, float]:
        """The metrics over the whole trial.

        Raises:
            RuntimeError: One is not named.
        """
        return {name: value for each in self._each for name, value in each.checked(each.measured.final()).items()}

    def states(self) -> dict[str, Any]:
        """The states that go with a checkpoint, by key."""
        return {each.measured.key: each.measured.state for each in self._each if each.measured.state is not None}

    def restore(self, states: Mapping[str, Any]) -> None:
        """Go on from what went with a checkpoint."""
        for each in self._each:
            each.measured.state = states.get(each.measured.key, each.measured.state)
