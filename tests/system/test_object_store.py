"""A study that is kept in an object store: trained, killed, and gone on with by a machine
that has nothing but the address.
"""

import contextlib
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from experiments.config.output_dir import check_kept
from experiments.storage.objects import Objects
from tests.support.commands import run_here
from tests.support.driver import Driver
from tests.support.object_store import environment, s3
from tests.support.outputs import SMALL, assert_same, left_in, run_id, standing
from tests.support.suite import ROOT
from tests.support.two_nodes import CLUSTER, HEAD_ADDRESS, two_nodes
from tests.system.test_search_study import SEARCHES, asked
from tests.system.test_search_study import SMALL as SEARCHED

pytestmark = [pytest.mark.ray, pytest.mark.timeout(1800)]

SMALL_THERE = [word for word in SMALL if not word.startswith("hardware.")]


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    with s3(monkeypatch) as address:
        yield address


def typed_in(folder: Path, address: str, *arguments: str) -> Driver:
    """A study's command, typed on a machine of which only a folder is known: the working directory."""
    folder.mkdir(exist_ok=True)
    words = [sys.executable, str(ROOT / "experiments/run.py"), *(arguments or SMALL)]
    words += ["study.key=night", f"output_dir={address}", "report=false"]
    return Driver.typed(shlex.join(["env", f"--chdir={folder}", *words]), folder / "driver")


def copy_in(folder: Path, address: str) -> Path:
    return folder / "outputs" / "copy-of" / address.replace("://", "/")


def is_under_way(address: str) -> bool:
    """Two trials have reported a checkpoint: after `Started` and `Placed`,
    every second event is of a report with one.
    """
    return sum(name.endswith("/events/000005.jsonl") for name in Objects(address).names()) >= 2


def is_led_by(address: str, driver: Driver) -> bool:
    """Whether a driver has the lease of the study."""
    with contextlib.suppress(FileNotFoundError):
        return Objects(address).read("studies/key-night/lock").startswith(f"process {driver.process.pid} on ".encode())
    return False


@pytest.mark.nightly
def test_a_killed_study_goes_on_from_its_address_alone_to_the_same_bits_and_is_removed_by_it(
    bucket: str, reference: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = f"{bucket}/kept-here"
    typed_in(tmp_path / "first", kept).until(lambda: is_under_way(kept)).kill()
    second = typed_in(tmp_path / "second", kept)
    second.until(lambda: is_led_by(kept, second))
    third = typed_in(tmp_path / "third", kept)
    assert third.end() == 2
    assert f"study.key=night: the study is still running, in process {second.process.pid} on " in third.stderr
    assert second.end() == 0
    finished, going_on, _ = standing(second.stdout)
    assert finished + going_on >= 2  # two at least had a checkpoint
    out = copy_in(tmp_path / "second", kept)
    assert_same(left_in(out / "mlflow.db"), left_in(reference / "mlflow.db"))
    assert f"files       {kept}/studies/key-night" in second.stdout

    monkeypatch.chdir(tmp_path)
    store = f"tracking_uri=sqlite:///{out / 'mlflow.db'}"
    evaluated = run_here("experiments/evaluate.py", f"run={run_id(out, 'trial')}", store, f"output_dir={kept}")
    assert evaluated.returncode == 0, evaluated.stderr
    assert "the logged final/score, to the bit" in evaluated.stdout
    refused = run_here("experiments/evaluate.py", f"run={run_id(out, 'trial')}", store, "output_dir=elsewhere")
    assert refused.returncode == 2
    assert f"Say that it is yours: output_dir={kept}." in refused.stderr
    removed = run_here(
        "experiments/delete.py", f"study={run_id(out, 'study')}", store, f"output_dir={kept}", "yes=true"
    )
    assert removed.returncode == 0, removed.stderr
    assert Objects(bucket).names() == []


@pytest.mark.nightly
@pytest.mark.parametrize("name", ["optuna", "pbt"])
def test_a_search_that_is_killed_goes_on_from_its_address_alone_with_the_same_trials(
    bucket: str, name: str, tmp_path: Path
) -> None:
    words = (*SEARCHED, *SEARCHES[name])

    def is_under_way() -> bool:
        with contextlib.suppress(FileNotFoundError):
            return Objects(bucket).read("studies/key-night/search.jsonl").count(b'"ended": ') >= 2
        return False

    typed_in(tmp_path / "first", bucket, *words).until(is_under_way).kill()
    assert typed_in(tmp_path / "second", bucket, *words).end() == 0
    assert Driver(tmp_path / "whole", *words).end() == 0
    out = copy_in(tmp_path / "second", bucket)
    found, whole = left_in(out / "mlflow.db"), left_in(tmp_path / "whole" / "mlflow.db")
    assert asked(out) == asked(tmp_path / "whole")
    assert found.learned == whole.learned
    assert found.weights == whole.weights
    assert set(found.statuses.values()) == {"FINISHED"}


@pytest.mark.nightly
def test_a_study_on_nodes_that_share_nothing_but_a_store_loses_one_and_ends_to_the_same_bits(
    tmp_path: Path, reference: Path
) -> None:
    server = f"{HEAD_ADDRESS}:5678"
    with two_nodes(tmp_path, shared=False, environment=environment(server)) as nodes, contextlib.ExitStack() as ended:
        store = subprocess.Popen(
            nodes.on_head("moto_server", "-H", HEAD_ADDRESS, "-p", "5678"), stderr=subprocess.DEVNULL
        )
        ended.callback(store.wait)
        ended.callback(store.kill)

        def on_head(code: str) -> str:
            return subprocess.check_output(nodes.on_head("python", "-c", code), text=True)

        patient = "botocore.config.Config(retries={'mode': 'standard', 'max_attempts': 10})"  # until the server listens
        on_head(f"import boto3, botocore; boto3.client('s3', config={patient}).create_bucket(Bucket='bucket')")
        words = [
            *SMALL_THERE,
            "output_dir=s3://bucket/kept",
            f"tracking.uri=sqlite:///{tmp_path / 'mlflow.db'}",
            "report=false",
        ]
        command = [
            "env",
            f"--chdir={tmp_path}",
            sys.executable,
            str(ROOT / "experiments/run.py"),
            *words,
            f"hardware.address={CLUSTER}",
        ]
        study = Driver.typed(shlex.join(nodes.on_head(*command)), tmp_path / "driver")
        names = "from experiments.storage.objects import Objects; print(Objects('s3://bucket/kept').names())"
        study.until(
            lambda: nodes.head.trains() and nodes.second.trains() and on_head(names).count("/events/000005.jsonl") >= 2
        )
        nodes.second.kill()
        assert study.end() == 0
    found = left_in(tmp_path / "mlflow.db")
    assert_same(found, left_in(reference / "mlflow.db"))
    assert sum(found.restarts.values()) == 1


@pytest.mark.slow
def test_a_bucket_that_is_not_there_is_refused_before_anything_is_begun(
    bucket: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    refused = run_here("experiments/run.py", *SMALL, "output_dir=s3://another-bucket/studies", "report=false")
    assert refused.returncode == 2
    assert "output_dir=s3://another-bucket/studies: cannot be written (No such file or directory)" in refused.stderr
    assert not list(tmp_path.iterdir())
    check_kept(copy_in(tmp_path, bucket))
    assert Objects(bucket).names() == []
