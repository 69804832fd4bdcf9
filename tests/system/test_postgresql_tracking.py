"""MLflow on PostgreSQL: two drivers at once, and a driver that writes to the database itself."""

import multiprocessing
import time
from collections import Counter
from collections.abc import Iterator
from multiprocessing.process import BaseProcess
from pathlib import Path

import pytest
import yaml

from experiments.study.files.folder import StudyFolder
from tests.support import recorded_studies
from tests.support.mlflow_server import Server
from tests.support.postgresql_server import USER, PostgresServer, postgres_server
from tests.support.suite import ROOT, TINY, RunSuite

NUM_TRIALS = 200


def deployed() -> tuple[dict[str, str], int, int]:
    """Of deploy/kuberay/mlflow.yaml: the server's own variables, its number of workers, and the connections
    that the database takes.
    """
    found = {
        d["metadata"]["name"]: d
        for d in yaml.safe_load_all((ROOT / "deploy/kuberay/mlflow.yaml").read_text())
        if "template" in d["spec"]
    }
    (server,), (database,) = (
        found[name]["spec"]["template"]["spec"]["containers"] for name in ("mlflow", "mlflow-database")
    )
    variables = {v["name"]: v["value"] for v in server["env"] if v["name"].startswith("MLFLOW_")}
    (workers,) = (int(a.removeprefix("--workers=")) for a in server["args"] if a.startswith("--workers="))
    (most,) = (int(a.removeprefix("max_connections=")) for a in database["args"] if a.startswith("max_connections="))
    return variables, workers, most


@pytest.fixture
def database() -> Iterator[PostgresServer]:
    with postgres_server(deployed()[2]) as server:
        yield server


@pytest.fixture
def logged_in(database: PostgresServer, monkeypatch: pytest.MonkeyPatch) -> PostgresServer:
    for name, value in database.environment.items():
        monkeypatch.setenv(name, value)
    return database


def driver(name: str, uri: str, out: Path, resumed: bool = False) -> BaseProcess:
    process = multiprocessing.get_context("spawn").Process(
        target=recorded_studies.drive, args=(name, uri, out, resumed)
    )
    process.start()
    return process


def num_finished(database: PostgresServer, name: str) -> int:
    # a driver has yet to make them
    if None in database.query("SELECT to_regclass('runs'), to_regclass('experiments')")[0]:
        return 0
    ((count,),) = database.query(
        "SELECT count(*) FROM runs r JOIN experiments e ON e.experiment_id = r.experiment_id"
        " WHERE e.name LIKE %s AND r.status = 'FINISHED'",
        f"{name}/%",
    )
    return int(count)


def assert_complete(database: PostgresServer, name: str, out: Path) -> None:
    """Every trial has one run, with every point of its log once and no other."""
    plan, folder = recorded_studies.plan_of_200_trials(name), StudyFolder(out / "studies" / name)
    runs = database.query(
        "SELECT t.value, r.run_uuid, r.status FROM runs r JOIN experiments e ON e.experiment_id = r.experiment_id JOIN "
        "tags t ON t.run_uuid = r.run_uuid AND t.key = 'trial_id' WHERE e.name = %s AND r.lifecycle_stage = 'active'",
        plan.experiment,
    )
    assert sorted(key for key, _, _ in runs) == sorted(trial.folder_name for trial in plan.trials)
    assert {status for _, _, status in runs} == {"FINISHED"}
    points: dict[str, Counter[recorded_studies.Point]] = {run: Counter() for _, run, _ in runs}
    for run, *point in database.query(
        "SELECT m.run_uuid, m.key, m.step, m.timestamp, m.value FROM metrics m JOIN runs r ON r.run_uuid = m.run_uuid"
        " JOIN experiments e ON e.experiment_id = r.experiment_id WHERE e.name = %s AND r.lifecycle_stage = 'active'",
        plan.experiment,
    ):
        points[run][tuple(point)] += 1
    of_trial = {key: run for key, run, _ in runs}
    for trial in plan.trials:
        assert points[of_trial[trial.folder_name]] == recorded_studies.logged_points(folder, trial)


@pytest.mark.nightly
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("through", ["server", "database"])
def test_two_drivers_of_200_trials_each_lose_no_point_and_double_none_although_one_is_killed(
    through: str, logged_in: PostgresServer, tmp_path: Path
) -> None:
    names = [f"{through}-{number}" for number in (1, 2)]
    variables, workers, most = deployed()
    server = Server(tmp_path, logged_in.uri, workers, variables) if through == "server" else None
    uri = server.uri if server else logged_in.uri
    drivers = [driver(name, uri, tmp_path) for name in names]
    most_seen = 0
    try:
        while any(process.is_alive() for process in drivers):
            ((connections,),) = logged_in.query("SELECT count(*) FROM pg_stat_activity WHERE usename = %s", USER)
            most_seen = max(most_seen, connections)
            if (
                drivers[1].is_alive()
                and drivers[1].name != "again"
                and num_finished(logged_in, names[1]) >= NUM_TRIALS // 3
            ):
                drivers[1].kill()
                drivers[1].join()
                drivers[1] = driver(names[1], uri, tmp_path, resumed=True)
                drivers[1].name = "again"
            time.sleep(0.2)
    finally:
        for process in drivers:
            process.kill()
            process.join()
        if server:
            server.kill()
    assert [process.exitcode for process in drivers] == [0, 0]
    assert drivers[1].name == "again"
    for name in names:
        assert_complete(logged_in, name, tmp_path)
    print(f"{most_seen} connections at most")
    assert most_seen < most
    assert "too many clients" not in logged_in.log.read_text()


@pytest.mark.slow
def test_a_study_that_writes_to_the_database_itself_leaves_its_password_nowhere(
    logged_in: PostgresServer, run_suite: RunSuite, tmp_path: Path
) -> None:
    done = run_suite(*TINY, f"tracking.uri={logged_in.uri}", "tracking.tensorboard=true")
    assert done.returncode == 0, done.stdout + done.stderr
    assert num_finished(logged_in, "smoke") == 4
    tables = ("experiments", "experiment_tags", "runs", "tags", "params", "metrics")
    stored = [row for table in tables for (row,) in logged_in.query(f"SELECT t::text FROM {table} t")]
    assert any("config_id" in row for row in stored)
    secret = logged_in.environment["PGPASSWORD"]
    assert not any(secret in row for row in [*stored, done.stdout, done.stderr])
    files = [path for path in (tmp_path / "out").rglob("*") if path.is_file()]
    assert {"plan.json", "config.yaml", "study.json", "events.jsonl"} <= {path.name for path in files}
    assert not any(secret.encode() in path.read_bytes() for path in files)
