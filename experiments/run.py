"""Runs a study: compose, check, run, say where the results are.

python experiments/run.py [study=] [algorithm=] [env=] [hardware=] [search=] [scheduler=] [tracking=] [key=value ...]
"""

import logging
import os
import re
import shlex
import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import hydra
from hydra.core.hydra_config import HydraConfig
from hydra.errors import HydraException
from omegaconf import DictConfig
from omegaconf.errors import OmegaConfBaseException

from experiments.config.compose import check_axes_are_free, check_choices, composer, refuse, split_space
from experiments.config.errors import ConfigurationError, first_line
from experiments.config.output_dir import check_writable
from experiments.config.schema import SuiteConfig, parse
from experiments.config.space import points
from experiments.config.trial_config import Compose
from experiments.metrics import INDEX_EXPERIMENT, Tag
from experiments.tracking import views
from experiments.tracking.provenance import without_passwords
from experiments.tracking.store import Store, check_store, store_uri

STORE_WAIT_S = 10.0
"""How long a server may take to say where a study's folder is."""

_given_spaces: list[str] = []


def main() -> None:
    """Run the command line; exits with the contract's codes."""
    sys.argv[1:], _given_spaces[:] = split_space(sys.argv[1:])
    os.environ["HYDRA_FULL_ERROR"] = "1"  # Hydra then raises instead of printing and exiting with 1
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    try:
        check_choices(sys.argv[1:])
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
        sys.exit(run(compose))
    except (ConfigurationError, HydraException, OmegaConfBaseException) as error:
        refuse(error)


def check_resume(config: Mapping[str, Any], overrides: Sequence[str]) -> None:
    """Make sure that a resumed study is not asked to change.

    Raises:
        ConfigurationError: It is.
    """
    if config["resume"] is None:
        return
    for override in overrides:
        key = override.lstrip("+~").partition("=")[0]
        if not re.fullmatch(r"resume|output_dir|report|dry_run|tracking(\.(uri|timeout_s))?|hardware\.address", key):
            raise ConfigurationError(
                f"{override}: a study is resumed as it was begun. Beside resume= only output_dir, tracking, tracking.uri, "
                f"tracking.timeout_s, hardware.address, report and dry_run can be given; start a new study to change {key}."
            )


def run(compose: Compose) -> int:
    """A study from its composition on; its exit code.

    Raises:
        ConfigurationError: Anything is wrong; nothing was started.
    """
    suite = parse(compose({}))  # our own knobs first: it takes milliseconds, Ray's imports take seconds
    output_dir = Path(suite.output_dir).expanduser().absolute()
    if suite.resume is None:
        points(suite.study.space, suite.search)
    check_writable(output_dir)
    uri = store_uri(suite.tracking, output_dir)
    check_store(uri, suite.tracking.timeout_s)

    import ray

    from analysis.document import conclusions
    from experiments.planning.search_plan import plan_study
    from experiments.study import progress
    from experiments.study.driver import cluster_of, quiet, resume_study, run_study, start_ray
    from experiments.study.folder import StudyFolder

    quiet()
    console = progress.console()
    folder = None if suite.resume is None else StudyFolder(_folder_of(suite.resume, uri, output_dir))
    hardware = suite.hardware if folder is None else folder.hardware(suite.hardware.address)
    outcome = None
    try:
        cluster = cluster_of(hardware)
        if folder is not None:
            folder.lock()  # before its trials' files are looked at
        plan = plan_study(compose, cluster) if folder is None else folder.plan(cluster, suite.tracking)
        for line in progress.plan_lines(plan):
            console.print(line, highlight=False, soft_wrap=True)
        if folder is not None:
            console.print(folder.standing(plan), highlight=False, soft_wrap=True)
        if suite.dry_run:
            console.print(progress.plan_table(plan))
            console.print(_estimate(plan, uri, output_dir), highlight=False, soft_wrap=True)
            return 0
        if not ray.is_initialized():
            start_ray(hardware)
        outcome = (
            run_study(plan, output_dir, console, conclusions)
            if folder is None
            else resume_study(plan, folder, output_dir, console, conclusions)
        )
    finally:
        if outcome is None or not outcome.tune_hangs:
            ray.shutdown()
    for line in _conclusions(outcome, plan.exclusive):
        console.print(line, highlight=False, soft_wrap=isinstance(line, str))
    for line in progress.failures(outcome.outcomes):
        console.print(line, style="red", highlight=False, soft_wrap=True)
    if suite.report:
        console.print(_report(outcome, uri, output_dir), highlight=False, soft_wrap=True)
    for line in _where(plan, outcome, uri, resume_command(suite, outcome)):
        console.print(line, highlight=False, soft_wrap=True)
    if outcome.tune_hangs:  # what Ray does at the exit of a process could wait for ever; Ray's processes end with this one
        sys.stdout.flush()
        os._exit(outcome.exit_code)
    return outcome.exit_code


def _conclusions(outcome: Any, exclusive: bool) -> list[Any]:
    """The closing table and the answers; why there are none, if they cannot be drawn."""
    from analysis.document.answer import answers, closing_table
    from analysis.document.terminal import outcome_table

    if outcome.runs.empty:
        return ["answer      none: no trial has started"]
    try:
        table = outcome_table(closing_table(outcome.runs, []), exclusive)
        return [table, *("answer      " + answer.text() for answer in answers(outcome.runs))]
    except Exception as error:  # noqa: BLE001  # a study that ran ends with its exit code, whatever becomes of its conclusions
        return [f"answer      none: {type(error).__name__}: {first_line(error)}"]


def _report(outcome: Any, uri: str, output_dir: Path) -> str:
    """Write the study's report, attach it to its run, and say where it is, or why there is none."""
    from analysis import AnalysisError
    from analysis.load import load_study
    from analysis.report import default_path, publish

    if not outcome.study_run or outcome.undelivered:
        return "report      none: MLflow does not have the whole study"
    try:
        study = load_study(outcome.study_run, uri)
        path = default_path(study, output_dir)
        _, problem = publish(study, path)
    except AnalysisError as error:
        return f"report      none: {error}"
    except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001  # the study is safe in MLflow, whatever happens to its report
        again = f"python analysis/report.py study={outcome.study_run} tracking_uri={without_passwords(uri)}"
        return f"report      none: {type(error).__name__}: {first_line(error)}. Try again: {again}"
    return f"report      {path}" + (f" (not in MLflow: {problem})" if problem else "")


def _estimate(plan: Any, uri: str, output_dir: Path) -> str:
    """How long the study will take, from what has run before."""
    from experiments.study.progress import duration

    if (how := plan.suite.measurement) is not None:
        runners = sum(c.layout.num_env_runners for c in plan.configurations) * len(plan.seeds) * plan.repeats
        least = len(plan.trials) * (how.warmup_s + how.seconds)
        return f"time        at least {duration(least)} of measuring, and the start of {runners} runner processes, a few seconds each"
    database = Path(uri.removeprefix("sqlite:///"))
    if uri.startswith("sqlite") and not database.exists():
        return "time        unknown: nothing has run with this store yet"
    store = Store(uri, output_dir / "mlartifacts", plan.suite.tracking.timeout_s)
    seconds, env_steps = 0.0, 0
    for c in plan.possible:
        speed = store.past_speed(c.suite.algorithm["name"], c.suite.env.name)
        if speed is None:
            return f"time        unknown: no {c.suite.algorithm['name']} trial on {c.suite.env.name} has run with this store yet"
        seconds += c.suite.budget_env_steps / speed
        env_steps += c.suite.budget_env_steps
    seconds *= plan.total_env_steps / env_steps / plan.concurrency
    if plan.suite.max_minutes is not None:
        seconds = min(seconds, 60 * plan.suite.max_minutes)
    return f"time        about {duration(seconds)}, at the median speed of earlier trials in this store"


def resume_command(suite: SuiteConfig, outcome: Any) -> str:
    """The command that goes on with a study, as one can type it."""
    words = [f"resume={outcome.study_run or outcome.folder}"]
    if suite.output_dir != "outputs":
        words.append(f"output_dir={suite.output_dir}")
    if suite.tracking.name != "sqlite":
        words.append(f"tracking={suite.tracking.name}")
    if suite.tracking.uri is not None:
        words.append(f"tracking.uri={without_passwords(suite.tracking.uri)}")
    return shlex.join(["python", "experiments/run.py", *words])


def _folder_of(resume: str, uri: str, output_dir: Path) -> Path:
    """The folder of the study to resume.

    Args:
        resume: Its run id, or the folder itself.
        uri: Of the store that has the run.
        output_dir: Of the study.

    Raises:
        ConfigurationError: There is no such study.
    """
    if (given := Path(resume).expanduser().absolute()).is_dir():
        return given
    database = Path(uri.removeprefix("sqlite:///"))
    if uri.startswith("sqlite") and not database.exists():
        raise ConfigurationError(f"resume={resume}: there is no store {database}. Name the study's: output_dir=/path, or tracking.uri=...")
    store = Store(uri, output_dir / "mlartifacts", STORE_WAIT_S)
    found = store.tag_of(resume, Tag.STUDY_FOLDER)
    if found is None and (study_run := store.tag_of(resume, Tag.STUDY_RUN)):
        raise ConfigurationError(f"resume={resume}: is the run of a trial. Name its study's: resume={study_run}.")
    if found is None:
        raise ConfigurationError(
            f"resume={resume}: {without_passwords(uri)} has no study with this run id. It is printed when a study ends, and is the id of "
            "its run in the experiment studies; the study's folder does as well."
        )
    if not Path(found).is_dir():
        raise ConfigurationError(f"resume={resume}: the study's folder {found} is not on this machine any more, so it cannot be resumed.")
    return Path(found)


def _where(plan: Any, outcome: Any, uri: str, resume: str) -> list[str]:
    """Where the results are and how to open them."""
    lines = []
    if outcome.limit:
        lines.append(f"limit       {outcome.limit} ended the study after {len(outcome.outcomes)} trials, of which all results are kept")
    if outcome.interrupted_by is not None:
        left = sum(o.status == "interrupted" for o in outcome.outcomes)
        trials = "1 trial" if left == 1 else f"{left} trials"
        lines.append(f"interrupted by {outcome.interrupted_by}: {trials} did not finish; what they logged is kept. Go on with")
        lines.append(f"resume      {resume}")
    elif any(o.status == "failed" for o in outcome.outcomes):
        lines.append(f"try again   {resume}   (what is finished stays)")
    server = uri if uri.startswith("http") else "http://127.0.0.1:5000"
    experiment, index = outcome.experiment_ids.get(plan.experiment), outcome.experiment_ids.get(INDEX_EXPERIMENT)
    if uri.startswith("sqlite"):
        lines.append(f"open with   mlflow ui --backend-store-uri {uri} --host 127.0.0.1   (or: make ui)")
    if experiment and index:
        lines.append(f"curves      {views.view_url(server, experiment, views.BY_CONFIG)}")
        lines.append(f"sweep       {views.view_url(server, experiment, views.SWEEP)}")
        lines.append(f"time        {views.view_url(server, experiment, views.TIME)}")
        lines.append(f"studies     {views.view_url(server, index, views.STUDIES, mode='TABLE')}")
    lines.append(f"files       {outcome.folder}")
    if outcome.study_run:
        lines.append(f"study run   {outcome.study_run}")
    if outcome.refused:
        lines.append(f"MLflow refused {outcome.refused} writes for good, as said above; they are in the study's files.")
    if outcome.undelivered:
        lines.append(f"MLflow did not take {outcome.undelivered} writes. Deliver them, when it is back, with")
        lines.append(f"deliver     {resume}")
    return lines


if __name__ == "__main__":
    main()
