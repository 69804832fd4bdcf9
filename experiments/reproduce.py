"""Runs a logged trial again and says whether it came out the same.

python experiments/reproduce.py run=<MLflow run id> [tracking_uri=...] [output_dir=...] [hardware.address=...]
"""

import sys
from pathlib import Path

if not __package__:  # run as a file: what is called like the suite's packages in other folders is not taken for them
    sys.path[0] = str(Path(__file__).resolve().parents[1])

import functools
import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from analysis.document.command_line import words_of
from analysis.document.commands import Command
from experiments.config.errors import ConfigurationError, first_line
from experiments.config.output_dir import check_kept, check_writable
from experiments.config.own_modules import take_recorded
from experiments.contract import Tag
from experiments.contract.words import labelled
from experiments.tracking.archive import Archive, LoggedTrial
from experiments.tracking.place import Place
from experiments.tracking.store_address import check_local
from experiments.tracking.writes import SetTags

if TYPE_CHECKING:  # Ray and scipy are imported once there is a run to go by: they take seconds
    from experiments.planning.plan import Plan
    from experiments.study.driver import StudyOutcome
    from experiments.study.verdict import Reproduction

TIMEOUT_S = 30.0


def reproduced(
    *,
    run: str = "",
    tracking_uri: str | None = None,
    output_dir: str | None = None,
    modules: str = "",
    address: Annotated[str, Parameter(name="hardware.address")] = "",
) -> int:
    """Runs a logged trial again, from what its run in MLflow recorded, and says whether it came out the same.

    Curves are compared at every report, bit by bit, and the final weights, but nothing that depends on the clock.
    IMPALA and APPO sample while they learn and promise no bits: their new score must be one that the other seeds of the
    study let expect.

    The verdict is in the experiment reproduce/ALGORITHM-ENV of the same store: a run that names the first.

    Args:
        run: The trial's run id, from its page in MLflow's UI.
        tracking_uri: The store that holds it: sqlite:////absolute/mlflow.db or http(s)://host:port; default: mlflow.db
            in output_dir.
        output_dir: Where the second run's files go; default: the folder of an embedded store, else outputs.
        modules: Files of your own that the trial imported, [my_env.py], as they were then: none is run from a store.
        address: A running Ray cluster to run it on, auto or host:port, or local; default: RAY_ADDRESS, or this machine.
    """
    if not run:
        raise ConfigurationError(
            "run= is missing: name the trial by its MLflow run id, for example run=0123456789abcdef0123456789abcdef."
        )
    return reproduce(run, Place.named(tracking_uri, output_dir), words_of(modules), address or None)


COMMAND = Command(
    "reproduce",
    reproduced,
    ("run=0123456789abcdef0123456789abcdef",),
    "0 identical, or equivalent (IMPALA, APPO). 1 different, or it cannot be judged, or the trial failed this time. "
    "2 refused: nothing was started. 129 SIGHUP, 130 SIGINT, 143 SIGTERM.",
    (ConfigurationError,),
)


def main(arguments: Sequence[str]) -> int:
    """The command line; its exit code."""
    return COMMAND.exit_code(arguments)


def reproduce(run_id: str, place: Place, modules: Sequence[str] = (), address: str | None = None) -> int:
    """Run a logged trial again and compare; its exit code.

    Args:
        run_id: The trial's run in MLflow.
        place: The store that holds it, and takes the second run, and the folder of the second run's files.
        modules: Paths of a person's own, which the trial imports.
        address: Of a Ray cluster to run it on, or `local`; None: the one at RAY_ADDRESS, or this machine.

    Raises:
        ConfigurationError: It cannot be run again here; nothing was started.
    """
    check_writable(place.output_dir)
    check_kept(place.output_dir)
    archive = Archive(place)
    check_local(place.store_uri, "tracking_uri")
    first = archive.trial(run_id)
    other_scores = archive.scores_of_other_seeds(first)

    import ray

    from experiments.study.cluster.ray_process import cluster_of, prepare, start_ray

    prepare()

    from analysis.document import conclusions
    from experiments.config.schema import HardwareSettings
    from experiments.planning.terminal import plan_lines
    from experiments.rllib.algorithms import promises_bits
    from experiments.study import progress
    from experiments.study.cluster.address import address_now, at, joined_line
    from experiments.study.driver import run_study
    from experiments.study.reproduction import plan_again, recorded_trial, starting_again
    from experiments.study.source import begun
    from experiments.study.verdict import EXIT_CODES, conclude

    trial = recorded_trial(first)
    take_recorded(f"run={run_id}", trial.modules, modules)
    console = progress.console()
    say = functools.partial(progress.say, console)
    found_at = address_now(address)
    if cluster_line := joined_line(address, found_at):
        say(cluster_line)
    recorded = HardwareSettings(
        first.tags.get("hardware", "recorded"), threads_per_process=trial.threads_per_process, bits=trial.bits
    )
    hardware = at(recorded, found_at)
    try:
        start = starting_again(trial, archive.tag_of(first.tags["study_run"], "study_folder"))
        plan = plan_again(trial, first, hardware, cluster_of(hardware), place, start)
        for line in plan_lines(plan):
            say(line)
        if not ray.is_initialized():
            start_ray(plan.suite.hardware)
        outcome = run_study(plan, begun(plan, place, say), place, console, conclusions)
    finally:
        ray.shutdown()
    second = _second(archive, plan, outcome)
    if outcome.interrupted_by is not None:
        if second is not None:
            _write(archive, second.run_id, {"reproduces": first.run_id})
        console.print("interrupted: there is no verdict", highlight=False)
        return outcome.exit_code
    found = conclude(first, second, outcome.outcomes[0].failure, not promises_bits(trial), list(other_scores.values()))
    written = [] if second is None else _record(archive, found, second, outcome.study_run)
    for line in (*found.lines(), *written):
        say(line)
    return EXIT_CODES[found.judgement.verdict]


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


def _record(archive: Archive, found: "Reproduction", second: LoggedTrial, study_run: str | None) -> list[str]:
    """Write the verdict into the second run; where it is, for the terminal."""
    from experiments.study.ending import in_mlflow

    tags = {
        "reproduces": found.first.run_id,
        "verdict": str(found.judgement.verdict),
        "mlflow.note.content": found.note(),
    }
    if found.first_difference and not found.as_promised:
        tags["first_difference"] = found.first_difference
    problem = _write(archive, second.run_id, tags, {"verdict.json": json.dumps(found.to_mapping(), indent=1)})
    if study_run is not None:
        answers = json.dumps([f"{found.judgement.verdict}: {found.judgement.reason}."])
        told = {"mlflow.note.content": found.note(), Tag.ANSWERS: answers, "verdict": str(found.judgement.verdict)}
        problem = problem or _write(archive, study_run, told)
    if problem:
        return [labelled("where", f"not in MLflow: {problem}")]
    return in_mlflow(archive.where.store_uri, f"#/experiments/{second.experiment_id}/runs/{second.run_id}")


def _write(archive: Archive, run_id: str, tags: Mapping[str, str], texts: Mapping[str, str] | None = None) -> str:
    """Write into a run; what went wrong, empty if nothing did."""
    try:
        archive.log_rows(run_id, SetTags(tags))
        if texts:
            archive.log_texts(run_id, texts)
    except OSError as error:  # the verdict stands, whatever the store does
        return first_line(error)
    return ""


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
