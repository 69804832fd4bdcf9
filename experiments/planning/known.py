"""What of a plan need not run: trials that other studies have run whole."""

from collections.abc import Sequence
from dataclasses import dataclass

from experiments.config.search_settings import searching_seeds
from experiments.config.trial_config import TrialConfig
from experiments.contract.words import labelled, plural, rough, some
from experiments.planning.plan import Plan
from experiments.rllib.algorithms import promises_bits

_MOST_CHANGES = 3
"""Differences that a line names."""


@dataclass(frozen=True)
class Known:
    """The trials of a plan that other studies have run.

    Attributes:
        trials: Those that are taken from there; of a search those that it may ask for.
        seconds: That they took there, all together.
        otherwise: Number of trials that stand in the store as well, but were run otherwise, and are run again.
        changes: The differences, in words.
    """

    trials: Sequence[TrialConfig] = ()
    seconds: float = 0.0
    otherwise: int = 0
    changes: Sequence[str] = ()

    @property
    def env_steps(self) -> int:
        """That they would sample, at most."""
        return sum(trial.budget_env_steps for trial in self.trials)

    def seeds_of(self, label: str) -> int:
        """Number of a configuration's trials that are known."""
        return sum(trial.label == label for trial in self.trials)

    def unused_by(self, plan: Plan) -> int:
        """Env steps that the plan does not sample by that. What a search asks for, and so what of it is known, is not
        known before.
        """
        return 0 if plan.search else self.env_steps


def may_be_known(plan: Plan) -> list[TrialConfig]:
    """The trials of a plan; of a search those that it may ask for of the configurations that are known before."""
    if not plan.search:
        return plan.trials
    confirming = plan.suite.confirmation.seeds if plan.suite.confirms else ()
    seeds = dict.fromkeys((*searching_seeds(plan.suite), *confirming))
    return [configuration.trial(seed) for seed in seeds for configuration in plan.configurations]


def known_line(plan: Plan, known: Known) -> str:
    """How many trials are known, and what that saves."""
    return labelled("known", ". ".join([_number(plan, known), *_samples(known), *_otherwise(known)]))


def _number(plan: Plan, known: Known) -> str:
    count, total = len(known.trials), plural(plan.num_trials, "trial")
    which = " that the search may ask for" if plan.search else f" of {total}"
    if not count:
        none = f"none of the trials{which}" if plan.search else f"none{which}"
        return none if known.otherwise else f"{none}: no other study in this store has run one of them whole"
    trials = plural(count, "trial") if plan.search else str(count)
    most = "up to " if plan.search or plan.suite.stop_at_target else ""
    spared = rough(known.seconds / max(1, min(plan.concurrency, plan.num_trials)))
    return (
        f"{trials}{which}, taken from other studies in this store and not run again: "
        f"{most}{known.env_steps:,} env steps and about {spared} less"
    )


def _samples(known: Known) -> list[str]:
    names = list(dict.fromkeys(t.algorithm["name"] for t in known.trials if not promises_bits(t)))
    if not names:
        return []
    return [f"Those of {' and '.join(names)} are samples of what another run would bring, not the same to the bit"]


def _otherwise(known: Known) -> list[str]:
    if not known.otherwise:
        return []
    number = plural(known.otherwise, "trial")
    return [f"Run otherwise there, and so run again: {number} ({some(known.changes, _MOST_CHANGES)})"]
