"""Extensions: what one kind of study alone needs, kept together in one folder, and how such folders are found.

An extension is a package with a module `manifest` that has a MANIFEST. Everything else is optional, and is named by the
manifest, so that Ray's workers need not load what reports show, nor reports what trials do. Standard library only.
"""

import functools
import importlib
import importlib.util
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Any, TypeVar

BUILT_IN = "science"
"""The package whose packages are the suite's own extensions; in a folder of a person's own,
the folder that holds theirs."""
ENTRY_POINTS = "rl_scaling.extensions"
"""Group of entry points, each of which names the package of an extension."""

METRICS_OF_MODULE = "METRICS"
"""The variable of a person's own module that names the metrics of its function `metrics`, with meaning and unit."""

_METRIC = re.compile(r"(train|learner|throughput|time|final|own)/[a-z0-9_]+")
_ROOT = Path(__file__).resolve().parents[2]


_Part = TypeVar("_Part")


class ExtensionError(Exception):
    """An extension cannot be taken as it is; the message names the fix."""


@dataclass(frozen=True)
class Manifest:
    """An extension's description of itself.

    Attributes:
        name: A Python name. Its settings are `extension.<name>`.
        version: To be raised when the same settings come to other results: part of what tells configurations apart.
        metrics: Metrics of its trials beside the suite's, name to meaning and unit. Those that begin with final/ are
            columns of a study's runs, all others are curves.
        commands: A word to the function that runs a command line, `module:function`.
        training: Its part in trials, `module:class`,
            a subclass of `experiments.config.extension.Training`; "": nothing.
        report: Its part in reports, `module:class`,
            a subclass of `analysis.document.extension.Report`; "": nothing.
        formerly: The section of settings by which it was known before, which still works; "": none.

    A reference that begins with a dot is relative to the extension's package: `.training:NoiseScale`.
    """

    name: str
    version: int = 1
    metrics: Mapping[str, str] = field(default_factory=dict, hash=False)
    commands: Mapping[str, str] = field(default_factory=dict, hash=False)
    training: str = ""
    report: str = ""
    formerly: str = ""

    def __post_init__(self) -> None:
        if not self.name.isidentifier():
            raise ExtensionError(
                f"the extension {self.name!r} needs a name that Python takes: letters, digits and underscores."
            )
        for name, meaning in self.metrics.items():
            if not _METRIC.fullmatch(name) or not meaning:
                raise ExtensionError(
                    f"the extension {self.name} has a metric {name!r}, which must be called like own/<word>, "
                    "learner/<word> or final/<word>, in lower case, and say what it means, with its unit."
                )


@dataclass(frozen=True)
class Extension:
    """An extension that was found.

    Attributes:
        manifest: Its description of itself.
        package: The name by which its package is imported.
        folder: Folder of its files.
        is_own: Whether it is of a folder of a person's own.
    """

    manifest: Manifest
    package: str
    folder: Path
    is_own: bool = False

    @property
    def name(self) -> str:
        """Its name."""
        return self.manifest.name

    @property
    def is_built_in(self) -> bool:
        """True if it comes with the suite."""
        return self.package.startswith(f"{BUILT_IN}.")

    @property
    def conf(self) -> Path | None:
        """Its folder of settings, as conf/ is; None if it has none."""
        return conf if (conf := self.folder / "conf").is_dir() else None

    @property
    def has_settings(self) -> bool:
        """True if it has a file of settings, `conf/extension/<name>.yaml`."""
        return (self.folder / "conf" / "extension" / f"{self.name}.yaml").is_file()

    def load_class(self, reference: str, base: type[_Part]) -> type[_Part]:
        """The class that a reference of the manifest names.

        Args:
            reference: A reference of the manifest.
            base: The class that it must be a subclass of.

        Raises:
            ExtensionError: It is not there, or is none.
        """
        loaded = self.load(reference)
        if not (isinstance(loaded, type) and issubclass(loaded, base)):
            raise ExtensionError(f"the extension {self.name}: {reference} is no subclass of {base.__name__}.")
        return loaded

    def load(self, reference: str) -> Any:
        """The object that a reference of the manifest names.

        Raises:
            ExtensionError: It is not there.
        """
        module, _, name = reference.partition(":")
        try:
            return getattr(importlib.import_module(module, self.package), name)
        except (ImportError, AttributeError) as error:
            raise ExtensionError(
                f"the extension {self.name}, {self.folder}: {reference} is not there ({error})."
            ) from error
        except Exception as error:  # whatever a module raises when it is imported
            raise ExtensionError(
                f"the extension {self.name}, {self.folder}: {reference} raises {type(error).__name__} ({error}) "
                "when it is imported."
            ) from error


_own: dict[str, Extension] = {}


def found() -> tuple[Extension, ...]:
    """All extensions: the suite's own by their names, a person's own as they were taken, those of entry points.

    Raises:
        ExtensionError: One cannot be taken, or two have one name.
    """
    every = (*_built_in(), *_own.values(), *_of_entry_points())
    names = [extension.name for extension in every]
    if twice := next((one for one in every if names.count(one.name) > 1), None):
        folders = " and ".join(str(one.folder) for one in every if one.name == twice.name)
        raise ExtensionError(f"the extension {twice.name} is there twice, in {folders}. Give one of them another name.")
    return every


def take_own(folder: Path) -> None:
    """Take the extensions of a folder of a person's own, `<folder>/science/<name>/manifest.py`.

    Raises:
        ExtensionError: One cannot be taken.
    """
    inside = folder / BUILT_IN
    if str(inside) not in sys.path:
        sys.path.append(str(inside))  # last: what it holds hides no other module
    for manifest in sorted(inside.glob("*/manifest.py")):
        name = manifest.parent.name
        if not (manifest.parent / "__init__.py").is_file():
            raise ExtensionError(f"{manifest.parent}: has no __init__.py, and so is no package. Add an empty one.")
        take_package(name, manifest.parent)
        if name not in _own:
            raise ExtensionError(f"{manifest.parent}: there is another module {name}. Give the folder another name.")


def take_package(name: str, folder: Path | None = None) -> None:
    """Take a module of a person's own that can be imported by a name, if it is an extension, or has metrics.

    Args:
        name: The module's name, and its extension's.
        folder: Folder that it must be in; None: any.

    Raises:
        ExtensionError: It is one, and cannot be taken.
    """
    spec = importlib.util.find_spec(name) if name not in _own else None
    places = (spec.submodule_search_locations if spec is not None else None) or ()
    if not any((Path(place) / "manifest.py").is_file() for place in places):
        module = sys.modules.get(name)
        if (named := getattr(module, METRICS_OF_MODULE, None)) is not None:
            if not isinstance(named, dict) or not callable(getattr(module, "metrics", None)):
                raise ExtensionError(
                    f"{name} has {METRICS_OF_MODULE}, and so needs a function metrics(result) that gives them: "
                    f"{METRICS_OF_MODULE} = {{'own/speed': 'metres a second'}}."
                )
            _own[name] = Extension(Manifest(name, metrics=dict(named)), name, Path(), is_own=True)
        return
    extension = _extension(name, folder, is_own=True)
    if extension.name != name:
        raise ExtensionError(
            f"{extension.folder}: its manifest calls it {extension.name}. Give folder and extension one name."
        )
    _own[name] = extension


def metrics() -> Mapping[str, str]:
    """All metrics that may reach MLflow, name to meaning and unit: the suite's own, and those of extensions.

    Raises:
        ExtensionError: An extension has one that is there already.
    """
    return _metrics(found())


@functools.cache
def _metrics(extensions: Sequence[Extension]) -> Mapping[str, str]:
    from experiments.contract import METRICS

    every = dict(METRICS)
    for extension in extensions:
        if there := every.keys() & extension.manifest.metrics:
            raise ExtensionError(f"the extension {extension.name} has a metric {min(there)}, which is there already.")
        every.update(extension.manifest.metrics)
    return every


@functools.cache
def _built_in() -> tuple[Extension, ...]:
    manifests = sorted((_ROOT / BUILT_IN).glob("*/manifest.py"))
    return tuple(_extension(f"{BUILT_IN}.{file.parent.name}", file.parent) for file in manifests)


@functools.cache
def _of_entry_points() -> tuple[Extension, ...]:
    points = sorted(metadata.entry_points(group=ENTRY_POINTS), key=lambda point: point.name)
    return tuple(_extension(point.value, None) for point in points)


def _extension(package: str, folder: Path | None, is_own: bool = False) -> Extension:
    try:
        module = importlib.import_module(f"{package}.manifest")
        manifest = module.MANIFEST
    except ExtensionError as error:
        raise ExtensionError(f"{folder or package}: {error}") from None
    except Exception as error:  # whatever a module raises when it is imported
        raise ExtensionError(
            f"{folder or package}: manifest.py raises {type(error).__name__} ({error}) when it is imported."
        ) from error
    there = Path(module.__file__ or "").resolve().parent
    if folder is not None and there != folder.resolve():
        raise ExtensionError(f"{folder}: there is another module {package}, {there}. Give the folder another name.")
    return Extension(manifest, package, folder or there, is_own)
