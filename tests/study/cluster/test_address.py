"""Which Ray a study uses, by what the command line and the environment say. Without Ray."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from experiments.config.errors import ConfigurationError
from experiments.config.output_dir import check_stays
from experiments.config.schema import HardwareSettings
from experiments.study.cluster import ray_process
from experiments.study.cluster.address import address_now, at, composed_at, job_line, joined_line, why_not_joined
from tests.support.commands import run_here

JOB = "RAY_JOB_CONFIG_JSON_ENV_VAR"


@pytest.mark.parametrize(
    ("given", "environment", "found"),
    [
        (None, {}, None),
        (None, {"RAY_ADDRESS": ""}, None),
        (None, {"RAY_ADDRESS": "10.0.0.1:6379"}, "10.0.0.1:6379"),
        (None, {"RAY_ADDRESS": "auto"}, "auto"),
        (None, {"RAY_ADDRESS": "local"}, "local"),
        ("auto", {"RAY_ADDRESS": "10.0.0.1:6379"}, "10.0.0.1:6379"),
        ("auto", {}, "auto"),
        ("local", {"RAY_ADDRESS": "10.0.0.1:6379"}, "local"),
        ("10.0.0.2:6379", {"RAY_ADDRESS": "10.0.0.1:6379"}, "10.0.0.2:6379"),
        ("10.0.0.2:6379", {"RAY_ADDRESS": "ray://10.0.0.1:10001"}, "10.0.0.2:6379"),
    ],
)
def test_the_command_line_is_asked_first_and_then_the_environment(
    given: str | None, environment: dict[str, str], found: str | None
) -> None:
    assert address_now(given, environment) == found


@pytest.mark.parametrize(
    ("environment", "said"),
    [
        ({JOB: "{}"}, "kills it after 3 s"),
        ({JOB: "{}", "RAY_JOB_STOP_WAIT_TIME_S": "20"}, "kills it after 20 s"),
        ({JOB: "{}", "RAY_JOB_STOP_WAIT_TIME_S": "60"}, ""),
        ({"RAY_JOB_STOP_WAIT_TIME_S": "3"}, ""),
    ],
)
def test_a_job_that_would_be_killed_before_it_has_ended_its_runs_says_so(
    environment: dict[str, str], said: str
) -> None:
    line = job_line(environment)
    assert said in line and bool(said) == bool(line)
    if line:
        given = re.search(r"--runtime-env-json='(.*)'", line)
        assert given and json.loads(given[1]) == {"env_vars": {"RAY_JOB_STOP_WAIT_TIME_S": "60"}}


@pytest.mark.parametrize(
    ("address", "reason"),
    [
        (
            "ray://10.0.0.1:10001",
            r"hardware\.address=auto, or submit it as a job: ray job submit --address http://HEAD:8265 -- python",
        ),
        ("http://10.0.0.1:8265", "is the address of a web page, such as Ray's dashboard"),
        ("nonsense", r"must be auto, local or host:port"),
    ],
)
def test_an_address_that_a_study_cannot_be_run_at_is_refused_with_what_works(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, address: str, reason: str
) -> None:
    with pytest.raises(
        ConfigurationError,
        match=f"RAY_ADDRESS={re.escape(address)}: .*{reason}.*hardware.address=local starts Ray on this",
    ):
        address_now(None, {"RAY_ADDRESS": address})
    monkeypatch.setenv("RAY_ADDRESS", address)
    for words in ([], [f"hardware.address='{address}'"]):
        refused = run_here("experiments/run.py", "study=smoke", *words, f"output_dir={tmp_path / 'out'}")
        assert refused.returncode == 2
        assert re.search(reason, refused.stderr)
        assert "Traceback" not in refused.stderr
    assert not (tmp_path / "out").exists()


def test_a_cluster_that_the_environment_names_is_joined_and_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAY_ADDRESS", "127.0.0.1:9")
    words = ("study=smoke", "dry_run=true", f"output_dir={tmp_path}")
    refused = run_here("experiments/run.py", *words)
    assert (
        "at RAY_ADDRESS=127.0.0.1:9, joined; hardware.address=local starts Ray on this machine instead"
        in refused.stdout
    )
    assert refused.returncode == 2
    assert "hardware.address=127.0.0.1:9: no Ray cluster answers there" in refused.stderr
    here = run_here("experiments/run.py", *words, "hardware.address=local")
    assert here.returncode == 0, here.stderr
    assert "this machine has" in here.stdout
    assert "RAY_ADDRESS" not in here.stdout


def test_nothing_is_said_of_a_cluster_that_the_command_line_names() -> None:
    assert joined_line("auto", "10.0.0.1:6379") == joined_line(None, None) == joined_line(None, "local") == ""


def test_a_study_that_ran_elsewhere_can_be_gone_on_with_here_and_at_another_cluster() -> None:
    elsewhere = HardwareSettings("auto", address="10.0.0.1:6379")
    assert at(elsewhere, None) == elsewhere
    assert at(elsewhere, "local").address is None
    assert at(elsewhere, "10.0.0.2:6379").address == "10.0.0.2:6379"


@pytest.mark.parametrize(
    ("address", "found"), [(None, "as it was"), ("local", None), ("10.0.0.2:6379", "10.0.0.2:6379")]
)
def test_every_choice_of_a_space_is_composed_at_the_address(address: str | None, found: str | None) -> None:
    compose: Any = lambda choices: {"hardware": {"name": choices["hardware"], "address": "as it was"}}  # noqa: E731
    assert composed_at(compose, address)({"hardware": "laptop"}) == {"hardware": {"name": "laptop", "address": found}}


def test_a_relative_output_dir_is_refused_in_a_ray_job_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    check_stays("outputs", None, {})
    for kept in ("/shared/outputs", "~/outputs"):
        check_stays(kept, None, {JOB: "{}"})
    check_stays("s3://bucket", "http://127.0.0.1:5000", {JOB: "{}"})
    with pytest.raises(ConfigurationError, match=r"temporary copy.*tracking.uri=http"):
        check_stays("s3://bucket", None, {JOB: "{}"})
    monkeypatch.setenv(JOB, "{}")
    refused = run_here("experiments/run.py", "study=smoke", "output_dir=outputs")
    assert refused.returncode == 2
    assert "output_dir=outputs: is relative to the working directory of a Ray job" in refused.stderr
    assert "output_dir=/path" in refused.stderr


def test_a_conflict_of_runtime_environments_is_called_that(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ray's own check, with what `ray job submit --runtime-env-json` sets."""
    monkeypatch.setenv(JOB, '{"runtime_env": {"env_vars": {"OMP_NUM_THREADS": "4"}}, "metadata": {}}')
    monkeypatch.setattr(ray_process, "_check_address", lambda address: None)
    with pytest.raises(
        ConfigurationError, match=r"runtime environment of the Ray job conflicts.*OMP_NUM_THREADS.*threads_per_process"
    ):
        ray_process._start_ray(HardwareSettings("auto", address="127.0.0.1:9"))


@pytest.mark.parametrize(("has_token", "what"), [(True, "is not the cluster's"), (False, "none was found here")])
def test_a_cluster_that_lets_nobody_in_is_explained_by_its_token(
    monkeypatch: pytest.MonkeyPatch, has_token: bool, what: str
) -> None:
    class Loader:
        @staticmethod
        def instance() -> "Loader":
            return Loader()

        def has_token(self, ignore_auth_mode: bool) -> bool:
            return has_token

    monkeypatch.setattr("experiments.study.cluster.address.AuthenticationTokenLoader", Loader)
    said = why_not_joined(RuntimeError("Failed to connect to Ray cluster at 10.0.0.1:6379."))
    assert what in said
    assert "RAY_AUTH_TOKEN" in said
    assert "~/.ray/auth_token" in said


def test_what_else_keeps_a_cluster_from_being_joined_is_said_as_ray_says_it() -> None:
    assert why_not_joined(ConnectionError("no route")) == "no Ray cluster answers there (no route)."
