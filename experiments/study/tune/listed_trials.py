"""The trials of a study that knows them from the start, one after the other for Tune."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from ray.tune.experiment import Experiment
from ray.tune.experiment.config_parser import _create_trial_from_spec, _make_parser
from ray.tune.search import BasicVariantGenerator

from experiments.config.trial_config import TrialConfig
from experiments.trial.tune_keys import TRIAL


class ListedTrials(BasicVariantGenerator):  # type: ignore[misc]  # Tune ships no type information
    """In place of Tune's generator of a grid, which copies the whole grid for each trial,
    keeps all copies and saves them every 10 s.
    """

    def __init__(
        self, trials: Sequence[TrialConfig], describe: Callable[[TrialConfig], Mapping[str, Any]], max_concurrent: int
    ) -> None:
        """List trials.

        Args:
            trials: In their order.
            describe: As `callbacks.described`, when Tune asks for the trial.
            max_concurrent: Most trials side by side; 0: as many as fit.
        """
        super().__init__(max_concurrent=max_concurrent)
        self._listed, self._describe, self._given = trials, describe, 0

    @property
    def left(self) -> Sequence[TrialConfig]:
        """The trials that Tune has not asked for yet."""
        return self._listed[self._given :]

    # Tune saves it with the experiment; a resume has the trials' own folders
    def __reduce__(self) -> tuple[Any, tuple[()]]:
        return BasicVariantGenerator, ()

    def add_configurations(self, experiments: Any) -> None:
        """Take Tune's settings of the experiment, of which there is one."""
        experiment: Experiment
        (experiment,) = experiments if isinstance(experiments, list) else [experiments]
        self._total_samples = len(self._listed)
        self._trial_generator = self._trials(experiment.spec)

    def _trials(self, spec: Mapping[str, Any]) -> Iterator[Any]:
        parser = _make_parser()
        for number, trial in enumerate(self._listed):
            own, self._given = {**spec, "config": {**spec["config"], TRIAL: self._describe(trial)}}, number + 1
            yield _create_trial_from_spec(
                own, parser, trial_id=f"{self._uuid_prefix}{number:05d}", experiment_tag=str(number)
            )

    def save_to_dir(self, dirpath: str, session_str: str) -> None:
        """Tune's wish to keep it: nothing is needed."""
