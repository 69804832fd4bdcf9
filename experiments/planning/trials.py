"""The trials of a study as they become known: all of them from the start, or one by one as its search asks for them."""

from dataclasses import replace

from ray.tune import PlacementGroupFactory

from experiments.config.search_settings import Fifo
from experiments.config.trial_config import Start, TrialConfig
from experiments.contract import CONFIRM, SEARCH, THROUGHPUT, of_generation
from experiments.planning.configuration import Configuration
from experiments.planning.memory import like
from experiments.planning.plan import Plan
from experiments.search.joint import STALENESS
from experiments.search.strategy import Ask


class StudyTrials:
    """The trials of a study so far.

    Attributes:
        plan: The plan of the study.
        trials: The trials, in the order in which they are run.
        configurations: The trials' configurations; of a plan without a search all.
    """

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.trials: list[TrialConfig] = plan.trials
        self.configurations: list[Configuration] = [] if plan.search else list(plan.configurations)
        self._by_label = {c.label: c for c in self.configurations}

    def configuration_of(self, trial: TrialConfig) -> Configuration:
        """The configuration that a trial is of."""
        return self._by_label[trial.label]

    def request_of(self, trial: TrialConfig) -> PlacementGroupFactory:
        """The resources that a trial reserves."""
        takes_turns = self.plan.measures and self.plan.runs_alone(trial)
        return (takes_turns and self.plan.common_request) or self.configuration_of(trial).request

    def take(self, ask: Ask, parent: TrialConfig | None = None) -> TrialConfig:
        """A trial that a search asks for, from now on one of the study's.

        Args:
            ask: The strategy's ask.
            parent: The trial whose weights it starts from.

        Raises:
            ConfigurationError: Its configuration is refused.
        """
        configuration = self._configuration(ask)
        twin = self._by_label.get(configuration.label)
        if twin is not None and twin.config_id != configuration.config_id:  # as rounded for display they read the same
            g = configuration.generation
            ending = "" if g is None else of_generation("", g)
            label = f"{configuration.label.removesuffix(ending)} id={configuration.config_id}{ending}"
            configuration = replace(configuration, label=label)
        if configuration.label not in self._by_label:
            self._by_label[configuration.label] = configuration
            self.configurations.append(configuration)
        exploratory = self.plan.suite.confirms and ask.phase != CONFIRM
        trial = replace(configuration.trial(ask.seed, phase=ask.phase), exploratory=exploratory)
        if parent is not None:
            trial = replace(trial, start=Start(parent.folder_name, ask.note["from"], ask.note["copied"]))
        self.trials.append(trial)
        return trial

    def _configuration(self, ask: Ask) -> Configuration:
        search, generation = self.plan.search, ask.note.get("generation")
        assert search is not None
        if ask.phase == THROUGHPUT:
            return search.measured(self._configuration(replace(ask, phase=SEARCH)))
        if staleness := ask.note.get(STALENESS):
            return search.delayed(self._configuration(replace(ask, note={})), staleness)
        for known in (*self.configurations, *self.plan.configurations):
            if known.point == ask.point and known.generation == generation and known.is_plain:
                return known
        found = like(search.resolver.configuration(ask.point), self.plan.configurations, self.plan.cluster)
        if generation is None:
            return found
        # Its checkpoint at the end of the generation is what the next one starts from.
        checkpoint = replace(found.suite.checkpoint, every_env_steps=search.generation_ends()[0])
        suite = replace(found.suite, budget_env_steps=ask.note["until"], checkpoint=checkpoint, scheduler=Fifo())
        return replace(found, label=of_generation(found.label, generation), suite=suite, generation=generation)
