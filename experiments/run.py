"""Runs a study: compose, check, run, say where the results are.

python experiments/run.py [study=] [algorithm=] [env=] [hardware=] [search=] [scheduler=] [tracking=] [key=value ...]
"""

import sys
from pathlib import Path

if not __package__:  # run as a file: what is called like the suite's packages in other folders is not taken for them
    sys.path[0] = str(Path(__file__).resolve().parents[1])

import contextlib
import functools
import logging
import os
import shlex
import signal
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import hydra
from hydra.errors import HydraException
from omegaconf import DictConfig
from omegaconf.errors import OmegaConfBaseException

from analysis.document.command_line import help_asked
from analysis.document.standard_streams import keep_streams
from conf import CONFIG_DIR
from experiments.config.choices import check_choices, hydra_search_path, own_folder
from experiments.config.command_words import Words, as_shown, check_one, composed, is_doubtful, jobs, read
from experiments.config.errors import ConfigurationError, first_line
from experiments.config.number_ranges import check_numbers
from experiments.config.output_dir import absolute, check_kept, check_stays, check_writable, stored_at
from experiments.config.schema import SuiteConfig, parse
from experiments.config.space import points
from experiments.config.trial_config import Compose
from experiments.config.usage import help_text, refuse
from experiments.contract.mlflow_environment import keep_out
from experiments.signals import exit_at_signals
from experiments.study.several import run_each
from experiments.tracking.provenance import without_passwords
from experiments.tracking.store_address import check_local, check_store, store_uri

if TYPE_CHECKING:  # Ray is imported once the command line is understood: it takes seconds
    from experiments.planning.plan import Plan
    from experiments.study.driver import StudyOutcome


def main() -> None:
    """Run the command line; exits with the contract's codes."""
    keep_streams()
    exit_at_signals()
    try:
        words, own = own_folder(sys.argv[1:])
        if help_asked(words):
            print(help_text(own))
            return
        asked = read(words)
        if asked.shows:
            _show(asked, own)
            return
        logging.basicConfig(level=logging.WARNING, format="%(message)s")
        if asked.is_several:
            sys.exit(_run_several(asked, own))
        with composed(asked.settings, own) as compose:
            sys.exit(run(compose, own, is_doubtful(asked.settings, own)))
    except KeyboardInterrupt:
        print("interrupted by SIGINT", file=sys.stderr)
        sys.exit(128 + signal.SIGINT)
    except (ConfigurationError, HydraException, OmegaConfBaseException) as error:
        refuse(error)


def _show(asked: Words, own: Path | None) -> None:
    """What Hydra shows of a command line (`--cfg job`): no study is run."""
    check_one(asked.settings)
    settings = as_shown(asked.settings)
    check_choices(settings, own)
    os.environ["HYDRA_FULL_ERROR"] = "1"  # Hydra then raises instead of printing and exiting with 1
    sys.argv[1:] = [*asked.flags, *hydra_search_path(own), *settings]
    hydra.main(config_path="../conf", config_name="config", version_base="1.3")(_no_study)()


def _no_study(config: DictConfig) -> None:
    raise AssertionError("Hydra was to show something")


def _run_several(asked: Words, own: Path | None) -> int:
    """The studies of `--multirun`; the worst exit code.

    All of their settings are checked before the first of them begins.
    """
    several = jobs(asked.settings, own)
    keys = []
    for job in several:
        with composed(job, own) as compose:
            suite, _, _ = _checked(compose)
            keys.append(suite.study.key or suite.resume)
    if twice := next((key for key in keys if key is not None and keys.count(key) > 1), None):
        raise ConfigurationError(
            f"--multirun: {twice} names one study, but is given to {keys.count(twice)}. Name each of them."
        )
    flags = [] if own is None else [CONFIG_DIR, str(own)]
    return run_each([sys.executable, sys.argv[0]], [[*flags, *job] for job in several])


def run(compose: Compose, own: Path | None = None, doubtful: bool = False) -> int:
    """A study from its composition on; its exit code.

    Args:
        compose: Composes the command line's configuration.
        own: A person's own folder of configuration files.
        doubtful: As `execute` takes it.

    Raises:
        ConfigurationError: Anything is wrong; nothing was started.
    """
    outcome = execute(compose, own, doubtful=doubtful).outcome
    # what Ray does at the exit of a process could wait for ever; it ends with this one
    if outcome is not None and outcome.tune_hangs:
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


def _checked(compose: Compose) -> tuple[SuiteConfig, Path, str]:
    """A study's settings, its folder and its store, as far as they can be checked without Ray and RLlib,
    whose imports take seconds.

    Raises:
        ConfigurationError: Something is wrong.
    """
    composed_settings = compose({})
    suite = parse(composed_settings)
    output_dir = absolute(suite.output_dir)
    check_stays(suite.output_dir, suite.tracking.uri)
    if suite.resume is None:
        points(suite.study.space, suite.search)
        check_numbers(suite.study.space, composed_settings)
    check_writable(output_dir)
    check_kept(output_dir)
    uri = store_uri(suite.tracking, output_dir)
    check_store(uri, suite.tracking.timeout_s)
    check_local(uri)
    return suite, output_dir, uri


def execute(
    compose: Compose,
    own: Path | None = None,
    command: str = "",
    quiet: bool = False,
    use_running_ray: bool = False,
    doubtful: bool = False,
) -> Executed:
    """Plan a study, run it unless it is a dry run, and say where the results are.

    Args:
        compose: Composes the command line's configuration.
        own: A person's own folder of configuration files.
        command: The command line, for the record; "": the one that started this process.
        quiet: Whether nothing is printed.
        use_running_ray: Whether Ray, if this process runs it already, is taken as it is, and left running.
        doubtful: Whether RLlib's settings are checked before anything else is imported
            or started (`command_words.is_doubtful`).

    Raises:
        ConfigurationError: Anything is wrong; nothing was started.
    """
    not_read = keep_out()
    suite, output_dir, uri = _checked(compose)

    import ray

    from experiments.planning import machines
    from experiments.study.cluster import address, ray_process, session_folder

    ray_process.quiet()
    joined = use_running_ray and ray.is_initialized()
    if joined and suite.modules:
        raise ConfigurationError(
            "modules=: the processes of a Ray that runs already do not find them. Call ray.shutdown() first."
        )
    place = None if joined else address.address_now(suite.hardware.address)
    folder = None
    outcome = None
    try:
        if place is None and not joined:
            session_folder.session_folder()
            if suite.resume is None and suite.study.key is None:
                machines.check_room(suite, machines.local_machine(suite.hardware))
                if doubtful:
                    from experiments.planning.resolver import check_first  # with RLlib

                    check_first(suite, compose)
        if place is None and not (ray.is_initialized() or suite.dry_run or suite.resume or suite.study.key):
            # Ray will be started on this machine, whatever the plan is: meanwhile another thread imports what makes it.
            ray_process.start_beside_imports(suite.hardware, "experiments.study.driver")

        from analysis.document import conclusions
        from experiments.planning import terminal
        from experiments.planning.plan import plan_study, with_auto
        from experiments.study import lookup, progress
        from experiments.study.cluster.waiting import planned
        from experiments.study.driver import resume_study, run_study
        from experiments.study.ending import deliver_command, resume_command, room_lines, where_lines
        from experiments.study.files.folder import StudyFolder
        from experiments.study.key import StudyKey
        from experiments.study.starting import Starting

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
            cluster = machines.joined_cluster() if joined else ray_process.cluster_of(hardware)
        except ConfigurationError:  # what is finished needs no cluster
            cluster = machines.local_machine(hardware)
            if folder is None or not folder.is_over(cluster, suite.tracking):
                raise
        at_work = ""
        if folder is not None and suite.dry_run:
            at_work = folder.at_work()
        elif folder is not None:
            folder.lock()  # before its trials' files are looked at
        on = (
            functools.partial(plan_study, suite, compose)
            if folder is None
            else functools.partial(folder.plan, tracking=suite.tracking)
        )
        wait_s = 0.0 if suite.dry_run or joined else hardware.wait_for_nodes_s
        plan = planned(on, cluster, machines.joined_cluster, wait_s, functools.partial(progress.say, console))
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
                past = lookup.past_metrics(uri, output_dir, suite.tracking.timeout_s)
                for line in terminal.extension_lines(plan, past):
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
        for line in conclusions.closing_lines(outcome.record, outcome.outcomes, console.width):
            if isinstance(line, str):
                progress.say(console, line)
            else:
                console.print(line, highlight=False)
        for line in progress.failures(outcome.outcomes):
            progress.say(console, line, style="red")
        if suite.report is not None:
            if suite.report.video and (line := _video(outcome, uri, output_dir, suite.tracking.timeout_s)):
                progress.say(console, line)
            progress.say(console, _report(outcome, uri, output_dir, own))
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
            folder, env_seeds = (
                output_dir / "policies" / trained.key / "video",
                policy.held_out_seeds()[:REPORT_EPISODES],
            )
            lines += record_and_attach(trained, policy, folder, archive, shown.role, env_seeds, REPORT_LIMIT_S)
    except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001
        # the study is safe, whatever becomes of its pictures
        lines = [f"video       none: {type(error).__name__}: {first_line(error)}"]
    return "\n".join(line for line in lines if "none:" in line or "not in MLflow" in line)


def _report(outcome: Any, uri: str, output_dir: Path, own: Path | None) -> str:
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
    except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001
        # the study is safe in MLflow, whatever happens to its report
        folder = f" {shlex.join([CONFIG_DIR, str(own)])}" if own is not None else ""
        again = f"python analysis/report.py{folder} study={outcome.study_run} tracking_uri={without_passwords(uri)}"
        return f"report      none: {type(error).__name__}: {first_line(error)}. Try again: {again}"
    return f"report      {path}" + (f" (not in MLflow: {problem})" if problem else "")


if __name__ == "__main__":
    main()
