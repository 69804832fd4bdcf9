"""One point of a study's space: with all its settings, and built into what a trial needs."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from ray.tune import PlacementGroupFactory

from experiments.config.named_axes import Settings
from experiments.config.schema import SuiteConfig
from experiments.config.search_settings import Pbt
from experiments.config.space import Point
from experiments.config.trial_config import TrialConfig, trial_config
from experiments.contract import FIXED
from experiments.limits.arithmetic import PORTABLE
from experiments.planning.facts import facts_of
from experiments.planning.machines import Cluster
from experiments.planning.node_selection import on_nodes
from experiments.planning.portable import check_portable
from experiments.planning.resources import Layout, check_fits, layout_of
from experiments.rllib.algorithms import batch_env_steps, is_asynchronous
from experiments.rllib.building import build_algorithm_config, request_for
from experiments.rllib.checkpoint_sizes import checkpoint_bytes, networks_sizes
from experiments.rllib.memory_sizes import ProcessMemory, process_memory


@dataclass(frozen=True)
class ResolvedPoint:
    """A point with all its settings, ready to be built.

    Attributes:
        label: The difference from the others, in words.
        point: The point as it was drawn.
        settings: The settings that it stands for.
        suite: The settings, with every count, the report grid and the spacing of the checkpoints.
        rules: Setting of `training` to the rule that its number comes from.
        generation: Generation of a population, at whose end it stops; None in other studies.
        staleness: Training batches for which its samples wait in a search that measures what that costs, beside those
            of its point.
    """

    label: str
    point: Point
    settings: Settings
    suite: SuiteConfig
    rules: Mapping[str, str] = field(default_factory=dict)
    generation: int | None = None
    staleness: int = 0

    def trial(self, seed: int, repeat: int = 0, phase: str = FIXED) -> TrialConfig:
        """Its trial with a seed."""
        return trial_config(self.suite, seed, self.label, repeat, self.rules, self.settings.multiples, phase)

    @property
    def config_id(self) -> str:
        """That all its trials have."""
        return self.trial(0).config_id

    @property
    def layout(self) -> Layout:
        """The processes of a trial."""
        return layout_of(self.suite.algorithm)

    @property
    def is_plain(self) -> bool:
        """True if it trains as its point says: a joint search measures throughput too, and makes samples wait."""
        return self.suite.measurement is None and not self.staleness


@dataclass(frozen=True, kw_only=True)
class Configuration(ResolvedPoint):
    """A resolved point that RLlib takes and the cluster can hold.

    Attributes:
        request: The processes of a trial, with their memory once that is planned (`planning.memory`).
        batch_env_steps: Env steps of one training batch over all learners.
        checkpoint_bytes: Size of one checkpoint, about.
        final_bytes: Size of that of a trial that has finished.
        memory: The memory of its processes, without environments.
        predicted_bytes: The same with them, of each process of the request; empty before it is planned.
        facts: Facts that the analysis needs beside the parameters.
    """

    request: PlacementGroupFactory
    batch_env_steps: int
    checkpoint_bytes: int
    final_bytes: int
    memory: ProcessMemory
    facts: Mapping[str, Any]
    predicted_bytes: tuple[int, ...] = ()

    @classmethod
    def of(cls, resolved: ResolvedPoint, cluster: Cluster) -> "Configuration":
        """Build a resolved point into an RLlib config, once, and take from it what the study needs to know.

        Raises:
            ConfigurationError: RLlib refuses it, or the cluster cannot hold it.
        """
        suite = resolved.suite
        trial = resolved.trial(suite.seeds[0])
        if suite.bits == PORTABLE:
            check_portable(trial, resolved.layout, cluster)
        config = build_algorithm_config(trial)
        networks = networks_sizes(trial, config)
        size, final = checkpoint_bytes(trial, config, networks)
        request = on_nodes(request_for(config), suite.hardware, cluster, is_asynchronous(suite.algorithm))
        check_fits(request, cluster, suite.hardware.name, config.num_env_runners)
        return cls(
            **{f.name: getattr(resolved, f.name) for f in fields(ResolvedPoint)},
            request=request,
            batch_env_steps=batch_env_steps(config),
            checkpoint_bytes=size,
            final_bytes=size if isinstance(suite.scheduler, Pbt) else final,
            memory=process_memory(trial, config, networks),
            facts=facts_of(config, suite.env, suite.hardware, cluster),
        )
