"""`confirm=`: what a study recommended runs again, as it ran there, on seeds that its choice has not seen."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, replace

from experiments.config.errors import ConfigurationError
from experiments.config.schema import SuiteConfig
from experiments.config.search_settings import ConfirmationSettings, Fifo, GridSearch
from experiments.contract.words import labelled, plural
from experiments.planning.configuration import Configuration
from experiments.planning.machines import Cluster
from experiments.planning.plan import Claimed, Plan, concurrency_of
from experiments.study import lookup
from experiments.study.files.folder import StudyFolder
from experiments.study.key import StudyKey
from experiments.study.source import Begins
from experiments.tracking.place import Place

ClaimedBy = Callable[[str, Sequence[str]], Claimed]
"""From a study's name or run id, and what is to run beside its recommendation, to what it said."""


class Confirming(Begins):
    """A new study of configurations of an earlier one."""

    def __init__(
        self, suite: SuiteConfig, place: Place, claimed: Claimed, address: str | None, key: StudyKey | None
    ) -> None:
        """The study whose recommendation is confirmed is found, with the modules of a person's own that it had.

        Args:
            suite: The settings of the command line.
            place: The output folder and the store that have the earlier study, and will keep the new one.
            claimed: What the earlier one said.
            address: Of the cluster to run on, or `local`; None: as the earlier one.
            key: The key by which its command finds the new study again.

        Raises:
            ConfigurationError: The earlier one's folder is not there, or damaged.
        """
        self._claimed, self._suite = claimed, suite
        self._folder = StudyFolder(lookup.folder_of(claimed["study_run"], place, "confirm"))
        self._folder.take_modules(place.output_dir)
        super().__init__(self._folder.hardware(address), place, key)

    def planned(self, cluster: Cluster) -> Plan:
        """As `Begins.planned`: as the configurations were when the earlier study began."""
        earlier = self._folder.plan(cluster, self._suite.tracking)
        known = {c.label: c for c in earlier.configurations}
        labels = [label for claim in self._claimed["claims"].values() for label in (claim["config"], *claim["beside"])]
        if missing := next((label for label in labels if label not in known), None):
            raise ConfigurationError(
                f"confirm={self._suite.confirm.study}: {self._folder.place} does not have the settings of {missing}."
            )
        after = max(self._claimed["seeds"]) + 1
        seeds = tuple(range(after, after + self._suite.confirm.num_seeds))
        configurations = [_fresh(known[label], seeds, self._suite) for label in dict.fromkeys(labels)]
        suite = _of_design(earlier.suite, seeds, self._suite)
        concurrency = concurrency_of(suite, configurations, cluster)
        own = {"seeds": list(seeds), "confirm": {**asdict(self._suite.confirm)}, "reuse": False}
        composed = {**earlier.composed, **own}
        return Plan(suite, composed, configurations, cluster, concurrency, confirms=self._claimed)

    def lines(self, plan: Plan) -> list[str]:
        """As `Source.lines`: also which study it confirms."""
        first, last = plan.seeds[0], plan.seeds[-1]
        what = f"what {plan.study} ({self._claimed['study_run']}) recommends, on {plural(len(plan.seeds), 'seed')}"
        return [labelled("confirms", f"{what} that it has not seen: {first} to {last}"), *super().lines(plan)]


def _fresh(configuration: Configuration, seeds: tuple[int, ...], asked: SuiteConfig) -> Configuration:
    return replace(configuration, suite=_of_design(configuration.suite, seeds, asked))


def _of_design(suite: SuiteConfig, seeds: tuple[int, ...], asked: SuiteConfig) -> SuiteConfig:
    """The settings of the earlier study without what chose its trials."""
    return replace(
        suite,
        study=replace(suite.study, key=asked.study.key),
        seeds=seeds,
        repeats=1,
        search=GridSearch(),
        scheduler=Fifo(),
        confirmation=ConfirmationSettings(),
        max_env_steps=None,
        max_minutes=None,
        confirm=asked.confirm,
        reuse=False,
        resume=None,
        dry_run=asked.dry_run,
    )
