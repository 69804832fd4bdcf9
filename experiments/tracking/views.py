"""Ready-made views of a study in the MLflow UI, as text for experiment tags.

The caller stores each text as the experiment tag ``mlflow.sharedViewState.<key>`` and prints the link that
:func:`view_path` builds. Opening the link shows the view without a click; the UI also lists it under "Saved views".

The format is internal to MLflow's frontend (seen in 3.17), ``mlflow/server/js/src/experiment-tracking/``:

- ``components/experiment-page/utils/savedViewEnvelope.ts``: a tag's value, ``{name, createdAt, updatedAt, state}``,
  where ``state`` is again JSON text. It carries no version.
- ``components/experiment-page/models/ExperimentPageUIState.tsx`` and ``ExperimentPageSearchFacetsState.tsx``: the
  fields of a state.
- ``components/runs-charts/runs-charts.types.ts``: the charts. ``types.ts``, ``ChartSectionConfig``: the sections.

The UI ignores what it does not know and falls back to defaults, so a wrong name here goes unnoticed:
``tests/tracking/test_views.py`` pins the names against the installed MLflow.
"""

import json
from collections.abc import Mapping, Sequence
from urllib.parse import urlencode

TAG_PREFIX = "mlflow.sharedViewState."

BY_CONFIG = "byconfig"
SWEEP = "sweep"
TIME = "time"
STUDIES = "studies"

# MLflow refuses an experiment tag of more than 20,000 characters: both lists are cut.
MAX_PARALLEL_PARAMS = 12  # More axes are unreadable as well.
MAX_COLLAPSED_CHARS = 8_000

_Json = dict[str, object]

# Section -> the metrics of its charts, in this order. The UI hides a chart that no run has data for.
_CURVES: Mapping[str, Sequence[str]] = {
    "Evaluation": ("eval/return_mean",),
    "Training": ("train/return_mean", "throughput/env_steps_per_s"),
    "Learner": (
        "learner/loss",
        "learner/entropy",
        "learner/kl",
        "learner/grad_norm",
        "learner/explained_variance",
        "learner/value_loss",
    ),
}
# Over time, only what every report holds: a seed that lacks a point moves its group's mean time back and forth.
_TIME_CURVES: Mapping[str, Sequence[str]] = {
    "Evaluation": ("eval/return_mean",),
    "Throughput": ("throughput/env_steps_per_s",),
}
# The UI adds a chart for every other metric, in the section named by the metric's prefix. They stay closed, at the end.
_CLOSED_SECTIONS = (
    "eval",
    "train",
    "throughput",
    "time",
    "learner",
    "progress",
    "final",
    "Model metrics",
    "System metrics",
)


def shared_views(
    searched_params: Sequence[str], configs: Sequence[str] = (), exploratory: bool = False
) -> dict[str, str]:
    """Builds the views of a study's experiment.

    The UI draws the runs it has loaded, the first 100; "Load more" below the run list adds 100.

    Args:
        searched_params: names of the logged parameters that the study varies (``lr``). The first
            ``MAX_PARALLEL_PARAMS`` become axes of the parallel coordinates.
        configs: values of the tag ``config``, as far as known. Their groups are collapsed, so that the run list reads
            as a legend; the UI expands a group it is not told about. Ignored when longer than ``MAX_COLLAPSED_CHARS``.
        exploratory: trials may stop early (ASHA, PBT). See ``time``.

    Returns:
        View key -> value of the tag ``mlflow.sharedViewState.<key>``.

        ``byconfig``: curves over env steps (MLflow's step), a line per configuration: the mean of its seeds, with a
        band from the lowest to the highest.
        ``sweep``: parameters, throughput and score of each trial; trials without a score are left out by the UI.
        ``time``: the curves of ``byconfig`` over seconds since the first report, finished trials only. If
        ``exploratory``, a line per trial instead: the UI puts a group's point at the mean clock time of the runs that
        have this step, which jumps to and fro where some runs are shorter.
    """
    axes = list(searched_params)[:MAX_PARALLEL_PARAMS]
    columns = [
        "attributes.`Duration`",
        "tags.`failure`",
        *(f"params.`{name}`" for name in axes),
        "metrics.`final/score`",
        "metrics.`final/env_steps_per_s`",
    ]
    # By configuration, not by score: among the first 100 by score a configuration's worse seeds would be missing.
    ordered: _Json = {"orderByKey": "tags.`config`", "orderByAsc": True}
    grouped: _Json = {
        **ordered,
        "groupBy": {"aggregateFunction": "average", "groupByKeys": [{"mode": "tag", "groupByData": "config"}]},
        "groupsExpanded": _collapsed(configs),
    }
    finished: _Json = {"searchFilter": "attributes.status = 'FINISHED'"}
    best_first: _Json = {"orderByKey": "metrics.`final/score`", "orderByAsc": False}
    over_steps = _curves("step", "env steps", _CURVES)
    over_time = _curves("time-relative", "seconds", _TIME_CURVES)
    time_runs = ordered if exploratory else {**grouped, **finished}
    return {
        BY_CONFIG: _tag_value("Curves by configuration", 3, _state(columns, over_steps, grouped)),
        SWEEP: _tag_value("Parameters and score", 2, _state(columns, _sweep(axes), best_first)),
        TIME: _tag_value("Curves over time", 1, _state(columns, over_time, time_runs, x_axis="time-relative")),
    }


def studies_view() -> dict[str, str]:
    """Builds the view of the experiment ``studies``: a table, one row an execution of a study, the newest first.

    Returns:
        View key -> value of the tag ``mlflow.sharedViewState.<key>``. The UI lists it under "Saved views".
    """
    tags = [f"tags.`{name}`" for name in ("study", "algorithm", "env", "hardware")]
    how = [f"params.`{name}`" for name in ("search", "scheduler")]
    best = ["tags.`best`", *(f"metrics.`best/{name}`" for name in ("score", "env_steps_to_target", "env_steps_per_s"))]
    run_name, description = "attributes.`Run Name`", "attributes.`Description`"
    table: _Json = {
        "orderByKey": "attributes.start_time",
        "orderByAsc": False,
        # Two of the table's column ids differ from the names in `selectedColumns`.
        "columnOrder": [run_name, "runDateAndNestInfo", "duration", *tags, *how, *best, description],
        "columnWidths": {run_name: 260, description: 480},  # Pixels.
    }
    state = _state(["attributes.`Duration`", *tags, *how, *best, description], ([], []), table)
    return {STUDIES: _tag_value("Studies, newest first", 1, state)}


def view_path(experiment_id: str, key: str) -> str:
    """Builds the link to a view, below the address of the MLflow server.

    A link that also sets a field of the search (``orderByKey``, ``searchFilter``, ...) would not load the view.

    Args:
        experiment_id: the experiment whose tag holds the view.
        key: a key of :func:`shared_views` or :func:`studies_view`.
    """
    query = urlencode({"viewStateShareKey": key, "compareRunsMode": "CHART", "workflowType": "machine_learning"})
    return f"#/experiments/{experiment_id}/runs?{query}"


def _curves(x_axis: str, x_unit: str, curves: Mapping[str, Sequence[str]]) -> tuple[list[_Json], list[_Json]]:
    # The section names the unit: an axis says "Step" or "Relative Time", a chart's title is its metric.
    names = {section: f"{section}, by {x_unit}" for section in curves}
    charts = [_line(metric, names[section], x_axis) for section, metrics in curves.items() for metric in metrics]
    sections = [_section(names[section], columns=min(2, len(metrics))) for section, metrics in curves.items()]
    return charts, sections


def _sweep(params: Sequence[str]) -> tuple[list[_Json], list[_Json]]:
    parallel: _Json = {
        **_card("PARALLEL", "parallel", "Sweep"),
        "selectedParams": list(params),
        "selectedMetrics": ["final/env_steps_per_s", "final/score"],  # The last one colours the lines.
        "showAllRuns": False,
    }
    scatter: _Json = {
        **_card("SCATTER", "scatter", "Sweep"),
        "xaxis": {"key": "final/env_steps_per_s", "type": "METRIC"},
        "yaxis": {"key": "final/score", "type": "METRIC"},
    }
    return [parallel, scatter], [_section("Sweep", columns=1)]


def _line(metric: str, section: str, x_axis: str) -> _Json:
    return {
        **_card("LINE", metric, section),
        "metricKey": metric,
        "selectedMetricKeys": [metric],
        "xAxisKey": x_axis,
        "selectedXAxisMetricKey": "",
        "useGlobalXaxisKey": True,
        "xAxisScaleType": "linear",
        "scaleType": "linear",
        "range": {},
        "lineSmoothness": 0,
        "useGlobalLineSmoothing": True,
    }


def _card(kind: str, card_id: str, section: str) -> _Json:
    return {"uuid": card_id, "type": kind, "metricSectionId": section, "deleted": False, "isGenerated": False}


def _section(name: str, columns: int, is_open: bool = True) -> _Json:
    return {
        "uuid": name,
        "name": name,
        "display": is_open,
        "isReordered": True,  # Charts that the UI adds go behind the ones it finds.
        "deleted": False,
        "isGenerated": False,
        "columns": columns,
        "cardHeight": 440,  # Pixels.
    }


def _collapsed(configs: Sequence[str]) -> _Json:
    groups: _Json = {f"tag.config.{config}": False for config in configs}
    return groups if len(json.dumps(json.dumps(groups))) <= MAX_COLLAPSED_CHARS else {}


def _state(
    columns: Sequence[str],
    charts_and_sections: tuple[list[_Json], list[_Json]],
    changes: Mapping[str, object],
    x_axis: str = "step",
) -> _Json:
    charts, sections = charts_and_sections
    closed = [_section(name, columns=3, is_open=False) for name in _CLOSED_SECTIONS]
    return {
        "searchFilter": "",
        "startTime": "ALL",
        "lifecycleFilter": "Active",
        "modelVersionFilter": "All Runs",
        "datasetsFilter": [],
        "selectedColumns": list(columns),
        "columnOrder": [],
        "columnWidths": {},
        "runsHiddenMode": "SHOW_ALL",  # The default shows the first 10 runs or groups only.
        "compareRunCharts": charts,
        "compareRunSections": [*sections, *closed],
        "isAccordionReordered": True,  # Without it the UI sorts the sections by name.
        "viewMaximized": False,
        "runListHidden": False,
        "groupBy": None,
        "groupsExpanded": {},
        "useGroupedValuesInCharts": True,
        "hideEmptyCharts": True,
        "globalLineChartConfig": {"xAxisKey": x_axis, "lineSmoothness": 0, "selectedXAxisMetricKey": ""},
        "chartsSearchFilter": "",
        **changes,
    }


def _tag_value(name: str, rank: int, state: _Json) -> str:
    # The UI lists saved views by `createdAt`, the highest first. It is meant as ms since 1970, but is not shown.
    text = json.dumps(state, separators=(",", ":"))
    envelope = {"name": name, "createdAt": rank, "updatedAt": rank, "state": text}
    return json.dumps(envelope, separators=(",", ":"))
