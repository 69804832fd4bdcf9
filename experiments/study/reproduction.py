"""A logged trial, planned again from what its run in MLflow recorded."""

import math
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path

from experiments.config.errors import ConfigurationError, first_line
from experiments.config.output_dir import absolute
from experiments.config.schema import HardwareSettings, StartingPolicy, parse
from experiments.config.trial_config import SHARED, TrialConfig
from experiments.planning.machines import Cluster, local_machine
from experiments.planning.plan import Plan, plan_study
from experiments.rllib import starting_weights
from experiments.rllib.algorithms import is_asynchronous
from experiments.rllib.building import build_algorithm_config, request_for
from experiments.study.files.object_files import ObjectFiles
from experiments.tracking.archive import LoggedTrial
from experiments.tracking.place import Place

STUDY = "reproduce"
"""The study that the second run belongs to."""


def recorded_trial(first: LoggedTrial) -> TrialConfig:
    """The configuration that a trial's run recorded.

    Raises:
        ConfigurationError: The run has not ended or logged nothing, or its record is not the one that
            it was started with.
    """
    run = f"run={first.run_id}"
    if first.status not in ("FINISHED", "FAILED", "KILLED"):
        raise ConfigurationError(f"{run} ({first.name}) has not ended: wait for it, or end it in MLflow.")
    if not first.last_env_steps:
        raise ConfigurationError(
            f"{run} ({first.name}) logged no report, so there is nothing to compare with. Name another run."
        )
    trial = trial_of(first)
    if trial.start is not None:
        raise ConfigurationError(
            f"{run} ({first.name}) went on with the weights of {trial.start.trial}, and cannot be run by itself. "
            "Run its study again: a population comes out the same."
        )
    return trial


def trial_of(logged: LoggedTrial) -> TrialConfig:
    """The configuration in a trial's run.

    Raises:
        ConfigurationError: It is not the one that the trial was started with, or another version's.
    """
    run = f"run={logged.run_id}"
    try:
        trial = TrialConfig.from_mapping({k: v for k, v in logged.config.items() if k != "provenance"})
        config_id = trial.config_id
    except (TypeError, KeyError, AttributeError, ValueError) as error:
        raise ConfigurationError(
            f"{run}: config.json cannot be understood ({first_line(error)}). {_other_version(logged)}"
        ) from None
    if config_id != logged.tags.get("config_id"):
        raise ConfigurationError(
            f"{run}: config.json has the id {config_id}, the tag config_id says {logged.tags.get('config_id')}. "
            f"The record was altered, or: {_other_version(logged)}"
        )
    return trial


def _other_version(first: LoggedTrial) -> str:
    commit = first.provenance.get("commit") or "unknown"
    return f"It may come from another version of the suite: check out the commit that it was recorded with, {commit}."


def starting_again(trial: TrialConfig, study_folder: str | None) -> StartingPolicy | None:
    """The policy that a recorded trial started from, by preference as its study kept it."""
    start = trial.starts_from
    kept = Path(study_folder or "") / starting_weights.FILE
    if start is not None and study_folder and "://" in study_folder:
        kept = absolute(study_folder) / starting_weights.FILE
        with suppress(OSError):  # what it was taken from may be there
            ObjectFiles(study_folder, kept.parent).fetch([starting_weights.FILE])
    return replace(start, source=str(kept)) if start is not None and study_folder and kept.is_file() else start


def plan_again(
    trial: TrialConfig,
    first: LoggedTrial,
    hardware: HardwareSettings,
    cluster: Cluster,
    place: Place,
    start: StartingPolicy | None = None,
) -> Plan:
    """A checked plan of one trial: a recorded one.

    Args:
        trial: The recorded one.
        first: Its run.
        hardware: What it may use.
        cluster: What that has.
        place: For the second run and its files.
        start: The policy that it starts from, where the weights are now.

    Raises:
        ConfigurationError: Its environment is not installed, or its processes do not fit.
    """
    try:
        cpus = cpus_to_declare(trial, first, cluster)
        if hardware.address is None:
            hardware = replace(hardware, num_cpus=cpus)
            cluster = local_machine(hardware)
        composed = {
            **{key: value for key, value in asdict(trial).items() if key in SHARED},
            "seeds": [trial.seed],
            "repeats": 1,
            "hardware": asdict(hardware),
            "search": {"name": "grid"},
            "scheduler": {"name": "fifo"},
            "tracking": {"name": "recorded", "uri": place.store_uri},
            "study": {
                "start": start and asdict(start),
                "name": STUDY,
                "question": f"Does {first.name} of {first.experiment}, run {first.run_id}, come out the same?",
            },
            "output_dir": str(place.output_dir),
        }
        plan = plan_study(parse(composed), lambda choices: composed, cluster)
    except ConfigurationError as error:
        raise ConfigurationError(f"run={first.run_id} cannot be run again here. {error}") from None
    (configuration,) = plan.configurations
    plan = replace(plan, configurations=(replace(configuration, label=trial.label),))
    if plan.trials[0].config_id != trial.config_id:
        raise ConfigurationError(f"run={first.run_id}: {_other_version(first)}")
    return plan


def cpus_to_declare(trial: TrialConfig, first: LoggedTrial, cluster: Cluster) -> int:
    """CPUs to declare to Ray, so that the trial's processes fit.

    Where a machine has fewer CPUs than a trial has processes, they take turns: the result of a synchronous
    algorithm stays the same. An asynchronous one would learn from older samples, so it must have the CPUs that it
    had when it was recorded.

    Raises:
        ConfigurationError: It would not be the same trial there.
    """
    need = request_for(build_algorithm_config(trial)).required_resources
    cpus, gpus = math.ceil(need.get("CPU", 0)), need.get("GPU", 0)
    if gpus > cluster.num_gpus:
        raise ConfigurationError(
            f"It learned on {gpus:g} GPU(s); {cluster}. A CPU rounds differently: use a machine that has them."
        )
    record = first.provenance
    driver_cpus = record.get("host", {}).get("cpu_count") or cpus
    had = cpus if record.get("num_nodes", 1) > 1 else min(cpus, driver_cpus)
    if is_asynchronous(trial.algorithm) and cluster.num_cpus < had:
        raise ConfigurationError(
            f"It needs {cpus} CPUs, and had {had}; {cluster}. {trial.algorithm['name']} learns differently "
            f"where its processes take turns: use a machine with {had} CPUs or more, or a Ray cluster: "
            "hardware.address=host:port."
        )
    return max(int(cpus), int(cluster.num_cpus))
