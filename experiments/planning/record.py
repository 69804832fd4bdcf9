"""A plan as it is recorded in MLflow: the parameters of its runs, and `plan.json`,
from which the analysis knows what was to be run.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from experiments.config.extension import known, settings_of
from experiments.config.objective_settings import SCORE
from experiments.config.space import value_at
from experiments.config.trial_config import GROUPS, TrialConfig
from experiments.contract import CONFIRM, FIXED, SEARCH, THROUGHPUT
from experiments.limits.arithmetic import NATIVE
from experiments.planning.axes import TRAINING_PARAMS, param_name, rule_param
from experiments.planning.configuration import Configuration
from experiments.planning.plan import Plan
from experiments.planning.trials import StudyTrials
from experiments.rllib.building import is_unmasked
from experiments.search.comparing import Comparing


def study_params(plan: Plan) -> dict[str, Any]:
    """Parameters of the study's own run, the same when it goes on with configurations that it found by then."""
    points = {repr(c.point) for c in plan.configurations if c.generation is None}
    return {
        "search": plan.suite.search.name,
        "scheduler": plan.suite.scheduler.name,
        "configurations": "endless" if plan.search and plan.search.is_endless else len(points),
        "seeds": len(plan.seeds),
        "repeats": plan.repeats,
        "budget_env_steps": plan.suite.budget_env_steps,
        "concurrency": plan.concurrency,
        "cluster": str(plan.cluster),
        **{f"space.{path}": values for path, values in plan.suite.study.space.items()},
    }


def trial_params(plan: Plan, trial: TrialConfig) -> dict[str, Any]:
    """Parameters of a trial's run: the canonical ones it has, and whatever is searched."""
    training, runners, learners = (trial.algorithm[section] for section in ("training", "env_runners", "learners"))
    params = {
        "algorithm": trial.algorithm["name"],
        "env": trial.env.name,
        "seed": trial.seed,
        "budget_env_steps": trial.budget_env_steps,
        "train_batch_size_total": trial.total_train_batch_size,
        **{param_name(name): training[name] for name in TRAINING_PARAMS if training.get(name) is not None},
        **{name: runners[name] for name in ("num_env_runners", "num_envs_per_env_runner")},
        **{name: learners[name] for name in ("num_learners", "num_gpus_per_learner")},
        "threads_per_process": trial.threads_per_process,
        "vectorize_mode": trial.env.vectorize_mode,
        **({"start": trial.starts_from.run or trial.starts_from.source} if trial.starts_from else {}),
        **({"stagger": True} if trial.env.stagger else {}),
        **({"bits": trial.bits} if trial.bits != NATIVE else {}),
        **({} if trial.preprocessing.is_none else {"preprocessing": str(trial.preprocessing)}),
        **{rule_param(name): rule for name, rule in trial.rules.items()},
    }
    if (intensity := training.get("training_intensity")) is not None:
        params["update_to_data"] = intensity / trial.total_train_batch_size
    mapping = trial.to_mapping()
    if any(axis.path.startswith("extension.") for axis in plan.axes):
        mapping["extension"] = settings_of(trial.extension)
    for axis in plan.axes:
        if axis.path not in GROUPS and axis.param not in params:
            params[axis.param] = trial.multiples.get(axis.path, value_at(mapping, axis.path))
    for axis in plan.axes:
        if axis.spans_decades and params[axis.param] is not None:
            params[axis.log_param] = round(math.log10(params[axis.param]), 4)
    return params


def searched_params(plan: Plan) -> list[str]:
    """The searched settings' names among a trial's parameters; of one that spans decades, its logarithm's."""
    return [axis.drawn_param for axis in plan.axes]


def plan_record(trials: StudyTrials, belief: Sequence[float] | None = None) -> dict[str, Any]:
    """The study as the analysis reads it: every configuration, also those that never get to start.

    Args:
        trials: Its trials.
        belief: How much each earlier study counted, of a search that started from them; None before that is known.
    """
    plan, search = trials.plan, trials.plan.search
    record = {
        "study": plan.study,
        "question": plan.question,
        **({"start": str(plan.start)} if plan.start else {}),
        **({"confirms": dict(plan.confirms)} if plan.confirms else {}),
        **({"report": given} if (given := _report(plan)) else {}),
        **({"unmasked": unmasked} if (unmasked := _unmasked(plan)) else {}),
        **({"metrics": metrics} if (metrics := _metrics(plan)) else {}),
        **({"objective": objective} if (objective := plan.suite.objective.name) != SCORE else {}),
        **({"constraints": constraints} if (constraints := dict(plan.suite.constraints.given)) else {}),
        "seeds": list(plan.seeds),
        "repeats": plan.repeats,
        "axes": {axis.name: axis.path for axis in plan.axes},
        "exclusive": plan.exclusive,
        "concurrency": plan.concurrency,
        "phase": _phase(plan),
        "configurations": [_configuration(plan, c) for c in trials.configurations],
        "memory_mib": {c.label: round(sum(c.predicted_bytes) / 2**20) for c in trials.configurations},
    }
    if search is None:
        return record
    if plan.suite.confirms:
        record |= {"base": search.base_label, "objectives": list(search.outline.objectives)}
    if search.prior:
        record["prior"] = {**asdict(search.prior), **({} if belief is None else {"weights": list(belief)})}
    if isinstance(search.outline, Comparing):
        record["comparison"] = asdict(search.outline.design)
    asked = [_asked(trial, trials.configuration_of(trial).generation) for trial in trials.trials]
    if plan.measures:
        asked = [{**a, "exclusive": plan.runs_alone(t)} for a, t in zip(asked, trials.trials, strict=True)]
    return {**record, "trials": asked}


def _phase(plan: Plan) -> str:
    if plan.is_measured:
        return THROUGHPUT
    return SEARCH if plan.suite.is_search else CONFIRM if plan.confirms else FIXED


def _unmasked(plan: Plan) -> list[str]:
    """Environments whose masks of actions are not applied."""
    return list(dict.fromkeys(c.suite.env.name for c in plan.configurations if is_unmasked(c.trial(plan.seeds[0]))))


def _metrics(plan: Plan) -> dict[str, str]:
    """Metrics that the suite does not know without a package or file of a person's own, name to meaning and unit."""
    asked = {name for c in plan.configurations for name in (*c.suite.extension, *c.suite.modules)}
    named = [one.manifest.metrics for one in known() if one.name in asked and not one.is_built_in]
    return {name: meaning for metrics in named for name, meaning in metrics.items()}


def _report(plan: Plan) -> dict[str, float]:
    """By what conclusions are drawn, as far as the study says it."""
    report = plan.suite.report
    given = {} if report is None else {"failure_below": report.failure_below, "delta": report.delta}
    return {name: value for name, value in given.items() if value is not None}


def _configuration(plan: Plan, configuration: Configuration) -> dict[str, Any]:
    suite, trial = configuration.suite, configuration.trial(plan.seeds[0])
    params = trial_params(plan, trial)
    del params["seed"]
    return {
        "config": configuration.label,
        "config_id": trial.config_id,
        "algorithm": suite.algorithm["name"],
        "env": suite.env.name,
        "hardware": suite.hardware.name,
        "budget_env_steps": suite.budget_env_steps,
        "target": suite.env.target,
        "score_range": list(suite.env.score_range),
        **({} if (price := suite.hardware.price_per_hour) is None else {"price_per_hour": price}),
        "point": dict(configuration.settings.shown),
        "facts": dict(configuration.facts),
        "params": params,
    }


def _asked(trial: TrialConfig, generation: int | None) -> Mapping[str, Any]:
    lineage: dict[str, Any] = {} if generation is None else {"generation": generation}
    lineage |= {"start": asdict(trial.start)} if trial.start else {}
    return {
        "config": trial.label,
        "seed": trial.seed,
        "phase": trial.phase,
        "exploratory": trial.exploratory,
        **lineage,
    }
