"""Studies and trained policies from Python, for notebooks and programs: `run_study`, `plan_study`, `importance`,
`load_policy`.

from experiments.api import load_policy, run_study
"""

import logging
import os
import shlex
import threading
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from re import fullmatch
from signal import Signals
from typing import TYPE_CHECKING

from hydra.errors import HydraException
from omegaconf.errors import OmegaConfBaseException

from experiments.config import own_modules
from experiments.config.choices import own_folder
from experiments.config.command_words import composed, is_doubtful, read
from experiments.config.errors import ConfigurationError
from experiments.config.output_dir import absolute
from experiments.config.usage import reason_for_refusal
from experiments.contract.mlflow_environment import keep_out
from experiments.contract.passwords import without_passwords
from experiments.limits.arithmetic import PORTABLE, differences
from experiments.session import Executed, Request, run
from experiments.tracking import provenance
from experiments.tracking.place import Place

if TYPE_CHECKING:  # Ray and pandas are imported where they are needed: they take seconds
    import pandas as pd

    from analysis.load import Study
    from experiments.planning.plan import Plan
    from experiments.policies.policy import Policy

__all__ = ["importance", "load_policy", "plan_study", "run_study"]

# Said as Ray is imported in a notebook, by it and by tqdm, of widgets that nothing here shows.
logging.getLogger("ray.widgets.util").setLevel(logging.ERROR)
warnings.filterwarnings("ignore", message="IProgress not found")


def run_study(overrides: Sequence[str], *, quiet: bool = False) -> "Study":
    """Run a study as `python experiments/run.py <overrides>` does, and read it back.

    Ray is started and stopped again. A Ray that this process runs already is used as it is, with the CPUs and GPUs that
    it has, and left running.

    Args:
        overrides: The words of the command line: `["study=smoke", "algorithm=dqn", "seeds=[0,1,2]"]`. Relative paths
            are of the working directory. `["--config-dir", "my"]` names a folder of files of your own,
            `["resume=<study run id>"]` goes on with a study, and `study.key=NAME` begins the study of that name or
            goes on with it.
        quiet: Whether the plan, the progress and the conclusions are not printed.

    Returns:
        The study, with the trials that failed (`Study.incomplete`).

    Raises:
        ConfigurationError: Anything is wrong; nothing was started. The message names the key and the fix.
        AnalysisError: MLflow does not have the study, or no trial has started.
        KeyboardInterrupt: It was interrupted, and is saved: `resume=` goes on with it, as was printed.
    """
    from analysis import AnalysisError
    from analysis.load import load_study

    executed = _execute(overrides, quiet, dry_run=False)
    outcome = executed.outcome
    assert outcome is not None
    if outcome.interrupted_by == Signals.SIGINT.name:
        raise KeyboardInterrupt(f"the study is saved. Go on with resume={outcome.study_run or outcome.folder}")
    if outcome.interrupted_by in Signals.__members__:
        raise SystemExit(outcome.exit_code)
    if outcome.study_run is None or outcome.undelivered:
        raise AnalysisError(f"MLflow lacks some of the results. Deliver them, when it is back: {executed.deliver}")
    return load_study(outcome.study_run, executed.place.store_uri)


def plan_study(overrides: Sequence[str], *, quiet: bool = False) -> "Plan":
    """The plan of `run_study`, with all its checks; nothing is started. As `dry_run=true` on the command line.

    Args:
        overrides: The words of a command line, as in `run_study`.
        quiet: Whether the plan is not printed.

    Raises:
        ConfigurationError: Anything is wrong. The message names the key and the fix.
    """
    return _execute(overrides, quiet, dry_run=True).plan


def importance(study: "Study") -> "pd.DataFrame":
    """How much each searched setting matters for what decides in a study that is a full grid, with intervals.

    Args:
        study: As `run_study` and `analysis.load.load_study` give it.

    Returns:
        A row a setting and environment, as `analysis.questions.importance.importance_of` has it: `setting`; `main`, the
        share of the variance between configurations that it has by itself, and `total`, with its interactions, both
        with `_low` and `_high`; and others. Empty unless two settings or more are crossed, with three seeds or more.
    """
    from analysis.questions.importance import importance as of_evidence

    return of_evidence(study.evidence)


def load_policy(
    run: "str | Path | Study",
    *,
    tracking_uri: str | None = None,
    output_dir: str | Path | None = None,
    modules: Sequence[str] = (),
    trust: bool = False,
) -> "Policy":
    """A trained policy, which is called with an observation and gives the deterministic action. Ray is not started.

    Args:
        run: A trial, by its run id in MLflow: its newest checkpoint. Or the folder of a checkpoint or a trial. Or
            a study, as `run_study` and `analysis.load.load_study` give it: the median seed of the configuration
            that it recommends.
        tracking_uri: Of the store that holds the run; None: the study's, or mlflow.db in `output_dir`.
        output_dir: Where your studies are; None: the folder of an embedded store, else `outputs`.
        modules: Files of your own that the trial imported, as they were then: none is run from a store.
        trust: Whether a checkpoint is opened that is not in `output_dir`: pickles run whatever code is in them.

    Warns:
        UserWarning: It was trained with `bits=portable`, and this process computes natively: its actions may differ in
            their last bits.

    Raises:
        ConfigurationError: There is none, or it cannot be used here. The message names the fix.
    """
    from experiments.study.cluster.ray_process import prepare

    prepare()

    from experiments.policies.policy import load
    from experiments.study.trained import of_folder, of_run
    from experiments.tracking.archive import Archive

    named, of_study = (str(run), None) if isinstance(run, str | Path) else (_median_seed(run), run.tracking_uri)
    place = Place.named(tracking_uri or of_study, None if output_dir is None else str(output_dir))
    if fullmatch("[0-9a-f]{32}", named):
        with _kept_environment():
            keep_out()
            trained = of_run(Archive(place), named, trust)
    else:
        trained = of_folder(absolute(named), place.output_dir, trust)
    own_modules.take_recorded(trained.named, trained.checkpoint.trial.modules, modules)
    if trained.checkpoint.trial.bits == PORTABLE and (found := differences()):
        warnings.warn(
            f"{trained.named}: was trained with bits=portable, and the last bits of its actions may differ here: "
            f"{found}. `rl-scaling evaluate run=...` computes portably.",
            stacklevel=2,
        )
    return load(trained.checkpoint, trained.named)


def _execute(overrides: Sequence[str], quiet: bool, dry_run: bool) -> Executed:
    """Plan, and run, as the command does with its words."""
    if threading.current_thread() is not threading.main_thread():
        raise ConfigurationError("a study is run in the main thread alone: signals, which interrupt it, come there.")
    if isinstance(overrides, str):
        raise ConfigurationError(f"overrides are a list of words, not one text: {shlex.split(overrides)}.")
    given = [str(word) for word in overrides]
    provenance.git_state.cache_clear()  # which may have changed since the last study of this process
    try:
        words, own = own_folder(given)
        if flag := next((word for word in words if word.startswith("-")), None):
            raise ConfigurationError(f"{flag}: is for the command line. Give settings only: group=file, setting=value.")
        settings = [*read(words).settings, *(["dry_run=true"] if dry_run else [])]
        with _kept_environment(), composed(settings, own) as compose:
            first = compose({})
            own_modules.check_unchanged(first["modules"])
            if first["dry_run"] and not dry_run:
                raise ConfigurationError(
                    "dry_run=true: there is no study to give back. Call plan_study, which gives the plan."
                )
            command = without_passwords(shlex.join(["python", "experiments/run.py", *given]))
            return run(Request(compose, own, command, quiet, use_running_ray=True, doubtful=is_doubtful(settings, own)))
    except (HydraException, OmegaConfBaseException) as error:
        raise ConfigurationError(reason_for_refusal(error, given)) from None


@contextmanager
def _kept_environment() -> Iterator[None]:
    """Whatever is set within it for Ray's processes, its threads and warnings,
    is not left to those that this process starts later.
    """
    before = dict(os.environ)
    try:
        yield
    finally:
        for name in {*os.environ} - {*before}:
            del os.environ[name]
        os.environ.update(before)


def _median_seed(study: "Study") -> str:
    """The run id of the median seed of what a study recommends."""
    from analysis.questions.decision import seeds_to_show

    # the best, then the median where there are several
    found = {shown.env: shown.run_id for shown in seeds_to_show(study.evidence)}
    if len(found) != 1:
        why = "recommends no configuration" if not found else f"has several environments ({', '.join(found)})"
        raise ConfigurationError(
            f"study {study.name}: {why}. Name a run: load_policy(study.runs['run_id'][0], tracking_uri=...)."
        )
    return next(iter(found.values()))
