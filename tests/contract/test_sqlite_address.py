"""A folder may have any name: the address of a database in it names that database."""

from pathlib import Path

import pytest
from sqlalchemy import make_url

from experiments.contract.sqlite_address import sqlite_path, sqlite_uri
from tests.support.names import NAMES


@pytest.mark.parametrize("name", [*NAMES, "%41", "100%", "~", "a+b", "${x}", "[1]", "x=1,y"])
def test_the_address_of_a_file_is_read_back_by_sqlalchemy_and_by_the_suite_as_that_file(name: str) -> None:
    path = Path("/data", name, "mlflow.db")
    assert make_url(sqlite_uri(path)).database == str(path)
    assert sqlite_path(sqlite_uri(path)) == path


def test_a_path_that_is_no_text_is_refused() -> None:
    with pytest.raises(ValueError, match=r"^'/data/\\udcff/m\.db': is not valid UTF-8.*Rename the folder"):
        sqlite_uri(Path("/data/\udcff/m.db"))


def test_a_plain_path_stands_in_its_address_as_it_is() -> None:
    assert sqlite_uri(Path("/home/me/outputs/mlflow.db")) == "sqlite:////home/me/outputs/mlflow.db"


@pytest.mark.parametrize(
    ("uri", "path"),
    [
        ("sqlite:////data/my%20folder/m.db", Path("/data/my folder/m.db")),
        ("sqlite:////data/my folder/m.db", Path("/data/my folder/m.db")),
        ("sqlite:///outputs/m.db", Path("outputs/m.db")),
        ("http://host:5000/sqlite:///", None),
        ("postgresql://host/sqlite", None),
    ],
)
def test_an_address_that_a_person_wrote_is_read_as_sqlalchemy_reads_it(uri: str, path: Path | None) -> None:
    assert sqlite_path(uri) == path


@pytest.mark.parametrize(
    "uri", ["sqlite:////data/qu?estion/m.db", "sqlite:////data/m.db?timeout=5", "sqlite:////data/per%cent/m.db"]
)
def test_an_address_that_would_be_read_as_another_file_is_refused_with_how_it_is_written(uri: str) -> None:
    with pytest.raises(ValueError, match=r"write % as %25 and [?] as %3F"):
        sqlite_path(uri)
