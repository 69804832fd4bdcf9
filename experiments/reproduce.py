"""Runs a logged trial again and says whether it came out the same.

python experiments/reproduce.py run=<MLflow run id> [tracking_uri=...] [output_dir=...] [hardware.address=...]
"""

import json
import logging
import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from analysis.stats.curves import CurveComparison, Judgement, Verdict, compare_curves, judge
from experiments.config.errors import ConfigurationError, first_line
from experiments.config.output_dir import check_writable
from experiments.config.trial_config import TrialConfig
from experiments.tracking.archive import SCORE, Archive, LoggedTrial
from experiments.tracking.provenance import without_passwords
from experiments.tracking.provenance_changes import Change, changes

if TYPE_CHECKING:  # Ray is imported once the record is known to be good: it takes seconds
    from experiments.config.schema import HardwareSettings
    from experiments.planning.plan import Plan
    from experiments.planning.resources import Cluster
    from experiments.study.driver import StudyOutcome

HELP = """\
Runs a logged trial again, from what its run in MLflow recorded, and says whether it came out the same.

  python experiments/reproduce.py run=<MLflow run id> [key=value ...]

  run=              the trial's run id, from its page in MLflow's UI
  tracking_uri=     the store that holds it: sqlite:////absolute/mlflow.db or http(s)://host:port; default: mlflow.db in output_dir
  output_dir=       where the second run's files go; default: the folder of an embedded store, else outputs
  hardware.address= a running Ray cluster to run it on, auto or host:port; default: this machine

Curves are compared at every report, bit by bit, and the final weights, but nothing that depends on the clock. IMPALA and APPO sample
while they learn and promise no bits: their new score must be one that the other seeds of the study let expect.

The verdict is in the experiment reproduce/<algorithm>-<env> of the same store: a run that names the first.

Exit codes: 0 identical, or equivalent (IMPALA, APPO). 1 different, or it cannot be judged, or the trial failed this time.
2 refused: nothing was started. 130 SIGINT, 143 SIGTERM.
"""

STUDY = "reproduce"
"""The study that the second run belongs to."""
TIMEOUT_S = 30.0
EXIT_CODES = {Verdict.IDENTICAL: 0, Verdict.EQUIVALENT: 0, Verdict.DIFFERENT: 1, Verdict.UNDECIDED: 1, Verdict.FAILED: 1}
REFUSED = 2
MOST_TOLD = 8
"""Values and changes that are told in words; verdict.json has all."""

_KEYS = ("run", "tracking_uri", "output_dir", "hardware.address")


def main(arguments: Sequence[str]) -> int:
    """The command line; its exit code."""
    if {"-h", "--help", "help"} & set(arguments):
        print(HELP, end="")
        return 0
    logging.basicConfig(level=logging.WARNING, format="%(message)s")
    try:
        return reproduce(**settings(arguments))
    except ConfigurationError as error:
        print(f"error: {error}", file=sys.stderr)
        return REFUSED
    except KeyboardInterrupt:
        return 130


def settings(arguments: Sequence[str]) -> dict[str, Any]:
    """The command line's words, as `reproduce` takes them.

    Raises:
        ConfigurationError: A word is of another form, its key is unknown, or `run` is missing.
    """
    given: dict[str, str] = {}
    for word in arguments:
        key, equals, value = word.partition("=")
        if not equals or key not in _KEYS:
            raise ConfigurationError(
                f"{word!r} is not understood. Usage: python experiments/reproduce.py run=... {' '.join(f'[{k}=...]' for k in _KEYS[1:])}"
            )
        given[key] = value
    if not given.get("run"):
        raise ConfigurationError("run= is missing: name the trial by its MLflow run id, for example run=0123456789abcdef0123456789abcdef.")
    uri = given.get("tracking_uri", "")
    store = Path(uri.removeprefix("sqlite:///")).expanduser().absolute() if uri.startswith("sqlite:///") else None
    output_dir = Path(given.get("output_dir", store.parent if store else "outputs")).expanduser().absolute()
    return {
        "run_id": given["run"],
        "tracking_uri": f"sqlite:///{store or output_dir / 'mlflow.db'}" if store or not uri else uri,
        "output_dir": output_dir,
        "address": given.get("hardware.address") or None,
    }


def reproduce(run_id: str, tracking_uri: str, output_dir: Path, address: str | None = None) -> int:
    """Run a logged trial again and compare; its exit code.

    Args:
        run_id: The trial's run in MLflow.
        tracking_uri: Of the store that holds it, and takes the second run.
        output_dir: Absolute; for the second run's files.
        address: Of a Ray cluster to run it on; None: this machine.

    Raises:
        ConfigurationError: It cannot be run again here; nothing was started.
    """
    check_writable(output_dir)
    archive = Archive(tracking_uri, output_dir, TIMEOUT_S)
    first = archive.trial(run_id)
    other_scores = archive.scores_of_other_seeds(first)
    trial = recorded_trial(first)

    import ray

    from analysis.document import conclusions
    from experiments.config.schema import HardwareSettings
    from experiments.rllib.building import promises_bits
    from experiments.study import progress
    from experiments.study.driver import cluster_of, quiet, run_study, start_ray

    quiet()
    console = progress.console()
    hardware = HardwareSettings(first.tags.get("hardware", "recorded"), address, threads_per_process=trial.threads_per_process)
    try:
        plan = plan_again(trial, first, hardware, cluster_of(hardware), tracking_uri, output_dir)
        for line in progress.plan_lines(plan):
            console.print(line, highlight=False, soft_wrap=True)
        if not ray.is_initialized():
            start_ray(plan.suite.hardware)
        outcome = run_study(plan, output_dir, console, conclusions)
    finally:
        ray.shutdown()
    second = _second(archive, plan, outcome)
    if outcome.interrupted_by is not None:
        if second is not None:
            _write(archive, second.run_id, {"reproduces": first.run_id})
        console.print("interrupted: there is no verdict", highlight=False)
        return outcome.exit_code
    found = conclude(first, second, outcome.outcomes[0].failure, not promises_bits(trial), list(other_scores.values()))
    for line in found.lines():
        console.print(line, highlight=False, soft_wrap=True)
    if second is not None:
        console.print(_record(archive, found, second, outcome.study_run, tracking_uri), highlight=False, soft_wrap=True)
    return EXIT_CODES[found.judgement.verdict]


def recorded_trial(first: LoggedTrial) -> TrialConfig:
    """The configuration that a trial's run recorded.

    Raises:
        ConfigurationError: The run has not ended or logged nothing, or its record is not the one that it was started with.
    """
    run = f"run={first.run_id}"
    if first.status not in ("FINISHED", "FAILED", "KILLED"):
        raise ConfigurationError(f"{run} ({first.name}) has not ended: wait for it, or end it in MLflow.")
    if not first.last_env_steps:
        raise ConfigurationError(f"{run} ({first.name}) logged no report, so there is nothing to compare with. Name another run.")
    try:
        trial = TrialConfig.from_mapping({k: v for k, v in first.config.items() if k != "provenance"})
        config_id = trial.config_id
    except (TypeError, KeyError, AttributeError, ValueError) as error:
        raise ConfigurationError(f"{run}: config.json cannot be understood ({first_line(error)}). {_other_version(first)}") from None
    if config_id != first.tags.get("config_id"):
        raise ConfigurationError(
            f"{run}: config.json has the id {config_id}, the tag config_id says {first.tags.get('config_id')}. The record was altered, or: "
            + _other_version(first)
        )
    if trial.start is not None:
        raise ConfigurationError(
            f"{run} ({first.name}) went on with the weights of {trial.start.trial}, and cannot be run by itself. Run its study again: a "
            "population comes out the same."
        )
    return trial


def _other_version(first: LoggedTrial) -> str:
    commit = _provenance(first).get("commit") or "unknown"
    return f"It may come from another version of the suite: check out the commit that it was recorded with, {commit}."


def _provenance(trial: LoggedTrial) -> Mapping[str, Any]:
    return trial.config.get("provenance") or {}


def plan_again(
    trial: TrialConfig, first: LoggedTrial, hardware: "HardwareSettings", cluster: "Cluster", tracking_uri: str, output_dir: Path
) -> "Plan":
    """A checked plan of one trial: a recorded one.

    Args:
        trial: The recorded one.
        first: Its run.
        hardware: What it may use.
        cluster: What that has.
        tracking_uri: Of the store that takes the second run.
        output_dir: Absolute.

    Raises:
        ConfigurationError: Its environment is not installed, or its processes do not fit.
    """
    from experiments.planning.plan import make_plan
    from experiments.planning.resources import local_machine

    own = (
        "seed",
        "repeat",
        "label",
        "rules",
        "phase",
        "exploratory",
        "start",
        "threads_per_process",
    )  # of a trial; all else it shares with its study
    try:
        cpus = cpus_to_declare(trial, first, cluster)
        if hardware.address is None:
            hardware = replace(hardware, num_cpus=cpus)
            cluster = local_machine(hardware)
        composed = {
            **{key: value for key, value in asdict(trial).items() if key not in own},
            "seeds": [trial.seed],
            "repeats": 1,
            "hardware": asdict(hardware),
            "search": {"name": "grid"},
            "scheduler": {"name": "fifo"},
            "tracking": {"name": "recorded", "uri": tracking_uri},
            "study": {"name": STUDY, "question": f"Does {first.name} of {first.experiment}, run {first.run_id}, come out the same?"},
            "output_dir": str(output_dir),
        }
        plan = make_plan(lambda choices: composed, cluster)
    except ConfigurationError as error:
        raise ConfigurationError(f"run={first.run_id} cannot be run again here. {error}") from None
    (configuration,) = plan.configurations
    plan = replace(plan, configurations=(replace(configuration, label=trial.label),))
    if plan.trials[0].config_id != trial.config_id:
        raise ConfigurationError(f"run={first.run_id}: {_other_version(first)}")
    return plan


def cpus_to_declare(trial: TrialConfig, first: LoggedTrial, cluster: "Cluster") -> int:
    """CPUs to declare to Ray, so that the trial's processes fit.

    Where a machine has fewer CPUs than a trial has processes, they take turns: the result of a synchronous algorithm stays the same. An
    asynchronous one would learn from older samples, so it must have the CPUs that it had when it was recorded.

    Raises:
        ConfigurationError: It would not be the same trial there.
    """
    from experiments.rllib.building import build_algorithm_config, is_asynchronous, request_for

    need = request_for(build_algorithm_config(trial)).required_resources
    cpus, gpus = math.ceil(need.get("CPU", 0)), need.get("GPU", 0)
    if gpus > cluster.num_gpus:
        raise ConfigurationError(f"It learned on {gpus:g} GPU(s); {cluster}. A CPU rounds differently: use a machine that has them.")
    record = _provenance(first)
    driver_cpus = record.get("host", {}).get("cpu_count") or cpus
    had = cpus if record.get("num_nodes", 1) > 1 else min(cpus, driver_cpus)
    if is_asynchronous(trial.algorithm) and cluster.num_cpus < had:
        raise ConfigurationError(
            f"It needs {cpus} CPUs, and had {had}; {cluster}. {trial.algorithm['name']} learns differently where its processes take "
            f"turns: use a machine with {had} CPUs or more, or a Ray cluster: hardware.address=host:port."
        )
    return max(int(cpus), int(cluster.num_cpus))


def _second(archive: Archive, plan: "Plan", outcome: "StudyOutcome") -> LoggedTrial | None:
    """The second run; None if MLflow does not have the whole of it."""
    if outcome.study_run is None or outcome.undelivered:
        return None
    try:
        ids = archive.trials_of(plan.experiment, outcome.study_run)
        return archive.trial(ids[0]) if ids else None
    except ConfigurationError as error:
        print(f"warning: {error}", file=sys.stderr)
        return None


@dataclass(frozen=True)
class Reproduction:
    """What came of running a trial again.

    Attributes:
        first: The run that was recorded.
        second: The new one; None if MLflow does not have it.
        curves: Their curves, compared.
        weights: Digests of their final weights.
        scores: Their scores.
        other_scores: Of the other seeds in the first run's study.
        judgement: The verdict.
        changed: What differs between what was recorded with both.
        remarks: What else one must know, in sentences.
    """

    first: LoggedTrial
    second: LoggedTrial | None
    curves: CurveComparison
    weights: tuple[str | None, str | None]
    scores: tuple[float | None, float | None]
    other_scores: Sequence[float]
    judgement: Judgement
    changed: Sequence[Change]
    remarks: Sequence[str]

    @property
    def as_promised(self) -> bool:
        """Whether the trial came out as its algorithm promises."""
        return EXIT_CODES[self.judgement.verdict] == 0

    @property
    def first_difference(self) -> str:
        """Where the runs part first: `train/return_mean at 4096`; empty if they do not."""
        if self.curves.difference is not None:
            return str(self.curves.difference)
        return "final weights" if None not in self.weights and self.weights[0] != self.weights[1] else ""

    def lines(self) -> list[str]:
        """For the terminal."""
        return [f"{title:<11} {text}" for title, text in self._sentences()]

    def note(self) -> str:
        """For MLflow, as Markdown, with a link to the first run."""
        link = f"[{self.first.name}](#/experiments/{self.first.experiment_id}/runs/{self.first.run_id})"
        question = f"**Question.** Does {link} of {self.first.experiment} come out the same?"
        return "\n\n".join([question, *(f"**{title.capitalize()}.** {text}" for title, text in self._sentences())])

    def _sentences(self) -> list[tuple[str, str]]:
        found = [("verdict", f"{self.judgement.verdict}: {self.judgement.reason}")]
        if not self.as_promised:
            if (difference := self.curves.difference) is not None:
                values = [f"{name} {_number(before)} -> {_number(after)}" for name, (before, after) in difference.values.items()]
                found.append(("difference", f"at {difference.env_steps} env steps: {_listed(values)}"))
            found.append(("changed", _listed([str(change) for change in self.changed]) or "nothing that was recorded"))
        return [*found, *(("remark", remark) for remark in self.remarks)]

    def to_mapping(self) -> dict[str, Any]:
        """Everything, as JSON takes it."""
        difference = self.curves.difference
        return {
            "verdict": self.judgement.verdict,
            "reason": self.judgement.reason,
            "exit_code": EXIT_CODES[self.judgement.verdict],
            "first": _identity(self.first),
            "second": _identity(self.second) if self.second is not None else None,
            "first_difference": None
            if difference is None
            else {"env_steps": difference.env_steps, "values": {name: list(pair) for name, pair in difference.values.items()}},
            "compared": {"metrics": list(self.curves.metrics), "reports": self.curves.reports},
            "only_in_first": list(self.curves.missing),
            "only_in_second": list(self.curves.added),
            "weights": list(self.weights),
            "scores": list(self.scores),
            "scores_of_other_seeds": list(self.other_scores),
            "changed": [asdict(change) for change in self.changed],
            "remarks": list(self.remarks),
        }


def conclude(
    first: LoggedTrial, second: LoggedTrial | None, failure: str, asynchronous: bool, other_scores: Sequence[float]
) -> Reproduction:
    """Compare two runs of a trial.

    Args:
        first: The run that was recorded.
        second: The new one; None if MLflow does not have it.
        failure: Why the new one failed; empty if it did not.
        asynchronous: Whether the trial promises a distribution, not bits.
        other_scores: Of the other seeds in the first run's study.
    """
    whole = first.status == "FINISHED"
    curves = compare_curves(first.curves, second.curves if second is not None else {}, None if whole else first.last_env_steps)
    weights = first.tags.get("weights"), second.tags.get("weights") if second is not None else None
    scores = _score(first), _score(second)
    judgement = judge(curves, weights, scores[1], other_scores, asynchronous)
    if second is None:
        judgement = Judgement(Verdict.UNDECIDED, "MLflow did not take the second run")
    if failure:
        again = ", as the first run did" if failure == first.tags.get("failure") else ""
        judgement = Judgement(Verdict.FAILED, f"{failure}{again}")
    return Reproduction(
        first=first,
        second=second,
        curves=curves,
        weights=weights,
        scores=scores,
        other_scores=other_scores,
        judgement=judgement,
        changed=changes(_provenance(first), _provenance(second)) if second is not None else [],
        remarks=_remarks(first, second, curves, asynchronous),
    )


def _remarks(first: LoggedTrial, second: LoggedTrial | None, curves: CurveComparison, asynchronous: bool) -> list[str]:
    remarks = []
    if first.status != "FINISHED":
        remarks.append(f"the first run is {first.status}: what it logged is compared, up to {first.last_env_steps} env steps")
    for trial, which in ((first, "first"), (second, "second")):
        tags = trial.tags if trial is not None else {}
        if tags.get("restarts", "0") != "0":
            remarks.append(f"the {which} run was taken up again from a checkpoint, {tags['restarts']} time(s)")
        if tags.get("reproducible") == "false" and not asynchronous:
            remarks.append(f"the {which} run met a fault that did not come again: its environment depends on more than its seed")
    if asynchronous and first.tags.get("exclusive") == "false":
        remarks.append(
            "the first run shared its machine with other trials, which an asynchronous algorithm may feel; the second had it alone"
        )
    for names, which in ((curves.missing, "first"), (curves.added, "second")):
        if names:
            remarks.append(f"only the {which} run logged {_listed(names)}, which therefore could not be compared")
    return remarks


def _score(trial: LoggedTrial | None) -> float | None:
    curve = trial.curves.get(SCORE, {}) if trial is not None else {}
    return curve[max(curve)] if curve else None


def _identity(trial: LoggedTrial) -> dict[str, Any]:
    return {
        "run_id": trial.run_id,
        "name": trial.name,
        "experiment": trial.experiment,
        "config_id": trial.tags.get("config_id"),
        "seed": trial.tags.get("seed"),
        "status": trial.status,
    }


def _record(archive: Archive, found: Reproduction, second: LoggedTrial, study_run: str | None, tracking_uri: str) -> str:
    """Write the verdict into the second run; where it is, for the terminal."""
    tags = {"reproduces": found.first.run_id, "verdict": str(found.judgement.verdict), "mlflow.note.content": found.note()}
    if found.first_difference and not found.as_promised:
        tags["first_difference"] = found.first_difference
    problem = _write(archive, second.run_id, tags, {"verdict.json": json.dumps(found.to_mapping(), indent=1)})
    if study_run is not None:
        problem = problem or _write(archive, study_run, {"mlflow.note.content": found.note(), "verdict": str(found.judgement.verdict)})
    if problem:
        return f"where       not in MLflow: {problem}"
    page = f"#/experiments/{second.experiment_id}/runs/{second.run_id}"
    if tracking_uri.startswith("http"):
        return f"where       {without_passwords(tracking_uri)}/{page}"
    return f"open with   mlflow ui --backend-store-uri {tracking_uri} --host 127.0.0.1\nwhere       http://127.0.0.1:5000/{page}"


def _write(archive: Archive, run_id: str, tags: Mapping[str, str], texts: Mapping[str, str] | None = None) -> str:
    """Write into a run; what went wrong, empty if nothing did."""
    try:
        archive.set_tags(run_id, tags)
        if texts:
            archive.log_texts(run_id, texts)
    except OSError as error:  # the verdict stands, whatever the store does
        return first_line(error)
    return ""


def _number(value: float | None) -> str:
    return "not logged" if value is None else repr(value)


def _listed(texts: Sequence[str]) -> str:
    more = len(texts) - MOST_TOLD
    return "; ".join(texts[:MOST_TOLD]) + (f"; and {more} more (verdict.json has all)" if more > 0 else "")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
