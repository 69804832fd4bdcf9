"""A PostgreSQL database that a driver writes to itself.

Who may, the environment says: PGUSER, PGPASSWORD, ~/.pgpass.
"""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urlparse

from experiments.config.errors import ConfigurationError, first_line
from experiments.contract import INDEX_EXPERIMENT

_TABLES_LOCK = 6_072_131_795
"""Key of the advisory lock under which MLflow's tables are made: any number that no other program takes
in the same database."""

_SECRETS = frozenset({"password", "sslpassword"})

# What can be written to is said without writing. The first table stands for all: they are made together, by one role.
_RIGHTS = """
SELECT current_setting('transaction_read_only') = 'on',
       has_schema_privilege(current_schema(), 'CREATE'),
       has_table_privilege(to_regclass('runs'), 'INSERT')
"""

FILES_BY_SERVER = (
    f"SELECT 1 FROM experiments WHERE name = '{INDEX_EXPERIMENT}' AND artifact_location LIKE 'mlflow-artifacts:%'"
)
"""Of any database of MLflow's: a row if its first study was logged by a tracking server,
which alone takes the files of its experiments."""
BY_SERVER = (
    "has studies that were logged by a tracking server, which alone takes their files. Name it, "
    "tracking.uri=http://host:port, or choose another database"
)


def is_postgresql(uri: str) -> bool:
    """True of the URI of such a database: `postgresql://...`, or `postgresql+driver://...`."""
    return urlparse(uri).scheme.partition("+")[0] == "postgresql"


def check(uri: str, timeout_s: float) -> None:
    """Make sure that a database can be written to, without writing.

    Args:
        uri: `postgresql://host:port/database`, with parameters of the connection after a `?`.
        timeout_s: How long the server may take to take the connection.

    Raises:
        ConfigurationError: It has a password in its address, does not answer, has another version of MLflow's tables,
            or refuses writes.
    """
    from sqlalchemy import make_url
    from sqlalchemy.exc import ArgumentError

    try:
        url = make_url(uri)
    except (ArgumentError, ValueError):
        raise ConfigurationError(
            "tracking.uri: is no address of a database. Try postgresql://host:5432/mlflow."
        ) from None
    if url.password is not None or _SECRETS & set(url.query):
        raise ConfigurationError(
            "tracking.uri: has a password in it, which process lists and records of the study would show. "
            "Leave it out, and set PGPASSWORD in the environment, or keep it in ~/.pgpass."
        )
    if problem := _problem(with_timeouts(uri, timeout_s)):
        raise ConfigurationError(f"tracking.uri={uri}: the database {problem}, or use tracking=sqlite.")


def with_timeouts(uri: str, timeout_s: float) -> str:
    """The URI with limits on how long a server that is gone is waited for: without them,
    minutes for a connection and 15 for a write.
    """
    from sqlalchemy import make_url

    seconds, url = math.ceil(timeout_s), make_url(uri)
    limits = {"connect_timeout": seconds, "tcp_user_timeout": 1000 * seconds, "keepalives_idle": seconds}
    asked = {name: str(value) for name, value in limits.items() if name not in url.query}
    return url.update_query_dict(asked).render_as_string(hide_password=False)


@contextmanager
def one_at_a_time(uri: str) -> Iterator[None]:
    """Lets one driver at a time make MLflow's tables: two that are started at once, on two machines,
    would be in each other's way.
    """
    import sqlalchemy

    engine = sqlalchemy.create_engine(uri)
    try:
        with engine.connect() as connection:
            connection.execute(sqlalchemy.select(sqlalchemy.func.pg_advisory_lock(_TABLES_LOCK)))
            yield  # the lock ends with the connection
    finally:
        engine.dispose()


def _problem(uri: str) -> str:
    """Why a study could not write to a database; empty if it could."""
    import sqlalchemy

    try:
        engine = sqlalchemy.create_engine(uri)
    except ModuleNotFoundError as error:
        return f"cannot be opened ({error}). Install its driver, pip install -r requirements-cluster.txt"
    try:
        with engine.connect() as connection:
            read_only, creates, inserts = connection.execute(sqlalchemy.text(_RIGHTS)).one()
            found, needed = _schema_versions(engine)
            by_server = inserts and connection.execute(sqlalchemy.text(FILES_BY_SERVER)).first()
    except sqlalchemy.exc.SQLAlchemyError as error:
        return (
            f"does not take a connection ({first_line(error.__cause__ or error)}). Start it, "
            "or check the address, PGUSER and PGPASSWORD"
        )
    finally:
        engine.dispose()
    if read_only:
        return "is read-only. Name the server that takes writes"
    if found is None and not creates:
        return "has no tables of MLflow, and this user may not make them. Let its owner start mlflow server on it once"
    if found is not None and found != needed:
        return (
            f"has MLflow's tables in version {found}, and MLflow here needs {needed}. "
            "Back it up, and run mlflow db upgrade"
        )
    if found is not None and not inserts:
        return "does not let this user write. Grant INSERT, UPDATE and DELETE on all its tables"
    return BY_SERVER if by_server else ""


def _schema_versions(engine: object) -> tuple[str | None, str]:
    """The version of MLflow's tables in a database, None if there are none, and the version that MLflow here needs."""
    from mlflow.store.db import utils

    return utils._get_schema_version(engine), utils._get_latest_schema_revision()
