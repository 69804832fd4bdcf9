"""The files that a command line can choose: those of conf/, and those of a folder
of a person's own (`--config-dir`).
"""

import difflib
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from conf import CONFIG_DIR, config_dirs
from experiments.config import extension as extensions
from experiments.config.compose import CONF
from experiments.config.errors import ConfigurationError, first_line
from experiments.config.extension import known
from experiments.config.gym_registry import id_named
from experiments.config.schema import EnvSettings
from experiments.contract.extensions import Extension, take_own
from experiments.contract.extensions import metrics as all_metrics

_NAMED = ("algorithm", "env", "hardware", "tracking", "study")
"""Groups whose files are named in results: under another file's name, theirs would be filed as that one's."""
_HEADER = re.compile(r"^\s*#\s*@package\s+(\S+)\s*$", re.MULTILINE)


def groups() -> list[str]:
    """The groups of conf/."""
    return sorted(folder.name for folder in CONF.iterdir() if any(folder.glob("*.yaml")))


def files_of(group: str, own: Path | None = None) -> list[str]:
    """The names of a group's files, in alphabetical order: those of conf/, of extensions, and of a person's own folder.

    Args:
        group: A group of conf/.
        own: A person's own folder.
    """
    return sorted({file.stem for folder in (CONF, *_searched(own)) for file in (folder / group).glob("*.yaml")})


def _searched(own: Path | None) -> list[Path]:
    """The folders that are searched beside conf/."""
    return [*([] if own is None else [own]), *(conf for one in known() if (conf := one.conf) is not None)]


def own_folder(arguments: Sequence[str]) -> tuple[list[str], Path | None]:
    """A command line's other words, and the folder of a person's own that it names, checked.

    Raises:
        ConfigurationError: It is not there, or holds what would not be read, or not as it is meant.
    """
    others, given = config_dirs(arguments)
    if len(given) > 1:
        raise ConfigurationError(
            f"{CONFIG_DIR} is given {len(given)} times: put the files of {' and '.join(given)} into one folder."
        )
    if not given:
        return others, None
    if not given[0]:
        raise ConfigurationError(
            f"{CONFIG_DIR} names no folder. For example: {CONFIG_DIR} ~/my env=mine reads ~/my/env/mine.yaml."
        )
    own = Path(given[0]).expanduser().absolute()
    if not own.is_dir():
        raise ConfigurationError(
            f"{CONFIG_DIR} {given[0]}: {'is a file, not' if own.exists() else 'there is no such'} folder."
        )
    with extensions.refusals():
        take_own(own)
        all_metrics()
    if own.resolve() != CONF.resolve():
        _check_places(own)
        _check_files(own)
    for extension in known():
        if extension.is_own:
            _check_extension(extension)
    return others, own


def _check_files(folder: Path) -> None:
    for group in groups():
        for file in sorted((folder / group).glob("*.yaml")):
            _check_file(file, group)


def _check_extension(extension: Extension) -> None:
    """Make sure that the files of a person's own extension are where they are read, and say what is meant."""
    file = extension.folder / "conf" / "extension" / f"{extension.name}.yaml"
    if extension.manifest.training:
        extensions.part(extension)
        if not file.is_file():
            raise ConfigurationError(
                f"{file}: is not there. Write the settings of the extension into it, as they are by default, "
                f"below a first line '# @package extension.{extension.name}'."
            )
    if file.is_file() and _package(file.read_text(encoding="utf-8")) != f"extension.{extension.name}":
        raise ConfigurationError(f"{file}: its first line must be '# @package extension.{extension.name}'.")
    if extension.conf is not None:
        _check_files(extension.conf)


def hydra_search_path(own: Path | None) -> list[str]:
    """The overrides by which Hydra's compose API reads a person's own folder and those of extensions beside conf/."""
    quoted = [re.sub(r"(\\*)'", r"\1\1\\'", str(folder)) for folder in _searched(own)]
    folders = ",".join(f"'file://{folder}'" for folder in quoted)
    with_settings = ",".join(one.name for one in known() if one.has_settings)
    chosen = [f"extension=[{with_settings}]"] if with_settings else []  # without one there is no such group
    return [f"hydra.searchpath=[{folders}]", *chosen]


def check_choices(arguments: Sequence[str], own: Path | None = None) -> None:
    """Make sure that each group is given the name of one of its files.

    Hydra crashes at `algorithm=true`, and passes over an unknown `tuned=`.

    Args:
        arguments: The command line's other words.
        own: A person's own folder.

    Raises:
        ConfigurationError: One is not.
    """
    for argument in arguments:
        group, given, name = argument.lstrip("+").partition("=")
        files = files_of(group, own) if given and group in groups() else []
        if files and name == "null":
            raise ConfigurationError(
                f"{argument}: to do without a file of conf/{group}, write '~{group}'. There are: {', '.join(files)}."
            )
        if files and not name:
            raise ConfigurationError(f"{argument}: names no file of conf/{group}. There are: {', '.join(files)}.")
        if files and name.strip("'\"") not in files:
            where = f"conf/{group} has no file" if own is None else f"neither conf/{group} nor {own / group} has a file"
            stray = next(
                (own / f for f in (f"{name}.yaml", f"{name}.yml") if own is not None and (own / f).is_file()), None
            )
            hint = "" if stray is None else f" {stray} belongs into a folder of its group: {own}/{group}/{name}.yaml."
            if group == "env" and (gym_id := id_named(name)) is not None:
                hint = f" Gymnasium has it: env=gym env.id={gym_id}."
            raise ConfigurationError(f"{argument}: {where} {name}.yaml. There are: {', '.join(files)}.{hint}")


def env_choice(env: EnvSettings, own: Path | None = None) -> str:
    """The words of a command line that choose an environment: its file, or its id where it has none."""
    return f"env={env.name}" if env.name in files_of("env", own) else f"env=gym env.id={env.id}"


def _check_places(own: Path) -> None:
    """Make sure that all files of a person's own folder are where they are read."""
    known = groups()
    for folder in sorted(f for f in own.iterdir() if f.is_dir() and not f.name.startswith(".")):
        if folder.name not in known and any(folder.glob("*.yaml")):
            near = difflib.get_close_matches(folder.name, known, n=1)
            meant = f"Did you mean {own / near[0]}? " if near else ""
            raise ConfigurationError(f"{folder}: conf/ has no such group. {meant}There are: {', '.join(known)}.")
    for group in known:
        if (stray := next(iter(sorted((own / group).glob("*.yml"))), None)) is not None:
            raise ConfigurationError(f"{stray}: only files that end in .yaml are read. Rename it to {stray.stem}.yaml.")
    for file in (own / f for f in ("base.yaml", "config.yaml")):
        if file.exists():
            raise ConfigurationError(
                f"{file}: has the name of conf/{file.name}, which is read in its place. "
                f"Settings that every study is to have go into a study of your own, {own}/study/<name>.yaml."
            )


def _check_file(file: Path, group: str) -> None:
    """Make sure that a person's own file is read as it is meant, and can start nothing by itself."""
    if (CONF / group / file.name).exists():
        raise ConfigurationError(
            f"{file}: has the name of conf/{group}/{file.name}, which is read in its place. Give yours another name."
        )
    try:
        text = file.read_text(encoding="utf-8")
        settings = yaml.safe_load(text)
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{file}: cannot be read ({first_line(error)}).") from None
    except yaml.YAMLError as error:
        raise ConfigurationError(f"{file}: is no YAML: {' '.join(str(error).split())}") from None
    settings = {} if settings is None else settings
    if not isinstance(settings, dict):
        raise ConfigurationError(f"{file}: must hold settings, as conf/{group}/{_example(group).name} does.")
    _check_starts_nothing(file, settings)
    _check_package(file, group, text)
    _check_name(file, group, settings)


def _check_starts_nothing(file: Path, settings: Mapping[str, Any]) -> None:
    """No file makes Hydra call anything: `_target_`, or settings of Hydra's own, whose callbacks
    and loggers are objects.
    """
    if "_target_" in _keys(settings):
        raise ConfigurationError(
            f"{file}: has a key _target_. Files of settings cannot name what is to be called; take it out."
        )
    defaults = [str(entry) for entry in _texts(settings.get("defaults"))]
    if "hydra" in settings or any(re.search(r"(^|[\s/@.])hydra([/.:@]|$)", entry) for entry in defaults):
        raise ConfigurationError(f"{file}: sets what is Hydra's own (hydra). Set it on the command line.")


def _check_package(file: Path, group: str, text: str) -> None:
    """A file's settings go where those of its group do."""
    expected = _package(_example(group).read_text())
    if _package(text) == expected and len(_HEADER.findall(text)) <= 1:
        return
    if expected:
        raise ConfigurationError(
            f"{file}: its first line must be '# @package {expected}', as in all files of conf/{group}."
        )
    raise ConfigurationError(f"{file}: has a line '# @package', which files of conf/{group} do not have. Take it out.")


def _package(text: str) -> str:
    """The package of a file's first line; "" if it names none. Further down Hydra takes it for a comment."""
    lines = [line for line in text.splitlines() if line.strip()]
    found = _HEADER.match(lines[0]) if lines else None
    return found[1] if found else ""


def _check_name(file: Path, group: str, settings: Mapping[str, Any]) -> None:
    """A file is called in results what it is called on the command line."""
    if group not in _NAMED:
        return
    where = settings.get("study") if group == "study" else settings
    name = where.get("name") if isinstance(where, dict) else None
    inherits = any(entry != "_self_" for entry in _texts(settings.get("defaults"))) and group != "study"
    if (name is None and not inherits) or name == file.stem:
        return
    key = "study.name" if group == "study" else "name"
    found = f"{key}: {name} is" if name is not None else f"{key} is missing, so that it is"
    raise ConfigurationError(
        f"{file}: {found} not what its file is called, and results would go by it. Write {key}: {file.stem}."
    )


def _example(group: str) -> Path:
    """A file of conf/ that shows what those of its group look like."""
    return min((CONF / group).glob("*.yaml"))


def _keys(value: Any) -> Iterator[Any]:
    """All keys, at any depth."""
    for part in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from _keys(part)
    if isinstance(value, dict):
        yield from value


def _texts(value: Any) -> Iterator[Any]:
    """All keys and values, at any depth."""
    if isinstance(value, dict):
        yield from value
    for part in value.values() if isinstance(value, dict) else value if isinstance(value, list) else (value,):
        if isinstance(part, dict | list):
            yield from _texts(part)
        elif part is not None:
            yield part
