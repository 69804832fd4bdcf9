"""What a shell tells MLflow is honoured and checked, or does not reach it."""

import re
from pathlib import Path

import pytest
from mlflow import environment_variables
from mlflow.environment_variables import _EnvironmentVariable

from experiments.contract.mlflow_environment import HONOURED, OWN, check_honoured, keep_out

DEFINED = {
    variable.name for variable in vars(environment_variables).values() if isinstance(variable, _EnvironmentVariable)
}
READ_BY_MLFLOW = {*(name for name in DEFINED if "MLFLOW_" in name), "MLFLOW_EXPERIMENTAL_S3_SIGNATURE_VERSION"}
"""The second is read without a definition."""


def test_of_all_variables_that_mlflow_reads_only_those_that_are_honoured_stay() -> None:
    assert len(READ_BY_MLFLOW) > 250
    assert {*HONOURED} <= {*READ_BY_MLFLOW}
    environment = {
        "PATH": "/bin",
        "AWS_REGION": "x",
        **dict.fromkeys(READ_BY_MLFLOW, "x"),
        "MLFLOW_OF_A_LATER_VERSION": "x",
    }
    said = keep_out(environment)
    assert {*environment} == {"PATH", "AWS_REGION", *HONOURED}
    assert sorted(
        name for line in said for name in line.partition(" are not")[0].partition(" is not")[0].split(", ")
    ) == sorted(
        name for name in {*READ_BY_MLFLOW, "MLFLOW_OF_A_LATER_VERSION"} - {*HONOURED, *OWN} if not name.startswith("_")
    )


def test_what_is_kept_out_is_said_with_the_reason() -> None:
    environment = {
        "MLFLOW_TRACKING_URI": "http://h",
        "MLFLOW_REGISTRY_URI": "http://h",
        "MLFLOW_RUN_ID": "1",
        "MLFLOW_TRACKING_TOKEN": "t",
    }
    assert keep_out(environment) == [
        "MLFLOW_REGISTRY_URI, MLFLOW_TRACKING_URI are not read: where results go is set by tracking.uri= of run.py "
        "and tracking_uri= of the other commands alone.",
        "MLFLOW_RUN_ID is not read: a study makes its own runs.",
    ]
    assert environment == {"MLFLOW_TRACKING_TOKEN": "t"}
    assert keep_out(environment) == []


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("MLFLOW_TRACKING_INSECURE_TLS", "yes"),
        ("MLFLOW_TRACKING_SERVER_CERT_PATH", "/nowhere.pem"),
        ("MLFLOW_TRACKING_CLIENT_CERT_PATH", ""),
        ("MLFLOW_TRACKING_AWS_SIGV4", "true"),
        ("MLFLOW_ALLOW_HTTP_REDIRECTS", "2"),
        ("MLFLOW_S3_ENDPOINT_URL", "minio:9000"),
        ("MLFLOW_S3_UPLOAD_EXTRA_ARGS", "[]"),
        ("MLFLOW_S3_UPLOAD_EXTRA_ARGS", "{'a': 1}"),
        ("MLFLOW_BOTO_CLIENT_ADDRESSING_STYLE", "host"),
    ],
)
def test_a_value_that_cannot_work_is_refused_with_the_name_of_the_variable(name: str, value: str) -> None:
    with pytest.raises(
        ValueError, match=rf"^{name}={re.escape(value)} in the environment: .*\. Correct it, or unset it\.$"
    ):
        check_honoured({name: value})


def test_certificates_that_are_not_looked_at_are_refused(tmp_path: Path) -> None:
    both = {"MLFLOW_TRACKING_INSECURE_TLS": "true", "MLFLOW_TRACKING_SERVER_CERT_PATH": str(tmp_path)}
    with pytest.raises(ValueError, match="MLFLOW_TRACKING_INSECURE_TLS and MLFLOW_TRACKING_SERVER_CERT_PATH are both"):
        check_honoured(both)
    check_honoured(
        {**both, "MLFLOW_TRACKING_INSECURE_TLS": "false", "MLFLOW_TRACKING_USERNAME": "me", "MLFLOW_S3_IGNORE_TLS": "1"}
    )
