"""The store that is asked for, and the executions of studies that it holds."""

import difflib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlparse

import pandas as pd

from analysis import AnalysisError
from analysis.stores.cache import default_folder
from analysis.stores.records import STATUS, Reader, Run
from analysis.stores.server import ServerReader
from analysis.stores.sqlite import SqliteReader
from experiments.contract import INDEX_EXPERIMENT, Tag
from experiments.contract.passwords import without_passwords
from experiments.contract.sqlite_address import sqlite_path, sqlite_uri

PROJECT = Path(__file__).resolve().parents[2]
_NAMED_AT_MOST = 12
"""Studies that an error names."""
_QUESTION = "**Question.** "
_BOLD = re.compile(r"\*\*(.+?)\*\*")


@dataclass(frozen=True)
class Execution:
    """One execution of a study, as a store has it.

    Attributes:
        experiment: `lr_batch/ppo-cartpole`.
        run_id: Of its run in the experiment `studies`.
        status: finished, failed, running or interrupted.
        started: UTC.
        configurations: How many; `endless` of some searches; "" if unknown.
        seeds: How many; "" if unknown.
        question: What it asks; "" if it says nothing.
        answers: What to use, a sentence for each environment; none before it has ended.
    """

    experiment: str
    run_id: str
    status: str
    started: pd.Timestamp
    configurations: str
    seeds: str
    question: str
    answers: tuple[str, ...]


def executions(study: str | None = None, tracking_uri: str | None = None) -> list[Execution]:
    """All executions of studies in a store, the latest first.

    Args:
        study: Name of the study, or the run id of one execution; None: all studies.
        tracking_uri: Address of the store; None: the one in `outputs/`.

    Raises:
        AnalysisError: There is none, or the store cannot be read.
    """
    uri, store = opened(tracking_uri)
    return [_execution(run) for run in runs_of_studies(store, uri, study)]


def _execution(run: Run) -> Execution:
    question, answers = _told(run.tags)
    return Execution(
        experiment=run.name,
        run_id=run.run_id,
        status=STATUS[run.status],
        started=pd.Timestamp(run.started_ms, unit="ms", tz="UTC"),
        configurations=run.params.get("configurations", ""),
        seeds=run.params.get("seeds", ""),
        question=question,
        answers=answers,
    )


def _told(tags: Mapping[str, str]) -> tuple[str, tuple[str, ...]]:
    """The question of a study and its answers; of earlier studies as their description says them."""
    if Tag.QUESTION in tags:
        return tags[Tag.QUESTION], tuple(json.loads(tags.get(Tag.ANSWERS, "[]")))
    question, _, rest = tags.get(Tag.NOTE, "").partition("\n")
    # and no heading of one word: Answer.
    bold = (words.replace("`", "") for words in _BOLD.findall(rest) if " " in words)
    return question.removeprefix(_QUESTION), tuple(bold)


def opened(tracking_uri: str | None, cache_dir: Path | None = None) -> tuple[str, Reader]:
    """A store's address and what reads it.

    Args:
        tracking_uri: Address of the store; None: the one in `outputs/`.
        cache_dir: Folder for the points that a tracking server gave; None: the platform's cache folder.

    Raises:
        AnalysisError: It is of another kind, or is not there.
    """
    try:
        uri = tracking_uri or _embedded_store()
        database = sqlite_path(uri)
    except ValueError as error:
        raise AnalysisError(f"tracking_uri={error}") from None
    if urlparse(uri).scheme in ("http", "https"):
        return uri, ServerReader(uri, cache_dir or default_folder())
    if database is not None:
        return uri, SqliteReader(database)
    raise AnalysisError(
        f"tracking_uri={without_passwords(uri)} is neither sqlite:///path/mlflow.db nor http(s)://host:port: "
        "for any other store, start `mlflow server` on it and name the server."
    )


def _embedded_store() -> str:
    """The store under the working directory, or else the project's:
    a notebook's working directory is its own folder.
    """
    folders = (Path.cwd(), PROJECT)
    found = next((folder for folder in folders if (folder / "outputs" / "mlflow.db").exists()), folders[0])
    return sqlite_uri(found / "outputs" / "mlflow.db")


def runs_of_studies(store: Reader, uri: str, study: str | None) -> list[Run]:
    """The runs that are asked for, of the experiment `studies`, the latest first; at least one.

    Args:
        store: What reads it.
        uri: Its address, for messages.
        study: As for `analysis.load.load_study`; None: all. A name means the studies that were run under it, and not
            those that confirm what one of these recommended, unless there is nothing else.

    Raises:
        AnalysisError: There is none, or the store cannot be read.
    """
    latest_first = sorted(store.runs(INDEX_EXPERIMENT), key=lambda run: run.started_ms, reverse=True)
    shown = without_passwords(uri)
    if not latest_first:
        raise AnalysisError(
            f"{shown} holds no study yet: run one (make study), or name another store by tracking_uri=."
        )
    found = [run for run in latest_first if study is None or study in (run.tags.get(Tag.STUDY), run.name, run.run_id)]
    if found or study is None:
        own = [run for run in found if Tag.CONFIRMS not in run.tags or run.run_id == study]
        return found if study is None else own or found
    names = list(dict.fromkeys(name for run in latest_first for name in (run.tags.get(Tag.STUDY, run.name), run.name)))
    raise AnalysisError(f"There is no study {study!r} in {shown}{near(study, names)}.")


def only_execution(study: str, tracking_uri: str | None = None) -> str:
    """The run id of the one execution that a name means.

    Args:
        study: Name of the study, or the run id of one execution.
        tracking_uri: Address of the store; None: the one in `outputs/`.

    Raises:
        AnalysisError: There is none, or there are several, which are listed; or the store cannot be read.
    """
    found = executions(study, tracking_uri)
    if len(found) == 1:
        return found[0].run_id
    listed = [
        f"{e.run_id} ({e.experiment}, {e.status}, {e.started:%Y-%m-%d %H:%M} UTC)" for e in found[:_NAMED_AT_MOST]
    ]
    more = f" and {len(found) - len(listed)} more" if len(found) > len(listed) else ""
    raise AnalysisError(f"{study!r} has {len(found)} executions. Name one by its run id: {', '.join(listed)}{more}.")


def near(name: str, names: Sequence[str]) -> str:
    """`; near: ...` for near misses; otherwise what there is."""
    found = difflib.get_close_matches(name, names, n=3)
    if found:
        return f"; near: {', '.join(found)}"
    return f"; there are: {', '.join(names[:_NAMED_AT_MOST])}{', ...' if len(names) > _NAMED_AT_MOST else ''}"
