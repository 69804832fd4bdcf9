"""Runs a study: compose, check, run, say where the results are.

python experiments/run.py [study=] [algorithm=] [env=] [hardware=] [search=] [scheduler=] [tracking=] [key=value ...]
"""

import contextlib
import functools
import logging
import os
import signal
import sys
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import hydra
from hydra.core.hydra_config import HydraConfig
from hydra.errors import HydraException
from omegaconf import DictConfig
from omegaconf.errors import OmegaConfBaseException

from analysis.document.command_line import help_asked
from conf import CONFIG_DIR, config_dirs
from experiments.config.choices import check_choices, own_folder
from experiments.config.compose import check_axes_are_free, check_resume, composer, split_space, with_new_keys
from experiments.config.errors import ConfigurationError, first_line
from experiments.config.output_dir import absolute, check_kept, check_stays, check_writable, stored_at
from experiments.config.schema import parse
from experiments.config.space import points
from experiments.config.trial_config import Compose
from experiments.config.usage import help_text, refuse
from experiments.metrics.mlflow_environment import keep_out
from experiments.tracking.provenance import without_passwords
from experiments.tracking.store import check_local, check_store, store_uri

if TYPE_CHECKING:  # Ray is imported once the command line is understood: it takes seconds
    from experiments.planning.plan import Plan
    from experiments.study.driver import StudyOutcome

_given_spaces: list[str] = []


def main() -> None:
    """Run the command line; exits with the contract's codes."""
    os.environ["HYDRA_FULL_ERROR"] = "1"  # Hydra then raises instead of printing and exiting with 1
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    try:
        words, own = own_folder(sys.argv[1:])
        if help_asked(words):
            print(help_text(own))
            return
        words, _given_spaces[:] = split_space(with_new_keys(words))
        check_choices(words, own)
        sys.argv[1:] = [*words, *([CONFIG_DIR, str(own)] if own is not None else [])]
        _study()
    except KeyboardInterrupt:
        print("interrupted by SIGINT", file=sys.stderr)
        sys.exit(128 + signal.SIGINT)
    except (ConfigurationError, HydraException, OmegaConfBaseException) as error:
        refuse(error)


@hydra.main(config_path="../conf", config_name="config", version_base="1.3")
def _study(config: DictConfig) -> None:
    logging.basicConfig(level=logging.WARNING, format="%(message)s")
    try:
        overrides = [*HydraConfig.get().overrides.task, *_given_spaces]
        compose = composer(config, overrides)
        check_axes_are_free(compose({}), overrides)
        check_resume(compose({}), overrides)
        sys.exit(run(compose, *map(Path, config_dirs(sys.argv[1:])[1])))
    except (ConfigurationError, HydraException, OmegaConfBaseException) as error:
        refuse(error)


def run(compose: Compose, own: Path | None = None) -> int:
    """A study from its composition on; its exit code.

    Args:
        compose: Composes the command line's configuration.
        own: A person's own folder of configuration files.

    Raises:
        ConfigurationError: Anything is wrong; nothing was started.
    """
    outcome = execute(compose, own).outcome
    if outcome is not None and outcome.tune_hangs:  # what Ray does at the exit of a process could wait for ever; it ends with this one
        sys.stdout.flush()
        os._exit(outcome.exit_code)
    return 0 if outcome is None else outcome.exit_code


@dataclass(frozen=True)
class Executed:
    """A study that was planned, and run if that was asked for.

    Attributes:
        plan: What there was to run.
        outcome: How it went; None under `dry_run`.
        uri: Of the store.
        deliver: The command that puts into it what it lacks of the study; "" under `dry_run`.
    """

    plan: "Plan"
    outcome: "StudyOutcome | None"
    uri: str
    deliver: str = ""


def execute(compose: Compose, own: Path | None = None, command: str = "", quiet: bool = False, use_running_ray: bool = False) -> Executed:
    """Plan a study, run it unless it is a dry run, and say where the results are.

    Args:
        compose: Composes the command line's configuration.
        own: A person's own folder of configuration files.
        command: The command line, for the record; "": the one that started this process.
        quiet: Whether nothing is printed.
        use_running_ray: Whether Ray, if this process runs it already, is taken as it is, and left running.

    Raises:
        ConfigurationError: Anything is wrong; nothing was started.
    """
    not_read = keep_out()
    suite = parse(compose({}))  # the suite's own settings first: it takes milliseconds, Ray's imports take seconds
    output_dir = absolute(suite.output_dir)
    check_stays(suite.output_dir, suite.tracking.uri)
    if suite.resume is None:
        points(suite.study.space, suite.search)
    check_writable(output_dir)
    check_kept(output_dir)
    uri = store_uri(suite.tracking, output_dir)
    check_store(uri, suite.tracking.timeout_s)
    check_local(uri)

    import ray

    from experiments.study import address, ray_process

    ray_process.quiet()
    joined = use_running_ray and ray.is_initialized()
    if joined and suite.modules:
        raise ConfigurationError("modules=: the processes of a Ray that runs already do not find them. Call ray.shutdown() first.")
    place = None if joined else address.address_now(suite.hardware.address)
    folder = None
    outcome = None
    try:
        if place is None and not (ray.is_initialized() or suite.dry_run or suite.resume or suite.study.key):
            # Ray will be started on this machine, whatever the plan is: meanwhile another thread imports what makes it.
            ray_process.start_beside_imports(suite.hardware, "experiments.study.driver")

        from analysis.document import conclusions
        from experiments.planning import terminal
        from experiments.planning.machines import joined_cluster, local_machine
        from experiments.planning.plan import plan_study, with_auto
        from experiments.study import lookup, progress
        from experiments.study.driver import resume_study, run_study
        from experiments.study.ending import deliver_command, resume_command, room_lines, where_lines
        from experiments.study.folder import StudyFolder
        from experiments.study.key import StudyKey
        from experiments.study.starting import Starting
        from experiments.study.waiting import planned

        console = progress.console(quiet)
        for line in not_read:
            progress.say(console, line)
        if suite.resume is not None:
            folder = StudyFolder(lookup.folder_of(suite.resume, uri, output_dir))
            folder.take_modules(None if lookup.named_folder(str(suite.resume)) else output_dir)
        key = StudyKey.of(suite, compose, output_dir)
        if key is not None:
            folder = key.begun()
        for line in (address.joined_line(suite.hardware.address, place), address.job_line()):
            if line:
                progress.say(console, line)
        if folder is None and place is not None:
            compose = address.composed_at(compose, place)
            suite = parse(compose({}))
        starting = None
        if folder is None and isinstance(suite.study.start, str):
            starting = Starting.of(suite.study.start, uri, output_dir, suite.tracking.timeout_s)
            compose = starting.in_place(compose)
            suite = parse(compose({}))
        hardware = suite.hardware if folder is None else folder.hardware(place)
        try:
            cluster = joined_cluster() if joined else ray_process.cluster_of(hardware)
        except ConfigurationError:  # what is finished needs no cluster
            cluster = local_machine(hardware)
            if folder is None or not folder.is_over(cluster, suite.tracking):
                raise
        at_work = ""
        if folder is not None and suite.dry_run:
            at_work = folder.at_work()
        elif folder is not None:
            folder.lock()  # before its trials' files are looked at
        on = functools.partial(plan_study, suite, compose) if folder is None else functools.partial(folder.plan, tracking=suite.tracking)
        wait_s = 0.0 if suite.dry_run or joined else hardware.wait_for_nodes_s
        plan = planned(on, cluster, joined_cluster, wait_s, functools.partial(progress.say, console))
        plan = replace(plan, command=command)
        if starting is not None:
            starting.check(plan)
        for line in terminal.plan_lines(plan):
            progress.say(console, line)
        if kept := stored_at(output_dir):
            store = "" if suite.tracking.uri else ", with the store of MLflow"
            progress.say(console, f"kept in     {kept}; here a copy: {output_dir}{store}")
        standing = "" if folder is None else folder.standing(plan, checked=not at_work)  # damaged files are said first
        finished = folder is not None and folder.is_finished(plan)
        if key is not None:
            progress.say(console, key.line(finished))
        if folder is not None:
            progress.say(console, standing)
            if at_work:
                progress.say(console, f"at work     {at_work}")
        elif faster := terminal.faster_line(plan, with_auto(plan, compose)):
            progress.say(console, faster)
        if suite.dry_run:
            if not quiet:  # to say how long it takes takes seconds
                console.print(terminal.plan_table(plan))
                past_speed = lookup.past_speed(uri, output_dir, suite.tracking.timeout_s)
                progress.say(console, terminal.time_line(plan, past_speed))
                for line in terminal.noise_scale_lines(plan, lookup.past_gradients(uri, output_dir, suite.tracking.timeout_s)):
                    progress.say(console, line)
            return Executed(plan, None, uri)
        if not ray.is_initialized() and not finished:
            ray_process.start_ray(hardware)
        outcome = (
            run_study(plan, output_dir, console, conclusions, key)
            if folder is None
            else resume_study(plan, folder, output_dir, console, conclusions)
        )
    finally:
        if outcome is None:
            if folder is not None:
                folder.close()
            if not joined:
                ray.shutdown()
    with contextlib.nullcontext() if joined or outcome.tune_hangs else ray_process.ending():
        for line in conclusions.closing_lines(outcome.record, [asdict(o) for o in outcome.outcomes], console.width):
            if isinstance(line, str):
                progress.say(console, line)
            else:
                console.print(line, highlight=False)
        for line in progress.failures(outcome.outcomes):
            progress.say(console, line, style="red")
        if suite.report is not None:
            if suite.report.video and (line := _video(outcome, uri, output_dir, suite.tracking.timeout_s)):
                progress.say(console, line)
            progress.say(console, _report(outcome, uri, output_dir))
        held = [] if quiet else room_lines(suite, outcome, uri, output_dir)
        deliver = functools.partial(deliver_command, suite, outcome.folder, output_dir, own=own)
        for line in where_lines(plan, outcome, uri, resume_command(suite, outcome, output_dir, own), deliver, held):
            progress.say(console, line)
    return Executed(plan, outcome, uri, deliver(uri))


def _video(outcome: Any, uri: str, output_dir: Path, timeout_s: float) -> str:
    """Record the chosen policy for the report; why there is no video, "" where nothing more is to be said."""
    from analysis.load import load_study
    from analysis.questions.decision import seeds_to_show
    from experiments.policies.policy import load
    from experiments.study.recording import REPORT_EPISODES, REPORT_LIMIT_S, record_and_attach
    from experiments.study.trained import of_run
    from experiments.tracking.archive import Archive

    if not outcome.study_run or outcome.undelivered:
        return ""  # there is no report either
    try:
        lines = []
        archive = Archive(uri, output_dir, timeout_s)
        shown_seeds = seeds_to_show(load_study(outcome.study_run, uri).runs)
        for shown in {shown.env: shown for shown in shown_seeds}.values():  # the median seed, where there are several
            trained = of_run(archive, shown.run_id, output_dir, trust=True)  # this study wrote it
            policy = load(trained.checkpoint, trained.named)
            folder, env_seeds = output_dir / "policies" / trained.key / "video", policy.held_out_seeds()[:REPORT_EPISODES]
            lines += record_and_attach(trained, policy, folder, archive, shown.role, env_seeds, REPORT_LIMIT_S)
    except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001  # the study is safe, whatever becomes of its pictures
        lines = [f"video       none: {type(error).__name__}: {first_line(error)}"]
    return "\n".join(line for line in lines if "none:" in line or "not in MLflow" in line)


def _report(outcome: Any, uri: str, output_dir: Path) -> str:
    """Write the study's report, attach it to its run, and say where it is, or why there is none."""
    from analysis import AnalysisError
    from analysis.load import load_study
    from analysis.report import default_path, publish

    if not outcome.study_run or outcome.undelivered:
        return "report      none: MLflow does not have the whole study"
    try:
        study = load_study(outcome.study_run, uri)
        path = default_path(study.experiment, study.run_id, output_dir)
        _, problem = publish(study, path)
    except AnalysisError as error:
        return f"report      none: {error}"
    except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001  # the study is safe in MLflow, whatever happens to its report
        again = f"python analysis/report.py study={outcome.study_run} tracking_uri={without_passwords(uri)}"
        return f"report      none: {type(error).__name__}: {first_line(error)}. Try again: {again}"
    return f"report      {path}" + (f" (not in MLflow: {problem})" if problem else "")


if __name__ == "__main__":
    main()
