"""Where studies keep their files and their runs."""

from dataclasses import dataclass
from pathlib import Path

from experiments.config.errors import ConfigurationError
from experiments.config.output_dir import absolute, stored_at
from experiments.config.schema import TrackingSettings
from experiments.contract.sqlite_address import sqlite_uri
from experiments.tracking.store_address import database_of

TIMEOUT_S = 30.0


@dataclass(frozen=True)
class Place:
    """Where studies keep their files and their runs.

    Attributes:
        output_dir: Absolute; of an address in an object store the copy on this machine.
        store_uri: The tracking URI.
        timeout_s: Seconds that a request to a server may take.
    """

    output_dir: Path
    store_uri: str
    timeout_s: float = TIMEOUT_S

    @classmethod
    def of(cls, tracking: TrackingSettings, output_dir: Path) -> "Place":
        """As a study's settings say: the store whose URI is set, else an embedded one in the output folder.

        Raises:
            ConfigurationError: The URI cannot be read, or nothing can be the address of the output folder.
        """
        path = output_dir / "mlflow.db" if tracking.uri is None else database_of(tracking.uri, "tracking.uri")
        return cls(output_dir, str(tracking.uri) if path is None else _address_of(path), tracking.timeout_s)

    @classmethod
    def named(cls, uri: str | None, output_dir: str | None) -> "Place":
        """As a person names it, of whom studies are there already.

        Args:
            uri: Of the store: `sqlite:///path`, which may be relative, or another that MLflow takes;
                None: mlflow.db in the output folder.
            output_dir: None: the folder of an embedded store, else `outputs`.

        Raises:
            ConfigurationError: The output folder is none, or the store's address cannot be read.
        """
        named = database_of(uri) if uri else None
        store = named.expanduser().absolute() if named else None
        folder = absolute(output_dir or str(store.parent if store else "outputs"))
        return cls(folder, _address_of(store or folder / "mlflow.db") if store or not uri else uri)

    @property
    def objects_uri(self) -> str | None:
        """The address in an object store that the output folder is a copy of; None if it is none."""
        return stored_at(self.output_dir)

    @property
    def studies(self) -> Path:
        """The folder of the studies' own folders."""
        return self.output_dir / "studies"

    @property
    def artifacts(self) -> Path:
        """The folder of the artifacts of an embedded store."""
        return self.output_dir / "mlartifacts"

    @property
    def missing_database(self) -> Path | None:
        """The file of an embedded store that is not there yet; None of any other store."""
        database = database_of(self.store_uri)
        return database if database is not None and not database.exists() else None


def _address_of(path: Path) -> str:
    try:
        return sqlite_uri(path)
    except ValueError as error:
        raise ConfigurationError(f"tracking store {error}") from None
