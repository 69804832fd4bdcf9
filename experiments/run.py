"""Runs a study: compose, check, run, say where the results are.

python experiments/run.py [study=] [algorithm=] [env=] [hardware=] [search=] [scheduler=] [tracking=] [key=value ...]
"""

import logging
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import hydra
from hydra.core.hydra_config import HydraConfig
from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from experiments.errors import ConfigurationError

INVALID = 2
"""Exit code: nothing was started."""
LOG_WIDTH = 140
"""Columns of a log file."""


def main() -> None:
    """Run the command line; exits with the contract's codes."""
    full_error = os.environ.setdefault("HYDRA_FULL_ERROR", "1") == "1" and "HYDRA_FULL_ERROR" in _asked_for
    try:
        _study()
    except (ConfigurationError, HydraException, OmegaConfBaseException) as error:
        if full_error:
            raise
        print(f"error: {_message(error)}", file=sys.stderr)
        sys.exit(INVALID)


_asked_for = set(os.environ)


@hydra.main(config_path="../conf", config_name="config", version_base="1.3")
def _study(config: DictConfig) -> None:
    logging.basicConfig(level=logging.WARNING, format="%(message)s")
    composed = _plain(config)
    overrides = list(HydraConfig.get().overrides.task)

    def compose(choices: Mapping[str, str]) -> Mapping[str, Any]:
        if not choices:
            return composed
        kept = [o for o in overrides if o.partition("=")[0] not in choices]
        return _plain(hydra.compose("config", overrides=[*(f"{group}={name}" for group, name in choices.items()), *kept]))

    sys.exit(run(compose))


def run(compose: Any) -> int:
    """A study from its composition on; its exit code.

    Raises:
        ConfigurationError: Anything is wrong; nothing was started.
    """
    from experiments.schema import parse

    suite = parse(compose({}))  # our own knobs first: it takes milliseconds, Ray's imports take seconds
    output_dir = Path(suite.output_dir).expanduser().absolute()
    from experiments import tracking
    from experiments.study import check_writable, quiet, run_study, start_ray

    quiet()
    check_writable(output_dir)
    uri = tracking.store_uri(suite.tracking, output_dir)
    tracking.check_store(uri, suite.tracking.timeout_s)

    import ray
    from rich.console import Console

    from experiments import progress, resources
    from experiments.plan import make_plan
    from experiments.summary import summarise

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
    console.print(progress.outcome_table(summarise(outcome.outcomes), plan.exclusive))
    for line in progress.failures(outcome.outcomes):
        console.print(line, style="red", highlight=False, soft_wrap=True)
    for line in _where(plan, outcome, uri):
        console.print(line, highlight=False, soft_wrap=True)
    return outcome.exit_code


def _estimate(plan: Any, uri: str, output_dir: Path) -> str:
    """How long the study will take, from what has run before."""
    from experiments.progress import duration
    from experiments.tracking import Store

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
    from experiments import views
    from experiments.tracking import INDEX_EXPERIMENT

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


def _message(error: BaseException) -> str:
    """Hydra's message and the cause it hides, without duplicate lines."""
    lines = [line for e in (error, error.__cause__) if e is not None for line in str(e).strip().splitlines()]
    return "\n".join(dict.fromkeys(line for line in lines if line.strip()))


if __name__ == "__main__":
    main()
