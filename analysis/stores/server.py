"""A tracking server, read over HTTP.

Points come from an endpoint that MLflow's own pages use, `get-history-bulk`: the public one gives a run and a metric
at a time, and takes three times as long. It answers at most 25,000 points and is silent about the rest, so every
answer is checked.
"""

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from analysis import AnalysisError
from analysis.stores.cache import PointCache
from analysis.stores.records import Latest, Points, Run
from experiments.contract.passwords import without_passwords

MAX_POINTS = 25_000
"""That the bulk endpoint answers (`get_metric_history_bulk_handler` in mlflow/server/handlers.py);
it takes 100 runs at most."""
RUNS_PER_REQUEST = 75
"""With the default of at most 320 points a curve, an answer is then never cut."""
RUNS_PER_PAGE = 1000
REQUESTS_AT_ONCE = 4
"""As many as the server has worker processes by default: the half of the time of one at once, on two cores."""
RETRIES = 2
"""Of a request; MLflow's default of 7 waits for four minutes."""
FIRST_ANSWER_S = 10
ANSWER_S = 120
"""How long a request may take. Set here, for a study in the same process sets MLflow's defaults
to its own few seconds."""
SHOW_PROGRESS_AFTER_S = 1.0

_BULK = "/ajax-api/2.0/mlflow/metrics/get-history-bulk"


class ServerReader:
    """An MLflow tracking server, and the points of it that are kept on this machine."""

    def __init__(self, uri: str, cache_dir: Path) -> None:
        """Make sure that it answers.

        Args:
            uri: http:// or https://.
            cache_dir: For points that were read.

        Raises:
            AnalysisError: It does not answer, or not as a tracking server does.
        """
        # a second of imports, which reading a file does not need
        from mlflow.utils.credentials import get_default_host_creds

        self._uri, self._shown, self._cache_dir = uri, without_passwords(uri), cache_dir
        self._credentials = get_default_host_creds(uri)
        self._experiment("Default", max_retries=0, timeout=FIRST_ANSWER_S)

    def runs(self, experiment: str, tag: tuple[str, str] | None = None) -> list[Run]:
        """See `Reader.runs`."""
        found = self._experiment(experiment)
        if found is None or found["lifecycle_stage"] != "active":
            return []
        query = {
            "experiment_ids": [found["experiment_id"]],
            "max_results": RUNS_PER_PAGE,
            "order_by": ["attributes.start_time ASC"],
        }
        if tag is not None:
            query["filter"] = f"tags.`{tag[0]}` = '{tag[1]}'"
        runs: list[Run] = []
        while True:
            page = self._json("POST", "/api/2.0/mlflow/runs/search", json=query) or {}
            runs += [_run(entry["info"], entry["data"]) for entry in page.get("runs", [])]
            if not page.get("next_page_token"):
                return runs
            query["page_token"] = page["next_page_token"]

    def content(self, run: Run, name: str) -> bytes | None:
        """See `Reader.content`."""
        answer = self._request("GET", "/get-artifact", params={"run_id": run.run_id, "path": name})
        if answer.status_code == 404:
            return None
        self._check(answer, "/get-artifact")
        return bytes(answer.content)

    def points(self, study_run: str, runs: Sequence[Run], metrics: Sequence[str]) -> Points:
        """See `Reader.points`."""
        cache = PointCache(self._cache_dir, self._uri, study_run)
        parts: dict[str, list[Points]] = {}
        wanted: list[tuple[str, list[int]]] = []
        for code, metric in enumerate(metrics):
            kept, known = cache.read(runs, metric, code)
            parts[metric] = [kept]
            logged = [i for i, run in enumerate(runs) if metric in run.latest]
            missing = sorted(set(logged) - set(known), key=lambda i: runs[i].run_id)
            wanted += [
                (metric, missing[start : start + RUNS_PER_REQUEST])
                for start in range(0, len(missing), RUNS_PER_REQUEST)
            ]
        code_of = {metric: code for code, metric in enumerate(metrics)}

        def fetch(job: tuple[str, list[int]]) -> tuple[str, Points]:
            metric, indices = job
            rows = self._history(metric, [runs[i] for i in indices])
            index_of = {runs[i].run_id: i for i in indices}
            return metric, _points(rows, index_of, code_of[metric])

        with (
            _progress(sum(len(indices) for _, indices in wanted)) as advance,
            ThreadPoolExecutor(REQUESTS_AT_ONCE) as pool,
        ):
            for (_, indices), (metric, fetched) in zip(wanted, pool.map(fetch, wanted), strict=True):
                parts[metric].append(fetched)
                advance(len(indices))
        joined = {metric: Points.joined(found) for metric, found in parts.items()}
        for metric in dict.fromkeys(metric for metric, _ in wanted):
            cache.write(runs, metric, joined[metric])
        return Points.joined(list(joined.values()))

    def _history(self, metric: str, runs: Sequence[Run]) -> list[dict[str, Any]]:
        """Every point of a metric of some runs: an answer that may have been cut is asked for again in parts."""
        answer = self._json("GET", _BULK, params={"metric_key": metric, "run_id": [run.run_id for run in runs]}) or {}
        rows: list[dict[str, Any]] = answer.get("metrics", [])
        if len(rows) < MAX_POINTS and _complete(rows, runs, metric):
            return rows
        if len(runs) > 1:
            middle = len(runs) // 2
            return self._history(metric, runs[:middle]) + self._history(metric, runs[middle:])
        answer = (
            self._json(
                "GET", "/api/2.0/mlflow/metrics/get-history", params={"metric_key": metric, "run_id": runs[0].run_id}
            )
            or {}
        )
        rows = [{**row, "run_id": runs[0].run_id} for row in answer.get("metrics", [])]
        if not _complete(rows, runs, metric):
            raise AnalysisError(
                f"{self._shown} gives {metric} of the run {runs[0].run_id} only in part: load the study again."
            )
        return rows

    def _experiment(self, name: str, **options: Any) -> dict[str, Any] | None:
        found = self._json(
            "GET", "/api/2.0/mlflow/experiments/get-by-name", params={"experiment_name": name}, **options
        )
        return None if found is None else found["experiment"]

    def _json(self, method: str, path: str, **options: Any) -> dict[str, Any] | None:
        """The answer to a request; None if what it asks for does not exist."""
        answer = self._request(method, path, **options)
        try:
            content = json.loads(answer.content)
        except ValueError:
            content = None
        if isinstance(content, dict) and content.get("error_code") == "RESOURCE_DOES_NOT_EXIST":
            return None
        self._check(answer, path)
        if not isinstance(content, dict):
            raise self._no_tracking_server()
        return content

    def _request(self, method: str, path: str, **options: Any) -> Any:
        from mlflow.exceptions import MlflowException
        from mlflow.utils.rest_utils import http_request

        options = {"max_retries": RETRIES, "timeout": ANSWER_S, **options}
        try:
            return http_request(self._credentials, path, method, raise_on_status=False, **options)
        except MlflowException as error:
            cause = without_passwords(str(error)).rpartition("Caused by ")[2].rstrip(")")[:200]
            raise AnalysisError(
                f"The tracking server {self._shown} does not answer: start it, or name another store "
                f"by tracking_uri= ({cause})."
            ) from error

    def _check(self, answer: Any, path: str) -> None:
        if answer.status_code in (401, 403):
            raise AnalysisError(
                f"The tracking server {self._shown} refuses access ({answer.status_code}): "
                "set MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD, or MLFLOW_TRACKING_TOKEN, "
                "or start it with --allowed-hosts."
            )
        if answer.status_code == 404:
            raise self._no_tracking_server()
        if answer.status_code != 200:
            raise AnalysisError(
                f"The tracking server {self._shown} answers {answer.status_code} to {path}: "
                "see its log, then load again."
            )

    def _no_tracking_server(self) -> AnalysisError:
        return AnalysisError(f"{self._shown} answers, but not as an MLflow tracking server: name one by tracking_uri=.")


def _run(info: Mapping[str, Any], data: Mapping[str, Any]) -> Run:
    ended_ms = info.get("end_time")
    return Run(
        run_id=info["run_id"],
        name=info.get("run_name", ""),
        status=info["status"],
        started_ms=int(info.get("start_time", 0)),
        ended_ms=None if ended_ms is None else int(ended_ms),
        artifact_uri=info.get("artifact_uri", ""),
        tags={tag["key"]: tag.get("value", "") for tag in data.get("tags", [])},
        params={param["key"]: param.get("value", "") for param in data.get("params", [])},
        latest={
            m["key"]: Latest(float(m["value"]), int(m.get("step", 0)), int(m["timestamp"]))
            for m in data.get("metrics", [])
        },
    )


def _complete(rows: Sequence[Mapping[str, Any]], runs: Sequence[Run], metric: str) -> bool:
    """True if the points hold each run's last one: it comes after all others of the run, so a cut takes it first."""
    found = {(row["run_id"], int(row.get("step", 0))) for row in rows}
    return all((run.run_id, run.latest[metric].step) in found for run in runs)


def _points(rows: Sequence[Mapping[str, Any]], index_of: Mapping[str, int], code: int) -> Points:
    number = len(rows)
    return Points(
        run=np.fromiter((index_of[row["run_id"]] for row in rows), np.int64, number),
        metric=np.full(number, code, np.int64),
        step=np.fromiter((row.get("step", 0) for row in rows), np.int64, number),
        at_ms=np.fromiter((row["timestamp"] for row in rows), np.int64, number),
        value=np.fromiter((row["value"] for row in rows), np.float64, number),
    )


@contextmanager
def _progress(total: int) -> Iterator[Any]:
    """A bar on stderr, if it takes long: gives a function that takes how many curves more have been read."""
    console = Console(stderr=True)
    columns = (TextColumn("Reading curves"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    progress = Progress(
        *columns, console=console, transient=True, disable=not (console.is_terminal or console.is_jupyter)
    )
    task, begin, shown = progress.add_task("curves", total=total), time.monotonic(), False

    def advance(curves: int) -> None:
        nonlocal shown
        progress.advance(task, curves)
        if not shown and time.monotonic() - begin > SHOW_PROGRESS_AFTER_S:
            shown = True
            progress.start()

    try:
        yield advance
    finally:
        progress.stop()
