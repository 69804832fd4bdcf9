"""What is pinned of plans: every pair's configuration id, and the record of each study and search."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from experiments.config.errors import ConfigurationError
from experiments.planning.machines import Cluster, Node
from experiments.planning.record import plan_record
from experiments.planning.trials import StudyTrials
from tests.support.planning import plan_for
from tests.support.suite import PAIRS

FOLDER = Path(__file__).parent / "pins"
MACHINE = Cluster((Node(16, 0),))
STUDIES = (
    *(
        "study=lr_batch",
        "study=smoke",
        "study=lr_rules",
        "study=batch_invariance",
        "study=batch_recipe",
        "study=lockstep",
    ),
    *(
        "study=noise_scale",
        "study=replay algorithm=dqn",
        "study=sensitivity",
        "study=algorithms env=cartpole",
        "study=runner_scaling",
    ),
    *("study=runner_convergence", "study=reproducibility", "study=vectorization", "study=throughput_algorithms"),
    *("study=learner_scaling hardware.num_learners=1", "search=racing", "search=optuna", "search=compare study=smoke"),
    *("scheduler=asha", "scheduler=pbt scheduler.population=4"),
)


def config_ids() -> dict[str, Any]:
    """Algorithm and environment to the id of the base point, or to why there is none."""
    return {f"{algorithm}-{env}": _config_id(f"algorithm={algorithm}", f"env={env}") for algorithm, env in PAIRS}


def _config_id(*words: str) -> str:
    try:
        (configuration,) = plan_for("study=single", *words, cluster=MACHINE).configurations
    except ConfigurationError:
        return "refused"
    return configuration.trial(0).config_id


def plans() -> dict[str, Any]:
    """A command's words to the plan.json of its study, a line for each configuration."""
    return {line: pinned for words in STUDIES for line, pinned in plan(words).items()}


def plan(words: str) -> dict[str, Any]:
    """The record of one study, in lines."""
    record = plan_record(StudyTrials(plan_for(*words.split(), cluster=MACHINE)))
    configurations = record.pop("configurations")
    del record["memory_mib"]  # with what environments take, which is measured
    return {words: record, **{f"{words}: {configuration['config']}": configuration for configuration in configurations}}


PINS: Mapping[str, Callable[[], dict[str, Any]]] = {"config_ids": config_ids, "plans": plans}


def text_of(pins: Mapping[str, Any]) -> str:
    """As a file whose changes can be read: JSON, a line for each entry."""
    return (
        "{\n"
        + ",\n".join(f"{json.dumps(name)}: {json.dumps(pins[name], sort_keys=True)}" for name in sorted(pins))
        + "\n}\n"
    )
