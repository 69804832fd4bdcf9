"""What a store knows of earlier studies: where their folders are, and how fast their trials were."""

from collections.abc import Callable
from pathlib import Path

from experiments.config.errors import ConfigurationError
from experiments.config.extension import Past
from experiments.config.output_dir import stored_at
from experiments.contract import Tag
from experiments.tracking.provenance import without_passwords
from experiments.tracking.store import Store
from experiments.tracking.store_address import database_of

STORE_WAIT_S = 10.0
"""How long a server may take to say where it is."""


def folder_of(resume: str, uri: str, output_dir: Path) -> Path:
    """The folder of the study to resume.

    Args:
        resume: Its run id, or the folder itself, or its address.
        uri: Of the store that has the run.
        output_dir: Of the study.

    Raises:
        ConfigurationError: There is no such study.
    """
    if (given := named_folder(resume)) is not None:
        return given
    if "://" in resume:
        return _copy_of(resume, output_dir, resume)
    if (database := _missing_database(uri)) is not None:
        raise ConfigurationError(
            f"resume={resume}: there is no store {database}. Name the study's: output_dir=/path, or tracking.uri=..."
        )
    store = Store(uri, output_dir / "mlartifacts", STORE_WAIT_S)
    found = store.tag_of(resume, Tag.STUDY_FOLDER)
    if found is None and (study_run := store.tag_of(resume, Tag.STUDY_RUN)):
        raise ConfigurationError(f"resume={resume}: is the run of a trial. Name its study's: resume={study_run}.")
    if found is None:
        raise ConfigurationError(
            f"resume={resume}: {without_passwords(uri)} has no study with this run id. It is printed "
            "when a study ends, and is the id of its run in the experiment studies; the study's folder does as well."
        )
    if "://" in found:
        return _copy_of(found, output_dir, resume)
    if not Path(found).is_dir():
        raise ConfigurationError(
            f"resume={resume}: the study's folder {found} is not on this machine any more, so it cannot be resumed."
        )
    return Path(found)


def _copy_of(address: str, output_dir: Path, resume: str) -> Path:
    """This machine's copy of a study in an object store, which need not be there yet."""
    copy = output_dir / "studies" / address.rpartition("/")[2]
    if stored_at(copy) != address:
        kept = address.rpartition("/studies/")[0]
        raise ConfigurationError(
            f"resume={resume}: the study is in {address}. Say that it is yours: output_dir={kept}."
        )
    return copy


def named_folder(resume: str) -> Path | None:
    """The folder that `resume` is; None if it is a run id."""
    return given if (given := Path(resume).expanduser().absolute()).is_dir() else None


def past_speed(uri: str, output_dir: Path, timeout_s: float) -> Callable[[str, str, float], float | None] | None:
    """Algorithm, env and the fewest env steps that count to the median env steps a second of earlier trials;
    None without a store.
    """
    return None if _missing_database(uri) is not None else Store(uri, output_dir / "mlartifacts", timeout_s).past_speed


def past_metrics(uri: str, output_dir: Path, timeout_s: float) -> Past:
    """Algorithm, env and a metric to the last metrics of their earlier trials that logged it;
    none if there is no store yet.
    """
    if _missing_database(uri) is not None:
        return lambda *names: []
    return Store(uri, output_dir / "mlartifacts", timeout_s).past_metrics


def _missing_database(uri: str) -> Path | None:
    database = database_of(uri)
    return database if database is not None and not database.exists() else None
