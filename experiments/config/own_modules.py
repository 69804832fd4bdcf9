"""Python files of a person's own, `modules=[my_env.py]`: imported from a copy, in this process
and in every process of a trial.

The copy is made once, at the start. Ray's workers find its folder first on their path (`experiments/study/driver.py`),
so that an edit made while a study runs changes nothing. What a trial's result depends on is the content: its hash is
part of the configuration, the study's folder keeps the files, and a process that finds others under their names
refuses to go on.
"""

import ast
import functools
import hashlib
import importlib
import importlib.util
import keyword
import shutil
import sys
import tempfile
import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from experiments.config.errors import ConfigurationError, reason_of
from experiments.config.extension import refusals
from experiments.contract.extensions import take_package

KEPT_IN = "modules"
"""Folder of a study's folder, and of its artifacts in MLflow."""
MOST_BYTES = 64 * 2**20
"""Of a module, with the files that go with it: it is sent to every machine."""

_copies: list[tempfile.TemporaryDirectory[str]] = []  # one, once there is a module
_taken: dict[str, Path] = {}  # name of a module to the file or folder that it came from
_registers: dict[str, str] = {}  # Gymnasium id to the module that registers it


def take(modules: Any, recorded: Mapping[str, str] | None = None) -> dict[str, str]:
    """Copy and import modules, each once.

    Args:
        modules: Paths of Python files and of folders that are packages.
        recorded: Name to hash, as they must be; nothing is imported if one is not. None: as they are.

    Returns:
        Name to hash of its content, 16 hexadecimal digits.

    Raises:
        ConfigurationError: One is not there, is no module, cannot be imported, or is not the recorded one;
            names the fix.
    """
    if not isinstance(modules, list | tuple) or not all(isinstance(path, str) and path for path in modules):
        raise ConfigurationError(f"modules={modules!r}: must be a list of paths: modules=[my_env.py].")
    paths = tuple(Path(path).expanduser().absolute() for path in modules)
    return dict(_take(paths, None if recorded is None else tuple(sorted(recorded.items()))))


def take_recorded(named: str, recorded: Mapping[str, str], modules: Sequence[str]) -> None:
    """Import the modules that a trial imported, from where the command line says.

    Args:
        named: The words by which the person named the trial: `run=0123...`.
        recorded: Name to hash.
        modules: Paths.

    Raises:
        ConfigurationError: They are not the recorded ones; nothing was imported.
    """
    if recorded and not modules:
        files = ",".join(f"{name}.py" for name in recorded)
        raise ConfigurationError(
            f"{named}: imported modules that are not of this suite. Nothing is run from a store: look at them, "
            f"artifacts {KEPT_IN}/ of its study's run, and name your copies: modules=[{files}]."
        )
    take(modules, recorded)


@functools.cache
def _take(paths: Sequence[Path], recorded: Sequence[tuple[str, str]] | None) -> Mapping[str, str]:
    for path in paths:
        _check(path)
    names = [_name(path) for path in paths]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise ConfigurationError(f"modules: {twice} is given {names.count(twice)} times. Each needs a name of its own.")
    for path in paths:
        _copy(path)
    found = {_name(path): digest(_copy_of(path)) for path in paths}
    if recorded is not None and found != dict(recorded):
        raise ConfigurationError(f"modules=[{','.join(map(str, paths))}]: {_difference(found, dict(recorded))}.")
    for path in paths:
        _import(path)
    return found


def check_unchanged(modules: Mapping[str, str]) -> None:
    """Make sure that modules that a process took earlier are still what their files hold: Python imports a module once.

    Args:
        modules: Name to hash.

    Raises:
        ConfigurationError: A file was edited since.
    """
    for name, taken in modules.items():
        path = _taken[name]
        if path.exists() and digest(path) != taken:
            raise ConfigurationError(
                f"modules=[{path}]: was edited after this process imported it. Restart the kernel."
            )


def folder() -> Path | None:
    """Where the copies are; None if no module was taken."""
    return Path(_copies[0].name) if _taken else None


def copies() -> list[Path]:
    """The copies: files and packages."""
    return [_copy_of(path) for path in _taken.values()]


def check_sent() -> None:
    """Make sure that what goes with modules gets to other machines: Ray sends each file by itself.

    Raises:
        ConfigurationError: Files go with one that is no package.
    """
    for path in _taken.values():
        if not path.is_dir() and (beside := _data(path)):
            raise ConfigurationError(
                f"modules=[{path}]: {beside} would not be beside it on the cluster's nodes. Make them a package: "
                "a folder with __init__.py, which is sent whole."
            )


def left_behind(error: BaseException) -> str:
    """The advice where an environment looked for a file beside its module's copy that lies beside the module;
    "" if it did not.

    Args:
        error: The exception that it raised.
    """
    _, _, rest = str(error).partition(f"{folder()}/")
    for end in range(len(rest), 0, -1):  # a message goes on behind the name
        for module in _taken.values():
            if _is_file(module.parent / rest[:end]):
                return (
                    f" {module.parent / rest[:end]} is not copied with {module.name}. Write {rest[:end]!r} "
                    "as one string in it, or make a package of them: a folder with __init__.py, which is copied whole."
                )
    return ""


def registering(gym_id: str) -> str:
    """An id as Gymnasium takes it in a process that has imported nothing yet:
    `my_env:MyEnv-v0` if the module my_env registers it.
    """
    return f"{_registers[gym_id]}:{gym_id}" if gym_id in _registers else gym_id


def check_imported(modules: Mapping[str, str]) -> None:
    """Import modules by name in a process of a trial, and make sure that they are the ones that the study began with.

    Args:
        modules: Name to hash.

    Raises:
        RuntimeError: Another file of that name came first.
    """
    for name, expected in modules.items():
        file = Path(importlib.import_module(name).__file__ or "")
        found = digest(file.parent if file.name == "__init__.py" else file)
        if found != expected:
            raise RuntimeError(
                f"the module {name} is {file} here, which is not what the study began with ({found}, not {expected})"
            )


def keep(modules: Mapping[str, str], into: Path) -> None:
    """Put copies of modules, by name, into a folder that need not be there."""
    for name in modules:
        for file, source in _files(_copy_of(_taken[name])):
            (into / file).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, into / file)


def kept(modules: Mapping[str, str], folder: Path) -> list[str]:
    """The paths of modules that `keep` put into a folder."""
    return [str(path if (path := folder / name).is_dir() else path.with_suffix(".py")) for name in modules]


def texts(folder: Path) -> dict[str, str]:
    """File to content, of all text files that `keep` put into a folder; none if it is not there."""
    found = {}
    for file in sorted(path for path in folder.rglob("*") if path.is_file()):
        with suppress(UnicodeDecodeError):
            found[file.relative_to(folder).as_posix()] = file.read_text(encoding="utf-8")
    return found


def digest(path: Path) -> str:
    """The hash of a module's content: of a package, of all its files and their names."""
    content = hashlib.sha256()
    for name, file in _files(path):
        data = file.read_bytes()
        content.update(f"{name}\0{len(data)}\0".encode() + data)
    return content.hexdigest()[:16]


def _files(path: Path) -> Iterator[tuple[str, Path]]:
    """The files of a module, as they are called beside it, in alphabetical order;
    not those that Python or an editor leaves behind.

    With a file go the files below its folder whose names stand in its source,
    as texts: "prices.csv", "data/prices.csv".
    """
    if not path.is_dir():
        yield path.name, path
        for name in _named(path):
            yield name, path.parent / name
        return
    for file in sorted(path.rglob("*")):
        inside = file.relative_to(path)
        if file.is_file() and not any(part == "__pycache__" or part.startswith(".") for part in inside.parts):
            yield (Path(path.name) / inside).as_posix(), file


def _named(module: Path) -> list[str]:
    """The files below a module's folder that its source names; no modules, which are named in the command,
    and nothing hidden.
    """
    try:
        texts = {node.value for node in ast.walk(ast.parse(module.read_bytes())) if isinstance(node, ast.Constant)}
    except (OSError, SyntaxError, ValueError):  # is said when it is imported
        return []
    return sorted({Path(text).as_posix() for text in texts if isinstance(text, str) and _is_below(module.parent, text)})


def _is_below(folder: Path, name: str) -> bool:
    path = Path(name)
    is_other = path.is_absolute() or path.suffix == ".py" or any(part.startswith(".") for part in path.parts)
    return not is_other and _is_file(folder / path)


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:  # a text that is too long for a name
        return False


def _data(path: Path) -> str:
    """The files that go with a module, in words."""
    beside = [name for name, file in _files(path) if file != path]
    return ", ".join(beside[:3]) + (f" and {len(beside) - 3} others" if len(beside) > 3 else "")


def _check(path: Path) -> None:
    """Make sure that a path is a module that can be imported by its name."""
    given = f"modules=[{path}]"
    if not path.exists():
        raise ConfigurationError(f"{given}: there is no such file. Paths are relative to where the command is typed.")
    if path.is_dir() and not (path / "__init__.py").is_file():
        raise ConfigurationError(
            f"{given}: is a folder without __init__.py, and so no package. Name its files, or the package in it."
        )
    if not path.is_dir() and path.suffix != ".py":
        raise ConfigurationError(
            f"{given}: is no Python file. Name a file that ends in .py, or a folder with __init__.py."
        )
    name = _name(path)
    if not name.isidentifier() or keyword.iskeyword(name):
        raise ConfigurationError(
            f"{given}: is imported by its name, and {name!r} is no Python name. Try {_as_name(name)}{path.suffix}."
        )
    if (size := sum(file.stat().st_size for _, file in _files(path))) > MOST_BYTES:
        raise ConfigurationError(
            f"{given}: holds {size / 2**20:.0f} MiB with {_data(path)}; at most {MOST_BYTES / 2**20:.0f} are sent "
            "to a trial's processes. Keep large files elsewhere, and give the environment their absolute paths."
        )
    if name in _taken and _taken[name] != path:
        raise ConfigurationError(f"{given}: {_taken[name]} has been imported by this name. Give it another one.")
    if name not in _taken and (there := _installed(name)) not in (None, path, path / "__init__.py"):
        raise ConfigurationError(
            f"{given}: there is another module {name}, {there}, which it would hide. Give it another name."
        )


def _installed(name: str) -> Path | None:
    """Where the module is that is imported by a name; None if there is none."""
    try:
        spec = importlib.util.find_spec(name)
    except (ImportError, ValueError):  # a module that is there, and does not say where
        return Path(name)
    if spec is None or (spec.origin is None and spec.loader is None):  # a folder that happens to have the name
        return None
    return Path(spec.origin or name)


def _name(path: Path) -> str:
    return path.name if path.is_dir() else path.stem


def _as_name(text: str) -> str:
    word = "".join(ch if ch.isalnum() else "_" for ch in text)
    return f"my_{word}" if not word.isidentifier() or keyword.iskeyword(word) else word


def _copy_of(path: Path) -> Path:
    return Path(_copies[0].name) / path.name


def _copy(path: Path) -> None:
    """Copy a module, once."""
    if not _copies:
        _copies.append(tempfile.TemporaryDirectory(prefix="modules-"))
        sys.path.insert(0, _copies[0].name)
    if _name(path) not in _taken:
        try:
            for name, file in _files(path):
                _check_alone(path, name, file)
                (into := Path(_copies[0].name) / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(file, into)
        except OSError as error:
            raise ConfigurationError(f"modules=[{path}]: cannot be read ({error}).") from None
        importlib.invalidate_caches()
        _taken[_name(path)] = path


def _check_alone(path: Path, name: str, file: Path) -> None:
    """Make sure that a module's file is not called as another one that goes with another module:
    all are copied to one folder.
    """
    for other in _taken.values():
        if any(name == theirs and file.read_bytes() != there.read_bytes() for theirs, there in _files(other)):
            raise ConfigurationError(
                f"modules=[{path}]: {name} is copied with it, and another file of that name with {other}. Rename one."
            )


def _import(path: Path) -> None:
    """Import a module, and note what it registers."""
    import gymnasium as gym

    before = dict(gym.registry)
    try:
        importlib.import_module(_name(path))
    except (Exception, SystemExit) as error:  # noqa: BLE001  # whatever a module raises
        del _taken[_name(path)]
        said = f"{_where(error)}raises {reason_of(error)} when it is imported.{_sibling(path, error)}"
        raise ConfigurationError(f"modules=[{path}]: {said}") from None
    with refusals():
        take_package(_name(path))
    _registers.update({gym_id: _name(path) for gym_id, spec in gym.registry.items() if before.get(gym_id) is not spec})


def _where(error: BaseException) -> str:
    """The last line of a person's own that an error passed."""
    own = _copies[0].name
    if isinstance(error, SyntaxError) and (error.filename or "").startswith(own):
        return f"line {error.lineno} of {Path(str(error.filename)).relative_to(own)} "
    frames = [f for f in traceback.extract_tb(error.__traceback__) if f.filename.startswith(own)]
    return f"line {frames[-1].lineno} of {Path(frames[-1].filename).relative_to(own)} " if frames else ""


def _sibling(path: Path, error: BaseException) -> str:
    """The advice on an import of a file that lies beside the module."""
    name = error.name if isinstance(error, ModuleNotFoundError) else None
    beside = next((p for p in (path.parent / f"{name}.py", path.parent / f"{name}") if name and p.exists()), None)
    return "" if beside is None else f" Name that one too: modules=[{beside.name},{path.name}]."


def _difference(found: Mapping[str, str], recorded: Mapping[str, str]) -> str:
    """The differences between modules and those that were recorded."""
    if missing := sorted(set(recorded) - set(found)):
        return f"{', '.join(missing)} is missing, which was recorded"
    if added := sorted(set(found) - set(recorded)):
        return f"{', '.join(added)} was not recorded"
    changed = next(name for name in recorded if found[name] != recorded[name])
    return (
        f"{changed} is not the one that was recorded: its content has the hash {found[changed]}, "
        f"the record says {recorded[changed]}"
    )
