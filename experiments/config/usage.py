"""The help of run.py's command line, and the messages that refuse one."""

import difflib
import os
import re
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

import hydra
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import HydraException, OverrideParseException
from omegaconf import OmegaConf
from omegaconf.errors import MissingMandatoryValue

from experiments.config.choices import files_of, groups, hydra_search_path, own_folder
from experiments.config.compose import CONF, composing, override
from experiments.config.errors import INVALID, ConfigurationError
from experiments.config.extension import known
from experiments.config.space import leaves

_show_traceback = "HYDRA_FULL_ERROR" in os.environ


def help_text(own: Path | None = None) -> str:
    """The choices there are, and what every study has with what it means.

    Args:
        own: A person's own folder of configuration files, whose files are listed too.
    """
    yours = [line for group in groups() if (line := _choices(group, {*files_of(group, own)} - {*files_of(group)}))]
    settings = [f"  {line}" for line in (CONF / "base.yaml").read_text().splitlines() if not line.startswith("#")]
    return "\n".join(
        [
            "Runs a study: python experiments/run.py [group=file ...] [setting=value ...]",
            "",
            "Files of conf/, one of each group:",
            *(_choices(group, {*files_of(group)}) for group in groups()),
            "",
            *([f"Files of {own}:", *(yours or ["  none"]), ""] if own is not None else []),
            (
                "Files of your own, outside of this folder: --config-dir ~/my env=mine reads ~/my/env/mine.yaml, "
                "and so for each group above."
            ),
            "",
            "What every study has, and where nothing else is said, its value:",
            *settings,
            "",
            *_extensions(),
            (
                "Settings of an algorithm are in its file, RLlib's under their own names: algorithm.training.lr=1e-3. "
                "++ adds those that it"
            ),
            "leaves to RLlib: ++algorithm.rl_module.use_lstm=true. A study's space is replaced whole:",
            (
                "'study.space={algorithm.training.lr:[1e-4,1e-3]}'. All settings as they come out: "
                "--cfg job. What would run:"
            ),
            (
                "dry_run=true. Several studies, one after the other: -m algorithm=ppo,dqn. "
                "Hydra's own flags: --hydra-help."
            ),
            (
                "Exit codes: 0 finished. 1 a trial failed. 2 refused, nothing was started. "
                "3 MLflow lacks some of the results."
            ),
            "129 SIGHUP, 130 SIGINT, 143 SIGTERM.",
        ]
    )


def _extensions() -> list[str]:
    """The settings of what one kind of study alone needs, and their values by default."""
    found = []
    for one in known():
        if one.has_settings and one.conf is not None:
            file = one.conf / "extension" / f"{one.name}.yaml"
            found += [f"  extension.{one.name}.{line}" for line in file.read_text().splitlines() if line[:1].isalpha()]
    return ["What one kind of study alone needs, and any other can have as well (docs/extensions.md):", *found, ""]


def _choices(group: str, files: set[str]) -> str:
    return f"  {group + '=':<13} {', '.join(sorted(files - {'base'}))}" if files else ""


_OPEN = ("algorithm.training", "algorithm.env_runners", "algorithm.learners", "algorithm.rl_module", "env.env_config")
"""Sections that take what their file does not name: whatever RLlib, or the environment, has under that name."""

_ALSO_CALLED = {
    "learning_rate": "lr",
    "batch": "train_batch_size_per_learner",
    "batch_size": "train_batch_size_per_learner",
}


def _in_our_words(error: Exception, arguments: Sequence[str]) -> ConfigurationError | None:
    """An error of Hydra's in this suite's words; None if it has none for it."""
    if isinstance(error, MissingMandatoryValue) and error.full_key == "tracking.uri":
        return ConfigurationError(
            "tracking.uri is missing: where the server is, for example tracking.uri=http://127.0.0.1:5000."
        )
    if isinstance(error, MissingMandatoryValue) and error.full_key == "env.id":
        return ConfigurationError(
            "env.id is missing: which of Gymnasium's environments, for example env=gym env.id=Walker2d-v5."
        )
    if isinstance(error, OverrideParseException):
        return _to_be_quoted(arguments)
    unknown = re.match(r"Could not override '([^']+)'", str(error))
    if unknown is None:
        return None
    path = unknown[1]
    given = next((a for a in arguments if a.lstrip("+~").partition("=")[0] == path), path)
    _, equals, value = given.partition("=")
    leaf = _ALSO_CALLED.get(path.rpartition(".")[2], path.rpartition(".")[2])
    known = {p: p.rpartition(".")[2] for p in _paths_known(arguments)}
    likely = {leaf} & {*known.values()} or {*difflib.get_close_matches(leaf, known.values(), n=2, cutoff=0.7)}
    found = [p for p, own in known.items() if own in likely]
    meant = f" Did you mean {' or '.join(p + equals + value for p in found)}?" if found else ""
    if path.rpartition(".")[0] in _OPEN:
        return ConfigurationError(f"{given}: its file has no such setting.{meant} To add it: ++{given.lstrip('+~')}")
    return ConfigurationError(
        f"{given}: there is no such setting.{meant} --help lists what every study has, --cfg job all there is."
    )


def _to_be_quoted(arguments: Sequence[str]) -> ConfigurationError | None:
    """The advice for the first word that Hydra's grammar does not read, if quotes make it readable."""
    word = next((word for word in arguments if not _is_read(word)), "")
    key, _, value = word.partition("=")
    quoted = override(key, value)
    if value.startswith(("{", "[")) or not _is_read(quoted):  # no text, but a list or mapping with a slip in it
        return None
    return ConfigurationError(
        f"{word}: has letters or signs that are read in quotes alone. Type: {shlex.quote(quoted)}"
    )


def _is_read(word: str) -> bool:
    try:
        OverridesParser.create().parse_override(word)
    except HydraException:
        return False
    return True


def _paths_known(arguments: Sequence[str]) -> list[str]:
    """The settings of the chosen files."""
    words, own = own_folder(arguments)
    choices = [word for word in words if word.partition("=")[0] in groups()]
    with composing():
        composed = hydra.compose("config", overrides=[*choices, *hydra_search_path(own)])
    plain = OmegaConf.to_container(composed, resolve=False)
    assert isinstance(plain, dict)
    return [path for path, _ in leaves(plain) if not path.startswith("study.space")]


def reason_for_refusal(error: Exception, arguments: Sequence[str]) -> str:
    """The error as a message for a person.

    Args:
        error: The suite's, Hydra's or OmegaConf's.
        arguments: The command line's words.
    """
    known = _in_our_words(error, arguments)
    causes = [known] if known else [error, error.__cause__] if isinstance(error, HydraException) else [error]
    lines = [line for e in causes if e is not None for line in str(e).strip().splitlines() if line.strip()]
    return "\n".join(dict.fromkeys(lines))


def refuse(error: Exception) -> NoReturn:
    """Say what is wrong and exit: nothing was started."""
    if _show_traceback:
        raise error
    print(f"error: {reason_for_refusal(error, sys.argv[1:])}", file=sys.stderr)
    sys.exit(INVALID)
