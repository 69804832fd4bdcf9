"""A PostgreSQL database that a driver writes to itself."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from pydantic import TypeAdapter

from experiments.config.errors import ConfigurationError
from experiments.config.fields import readable_errors
from experiments.config.schema import TrackingSettings
from experiments.contract import INDEX_EXPERIMENT
from experiments.tracking.postgresql import with_timeouts
from experiments.tracking.store import Store
from experiments.tracking.store_address import check_store
from tests.support.mlflow_server import Server, free_port
from tests.support.postgresql_server import PostgresServer, postgres_server
from tests.support.written_studies import start_together


def refusal(uri: str) -> str:
    with pytest.raises(ConfigurationError) as refused:
        check_store(uri, 5.0)
    return str(refused.value)


@pytest.mark.parametrize(
    "uri",
    [
        "postgresql://me:hush@127.0.0.1/mlflow",
        "postgresql+psycopg://me:hu/sh@127.0.0.1/mlflow",
        "postgresql://127.0.0.1/mlflow?password=hush",
        "postgresql://127.0.0.1/mlflow?sslmode=require&sslpassword=hush",
    ],
)
def test_a_password_in_the_address_is_refused_and_not_repeated(uri: str) -> None:
    said = refusal(uri)
    assert "set PGPASSWORD" in said
    assert "hush" not in said and "hu/sh" not in said


@pytest.mark.parametrize("uri", ["postgresql://me:hush@127.0.0.1:99999/mlflow", "http://me:hush@:5000"])
def test_an_address_that_is_none_is_refused_without_its_password(uri: str) -> None:
    with pytest.raises(ConfigurationError, match=r"^tracking\.uri: ") as refused, readable_errors():
        TypeAdapter(TrackingSettings).validate_python({"name": "server", "uri": uri})
    assert "hush" not in str(refused.value)


def test_a_database_that_nobody_answers_is_refused() -> None:
    uri = f"postgresql://127.0.0.1:{free_port()}/mlflow"
    assert f"tracking.uri={uri}: the database does not take a connection" in refusal(uri)


def test_a_missing_driver_is_named_with_its_fix() -> None:
    assert "pip install -r requirements-cluster.txt" in refusal("postgresql+pg8000://127.0.0.1/mlflow")


def test_a_database_of_another_kind_is_refused_with_the_way_that_works() -> None:
    said = refusal("mysql://me:hush@127.0.0.1/mlflow")
    assert "mlflow server --backend-store-uri" in said
    assert "hush" not in said


def test_waiting_for_a_database_is_limited_as_the_person_says_or_by_the_request() -> None:
    given = with_timeouts("postgresql://db/mlflow?connect_timeout=3", 12.5)
    assert given == "postgresql://db/mlflow?connect_timeout=3&keepalives_idle=13&tcp_user_timeout=13000"


@pytest.fixture(scope="module")
def database() -> Iterator[PostgresServer]:
    with postgres_server() as server:
        yield server


@pytest.fixture
def logged_in(database: PostgresServer, monkeypatch: pytest.MonkeyPatch) -> PostgresServer:
    for name, value in database.environment.items():
        monkeypatch.setenv(name, value)
    return database


@pytest.mark.slow
def test_a_database_is_checked_for_everything_that_would_lose_writes(
    logged_in: PostgresServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    uri = logged_in.uri
    check_store(uri, 5.0)  # it has no tables yet, and this user may make them
    assert logged_in.query("SELECT count(*) FROM pg_tables WHERE schemaname = 'public'") == [(0,)]
    with monkeypatch.context() as elsewhere:
        elsewhere.delenv("PGPASSWORD")
        assert "check the address, PGUSER and PGPASSWORD" in refusal(uri)
        elsewhere.setenv("PGPASSWORD", "another")
        assert "check the address, PGUSER and PGPASSWORD" in refusal(uri)

    logged_in.query("CREATE ROLE reader LOGIN PASSWORD 'reads'")
    with monkeypatch.context() as elsewhere:
        elsewhere.setenv("PGUSER", "reader")
        elsewhere.setenv("PGPASSWORD", "reads")
        assert "has no tables of MLflow, and this user may not make them" in refusal(uri)
    Store(uri, tmp_path, 30.0)
    check_store(uri, 5.0)
    logged_in.query("GRANT SELECT ON ALL TABLES IN SCHEMA public TO reader")
    with monkeypatch.context() as elsewhere:
        elsewhere.setenv("PGUSER", "reader")
        elsewhere.setenv("PGPASSWORD", "reads")
        assert "does not let this user write" in refusal(uri)

    logged_in.query("ALTER DATABASE mlflow SET default_transaction_read_only = on")
    assert "is read-only" in refusal(uri)
    logged_in.query("ALTER DATABASE mlflow RESET default_transaction_read_only", database="postgres")
    ((version,),) = logged_in.query("SELECT version_num FROM alembic_version")
    logged_in.query("UPDATE alembic_version SET version_num = 'older'")
    assert "run mlflow db upgrade" in refusal(uri)
    logged_in.query("UPDATE alembic_version SET version_num = %s", version)
    check_store(uri, 5.0)
    server = Server(tmp_path, uri)
    try:
        Store(server.uri, tmp_path, 30.0).experiment(INDEX_EXPERIMENT)
    finally:
        server.kill()
    assert (
        "logged by a tracking server, which alone takes their files. Name it, tracking.uri=http://host:port"
        in refusal(uri)
    )
    logged_in.query("DELETE FROM experiments WHERE name = %s", INDEX_EXPERIMENT)
    Store(uri, tmp_path, 30.0).experiment(INDEX_EXPERIMENT)
    check_store(uri, 5.0)


@pytest.mark.slow
def test_two_drivers_that_begin_at_once_in_an_empty_database_lose_nothing(
    logged_in: PostgresServer, tmp_path: Path
) -> None:
    logged_in.query("DROP SCHEMA public CASCADE")
    logged_in.query("CREATE SCHEMA public AUTHORIZATION suite")
    start_together(logged_in.uri, tmp_path)
    assert logged_in.query(
        "SELECT s.value, r.name, r.status, p.value, m.timestamp FROM runs r JOIN experiments e "
        "ON e.experiment_id = r.experiment_id JOIN tags t ON t.run_uuid = r.run_uuid AND t.key = 'study_run' "
        "JOIN tags s ON s.run_uuid = t.value AND s.key = 'study_folder' JOIN params p ON p.run_uuid = r.run_uuid "
        "JOIN metrics m ON m.run_uuid = r.run_uuid WHERE e.name = 'same' ORDER BY 1, 2"
    ) == [
        (f"/out/same-{study}", f"s={trial}", "FINISHED", study, at_ms)
        for study, at_ms in (("first", 1), ("second", 2))
        for trial in range(3)
    ]
