"""The shared views: their size, their links, and their names against the installed MLflow's frontend."""

import json
import re
from pathlib import Path
from typing import Any

import mlflow
import pytest

from experiments.tracking import views

CONFIGS = [f"lr={lr} b={batch}" for lr in ("1e-4", "3e-4") for batch in (1000, 4000)]
VIEWS = {**views.shared_views(["lr", "train_batch_size_total"], CONFIGS), **views.studies_view()}


@pytest.fixture(scope="module")
def mlflow_dir() -> Path:
    return Path(mlflow.__file__).parent


@pytest.fixture(scope="module")
def frontend(mlflow_dir: Path) -> str:
    chunks = sorted((mlflow_dir / "server/js/build/static/js").glob("*.js"))
    return "\n".join(chunk.read_text(encoding="utf-8") for chunk in chunks)


def state_of(tag_value: str) -> dict[str, Any]:
    state: dict[str, Any] = json.loads(json.loads(tag_value)["state"])
    return state


def names_in(frontend: str, start: str) -> set[str]:
    """The names of the frontend's list that opens with `start`."""
    match = re.search(re.escape(start) + r'(?:,"\w+")*', frontend)
    assert match is not None, f"the frontend has no list that opens with {start}"
    return set(re.findall(r'"(\w+)"', match.group()))


# The format, against the installed MLflow.


@pytest.mark.parametrize("key", VIEWS)
def test_the_installed_frontend_reads_every_field_of_a_state(key: str, frontend: str) -> None:
    known = names_in(frontend, '["selectedColumns","columnOrder"') | names_in(frontend, '["searchFilter","orderByKey"')
    assert set(state_of(VIEWS[key])) <= known


@pytest.mark.parametrize("key", VIEWS)
def test_no_field_of_a_state_is_dropped_from_shared_views(key: str, frontend: str) -> None:
    dropped = names_in(frontend, '["runsExpanded","runsPinned"')
    assert not dropped & set(state_of(VIEWS[key]))


@pytest.mark.parametrize("key", VIEWS)
def test_every_field_of_a_chart_is_one_of_the_installed_frontends_chart_classes(key: str, frontend: str) -> None:
    fields = {field for chart in state_of(VIEWS[key])["compareRunCharts"] for field in chart}
    assert [field for field in sorted(fields) if f"this.{field}=" not in frontend] == []


@pytest.mark.parametrize(
    "text",
    [
        '"viewStateShareKey"',
        '"compareRunsMode"',
        f'"{views.TAG_PREFIX}"',
        'MACHINE_LEARNING="machine_learning"',
        "expected an object with a string `name`, number `createdAt`, and string `state`",
        'SHOWALL="SHOW_ALL"',
        'Tag="tag"',
        'Average="average"',
        'LINE="LINE"',
        'PARALLEL="PARALLEL"',
        'SCATTER="SCATTER"',
        'STEP="step"',
        'TIME_RELATIVE="time-relative"',
        ".isReordered",
        ".cardHeight",
        ".columns",
        '"runDateAndNestInfo"',
        # defaults of fields that the views leave out
        "useGroupedValuesInCharts:!0,hideEmptyCharts:!0,groupBy:null,groupsExpanded:{}",
        "viewMaximized:!1,runListHidden:!1",
        'STEP,lineSmoothness:0,selectedXAxisMetricKey:""}',
        'searchFilter:""',
        'scaleType="linear",this.range={xMin:void 0,',
    ],
)
def test_the_installed_frontend_still_knows_the_values_that_the_views_use(text: str, frontend: str) -> None:
    assert text in frontend


@pytest.mark.parametrize("key", VIEWS)
def test_a_tag_value_is_a_saved_view_envelope_around_json_text(key: str) -> None:
    envelope = json.loads(VIEWS[key])
    assert set(envelope) == {"name", "createdAt", "state"}
    assert isinstance(envelope["name"], str)
    assert isinstance(envelope["createdAt"], int)
    assert state_of(VIEWS[key])


def test_saved_views_are_listed_curves_first() -> None:
    study = views.shared_views(["lr"])
    by_creation = sorted(study, key=lambda key: json.loads(study[key])["createdAt"], reverse=True)
    assert by_creation == [views.BY_CONFIG, views.SWEEP, views.TIME]


# The limit on an experiment tag.


def test_the_largest_views_fit_an_experiment_tag(mlflow_dir: Path) -> None:
    source = (mlflow_dir / "utils/validation.py").read_text(encoding="utf-8")
    limit = re.search(r"^MAX_EXPERIMENT_TAG_VAL_LENGTH = (\d+)$", source, re.MULTILINE)
    assert limit is not None
    longest_param = "x" * 250  # MLflow's limit on a parameter's name.
    for num_configs in range(0, 2000, 10):
        configs = [f"lr={index / 10000:g} b=4000 runners=4 \u03bb=0.95" for index in range(num_configs)]
        study = views.shared_views([longest_param] * 100, configs)
        assert max(len(value) for value in study.values()) <= int(limit.group(1))


def test_a_searched_parameter_beyond_the_limit_is_cut_from_the_end() -> None:
    names = [f"p{index}" for index in range(views.MAX_PARALLEL_PARAMS + 5)]
    parallel = state_of(views.shared_views(names)[views.SWEEP])["compareRunCharts"][0]
    assert parallel["selectedParams"] == names[: views.MAX_PARALLEL_PARAMS]


# What the views show.


def test_the_first_chart_is_the_evaluation_return_of_every_configuration_over_env_steps() -> None:
    state = state_of(VIEWS[views.BY_CONFIG])
    chart, section = state["compareRunCharts"][0], state["compareRunSections"][0]
    assert (chart["type"], chart["metricKey"], chart["xAxisKey"]) == ("LINE", "eval/return_mean", "step")
    assert (section["uuid"], section["display"]) == (chart["metricSectionId"], True)
    assert state["groupBy"]["groupByKeys"] == [{"mode": "tag", "groupByData": "config"}]
    assert state["runsHiddenMode"] == "SHOW_ALL"


def test_runs_are_ordered_by_configuration_where_they_are_averaged() -> None:
    for key in (views.BY_CONFIG, views.TIME):
        assert state_of(VIEWS[key])["orderByKey"] == "tags.`config`"


def test_known_configurations_are_collapsed_to_one_row_each() -> None:
    groups = state_of(VIEWS[views.BY_CONFIG])["groupsExpanded"]
    assert groups == {f"tag.config.{config}": False for config in CONFIGS}


def test_the_sweep_shows_searched_parameters_throughput_and_score_of_single_trials() -> None:
    state = state_of(VIEWS[views.SWEEP])
    parallel, scatter = state["compareRunCharts"]
    assert parallel["selectedParams"] == ["lr", "train_batch_size_total"]
    assert parallel["selectedMetrics"] == ["final/env_steps_per_s", "final/score"]
    assert (scatter["xaxis"]["key"], scatter["yaxis"]["key"]) == ("final/env_steps_per_s", "final/score")
    assert "groupBy" not in state


def test_curves_over_time_average_finished_trials_only() -> None:
    state = state_of(VIEWS[views.TIME])
    assert {chart["xAxisKey"] for chart in state["compareRunCharts"]} == {"time-relative"}
    assert state["globalLineChartConfig"]["xAxisKey"] == "time-relative"
    assert state["searchFilter"] == "attributes.status = 'FINISHED'"
    assert state["groupBy"]


def test_curves_over_time_show_single_trials_when_trials_may_stop_early() -> None:
    state = state_of(views.shared_views(["lr"], exploratory=True)[views.TIME])
    assert not {"groupBy", "searchFilter"} & set(state)


@pytest.mark.parametrize("key", VIEWS)
def test_every_chart_has_its_own_id_and_an_open_section(key: str) -> None:
    state = state_of(VIEWS[key])
    ids = [chart["uuid"] for chart in state["compareRunCharts"]]
    opened = {section["uuid"] for section in state["compareRunSections"] if section["display"]}
    assert len(ids) == len(set(ids))
    assert {chart["metricSectionId"] for chart in state["compareRunCharts"]} == opened


# The links.


def test_a_link_opens_the_charts_of_the_model_training_page() -> None:
    path = "#/experiments/7/runs?viewStateShareKey=byconfig&compareRunsMode=CHART&workflowType=machine_learning"
    assert views.view_path("7", "byconfig") == path


def test_a_link_sets_no_search_field_for_the_frontend_would_then_leave_the_view_out(frontend: str) -> None:
    query = views.view_path("1", "byconfig").split("?")[1]
    assert not names_in(frontend, '["searchFilter","orderByKey"') & {part.split("=")[0] for part in query.split("&")}
