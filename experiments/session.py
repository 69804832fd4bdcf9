"""The one way through a study, for commands, the API and tests: open, plan, run, conclude.

What can be checked without Ray and RLlib is checked before they are imported, which takes seconds.
"""

import contextlib
import functools
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from conf import CONFIG_DIR
from experiments.config.earlier import AUTO, earlier_of
from experiments.config.errors import ConfigurationError, first_line
from experiments.config.number_ranges import check_numbers
from experiments.config.output_dir import absolute, check_kept, check_stays, check_writable
from experiments.config.schema import SuiteConfig, parse
from experiments.config.space import points
from experiments.config.trial_config import Compose
from experiments.contract.mlflow_environment import keep_out
from experiments.contract.passwords import without_passwords
from experiments.contract.words import labelled
from experiments.limits.arithmetic import PORTABLE, missing
from experiments.tracking.place import Place
from experiments.tracking.store_address import check_local, check_store

if TYPE_CHECKING:
    from rich.console import Console

    from experiments.planning.known import Known
    from experiments.planning.machines import Cluster
    from experiments.planning.plan import Claimed, Plan
    from experiments.study.driver import StudyOutcome
    from experiments.study.notify import Notifier
    from experiments.study.reuse import KnownTrials
    from experiments.study.source import Source


@dataclass(frozen=True)
class Request:
    """A study that is asked for.

    Attributes:
        compose: Composes the command line's configuration.
        own: A person's own folder of configuration files.
        command: The command line, for the record; "": the one that started this process.
        quiet: Whether nothing is printed.
        use_running_ray: Whether Ray, if this process runs it already, is taken as it is, and left running.
        doubtful: Whether RLlib's settings are checked before anything else is imported
            or started (`command_words.is_doubtful`).
    """

    compose: Compose
    own: Path | None = None
    command: str = ""
    quiet: bool = False
    use_running_ray: bool = False
    doubtful: bool = False


@dataclass(frozen=True)
class Executed:
    """A study that was planned, and run if that was asked for.

    Attributes:
        plan: What there was to run.
        outcome: How it went; None under `dry_run`.
        place: The output folder and the store that keep it.
        deliver: The command that puts into the store what it lacks of the study; "" under `dry_run`.
    """

    plan: "Plan"
    outcome: "StudyOutcome | None"
    place: Place
    deliver: str = ""


def run(request: Request) -> Executed:
    """Plan a study, run it unless it is a dry run, and say where the results are.

    Raises:
        ConfigurationError: Anything is wrong; nothing was started.
    """
    with opened(request) as session:
        plan = session.plan()
        if session.suite.dry_run:
            session.preview(plan)
            return Executed(plan, None, session.place)
        outcome = session.run(plan)
        return Executed(plan, outcome, session.place, session.conclude(plan, outcome))


def checked(compose: Compose) -> tuple[SuiteConfig, Place]:
    """A study's settings, and where it is kept, as far as they can be checked without Ray and RLlib.

    Raises:
        ConfigurationError: Something is wrong.
    """
    composed = compose({})
    suite = parse(composed)
    place = Place.of(suite.tracking, absolute(suite.output_dir))
    check_stays(suite.output_dir, suite.tracking.uri)
    if suite.resume is None:
        points(suite.study.space, suite.search)
        check_numbers(suite.study.space, composed)
    check_writable(place.output_dir)
    check_kept(place.output_dir)
    check_store(place.store_uri, place.timeout_s)
    check_local(place.store_uri)
    return suite, place


@contextlib.contextmanager
def opened(request: Request) -> Iterator["Session"]:
    """A study that is asked for, found and checked as far as it can be without a cluster. Ray may be starting.

    Raises:
        ConfigurationError: Anything is wrong; nothing was started.
    """
    not_read = keep_out()
    suite, place = checked(request.compose)

    import ray

    from experiments.study.cluster import address, ray_process

    ray_process.prepare()
    has_ray = request.use_running_ray and ray.is_initialized()
    if has_ray and suite.modules:
        raise ConfigurationError(
            "modules=: the processes of a Ray that runs already do not find them. Call ray.shutdown() first."
        )
    if has_ray and suite.bits == PORTABLE and missing():
        raise ConfigurationError(
            "bits=portable: the processes of the Ray that runs already compute natively. Call ray.shutdown() first."
        )
    at = None if has_ray else address.address_now(suite.hardware.address)
    with contextlib.ExitStack() as undo:
        if not has_ray:
            undo.callback(ray.shutdown)
            if at is None:
                _check_machine(suite, request)

        from experiments.study import progress
        from experiments.study.notify import notifier
        from experiments.study.reuse import KnownTrials
        from experiments.study.sources import source_of

        told = notifier(suite.study.name)
        console = progress.console(request.quiet)
        for line in (*not_read, address.joined_line(suite.hardware.address, at), address.job_line()):
            if line:
                progress.say(console, line)
        source = source_of(suite, request.compose, place, at, functools.partial(_claimed_by, place))
        undo.callback(source.close)
        yield Session(request, suite, place, has_ray, console, source, KnownTrials(place), undo, told)


def _check_machine(suite: SuiteConfig, request: Request) -> None:
    """Check what a study asks of this machine, and begin to start Ray on it, whatever the plan is."""
    import ray

    from experiments.planning import machines
    from experiments.study.cluster import ray_process, session_folder

    session_folder.session_folder()
    if suite.resume is not None or suite.study.key is not None or suite.confirm.study is not None:
        return
    machines.check_room(suite, machines.local_machine(suite.hardware))
    if request.doubtful:
        from experiments.planning.resolver import check_first  # with RLlib

        check_first(suite, request.compose)
    if not (suite.dry_run or ray.is_initialized()):
        ray_process.start_beside_imports(suite.hardware, "experiments.study.driver")


def _claimed_by(place: Place, study: str, beside: Sequence[str]) -> "Claimed":
    """What a study said of what it recommended."""
    from analysis import AnalysisError
    from analysis.document.confirmation import claimed_by
    from analysis.load import load_study

    try:
        return claimed_by(load_study(study, place.store_uri, metrics=()), beside)
    except AnalysisError as error:
        raise ConfigurationError(f"confirm={study}: {error}") from None


def _earlier_studies(place: Place, plan: "Plan") -> list[dict[str, Any]]:
    """What the studies found that a search is to start from."""
    from analysis import AnalysisError
    from analysis.document.earlier import earlier_studies

    names = earlier_of(plan.suite)
    if AUTO in names and place.missing_database is not None:
        return []
    try:
        return earlier_studies(() if AUTO in names else names, place.store_uri, plan.algorithms, plan.envs)
    except AnalysisError as error:
        raise ConfigurationError(f"search.from=[{','.join(names)}]: {error}") from None


@dataclass(frozen=True)
class Session:
    """One study, from its settings to its conclusions.

    Attributes:
        request: What was asked for.
        suite: The settings of the study.
        place: The output folder and the store that keep it.
        has_ray: Whether Ray was running before, and is left so.
        console: The terminal that it talks to.
        source: The new study, or the one to go on with, which plans.
        known: The trials that stand in the store, for a study that takes them from there.
        undo: Leaves nothing behind of a study that does not come to run.
        notifier: Tells somebody elsewhere how it goes; None: nobody asked for that.
    """

    request: Request
    suite: SuiteConfig
    place: Place
    has_ray: bool
    console: "Console"
    source: "Source"
    known: "KnownTrials"
    undo: contextlib.ExitStack
    notifier: "Notifier | None" = None

    def say(self, line: str, style: str = "") -> None:
        """Print a line whose first columns say what it is about."""
        from experiments.study import progress

        progress.say(self.console, line, style)

    def plan(self) -> "Plan":
        """Plan what there is to run here and now, and say it on the terminal.

        Raises:
            ConfigurationError: It cannot be run here, or a configuration is refused.
        """
        from experiments.planning import machines, terminal
        from experiments.planning.known import known_line
        from experiments.planning.warm_start import prior_line
        from experiments.study.cluster.waiting import planned

        waits = not (self.suite.dry_run or self.has_ray)
        wait_s = self.source.hardware.wait_for_nodes_s if waits else 0.0
        plan = planned(self.source.plan, self._cluster(), machines.joined_cluster, wait_s, self.say)
        plan = self._warm(replace(plan, command=self.request.command))
        for line in terminal.plan_lines(plan):
            self.say(line)
        if kept := self.place.objects_uri:
            store = "" if self.suite.tracking.uri else ", with the store of MLflow"
            self.say(labelled("kept in", f"{kept}; here a copy: {self.place.output_dir}{store}"))
        for line in self.source.lines(plan):
            self.say(line)
        if earlier_of(plan.suite):
            self.say(prior_line(plan))
        if (known := self._known(plan)) is not None:
            self.say(known_line(plan, known))
        return plan

    def _warm(self, plan: "Plan") -> "Plan":
        """The plan of a study that begins, with what it takes from earlier ones; one that goes on has recorded that.

        Raises:
            ConfigurationError: There is no such study, or none that says anything of this one.
        """
        from experiments.planning.warm_start import with_prior

        if self.source.resumed or not earlier_of(plan.suite):
            return plan
        return with_prior(plan, _earlier_studies(self.place, plan))

    def _known(self, plan: "Plan") -> "Known | None":
        """The trials of a plan that other studies have run; None where all are to be run here."""
        return self.known.of_plan(plan, self.source.folder) if plan.suite.reuse else None

    def _cluster(self) -> "Cluster":
        from experiments.planning import machines
        from experiments.study.cluster.ray_process import cluster_of

        if self.has_ray:
            return machines.joined_cluster()
        try:
            return cluster_of(self.source.hardware)
        except ConfigurationError:  # what is finished needs no cluster
            cluster = machines.local_machine(self.source.hardware)
            if not self.source.is_over(cluster):
                raise
            return cluster

    def preview(self, plan: "Plan") -> None:
        """Say what a study would run, and how long that takes, which takes seconds to find out."""
        from experiments.planning import terminal
        from experiments.study import lookup

        if self.request.quiet:
            return
        known = self._known(plan)
        self.console.print(terminal.plan_table(plan, known))
        self.say(terminal.time_line(plan, lookup.earlier(self.place), known))
        for line in terminal.extension_lines(plan, lookup.past_metrics(self.place)):
            self.say(line)

    def run(self, plan: "Plan") -> "StudyOutcome":
        """Run what there is to run; failed trials don't raise.

        Raises:
            ConfigurationError: Ray cannot be started, a node cannot run the study, or its folder cannot be written.
        """
        import ray

        from analysis.document import conclusions
        from experiments.study.cluster.ray_process import start_ray
        from experiments.study.driver import run_study

        if not (ray.is_initialized() or self.source.is_finished(plan)):
            start_ray(self.source.hardware)
        folder = self.source.begin(plan, self.say)
        listeners = [self.notifier] if self.notifier else []
        outcome = run_study(
            plan,
            folder,
            self.place,
            self.console,
            conclusions,
            self.source.resumed,
            listeners,
            has_page=self.suite.report is not None,
            known=self.known if plan.suite.reuse else None,
        )
        self.undo.pop_all()
        return outcome

    def conclude(self, plan: "Plan", outcome: "StudyOutcome") -> str:
        """Say what the study came to and where the results are, and write its report.

        Returns:
            The command that puts into the store what it lacks of the study.
        """
        from experiments.study import ending
        from experiments.study.cluster import ray_process
        from experiments.study.progress import failures

        own, report = self.request.own, self.suite.report
        with contextlib.nullcontext() if self.has_ray or outcome.tune_hangs else ray_process.ending():
            for line in outcome.conclusions.lines(self.console.width):
                if isinstance(line, str):
                    self.say(line)
                else:
                    self.console.print(line, highlight=False)
            for line in failures(outcome.outcomes):
                self.say(line, style="red")
            if report is not None:
                if report.video and (line := _video(outcome, self.place)):
                    self.say(line)
                self.say(_report(outcome, self.place, own))
            commands = ending.Commands(self.suite, outcome, self.place, own)
            for line in ending.where_lines(plan, commands, [] if self.request.quiet else ending.room_lines(commands)):
                self.say(line)
            if self.notifier:
                self.notifier.send(*ending.message(outcome))
                if problem := self.notifier.close():
                    self.say(labelled("notify", problem))
        return commands.deliver()


def _video(outcome: "StudyOutcome", place: Place) -> str:
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
        archive = Archive(place)
        shown_seeds = seeds_to_show(load_study(outcome.study_run, place.store_uri).evidence)
        for shown in {shown.env: shown for shown in shown_seeds}.values():  # the median seed, where there are several
            trained = of_run(archive, shown.run_id, trust=True)  # this study wrote it
            policy = load(trained.checkpoint, trained.named)
            folder = place.output_dir / "policies" / trained.key / "video"
            env_seeds = policy.held_out_seeds()[:REPORT_EPISODES]
            lines += record_and_attach(trained, policy, folder, archive, shown.role, env_seeds, REPORT_LIMIT_S)
    except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001
        # the study is safe, whatever becomes of its pictures
        lines = [labelled("video", f"none: {type(error).__name__}: {first_line(error)}")]
    return "\n".join(line for line in lines if "none:" in line or "not in MLflow" in line)


def _report(outcome: "StudyOutcome", place: Place, own: Path | None) -> str:
    """Write the study's report, attach it to its run, and say where it is, or why there is none."""
    from analysis import AnalysisError
    from analysis.load import load_study
    from analysis.report import publish
    from experiments.contract.report_file import report_file

    if not outcome.study_run or outcome.undelivered:
        return labelled("report", "none: MLflow does not have the whole study")
    try:
        study = load_study(outcome.study_run, place.store_uri)
        path = report_file(study.experiment, study.run_id, place.output_dir)
        _, problem = publish(study, path)
    except AnalysisError as error:
        return labelled("report", f"none: {error}")
    except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001
        # the study is safe in MLflow, whatever happens to its report
        folder = f" {shlex.join([CONFIG_DIR, str(own)])}" if own is not None else ""
        where = f"study={outcome.study_run} tracking_uri={without_passwords(place.store_uri)}"
        again = f"python analysis/report.py{folder} {where}"
        return labelled("report", f"none: {type(error).__name__}: {first_line(error)}. Try again: {again}")
    return labelled("report", path) + (f" (not in MLflow: {problem})" if problem else "")
