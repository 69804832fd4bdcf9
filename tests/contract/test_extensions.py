"""What extensions are taken, and from where."""

import sys
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

import pytest

from experiments.contract import METRICS, extensions
from experiments.contract.extensions import ExtensionError, Manifest

MANIFEST = """
from experiments.contract.extensions import Manifest

MANIFEST = Manifest({arguments})
"""


@pytest.fixture(autouse=True)
def forgotten(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """What a test takes is gone after it."""
    monkeypatch.setattr(extensions, "_own", {})
    before, path = {*sys.modules}, [*sys.path]
    yield
    sys.path[:] = path
    for name in {*sys.modules} - before:
        if name.startswith("own_"):
            del sys.modules[name]
    extensions._of_entry_points.cache_clear()


def package(folder: Path, name: str, arguments: str = "") -> Path:
    """An extension's folder with a manifest."""
    (folder / name).mkdir(parents=True)
    (folder / name / "__init__.py").touch()
    (folder / name / "manifest.py").write_text(MANIFEST.format(arguments=arguments or f"name={name!r}"))
    return folder / name


def names() -> list[str]:
    return [extension.name for extension in extensions.found()]


def test_the_suites_own_come_first_and_each_keeps_to_the_contract() -> None:
    every = extensions.found()
    assert names() == sorted(names()) and all(extension.is_built_in for extension in every)
    for extension in every:
        for reference in (
            extension.manifest.training,
            extension.manifest.report,
            *extension.manifest.commands.values(),
        ):
            assert not reference or extension.load(reference) is not None


def test_those_of_a_folder_of_ones_own_are_taken_once_with_their_metrics(tmp_path: Path) -> None:
    built_in = names()
    package(tmp_path / "science", "own_b", "name='own_b', metrics={'own/b': 'a count'}")
    package(tmp_path / "science", "own_a")
    for _ in range(2):
        extensions.take_own(tmp_path)
    assert names() == [*built_in, "own_a", "own_b"]
    assert [*extensions.metrics()][: len(METRICS)] == [*METRICS]
    assert extensions.metrics()["own/b"] == "a count"


def test_those_of_entry_points_come_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package(tmp_path, "own_installed")
    info = tmp_path / "own_installed-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: own_installed\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[{extensions.ENTRY_POINTS}]\nown_installed = own_installed\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    extensions._of_entry_points.cache_clear()
    assert [point.value for point in metadata.entry_points(group=extensions.ENTRY_POINTS)] == ["own_installed"]
    assert names()[-1] == "own_installed"


def test_a_module_with_metrics_is_taken_for_them_and_another_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "own_metric.py").write_text("METRICS = {'own/speed': 'm/s'}\ndef metrics(result): ...")
    (tmp_path / "own_half.py").write_text("METRICS = {'own/speed': 'm/s'}")
    (tmp_path / "own_plain.py").write_text("")
    monkeypatch.syspath_prepend(str(tmp_path))
    for name in ("own_metric", "own_plain", "own_absent"):
        if name != "own_absent":
            __import__(name)
        extensions.take_package(name)
    assert extensions.metrics()["own/speed"] == "m/s"
    assert "own_plain" not in names()
    __import__("own_half")
    with pytest.raises(ExtensionError, match=r"own_half has METRICS, and so needs a function metrics\(result\)"):
        extensions.take_package("own_half")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("name='own_x', metrics={'speed': 'm/s'}", "has a metric 'speed', which must be called like own/<word>"),
        ("name='own_x', metrics={'own/speed': ''}", "say what it means, with its unit"),
        ("name='own x'", "needs a name that Python takes"),
        ("name='own_other'", "its manifest calls it own_other. Give folder and extension one name"),
        ("nam='own_x'", "manifest.py raises TypeError"),
    ],
)
def test_what_cannot_be_taken_is_refused_with_its_folder(tmp_path: Path, arguments: str, message: str) -> None:
    package(tmp_path / "science", "own_x", arguments)
    with pytest.raises(ExtensionError, match=message) as refused:
        extensions.take_own(tmp_path)
    assert str(tmp_path) in str(refused.value)


def test_a_folder_that_is_no_package_or_has_the_name_of_another_module_is_refused(tmp_path: Path) -> None:
    package(tmp_path / "a/science", "own_bare")
    (tmp_path / "a/science/own_bare/__init__.py").unlink()
    with pytest.raises(ExtensionError, match=r"own_bare: has no __init__\.py, and so is no package. Add an empty one"):
        extensions.take_own(tmp_path / "a")
    package(tmp_path / "b/science", "statistics")
    with pytest.raises(ExtensionError, match=r"there is another module statistics\. Give"):
        extensions.take_own(tmp_path / "b")


def test_a_part_that_raises_when_it_is_imported_is_named(tmp_path: Path) -> None:
    folder = package(tmp_path / "science", "own_raises", "name='own_raises', training='.training:Absent'")
    (folder / "training.py").write_text("1 / 0")
    extensions.take_own(tmp_path)
    with pytest.raises(ExtensionError, match=r"own_raises.*: \.training:Absent raises ZeroDivisionError"):
        extensions.found()[-1].load(".training:Absent")


def test_two_of_one_name_and_a_metric_that_is_there_already_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def taken(*manifests: Manifest) -> None:
        every = {str(i): extensions.Extension(one, "own", Path(str(i)), True) for i, one in enumerate(manifests)}
        monkeypatch.setattr(extensions, "_own", every)

    taken(Manifest("own_twice"), Manifest("own_twice"))
    with pytest.raises(ExtensionError, match="the extension own_twice is there twice, in 0 and 1"):
        extensions.found()
    taken(Manifest("own_metric", metrics={"final/score": "a return"}))
    with pytest.raises(ExtensionError, match="own_metric has a metric final/score, which is there already"):
        extensions.metrics()


def test_a_part_that_is_not_there_is_named(tmp_path: Path) -> None:
    package(tmp_path / "science", "own_part", "name='own_part', training='.training:Absent'")
    extensions.take_own(tmp_path)
    with pytest.raises(ExtensionError, match=r"own_part: \.training:Absent is not there"):
        extensions.found()[-1].load(".training:Absent")
