"""Hydra's composition of a command line: group choices, and a study's space, which replaces the composed one."""

import difflib
import os
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

import hydra
from hydra.core.global_hydra import GlobalHydra
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import MissingMandatoryValue

import conf
from experiments.config.errors import INVALID, ConfigurationError
from experiments.config.space import starts_from, value_at
from experiments.config.trial_config import Compose

CONF = Path(conf.__file__).parent

_show_traceback = "HYDRA_FULL_ERROR" in os.environ


def check_choices(arguments: Sequence[str]) -> None:
    """Make sure that each group is given the name of one of its files.

    Hydra crashes at `algorithm=true`, and passes over an unknown `tuned=`.

    Raises:
        ConfigurationError: One is not.
    """
    if not {"--multirun", "-m"}.isdisjoint(arguments):  # a comma separates the choices of several runs
        return
    for argument in arguments:
        group, given, name = argument.lstrip("+").partition("=")
        files = sorted(f.stem for f in (CONF / group).glob("*.yaml")) if given and group else []
        if files and name.strip("'\"") not in (*files, "null"):
            raise ConfigurationError(f"{argument}: conf/{group} has no file {name}.yaml. There are: {', '.join(files)}.")
        if files and name == "null":
            raise ConfigurationError(f"{argument}: to do without a file of conf/{group}, write '~{group}'. There are: {', '.join(files)}.")


def split_space(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """The command line without `study.space={...}`, and that: it replaces the study's space, and Hydra would merge the two."""
    given = [a for a in arguments if a.lstrip("+").startswith("study.space=")]
    return [a for a in arguments if a not in given], given


def check_axes_are_free(composed: Mapping[str, Any], overrides: Sequence[str]) -> None:
    """Make sure that no override sets what the space varies: it would have no effect.

    Raises:
        ConfigurationError: One does.
    """
    space = (composed.get("study") or {}).get("space") or {}
    for override in overrides:
        key = override.lstrip("+~").partition("=")[0]
        if isinstance(space, Mapping) and key in space and not starts_from(space[key], value_at(composed, key)):
            raise ConfigurationError(
                f"{override}: has no effect, since the study varies {key}: {space[key]}. "
                f"Give the study another space, for example 'study.space={{}}' for a single configuration."
            )


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
        if given and isinstance(composed.get("study"), dict):
            composed["study"]["space"] = OverridesParser.create().parse_override(given[-1]).value()
        return composed

    return compose


def _plain(config: DictConfig) -> dict[str, Any]:
    plain = OmegaConf.to_container(config, resolve=True, throw_on_missing=True)
    assert isinstance(plain, dict)
    return {str(k): v for k, v in plain.items() if k != "hydra"}


def help_text() -> str:
    """The choices there are, and what every study has with what it means."""
    groups = {folder.name: sorted(f.stem for f in folder.glob("*.yaml") if f.stem != "base") for folder in sorted(CONF.iterdir())}
    choices = [f"  {group + '=':<13} {', '.join(files)}" for group, files in groups.items() if files]
    settings = [f"  {line}" for line in (CONF / "base.yaml").read_text().splitlines() if not line.startswith("#")]
    return "\n".join(
        [
            "Runs a study: python experiments/run.py [group=file ...] [setting=value ...]",
            "",
            "Files of conf/, one of each group:",
            *choices,
            "",
            "What every study has, and where nothing else is said, its value:",
            *settings,
            "",
            "Settings of an algorithm are in its file, RLlib's under their own names: algorithm.training.lr=1e-3. A study's space is",
            "replaced whole: 'study.space={algorithm.training.lr:[1e-4,1e-3]}'. All settings as they come out: --cfg job. What would run:",
            "dry_run=true. Exit codes: 0 finished. 1 a trial failed. 2 refused, nothing was started. 130 SIGINT, 143 SIGTERM.",
        ]
    )


_ALSO_CALLED = {"learning_rate": "lr", "batch": "train_batch_size_per_learner", "batch_size": "train_batch_size_per_learner"}


def _in_our_words(error: Exception) -> ConfigurationError | None:
    """What Hydra says of its own, as this suite says it."""
    if isinstance(error, MissingMandatoryValue) and error.full_key == "tracking.uri":
        return ConfigurationError("tracking.uri is missing: where the server is, for example tracking.uri=http://127.0.0.1:5000.")
    unknown = re.match(r"Could not override '([^']+)'", str(error))
    if unknown is None:
        return None
    path = unknown[1]
    given = next((a for a in sys.argv[1:] if a.lstrip("+~").partition("=")[0] == path), path)
    _, equals, value = given.partition("=")
    leaf = _ALSO_CALLED.get(path.rpartition(".")[2], path.rpartition(".")[2])
    known = {p: p.rpartition(".")[2] for p in _paths_known()}
    likely = {leaf} & {*known.values()} or {*difflib.get_close_matches(leaf, known.values(), n=2, cutoff=0.7)}
    found = [p for p, own in known.items() if own in likely]
    meant = f" Did you mean {' or '.join(p + equals + value for p in found)}?" if found else ""
    return ConfigurationError(f"{given}: there is no such setting.{meant} --help lists what every study has, --cfg job all there is.")


def _paths_known() -> list[str]:
    """The settings of the chosen files."""
    choices = [a for a in sys.argv[1:] if (CONF / a.partition("=")[0]).is_dir() and "=" in a]
    GlobalHydra.instance().clear()
    with hydra.initialize_config_dir(str(CONF), version_base="1.3"):
        composed = hydra.compose("config", overrides=choices)
    plain = OmegaConf.to_container(composed, resolve=False)

    def leaves(values: Mapping[Any, Any], prefix: str) -> Iterator[str]:
        for key, value in values.items():
            yield from leaves(value, f"{prefix}{key}.") if isinstance(value, dict) and value else (f"{prefix}{key}",)

    assert isinstance(plain, dict)
    return [path for path in leaves(plain, "") if not path.startswith("study.space")]


def refuse(error: Exception) -> NoReturn:
    """Say what is wrong and exit: nothing was started."""
    if _show_traceback:
        raise error
    known = _in_our_words(error)
    causes = [known] if known else [error, error.__cause__] if isinstance(error, HydraException) else [error]
    lines = [line for e in causes if e is not None for line in str(e).strip().splitlines() if line.strip()]
    print("error: " + "\n".join(dict.fromkeys(lines)), file=sys.stderr)
    sys.exit(INVALID)
