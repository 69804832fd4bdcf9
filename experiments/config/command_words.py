"""The words of a study's command line: Hydra's own, those of several studies (`--multirun`),
and what is composed of them.
"""

import argparse
import itertools
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import hydra
from hydra._internal.utils import get_args_parser
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Glob, Override, Quote, QuotedString

from experiments.config.choices import check_choices, files_of, groups, hydra_search_path
from experiments.config.compose import (
    check_axes_are_free,
    check_named,
    composer,
    composing,
    split_space,
    with_new_keys,
)
from experiments.config.errors import ConfigurationError
from experiments.config.trial_config import GROUPS, Compose

_NOT_HERE = {
    "config_path": "all files are those of conf/. To add a folder of your own: --config-dir FOLDER",
    "config_name": (
        "the only one is conf/config.yaml. A study of your own: --config-dir FOLDER study=NAME "
        "reads FOLDER/study/NAME.yaml"
    ),
    "experimental_rerun": (
        "studies write no file for it. To continue an interrupted study: resume=<study run id>. To run a trial again: "
        "python experiments/reproduce.py run=<run id>"
    ),
}
"""Flags of Hydra's that a study has no use for, and what there is instead."""
_OWN_SETTINGS = {
    r"run\b|sweep\b|output_subdir|job\.chdir": "a study's files go to output_dir=/path",
    r"launcher": "the studies of -m run one after the other, since each has the whole machine for its trials",
    r"sweeper|mode": "-m takes key=a,b; within one study use study.space or search=optuna",
    r"searchpath": "a folder of your own is --config-dir FOLDER",
    r"": "it has no effect on a study: leave it out",
}
"""Beginnings of settings of Hydra's own, and what there is instead."""


@dataclass(frozen=True)
class Words:
    """A command line, as Hydra reads it.

    Attributes:
        flags: The flags that are not settings, with their values.
        settings: `key=value`, in order.
        shows: Whether Hydra is to show something (`--cfg`, `--info`, `--shell-completion`, `--hydra-help`),
            and no study runs.
        is_several: Whether a comma separates the values of several studies (`--multirun`).
    """

    flags: tuple[str, ...]
    settings: tuple[str, ...]
    shows: bool
    is_several: bool


def read(words: Sequence[str]) -> Words:
    """Read a command line without `--config-dir`.

    Raises:
        ConfigurationError: Hydra knows no such flag, or a study has no use for it; names what there is instead.
    """
    parser = get_args_parser()
    parser.exit_on_error = False
    try:
        found, unknown = parser.parse_known_intermixed_args(list(words))
    except argparse.ArgumentError as error:
        raise ConfigurationError(f"{error}. --hydra-help lists Hydra's flags.") from None
    if unknown:
        raise ConfigurationError(
            f"{unknown[0]}: there is no such flag. Settings are key=value: --help lists them, --hydra-help the flags."
        )
    for flag, instead in _NOT_HERE.items():
        if getattr(found, flag) is not None:
            raise ConfigurationError(f"--{flag.replace('_', '-')}: {instead}.")
    given = [
        flag for flag in ("run", "multirun", "cfg", "info", "shell_completion", "hydra_help") if getattr(found, flag)
    ]
    if len(given) > 1:
        listed = " and ".join("--" + flag.replace("_", "-") for flag in given)
        raise ConfigurationError(f"{listed}: give only one of them.")
    if alone := [flag for flag in ("resolve", "package") if getattr(found, flag) and found.cfg is None]:
        raise ConfigurationError(f"--{alone[0]}: goes with --cfg, as in --cfg job --{alone[0]}.")
    for word in found.overrides:
        if own := re.match(r"[+~]*hydra(?:[./](?P<name>[^=@]*))?(?:=|@|$)", word):
            instead = next(fix for start, fix in _OWN_SETTINGS.items() if re.match(start, own["name"] or ""))
            raise ConfigurationError(f"{word}: is one of Hydra's own settings. Here, {instead}.")
    flags = tuple(word for word in words if word not in found.overrides)
    settings = found.overrides if found.multirun else spelled_out(found.overrides)
    return Words(flags, tuple(settings), bool({*given} - {"run", "multirun"}), found.multirun)


def spelled_out(words: Sequence[str]) -> list[str]:
    """The words of a command line as Hydra takes them: `confirm=STUDY` is short for `confirm.study=STUDY`,
    and `confirm.with=a,b` for a list of names, which may have spaces and `=` in them; a question is text,
    commas and all.
    """
    return [_spelled_out(word) for word in words]


def _spelled_out(word: str) -> str:
    if given := re.fullmatch(r"confirm=(?!\{)(.*)", word):
        return f"confirm.study={given[1]}"
    if given := re.fullmatch(r"confirm\.with=([^\[\"'].*)", word):
        names = re.split(r",(?![^\[]*\])", given[1])  # a name may have a list in it
        return f"confirm.with=[{','.join(map(_quoted, names))}]"
    if given := re.fullmatch(r"study\.question=(?!null$)([^\"'\[].*)", word, re.DOTALL):
        return f"study.question={_quoted(given[1])}"
    return word


def _quoted(text: str) -> str:
    return str(QuotedString(text, Quote.double).with_quotes())


def as_shown(settings: Sequence[str]) -> list[str]:
    """The settings for Hydra to show (`--cfg`): a space is not merged into that of the study's file."""
    others, spaces = split_space(with_new_keys(settings))
    return [*others, *(["~study.space", f"+study.space={spaces[-1].partition('=')[2]}"] if spaces else [])]


def jobs(settings: Sequence[str], own: Path | None) -> list[list[str]]:
    """The settings of each of several studies, `algorithm=ppo,dqn` of two: all combinations,
    as Hydra's own sweeper has them.

    Args:
        settings: Settings of the command line.
        own: A person's own folder of configuration files.

    Raises:
        ConfigurationError: A value is no list of them.
    """
    each = [[o.input_line or ""] if not o.is_sweep_override() else _each(o, own) for o in _parsed(settings)]
    return [list(job) for job in itertools.product(*each)]


def _each(override: Override, own: Path | None) -> list[str]:
    key, value = override.get_key_element(), override.value()
    if not isinstance(value, Glob):
        return [f"{key}={one}" for one in override.sweep_string_iterator()]
    found = value.filter([name for name in files_of(override.key_or_group, own) if name != "base"])
    if not found:
        raise ConfigurationError(
            f"{override.input_line}: matches no file. A glob chooses files of a group: {', '.join(groups())}."
        )
    return [f"{key}={name}" for name in found]


def check_one(settings: Sequence[str]) -> None:
    """Make sure that a command line is that of one study.

    Raises:
        ConfigurationError: A comma makes it several; says what to write for several, for an axis and for a list.
    """
    for override in _parsed(settings):
        if override.is_sweep_override():
            word, key = override.input_line or "", override.key_or_group
            listed = f"[{word.partition('=')[2]}]"
            is_axis, is_group = "." in key or key in GROUPS, key in groups()
            axis = f" To compare them in one study: 'study.space={{{key}:{listed}}}'." if is_axis else ""
            as_list = "" if is_group else f" A list is written in brackets: {key}={listed}."
            raise ConfigurationError(
                f"{word}: stands for several studies. To run them one after the other: -m {word}.{axis}{as_list}"
            )


def is_doubtful(settings: Sequence[str], own: Path | None) -> bool:
    """True where RLlib is better asked what it thinks of the settings before anything is started, though that
    takes seconds: one is added to what an algorithm's file has, or is given what is no number, or files of a
    person's own are read.
    """
    ours = [o for o in _parsed(split_space(settings)[0]) if o.key_or_group.startswith("algorithm.")]
    are_numbers = (isinstance(o.value(), int | float) and not isinstance(o.value(), bool) for o in ours)
    return own is not None or any(o.is_add() or o.is_force_add() for o in ours) or not all(are_numbers)


def _parsed(settings: Sequence[str]) -> list[Override]:
    return OverridesParser.create().parse_overrides(list(settings))


@contextmanager
def composed(settings: Sequence[str], own: Path | None) -> Iterator[Compose]:
    """The settings of one study, checked and composed; with other group choices only within.

    Args:
        settings: Settings of the command line.
        own: A person's own folder of configuration files.

    Raises:
        ConfigurationError: A file is not there, or a setting would have no effect.
    """
    check_one(settings)
    words, spaces = split_space(with_new_keys(settings))
    check_choices(words, own)
    search_path = hydra_search_path(own)
    with composing():
        compose = composer(hydra.compose("config", overrides=[*search_path, *words]), [*search_path, *words, *spaces])
        check_axes_are_free(compose({}), [*words, *spaces])
        check_named(compose({}), [*words, *spaces])
        yield compose
