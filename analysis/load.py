"""A study in MLflow, as two tidy frames. The only way in to MLflow for everything that analyses."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd
import yaml

from analysis import AnalysisError
from analysis.evidence import Claim, Evidence
from analysis.frames import CURVE_METRICS as CURVE_METRICS  # people have it from here
from analysis.frames import MISSING, TrialRow, claims_of, curve_metrics, curves_frame, final_metrics, runs_frame
from analysis.questions.labels import trials_named
from analysis.stores.executions import near, only_execution, opened, runs_of_studies
from analysis.stores.records import STATUS, Run
from experiments.contract import Tag

_OLD_ASYNCHRONOUS, _OLD_REPLAYING = ("impala", "appo"), ("dqn", "sac")
"""The algorithms that there were before a study recorded what its own does."""


@dataclass(frozen=True, repr=False)
class Study:
    """One execution of a study.

    Attributes:
        name: For example `lr_batch`.
        experiment: MLflow's, of its trials: `lr_batch/ppo-cartpole`.
        run_id: Of its run in the experiment `studies`.
        question: What it asks; "" if it says nothing.
        status: finished, failed, running or interrupted.
        started: UTC.
        axes: The searched parameters, columns of `runs`: `("lr", "train_batch_size_total")`.
        paths: Axis to its dotted configuration path: `{"lr": "algorithm.training.lr", ...}`.
        points: Configuration to the searched settings:
            `{"lr=1e-3 b=512": {"algorithm.training.lr": 0.001, ...}}`; empty if the study did not record it.
        facts: Configuration to what `analysis.questions.facts.Facts` wants beside its parameters,
            as far as the study recorded it.
        predicted_mib: Configuration to the memory that a trial of it was predicted to take, MiB;
            empty in studies of earlier versions.
        base: Configuration that a search starts from, and confirms beside what it found; "" in other studies.
        objectives: What a search aims at, columns of `runs`.
        start: The trained policy that all trials start from, in words; "" if they start
            from weights of their seeds' own.
        unmasked: Environments that say which actions are allowed, of which policies choose among all.
        seeds: Planned; of a search, those that it may use.
        concurrency: Trials side by side.
        repeats: Planned runs of each configuration and seed; 1 unless the study asks whether they come out the same.
        command: The command line that ran it; "" if unknown.
        provenance: Of its run's provenance.json: `commit`, `dirty`, `versions`, `host`, `command`;
            empty if it has none.
        tracking_uri: Where it was read, as given, passwords included.
        runs: A row for each planned trial (configuration x seed x repeat), in plan order: repeat by repeat, in it seed
            by seed, every configuration with it. Trials that were not planned follow. Of a trial that was started
            again, its latest run. Columns:

            - run_id: str, NA if the trial has no run.
            - config: categorical, ordered as planned; the configuration, readable.
            - config_id, algorithm, env, hardware, phase: str.
            - seed: int64.
            - repeat: int64; 0 for the first run of a configuration and seed, which alone counts in conclusions.
            - status: str; finished, failed, running, interrupted, or missing: planned, but never started.
            - failure: str; the reason, or "".
            - diverged: bool; whether it failed on a value that was not finite.
            - exclusive: bool; whether it had the machine to itself, so that throughput is comparable.
            - host, cpu, gpu, node_type: str; the machines that its processes ran on, models of their CPUs and of the
              GPUs that it had, and node groups of an autoscaling cluster; each once, joined by commas. "" where there
              is none, or none was recorded.
            - exploratory: bool; whether other trials confirm what it found, so that conclusions rest on these: it
              was chosen by what came out before, may have been stopped early, or is of a design whose best were
              to be confirmed.
            - trial_id: str; its name within the study, "" if it has no run.
            - parent: str; the trial_id of the one whose weights it started from, "" if it started from its own.
            - copied: bool; whether that one was another member's of the population.
            - generation: Int64; of a population, from 0; NA where none searched.
            - start_env_steps: int64; of the checkpoint that it started from, 0 if there was none.
            - end_env_steps: int64; of its last report, `start_env_steps` before the first. Less than budget_env_steps
              in a *finished* trial means that it ended early: it held the target and was to stop there, or a
              scheduler stopped it.
            - bottleneck: str; what limits its speed, as `analysis.questions.bottleneck` names it, "" if unknown.
            - health: str; `ok`, or what was wrong with its curves, likewise.
            - weights: str; a digest of the final weights, "" if unknown.
            - reused_from: str; run id of the trial of another study that it was taken from, "" if it ran in this one.
            - restarts: int64; how often it was taken up again from a checkpoint.
            - reproducible: boolean; whether it must come out the same to the bit when run again: not under an
              asynchronous algorithm or in EnvPool's environments, nor where something raised once and not
              again. NA if unknown.
            - started, ended: UTC, NaT if it was not.
            - budget_env_steps: int64; 0 if unknown.
            - target, score_range_low, score_range_high: float64, returns; NaN if the env has none
              or the study recorded none.
            - failure_below, delta: float64, returns; what the study was given as `report.failure_below` and
              `report.delta`, NaN if nothing.
            - objective: str; what decides: `score`, or another one that the study was given.
            - price_per_hour: float64, of the machine; NaN if unknown.
            - comparison_seeds_per_look, comparison_looks, comparison_alpha: float64; of a sequential comparison, as
              `analysis.stats.sequential.Design` has them, else NaN.
            - constraint_failure_probability, constraint_memory_gib, constraint_hours, constraint_cost: float64; the
              most that a recommendation may come to, as the study was given it as `constraints`, NaN if nothing.
            - commit: str; of the code, "" if unknown.
            - the axes, then every other parameter of the trials: numbers where all values are, else str; NA where a
              trial has no such.
            - score, auc: float64, returns. NaN where not reached, as in all that follow. Where throughput was measured
              (phase is `throughput`), there is none.
            - env_steps_to_target, seconds_to_target: float64. NaN in a *finished* trial means that it never held the
              target: censored, at budget_env_steps and train_s.
            - env_steps_per_s, trained_steps_per_s: float64, over the training seconds.
            - what extensions log as final/..., float64, as their manifests say; NaN where it was not logged.
            - disturbed_share: float64; where throughput was measured, the share of it in which others used the machine.
            - memory_mib: float64, the peak of what the trial's processes had. NaN in stores of earlier versions.
            - start_s, train_s, wall_s: float64, seconds, without pauses: until training began, of training, in all.
              start_s is NaN in stores of earlier versions.
            - paused_s: float64, seconds in which the machine or the trial's process stood still; NaN if it never did.
        curves: A row for each point, sorted by run (as in `runs`), metric (as in the contract) and env steps. A point
            that was logged twice, by a trial that was resumed, is there once, as it was logged last. Columns:

            - run_id, config: categorical.
            - seed, repeat: int64.
            - metric: categorical, `CURVE_METRICS`. The `final/` metrics are columns of `runs` instead.
            - env_steps: int64, on the grid that all trials of the study share.
            - wall_s: float64, seconds from the start of the trial's run to the report.
            - value: float64.
        claims: Environment to what another study said of it, which this one is to confirm; empty of others.
        earlier: Of each study that a search started from its experiment, its run id, and how much it counted: the rank
            correlation of its order with what came out here, 0 where that is not significant, None if it is not known.
    """

    name: str
    experiment: str
    run_id: str
    question: str
    status: str
    started: pd.Timestamp
    axes: tuple[str, ...]
    paths: Mapping[str, str]
    points: Mapping[str, Mapping[str, Any]]
    facts: Mapping[str, Mapping[str, Any]]
    predicted_mib: Mapping[str, float]
    base: str
    objectives: tuple[str, ...]
    start: str
    unmasked: tuple[str, ...]
    seeds: tuple[int, ...]
    concurrency: int
    repeats: int
    command: str
    provenance: Mapping[str, Any]
    tracking_uri: str
    runs: pd.DataFrame
    curves: pd.DataFrame
    claims: Mapping[str, Claim] = field(default_factory=dict)
    earlier: tuple[tuple[str, str, float | None], ...] = ()

    @cached_property
    def evidence(self) -> Evidence:
        """Its trials, with what is computed of them once."""
        return Evidence(self.runs, self.curves, self.axes, self.claims)

    def __repr__(self) -> str:
        configurations = self.runs["config"].cat.categories.size
        repeats = f" x {self.repeats} repeats" if self.repeats > 1 else ""
        return (
            f"Study({self.experiment!r}, {self.run_id}, {self.status}, {configurations} configurations x "
            f"{len(self.seeds)} seeds{repeats}, {len(self.curves):,} points)"
        )

    @property
    def incomplete(self) -> pd.DataFrame:
        """The trials that did not finish: run_id, config, seed, repeat, status, failure."""
        columns = ["run_id", "config", "seed", "repeat", "status", "failure"]
        return self.runs.loc[self.runs["status"] != "finished", columns].reset_index(drop=True)

    def replays(self, runs: pd.DataFrame) -> bool:
        """True if an algorithm of some of its runs learns from a replay buffer."""
        return any(self.facts.get(config, {}).get("replays", False) for config in runs["config"].unique())

    def gaps(self) -> list[str]:
        """The trials that did not finish, a sentence for each cause: `2 of 45 trials failed (out of memory):
        lr=0.03 b=512 s=1, ...`.
        """
        words = {"running": "still running", MISSING: "missing: planned, but without a run"}
        sentences = []
        for (status, failure), trials in self.incomplete.groupby(["status", "failure"], sort=False):
            reason = f" ({failure})" if failure else ""
            sentences.append(
                f"{len(trials)} of {len(self.runs)} trials {words.get(status, status)}{reason}: {trials_named(trials)}."
            )
        return sentences


def load_study(
    study: str | None = None,
    tracking_uri: str | None = None,
    metrics: Sequence[str] | None = None,
    cache_dir: Path | None = None,
) -> Study:
    """Read a study.

    Reading never writes to the store and never blocks a study that is running. What a tracking server gives is kept in
    a local cache, which notices when there is more to read.

    Args:
        study: A name (`lr_batch`) or an experiment (`lr_batch/ppo-cartpole`), of which the latest execution with a
            started trial is read, or the id of a run in the experiment `studies`. None: the latest execution of all.
        tracking_uri: `sqlite:///path` or `http(s)://...`. None: the store in `outputs/`,
            of the working directory or of the project.
        metrics: Those to read into `curves`, of `CURVE_METRICS`. None: all.
        cache_dir: For what a tracking server gave. None: the platform's cache folder, or $RL_SCALING_SUITE_CACHE_DIR.

    Returns:
        The study, finished or not.

    Raises:
        AnalysisError: There is no such study, none of its trials has started, or the store cannot be read.
    """
    uri, store = opened(tracking_uri, cache_dir)
    asked_for = runs_of_studies(store, uri, study)
    with_trials = ((run, store.runs(run.name, (Tag.STUDY_RUN, run.run_id))) for run in asked_for)
    # one that has just begun gives way
    own, trials = next((pair for pair in with_trials if pair[1]), (asked_for[0], []))
    if not trials:
        raise AnalysisError(
            f"No trial of {own.name} (run {own.run_id}) has started: wait for the first, or run the study again."
        )
    trials = sorted(trials, key=lambda trial: (trial.started_ms, trial.run_id))
    plan = _with_generations(_plan(store.content(own, "plan.json"), own), own)
    known = curve_metrics(plan)
    wanted = _known_metrics(metrics, known, plan)
    provenance = json.loads(store.content(own, "provenance.json") or "{}")
    runs = runs_frame(plan, [TrialRow.of_run(trial) for trial in trials])
    run_of = {trial.run_id: trial for trial in trials}
    points = store.points(own.run_id, [run_of[run_id] for run_id in runs["run_id"].dropna()], wanted)
    return Study(
        name=str(plan["study"]),
        experiment=own.name,
        run_id=own.run_id,
        question=str(plan["question"]),
        status=STATUS[own.status],
        started=pd.Timestamp(own.started_ms, unit="ms", tz="UTC"),
        axes=tuple(plan["axes"]),
        paths=dict(plan["axes"]),
        points={entry["config"]: entry["point"] for entry in plan["configurations"] if "point" in entry},
        facts=_facts(plan, runs),
        predicted_mib=plan.get("memory_mib", {}),
        base=str(plan.get("base", "")),
        objectives=tuple(plan.get("objectives", ())),
        start=str(plan.get("start", "")),
        unmasked=tuple(plan.get("unmasked", ())),
        seeds=tuple(plan["seeds"]),
        concurrency=int(plan.get("concurrency", 1)),
        repeats=int(plan.get("repeats", 1)),
        command=str(provenance.get("command") or own.tags.get(Tag.COMMAND, "")),
        provenance=provenance,
        tracking_uri=uri,
        runs=runs,
        curves=curves_frame(points, runs, wanted, known),
        claims=claims_of(plan),
        earlier=_earlier(plan),
    )


def load_studies(names: Sequence[str], tracking_uris: Sequence[str], metrics: Sequence[str]) -> list[Study]:
    """Read several studies, of which each name means one execution alone.

    Args:
        names: As `load_study` takes them.
        tracking_uris: Of their stores: none, one for all, or one for each.
        metrics: Those to read into `curves`.

    Raises:
        AnalysisError: One is not there or its name is ambiguous, one is named twice, or there are not as many stores.
    """
    if len(tracking_uris) not in (0, 1, len(names)):
        raise AnalysisError(
            f"tracking_uri= names {len(tracking_uris)} stores for {len(names)} studies: one for all, or one for each."
        )
    each = len(tracking_uris) == len(names)
    stores: list[str | None] = [*tracking_uris] if each else [next(iter(tracking_uris), None)] * len(names)
    ids = [only_execution(name, uri) for name, uri in zip(names, stores, strict=True)]
    if len(set(zip(ids, stores, strict=True))) < len(ids):
        raise AnalysisError(f"studies=[{','.join(names)}]: names one study twice.")
    return [load_study(run_id, uri, metrics) for run_id, uri in zip(ids, stores, strict=True)]


def load_settings(study: Study) -> tuple[dict[str, dict[str, Any]], dict[str, Any]]:
    """The recorded settings of a study, in full; a read of a file for each configuration.

    Args:
        study: As `load_study` gave it.

    Returns:
        Configuration to the settings of its trials, nested as in a trial's config.json, empty where no trial has
        started; and those of the study as it was composed. Empty where the record is missing.

    Raises:
        AnalysisError: The store cannot be read.
    """
    _, store = opened(study.tracking_uri)
    trials = {trial.run_id: trial for trial in store.runs(study.experiment, (Tag.STUDY_RUN, study.run_id))}
    of_config = study.runs[study.runs["run_id"].isin(trials)].drop_duplicates("config").set_index("config")["run_id"]
    settings = {
        str(config): json.loads(store.content(trials[run_id], "config.json") or "{}")
        for config, run_id in of_config.items()
    }
    return settings, load_composed(study)


def load_composed(study: Study) -> dict[str, Any]:
    """The settings of a study as a whole, as it was composed; empty where the record is missing.

    Args:
        study: As `load_study` gave it.

    Raises:
        AnalysisError: The store cannot be read.
    """
    uri, store = opened(study.tracking_uri)
    (own,) = runs_of_studies(store, uri, study.run_id)
    found: dict[str, Any] = yaml.safe_load(store.content(own, "config.yaml") or "{}")
    return found


def seeds_of_confirmations(study: Study) -> set[int]:
    """The seeds on which the recommendation of a study was run again, or is to be.

    Args:
        study: As `load_study` gave it.

    Raises:
        AnalysisError: The store cannot be read.
    """
    uri, store = opened(study.tracking_uri)
    later = [run for run in runs_of_studies(store, uri, None) if run.tags.get(Tag.CONFIRMS) == study.run_id]
    return {int(seed) for run in later for seed in json.loads(store.content(run, "plan.json") or "{}").get("seeds", ())}


@dataclass(frozen=True)
class Clips:
    """Recorded episodes of the recommended configuration.

    Attributes:
        env: The environment.
        seed: Whose they are: `median` or `best`.
        animations: `best`, `median` and `worst` to WebP, as far as they are there.
    """

    env: str
    seed: str
    animations: Mapping[str, bytes]


def load_clips(study: Study) -> list[Clips]:
    """The recorded episodes of the policies of a study's choice, of its median seed where that is there;
    one for each environment, or none.

    Args:
        study: As `load_study` gave it.

    Raises:
        AnalysisError: The store cannot be read.
    """
    uri, store = opened(study.tracking_uri)
    (own,) = runs_of_studies(store, uri, study.run_id)
    clips = []
    for env in study.runs["env"].unique():
        for seed in ("median", "best"):
            files = {
                role: store.content(own, f"video/{env}/{seed}-seed/{role}.webp") for role in ("best", "median", "worst")
            }
            if found := {role: file for role, file in files.items() if file is not None}:
                clips.append(Clips(str(env), seed, found))
                break
    return clips


def _known_metrics(metrics: Sequence[str] | None, known: Sequence[str], plan: Mapping[str, Any]) -> tuple[str, ...]:
    if metrics is None:
        return tuple(known)
    for name in metrics:
        if name in final_metrics(plan).values():
            raise AnalysisError(
                f"{name} has no curve: it is the column {name.removeprefix('final/')} of the study's runs."
            )
        if name not in known:
            raise AnalysisError(
                f"There is no metric {name!r}{near(name, known)}: analysis.load.CURVE_METRICS lists them."
            )
    return tuple(name for name in known if name in metrics)


def _plan(text: bytes | None, own: Run) -> dict[str, Any]:
    """The plan, as the study recorded it."""
    if text is None:
        raise AnalysisError(
            f"plan.json of the study's run {own.run_id} is missing: restore it, or run the study again."
        )
    try:
        plan: dict[str, Any] = json.loads(text)
    except ValueError:
        raise AnalysisError(
            f"plan.json of the study's run {own.run_id} is damaged: restore it, or run the study again."
        ) from None
    return plan


def _with_generations(plan: dict[str, Any], own: Run) -> dict[str, Any]:
    """The plan of a population with the generation of each trial, where it was not recorded:
    all of one start at the same env steps.
    """
    if own.params.get("scheduler") != "pbt":
        return plan
    searching = [trial for trial in plan.get("trials", ()) if trial.get("exploratory")]
    starts = sorted({trial.get("start", {}).get("env_steps", 0) for trial in searching})
    for trial in searching:
        trial.setdefault("generation", starts.index(trial.get("start", {}).get("env_steps", 0)))
    return plan


def _earlier(plan: Mapping[str, Any]) -> tuple[tuple[str, str, float | None], ...]:
    """`Study.earlier`."""
    prior = plan.get("prior", {"studies": []})
    weights = prior.get("weights", [None] * len(prior["studies"]))
    return tuple((one["name"], one["run"], weight) for one, weight in zip(prior["studies"], weights, strict=True))


def _facts(plan: Mapping[str, Any], runs: pd.DataFrame) -> dict[str, dict[str, Any]]:
    """`Study.facts`; of studies that did not record what their algorithms do, by the names that these had."""
    recorded = {entry["config"]: entry.get("facts", {}) for entry in plan["configurations"]}
    names = dict(zip(runs["config"].astype(str), runs["algorithm"], strict=True))
    return {
        config: {
            "asynchronous": name in _OLD_ASYNCHRONOUS,
            "replays": name in _OLD_REPLAYING,
            **recorded.get(config, {}),
        }
        for config, name in names.items()
    }
