"""Builds and runs the Tuner of a checked plan."""

import functools
import logging
import os
import signal
import socket
import time
import uuid
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

import pandas as pd
import ray
from ray import tune
from ray._private.authentication.authentication_token_setup import maybe_enable_token_auth_if_token_available
from ray.tune import CheckpointConfig, FailureConfig, RunConfig, TuneConfig
from ray.tune.logger import TBXLoggerCallback
from rich.console import Console

from experiments.driver_callback import failure_reason
from experiments.errors import ConfigurationError
from experiments.plan import Plan
from experiments.progress import ProgressCallback
from experiments.resolve import TrialConfig
from experiments.schema import HardwareSettings
from experiments.summary import TrialOutcome, runs_of
from experiments.tracking.callback import TrackingCallback
from experiments.tracking.store import Store, store_uri
from experiments.tracking.writer import Writer
from experiments.trial import MEASURE_SYSTEM, TRIAL, Trial


@dataclass(frozen=True)
class StudyOutcome:
    """What a study came to.

    Attributes:
        outcomes: One per trial of the plan.
        runs: The same as the analysis' frame `runs`.
        interrupted_by: The signal that stopped it, if one did.
        folder: The study's own folder.
        study_run: Its run in the experiment `studies`; None if MLflow never took it.
        experiment_ids: Name to id, of `studies` and of the trials' experiment.
        undelivered: Operations that MLflow did not take.
    """

    outcomes: tuple[TrialOutcome, ...]
    runs: pd.DataFrame
    interrupted_by: signal.Signals | None
    folder: Path
    study_run: str | None
    experiment_ids: dict[str, str]
    undelivered: int

    @property
    def exit_code(self) -> int:
        """As the contract says: 0 all finished, 1 some failed, 128 + the signal's number if interrupted."""
        if self.interrupted_by is not None:
            return 128 + self.interrupted_by
        return 0 if all(o.status == "finished" for o in self.outcomes) else 1


def start_ray(hardware: HardwareSettings) -> None:
    """Start Ray on this machine, or join the cluster at `hardware.address`.

    Raises:
        ConfigurationError: No cluster answers there.
    """
    quiet()
    threads = str(hardware.threads_per_process)
    environment = {
        "OMP_NUM_THREADS": threads,  # else Ray sets it to the CPUs of each actor
        "MKL_NUM_THREADS": threads,
        "OPENBLAS_NUM_THREADS": threads,
        "PYTHONHASHSEED": "0",
        "PYTHONWARNINGS": "ignore::DeprecationWarning,ignore::UserWarning",
    }
    common: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR}
    if hardware.address is None:
        os.environ.update(environment)  # inherited by Ray's processes
        # Never join a cluster that happens to run here: its size was not checked.
        ray.init(
            address="local",
            num_cpus=hardware.num_cpus,
            num_gpus=hardware.num_gpus,
            include_dashboard=False,
            **common,
        )
        return
    _check_address(hardware.address)
    # Clusters ask for a token by default, and `ray start` leaves it in ~/.ray; ray.init() looks for it only when it starts Ray itself.
    maybe_enable_token_auth_if_token_available(warn_if_disabled=False)
    try:
        # The cluster's other nodes need not have the suite installed, only Ray and what it trains with.
        package = Path(__file__).resolve().parent
        modules = [str(package), str(package.parent / "analysis")]
        ray.init(address=hardware.address, runtime_env={"env_vars": environment, "py_modules": modules}, **common)
    except (ConnectionError, TimeoutError, RuntimeError, ValueError) as error:
        raise ConfigurationError(f"hardware.address={hardware.address}: no Ray cluster answers there ({error}).") from None


def _check_address(address: str) -> None:
    """Make sure that something listens at `host:port`: Ray would try for minutes.

    Raises:
        ConfigurationError: Nothing does.
    """
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not port.isdigit():  # auto, local
        return
    try:
        socket.create_connection((host, int(port)), timeout=5).close()
    except OSError as error:
        raise ConfigurationError(
            f"hardware.address={address}: no Ray cluster answers there ({error}). Start one with `ray start --head`, "
            "or leave hardware.address out to run on this machine."
        ) from None


def quiet() -> None:
    """Keep from the terminal what a user can do nothing about; errors still pass."""
    warnings.filterwarnings("ignore", category=DeprecationWarning)
    warnings.filterwarnings("ignore", module="gymnasium")
    for name in ("ray", "ray.rllib", "ray.tune", "ray.train", "gymnasium", "mlflow", "alembic"):
        logging.getLogger(name).setLevel(logging.ERROR)
    logging.getLogger("ray.tune").setLevel(logging.CRITICAL)  # failed trials are reported by the suite, with their cause
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # nothing is sent anywhere unless the user asks
    os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
    os.environ.setdefault("TUNE_DISABLE_AUTO_CALLBACK_LOGGERS", "1")
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    os.environ.setdefault("TUNE_PRINT_ALL_TRIAL_ERRORS", "0")
    os.environ.setdefault("RAY_AIR_NEW_OUTPUT", "0")  # Tune's tables; the old output is silent at verbosity 0


def run_study(plan: Plan, output_dir: Path, console: Console) -> StudyOutcome:
    """Run every trial of a plan. Ray must be running.

    Args:
        plan: The checked study.
        output_dir: Absolute; the study gets a folder of its own under `studies`.
        console: Where progress is shown.

    Returns:
        How it went; failed trials don't raise.
    """
    tracking = plan.suite.tracking
    name = f"{plan.study}-{plan.algorithms}-{plan.envs}-{time.strftime('%Y%m%d-%H%M%S')}-{uuid.uuid4().hex[:6]}"
    folder = output_dir / "studies" / name
    folder.mkdir(parents=True)
    connect = functools.partial(Store, store_uri(tracking, output_dir), output_dir / "mlartifacts", tracking.timeout_s)
    writer = Writer(connect, folder / "undelivered.jsonl")
    to_mlflow = TrackingCallback(plan, writer)
    to_mlflow.begin()
    with ProgressCallback(plan, console) as progress, _signals() as received:
        callbacks = [progress, to_mlflow, *([TBXLoggerCallback()] if tracking.tensorboard else [])]
        results = _tuner(plan, folder, callbacks).fit()
    trials: Sequence[Any] = results._experiment_analysis.trials
    outcomes = _outcomes(plan, trials)
    unfinished = any(o.status == "interrupted" for o in outcomes)
    interrupted_by = (received[0] if received else signal.SIGINT) if unfinished else None
    runs = runs_of(plan.record(), outcomes)
    status = "KILLED" if interrupted_by else "FAILED" if any(o.status == "failed" for o in outcomes) else "FINISHED"
    to_mlflow.end(trials, status, runs)
    writer.close()
    return StudyOutcome(
        outcomes, runs, interrupted_by, folder, writer.run_ids.get("study"), dict(writer.experiment_ids), writer.undelivered
    )


def _tuner(plan: Plan, folder: Path, callbacks: list[Any]) -> tune.Tuner:
    suite = plan.suite
    every = suite.checkpoint.every_env_steps
    trials = [t.to_mapping() for t in plan.trials]
    return tune.Tuner(
        Trial,
        param_space={TRIAL: tune.grid_search(trials), MEASURE_SYSTEM: suite.tracking.system_metrics},
        tune_config=TuneConfig(
            reuse_actors=True,
            max_concurrent_trials=plan.concurrency,
            trial_name_creator=_trial_name,
            trial_dirname_creator=_trial_name,
        ),
        run_config=RunConfig(
            name="tune",
            storage_path=str(folder),
            callbacks=callbacks,
            verbose=0,
            log_to_file=True,
            failure_config=FailureConfig(max_failures=0),
            checkpoint_config=CheckpointConfig(
                num_to_keep=suite.checkpoint.keep,
                checkpoint_frequency=every // plan.report_every_env_steps if every else 0,
                checkpoint_at_end=True,
            ),
        ),
    )


def _trial_name(trial: Any) -> str:
    config = TrialConfig.from_mapping(trial.config[TRIAL])
    readable = "".join(ch if ch.isalnum() or ch in "=.-" else "_" for ch in config.name)
    return f"{readable[:60]}_{config.config_id}"


def _outcomes(plan: Plan, trials: Sequence[Any]) -> tuple[TrialOutcome, ...]:
    by_trial = {}
    for trial in trials:
        config = TrialConfig.from_mapping(trial.config[TRIAL])
        if trial.status == "TERMINATED":
            final = {k: float(v) for k, v in trial.last_result.items() if k.startswith("final/")}
            outcome = TrialOutcome(config.label, config.seed, "finished", final)
            if not final:  # stopped by a signal after its last report, before its last step
                outcome = TrialOutcome(config.label, config.seed, "interrupted")
        elif trial.status == "ERROR":
            outcome = TrialOutcome(config.label, config.seed, "failed", failure=failure_reason(trial))
        else:
            outcome = TrialOutcome(config.label, config.seed, "interrupted")
        by_trial[config.label, config.seed] = outcome
    return tuple(by_trial.get((t.label, t.seed), TrialOutcome(t.label, t.seed, "interrupted")) for t in plan.trials)


@contextmanager
def _signals() -> Iterator[list[signal.Signals]]:
    """Collect SIGINT and SIGTERM; both end the study gracefully, through the handler that Tune installs for SIGUSR1."""
    received: list[signal.Signals] = []

    def forward(number: int, frame: FrameType | None) -> None:
        received.append(signal.Signals(number))
        os.kill(os.getpid(), signal.SIGUSR1)

    before = {number: signal.signal(number, forward) for number in (signal.SIGTERM, signal.SIGINT)}
    usr1 = signal.getsignal(signal.SIGUSR1)
    os.environ["TUNE_DISABLE_SIGINT_HANDLER"] = "1"
    try:
        yield received
    finally:
        os.environ.pop("TUNE_DISABLE_SIGINT_HANDLER", None)
        signal.signal(signal.SIGUSR1, usr1)
        for number, handler in before.items():
            signal.signal(number, handler)
