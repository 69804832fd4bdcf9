"""Earlier studies in a store: where their folders are, and how fast their trials were."""

import functools
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from experiments.config.errors import ConfigurationError
from experiments.config.extension import Past
from experiments.config.output_dir import stored_at
from experiments.contract import Tag
from experiments.contract.passwords import without_passwords
from experiments.planning.estimate import Earlier
from experiments.tracking.place import Place
from experiments.tracking.store import Store

STORE_WAIT_S = 10.0
"""How long a server may take to say where it is."""


def folder_of(resume: str, place: Place, word: str = "resume") -> Path:
    """The folder of the study to resume, or to confirm.

    Args:
        resume: Its run id, or the folder itself, or its address.
        place: The output folder that keeps it, and the store that has its run.
        word: What named it: `resume`.

    Raises:
        ConfigurationError: There is no such study.
    """
    if (given := named_folder(resume)) is not None:
        return given
    if "://" in resume:
        return _copy_of(resume, place, f"{word}={resume}")
    if (database := place.missing_database) is not None:
        raise ConfigurationError(
            f"{word}={resume}: there is no store {database}. Name the study's: output_dir=/path, or tracking.uri=..."
        )
    store = Store(place.store_uri, place.artifacts, STORE_WAIT_S)
    found = store.tag_of(resume, Tag.STUDY_FOLDER)
    if found is None and (study_run := store.tag_of(resume, Tag.STUDY_RUN)):
        raise ConfigurationError(f"{word}={resume}: is the run of a trial. Name its study's: {word}={study_run}.")
    if found is None:
        raise ConfigurationError(
            f"{word}={resume}: {without_passwords(place.store_uri)} has no study with this run id. It is printed "
            "when a study ends, and is the id of its run in the experiment studies; the study's folder does as well."
        )
    if "://" in found:
        return _copy_of(found, place, f"{word}={resume}")
    if not Path(found).is_dir():
        raise ConfigurationError(
            f"{word}={resume}: the study's folder {found} is not on this machine any more, "
            "so it cannot go on, nor be confirmed."
        )
    return Path(found)


def _copy_of(address: str, place: Place, named: str) -> Path:
    """This machine's copy of a study in an object store, which need not be there yet."""
    copy = place.studies / address.rpartition("/")[2]
    if stored_at(copy) != address:
        kept = address.rpartition("/studies/")[0]
        raise ConfigurationError(f"{named}: the study is in {address}. Say that it is yours: output_dir={kept}.")
    return copy


def named_folder(resume: str) -> Path | None:
    """The folder that `resume` is; None if it is a run id."""
    return given if (given := Path(resume).expanduser().absolute()).is_dir() else None


def earlier(place: Place) -> Earlier | None:
    """The seconds an env step took of earlier trials in a store, each kind of trial asked for once; None without a
    store.
    """
    if place.missing_database:
        return None
    store = _store(place)

    @functools.cache
    def found(algorithm: str, env: str, least: float, layout: tuple[tuple[str, float | str], ...]) -> Sequence[float]:
        return store.seconds_an_env_step(algorithm, env, least, dict(layout))

    return lambda algorithm, env, least, layout: found(algorithm, env, least, tuple(layout.items()))


def past_peaks(place: Place) -> Callable[[str, str], Mapping[str, float]] | None:
    """Algorithm and env to the ids of configurations and the most MiB that their earlier trials took; None without a
    store.
    """
    return None if place.missing_database else functools.cache(_store(place).past_peaks)


def past_metrics(place: Place) -> Past:
    """Algorithm, env and a metric to the last metrics of their earlier trials that logged it;
    none if there is no store yet.
    """
    return (lambda *names: []) if place.missing_database else _store(place).past_metrics


def _store(place: Place) -> Store:
    return Store(place.store_uri, place.artifacts, place.timeout_s)
