"""Runs a study: compose, check, run, say where the results are.

python experiments/run.py [study=] [algorithm=] [env=] [hardware=] [search=] [scheduler=] [tracking=] [key=value ...]
"""

import sys
from pathlib import Path

if not __package__:  # run as a file: what is called like the suite's packages in other folders is not taken for them
    sys.path[0] = str(Path(__file__).resolve().parents[1])

import logging
import os
import signal
from collections.abc import Sequence

import hydra
from hydra.errors import HydraException
from omegaconf import DictConfig
from omegaconf.errors import OmegaConfBaseException

from analysis.document.command_line import help_asked
from analysis.document.garbage import end_quickly
from analysis.document.standard_streams import keep_streams
from conf import CONFIG_DIR
from experiments import session
from experiments.config.choices import check_choices, hydra_search_path, own_folder
from experiments.config.command_words import Words, as_shown, check_one, composed, is_doubtful, jobs, read
from experiments.config.errors import ConfigurationError
from experiments.config.usage import help_text, refuse
from experiments.session import Request
from experiments.signals import exit_at_signals
from experiments.study.several import run_each


def main(arguments: Sequence[str]) -> None:
    """Run the command line; exits with the contract's codes."""
    keep_streams()
    end_quickly()
    exit_at_signals()
    try:
        words, own = own_folder(arguments)
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
            sys.exit(run(Request(compose, own, doubtful=is_doubtful(asked.settings, own))))
    except KeyboardInterrupt:
        print("interrupted by SIGINT", file=sys.stderr)
        sys.exit(128 + signal.SIGINT)
    except (ConfigurationError, HydraException, OmegaConfBaseException) as error:
        refuse(error)


def _show(asked: Words, own: Path | None) -> None:
    """Show what Hydra makes of a command line (`--cfg job`), and run no study."""
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
            suite, _ = session.checked(compose)
            keys.append(suite.study.key or suite.resume)
    if twice := next((key for key in keys if key is not None and keys.count(key) > 1), None):
        raise ConfigurationError(
            f"--multirun: {twice} names one study, but is given to {keys.count(twice)}. Name each of them."
        )
    flags = [] if own is None else [CONFIG_DIR, str(own)]
    return run_each([sys.executable, __file__], [[*flags, *job] for job in several])


def run(request: Request) -> int:
    """A study from its composition on; its exit code.

    Raises:
        ConfigurationError: Anything is wrong; nothing was started.
    """
    outcome = session.run(request).outcome
    # what Ray does at the exit of a process could wait for ever; it ends with this one
    if outcome is not None and outcome.tune_hangs:
        sys.stdout.flush()
        os._exit(outcome.exit_code)
    return 0 if outcome is None else outcome.exit_code


if __name__ == "__main__":
    main(sys.argv[1:])
