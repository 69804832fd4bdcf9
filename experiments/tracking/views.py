"""Ready-made views of a study in the MLflow UI, as text for experiment tags.

Each text is the value of the experiment tag `mlflow.sharedViewState.<key>`. The link of `view_path` shows a view; the
UI also lists it under "Saved views".

The format is internal to MLflow's frontend (seen in 3.17), `mlflow/server/js/src/experiment-tracking/`:

- `components/experiment-page/utils/savedViewEnvelope.ts`: a tag's value, `{name, createdAt, state}`, where `state` is
  again JSON text. It carries no version.
- `components/experiment-page/models/ExperimentPageUIState.tsx` and `ExperimentPageSearchFacetsState.tsx`: the fields of
  a state, and the defaults of those that it leaves out.
- `components/runs-charts/runs-charts.types.ts`: the charts. `types.ts`, `ChartSectionConfig`: the sections.

The UI ignores what it does not know and falls back to defaults, so a wrong name here goes unnoticed:
`tests/tracking/test_views.py` pins names and defaults against the installed MLflow.
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
_Charts = tuple[list[_Json], list[_Json]]
"""Charts, and the sections that they are in."""

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
    """The views of a study's experiment.

    The UI draws the runs it has loaded, the first 100; "Load more" below the run list adds 100.

    Args:
        searched_params: Names of the logged parameters that the study varies (`lr`). The first `MAX_PARALLEL_PARAMS`
            become axes of the parallel coordinates.
        configs: Values of the tag `config`, as far as known. Their groups are collapsed, so that the run list reads
            as a legend; the UI expands a group it is not told about. Ignored when longer than `MAX_COLLAPSED_CHARS`.
        exploratory: Whether trials may stop early (ASHA, PBT).

    Returns:
        View key to tag value.

        `byconfig`: curves over env steps (MLflow's step), a line per configuration: the mean of its seeds, with a
        band from the lowest to the highest.
        `sweep`: parameters, throughput and score of each trial; the UI leaves out trials without a score.
        `time`: the curves of `byconfig` over seconds since the first report, finished trials only. If `exploratory`, a
        line per trial instead: the UI puts a group's point at the mean clock time of the runs that have this step,
        which jumps to and fro where some runs are shorter.
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
    over_time: _Json = {"globalLineChartConfig": {"xAxisKey": "time-relative", "lineSmoothness": 0}}
    time_runs = ordered if exploratory else {**grouped, **finished}
    curves, time_curves = _curves("step", "env steps", _CURVES), _curves("time-relative", "seconds", _TIME_CURVES)
    return {
        BY_CONFIG: _tag_value("Curves by configuration", 3, columns, curves, grouped),
        SWEEP: _tag_value("Parameters and score", 2, columns, _sweep(axes), best_first),
        TIME: _tag_value("Curves over time", 1, columns, time_curves, {**time_runs, **over_time}),
    }


def studies_view() -> dict[str, str]:
    """The view of the experiment `studies`, by its key: a table, one row an execution of a study, the newest first."""
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
    columns = ["attributes.`Duration`", *tags, *how, *best, description]
    return {STUDIES: _tag_value("Studies, newest first", 1, columns, ([], []), table)}


def view_path(experiment_id: str, key: str) -> str:
    """The link to a view, below the address of the MLflow server.

    A link that also sets a field of the search (`orderByKey`, `searchFilter`, ...) would not load the view.

    Args:
        experiment_id: The experiment whose tag holds the view.
        key: Of `shared_views` or `studies_view`.
    """
    query = urlencode({"viewStateShareKey": key, "compareRunsMode": "CHART", "workflowType": "machine_learning"})
    return f"#/experiments/{experiment_id}/runs?{query}"


def _curves(x_axis: str, x_unit: str, curves: Mapping[str, Sequence[str]]) -> _Charts:
    # The section names the unit: an axis says "Step" or "Relative Time", a chart's title is its metric.
    names = {section: f"{section}, by {x_unit}" for section in curves}
    charts = [_line(metric, names[section], x_axis) for section, metrics in curves.items() for metric in metrics]
    sections = [_section(names[section], columns=min(2, len(metrics))) for section, metrics in curves.items()]
    return charts, sections


def _sweep(params: Sequence[str]) -> _Charts:
    parallel: _Json = {
        **_card("PARALLEL", "parallel", "Sweep"),
        "selectedParams": list(params),
        "selectedMetrics": ["final/env_steps_per_s", "final/score"],  # The last one colours the lines.
    }
    scatter: _Json = {
        **_card("SCATTER", "scatter", "Sweep"),
        "xaxis": {"key": "final/env_steps_per_s", "type": "METRIC"},
        "yaxis": {"key": "final/score", "type": "METRIC"},
    }
    return [parallel, scatter], [_section("Sweep", columns=1)]


def _line(metric: str, section: str, x_axis: str) -> _Json:
    own: _Json = {"metricKey": metric, "xAxisKey": x_axis, "useGlobalXaxisKey": True, "useGlobalLineSmoothing": True}
    return {**_card("LINE", metric, section), **own}


def _card(kind: str, card_id: str, section: str) -> _Json:
    return {"uuid": card_id, "type": kind, "metricSectionId": section}


def _section(name: str, columns: int, is_open: bool = True) -> _Json:
    return {
        "uuid": name,
        "name": name,
        "display": is_open,
        "isReordered": True,  # Charts that the UI adds go behind the ones it finds.
        "columns": columns,
        "cardHeight": 440,  # Pixels.
    }


def _collapsed(configs: Sequence[str]) -> _Json:
    groups: _Json = {f"tag.config.{config}": False for config in configs}
    return groups if len(json.dumps(json.dumps(groups))) <= MAX_COLLAPSED_CHARS else {}


def _tag_value(name: str, rank: int, columns: Sequence[str], charts: _Charts, changes: Mapping[str, object]) -> str:
    closed = [_section(section, columns=3, is_open=False) for section in _CLOSED_SECTIONS]
    state = {
        "selectedColumns": columns,
        "runsHiddenMode": "SHOW_ALL",  # The default shows the first 10 runs or groups only.
        "compareRunCharts": charts[0],
        "compareRunSections": [*charts[1], *closed],
        "isAccordionReordered": True,  # Without it the UI sorts the sections by name.
        **changes,
    }
    # The UI lists saved views by `createdAt`, the highest first. It is meant as ms since 1970, but is not shown.
    return _dumped({"name": name, "createdAt": rank, "state": _dumped(state)})


def _dumped(value: Mapping[str, object]) -> str:
    return json.dumps(value, separators=(",", ":"))
