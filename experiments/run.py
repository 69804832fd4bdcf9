"""Runs a study: compose, check, run, say where the results are.

python experiments/run.py [study=] [algorithm=] [env=] [hardware=] [search=] [scheduler=] [tracking=] [key=value ...]
"""

import logging
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

import hydra
from hydra.core.hydra_config import HydraConfig
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from experiments import views
from experiments.errors import ConfigurationError, first_line
from experiments.outputs import check_writable
from experiments.provenance import without_passwords
from experiments.resolve import Compose
from experiments.schema import parse
from experiments.search import points
from experiments.tracking.store import Store, check_store, store_uri

INVALID = 2
"""Exit code: nothing was started."""
LOG_WIDTH = 140
"""Columns of a log file."""

_given_spaces: list[str] = []
_show_traceback = "HYDRA_FULL_ERROR" in os.environ


def main() -> None:
    """Run the command line; exits with the contract's codes."""
    sys.argv[1:], _given_spaces[:] = split_space(sys.argv[1:])
    os.environ["HYDRA_FULL_ERROR"] = "1"  # Hydra then raises instead of printing and exiting with 1
    try:
        _study()
    except (HydraException, OmegaConfBaseException) as error:
        _refuse(error)


@hydra.main(config_path="../conf", config_name="config", version_base="1.3")
def _study(config: DictConfig) -> None:
    logging.basicConfig(level=logging.WARNING, format="%(message)s")
    try:
        overrides = [*HydraConfig.get().overrides.task, *_given_spaces]
        compose = composer(config, overrides)
        check_axes_are_free(compose({}), overrides)
        sys.exit(run(compose))
    except (ConfigurationError, HydraException, OmegaConfBaseException) as error:
        _refuse(error)


def split_space(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """The command line without `study.space={...}`, and that: it replaces the study's space, and Hydra would merge the two."""
    given = [a for a in arguments if a.lstrip("+").startswith("study.space=")]
    return [a for a in arguments if a not in given], given


def _refuse(error: Exception) -> NoReturn:
    """Say what is wrong and exit: nothing was started."""
    if _show_traceback:
        raise error
    causes = [error, error.__cause__] if isinstance(error, HydraException) else [error]
    lines = [line for e in causes if e is not None for line in str(e).strip().splitlines() if line.strip()]
    print("error: " + "\n".join(dict.fromkeys(lines)), file=sys.stderr)
    sys.exit(INVALID)


def check_axes_are_free(composed: Mapping[str, Any], overrides: Sequence[str]) -> None:
    """Make sure that no override sets what the space varies: it would have no effect.

    Raises:
        ConfigurationError: One does.
    """
    space = (composed.get("study") or {}).get("space") or {}
    for override in overrides:
        key = override.lstrip("+~").partition("=")[0]
        if isinstance(space, Mapping) and key in space:
            raise ConfigurationError(
                f"{override}: has no effect, since the study varies {key}: {space[key]}. "
                f"Give the study another space, for example 'study.space={{}}' for a single configuration."
            )


def composer(config: DictConfig, overrides: Sequence[str]) -> Compose:
    """Composes the command line's configuration, with other group choices where a study's space asks for them.

    Args:
        config: As composed by Hydra.
        overrides: The command line's overrides.
    """
    given = split_space(overrides)[1]

    def compose(choices: Mapping[str, str]) -> Mapping[str, Any]:
        kept = [o for o in split_space(overrides)[0] if o.partition("=")[0] not in choices]
        chosen = [f"{group}={name}" for group, name in choices.items()]
        composed = _plain(hydra.compose("config", overrides=[*chosen, *kept]) if choices else config)
        if given:
            composed["study"]["space"] = OverridesParser.create().parse_override(given[-1]).value()
        return composed

    return compose


def run(compose: Compose) -> int:
    """A study from its composition on; its exit code.

    Raises:
        ConfigurationError: Anything is wrong; nothing was started.
    """
    suite = parse(compose({}))  # our own knobs first: it takes milliseconds, Ray's imports take seconds
    output_dir = Path(suite.output_dir).expanduser().absolute()
    points(suite.study.space, suite.search)
    check_writable(output_dir)
    uri = store_uri(suite.tracking, output_dir)
    check_store(uri, suite.tracking.timeout_s)

    import ray
    from rich.console import Console

    from experiments import progress, resources
    from experiments.plan import make_plan
    from experiments.study import quiet, run_study, start_ray

    quiet()
    console = Console() if sys.stdout.isatty() else Console(width=LOG_WIDTH)
    try:
        if suite.hardware.address is not None:
            start_ray(suite.hardware)
            cluster = resources.joined_cluster()
        else:
            cluster = resources.local_machine(suite.hardware)
        plan = make_plan(compose, cluster)
        for line in progress.plan_lines(plan):
            console.print(line, highlight=False, soft_wrap=True)
        if suite.dry_run:
            console.print(progress.plan_table(plan))
            console.print(_estimate(plan, uri, output_dir), highlight=False, soft_wrap=True)
            return 0
        if not ray.is_initialized():
            start_ray(suite.hardware)
        outcome = run_study(plan, output_dir, console)
    finally:
        ray.shutdown()
    for line in _conclusions(outcome, plan.exclusive):
        console.print(line, highlight=False, soft_wrap=isinstance(line, str))
    for line in progress.failures(outcome.outcomes):
        console.print(line, style="red", highlight=False, soft_wrap=True)
    if suite.report:
        console.print(_report(outcome, uri, output_dir), highlight=False, soft_wrap=True)
    for line in _where(plan, outcome, uri):
        console.print(line, highlight=False, soft_wrap=True)
    return outcome.exit_code


def _conclusions(outcome: Any, exclusive: bool) -> list[Any]:
    """The closing table and the answers; why there are none, if they cannot be drawn."""
    from analysis.answer import answers, closing_table
    from experiments.progress import outcome_table

    try:
        table = outcome_table(closing_table(outcome.runs, []), exclusive)
        return [table, *("answer      " + answer.text() for answer in answers(outcome.runs))]
    except Exception as error:  # noqa: BLE001  # a study that ran ends with its exit code, whatever becomes of its conclusions
        return [f"answer      none: {type(error).__name__}: {first_line(error)}"]


def _report(outcome: Any, uri: str, output_dir: Path) -> str:
    """Write the study's report, attach it to its run, and say where it is, or why there is none."""
    from analysis.errors import AnalysisError
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
    from experiments.progress import duration

    database = Path(uri.removeprefix("sqlite:///"))
    if uri.startswith("sqlite") and not database.exists():
        return "time        unknown: nothing has run with this store yet"
    store = Store(uri, output_dir / "mlartifacts", plan.suite.tracking.timeout_s)
    seconds = 0.0
    for c in plan.configurations:
        speed = store.past_speed(c.suite.algorithm["name"], c.suite.env.name)
        if speed is None:
            return f"time        unknown: no {c.suite.algorithm['name']} trial on {c.suite.env.name} has run with this store yet"
        seconds += c.suite.budget_env_steps * len(plan.seeds) / speed
    return f"time        about {duration(seconds / plan.concurrency)}, at the median speed of earlier trials in this store"


def _where(plan: Any, outcome: Any, uri: str) -> list[str]:
    """Where the results are and how to open them."""
    from experiments.tracking.callback import INDEX_EXPERIMENT

    lines = []
    if outcome.interrupted_by is not None:
        left = sum(o.status == "interrupted" for o in outcome.outcomes)
        lines.append(f"interrupted by {outcome.interrupted_by.name}: {left} trials did not finish; what they logged is kept")
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
    if outcome.undelivered:
        lines.append(f"MLflow did not take {outcome.undelivered} writes; they are kept in {outcome.folder / 'undelivered.jsonl'}")
    return lines


def _plain(config: DictConfig) -> dict[str, Any]:
    plain = OmegaConf.to_container(config, resolve=True, throw_on_missing=True)
    assert isinstance(plain, dict)
    return {str(k): v for k, v in plain.items() if k != "hydra"}


if __name__ == "__main__":
    main()
