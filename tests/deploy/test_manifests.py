"""The files of `deploy/`, as far as they can be checked without a cluster."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import anyio.to_thread
import jsonschema
import pytest
import yaml
from ray.autoscaler._private.util import prepare_config, validate_config

from tests.support.suite import ROOT

DEPLOY = ROOT / "deploy"
KUBERAY = sorted((DEPLOY / "kuberay").glob("*.yaml"))
RAY_UP = sorted((DEPLOY / "ray_up").glob("*.yaml"))


def documents(path: Path) -> list[dict[str, Any]]:
    return list(yaml.load_all(path.read_text(), Loader=yaml.CSafeLoader))


def strict(schema: Any) -> Any:
    """A schema of Kubernetes' as plain JSON schema that takes no unknown key, as `kubectl apply` does by default."""
    if isinstance(schema, list):
        return [strict(part) for part in schema]
    if not isinstance(schema, Mapping):
        return schema
    made = {key: strict(part) for key, part in schema.items()}
    if schema.get("x-kubernetes-int-or-string") is True:
        return {"type": ["integer", "string"]}
    if isinstance(schema.get("properties"), Mapping) and schema.get("type") == "object":
        made.setdefault("additionalProperties", bool(schema.get("x-kubernetes-preserve-unknown-fields")))
    return made


@pytest.fixture(scope="module")
def job_schema() -> Any:
    """Of a RayJob. It has those of pods, services and volume claims in it."""
    (definition,) = documents(ROOT / "tests/third_party/kuberay/rayjobs.yaml")
    (version,) = (v for v in definition["spec"]["versions"] if v["name"] == "v1")
    schema = strict(version["schema"]["openAPIV3Schema"])
    schema["properties"]["metadata"] = {"type": "object"}  # Kubernetes' own
    return schema


def at(schema: Any, *keys: str) -> Any:
    for key in keys:
        schema = schema["properties"][key] if key != "[]" else schema["items"]
    return schema


def parts(document: dict[str, Any], job: Any) -> Iterator[tuple[Any, Any]]:
    """What can be checked of a manifest, each with its schema."""
    cluster = at(job, "spec", "rayClusterSpec")
    pod = at(cluster, "headGroupSpec", "template")
    claim = at(pod, "spec", "volumes", "[]", "ephemeral", "volumeClaimTemplate", "spec")
    kind, spec = document["kind"], document["spec"]
    if kind == "RayJob":
        yield document, job
    elif kind == "RayCluster":
        yield spec, cluster
    elif kind == "Service":
        yield spec, at(cluster, "headGroupSpec", "headService", "spec")
    elif kind == "PersistentVolumeClaim":
        yield spec, claim
    elif kind in ("Deployment", "StatefulSet"):
        yield spec["template"], pod
        yield from ((one["spec"], claim) for one in spec.get("volumeClaimTemplates", ()))
    else:
        raise AssertionError(f"no schema for {kind}")


@pytest.mark.parametrize("path", KUBERAY, ids=lambda path: path.name)
def test_a_manifest_has_what_kubernetes_takes(path: Path, job_schema: Any) -> None:
    for document in documents(path):
        for part, schema in parts(document, job_schema):
            jsonschema.Draft202012Validator(schema).validate(part)


def test_a_misspelt_key_deep_in_a_manifest_is_found(job_schema: Any) -> None:
    (job,) = documents(DEPLOY / "kuberay/rayjob.yaml")
    pod = job["spec"]["rayClusterSpec"]["workerGroupSpecs"][0]["template"]["spec"]
    pod["tolerations"][0]["efect"] = "NoSchedule"
    with pytest.raises(jsonschema.ValidationError, match="'efect' was unexpected"):
        jsonschema.Draft202012Validator(job_schema).validate(job)


def test_a_job_has_the_cluster_that_stands_by_itself() -> None:
    (job,), (cluster,) = documents(DEPLOY / "kuberay/rayjob.yaml"), documents(DEPLOY / "kuberay/raycluster.yaml")
    assert job["spec"]["rayClusterSpec"] == cluster["spec"]


def values_of(node: Any, key: str) -> Iterator[Any]:
    """Every value of a key, at any depth."""
    if isinstance(node, Mapping):
        yield from (node[key],) if key in node else ()
        for value in node.values():
            yield from values_of(value, key)
    elif isinstance(node, list):
        for value in node:
            yield from values_of(value, key)


def test_what_a_manifest_names_is_made_by_another_one_or_by_a_command_that_is_given() -> None:
    everything = [document for path in KUBERAY for document in documents(path)]
    claims = {d["metadata"]["name"] for d in everything if d["kind"] == "PersistentVolumeClaim"}
    assert set(values_of(everything, "claimName")) <= claims
    comments = "".join(path.read_text() for path in KUBERAY)
    secrets = {ref["name"] for ref in values_of(everything, "secretKeyRef")} | set(values_of(everything, "secretName"))
    assert secrets == {"mlflow-database", "ray-token"}
    assert all(f"kubectl create secret generic {name} " in comments for name in secrets)
    services = {d["metadata"]["name"] for d in everything if d["kind"] == "Service"}
    (host,) = re.findall(r"tracking\.uri=http://([a-z-]+):5000", *values_of(everything, "entrypoint"))
    assert host in services
    for document in everything:
        if document["kind"] in ("Deployment", "StatefulSet"):
            labels = document["spec"]["template"]["metadata"]["labels"]
            assert document["spec"]["selector"]["matchLabels"] == labels
            assert labels in [d["spec"]["selector"] for d in everything if d["kind"] == "Service"]


def test_the_images_and_rays_version_are_those_of_the_pins() -> None:
    pinned = dict(re.findall(r"^([\w.-]+)==(\S+)$", (ROOT / "requirements.txt").read_text(), re.MULTILINE))
    (version,) = re.findall(r'^version = "(.+)"$', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    everything = [document for path in (*KUBERAY, *RAY_UP) for document in documents(path)]
    assert set(values_of(everything, "rayVersion")) == {pinned["ray"]}
    images = {image.rpartition("/")[2] for image in values_of(everything, "image") if "suite" in image}
    assert images == {f"rl-scaling-suite:{version}"}
    container = (DEPLOY / "Containerfile").read_text()
    assert f"torch=={pinned['torch']}" in container
    assert f"--tag rl-scaling-suite:{version}" in container


def test_the_servers_pools_neither_wait_for_themselves_nor_ask_for_more_than_the_database_has() -> None:
    async def threads_of_a_worker() -> float:
        return anyio.to_thread.current_default_thread_limiter().total_tokens

    manifests = {(d["kind"], d["metadata"]["name"]): d for d in documents(DEPLOY / "kuberay/mlflow.yaml")}
    (server,) = values_of(manifests["Deployment", "mlflow"], "containers")
    (database,) = values_of(manifests["StatefulSet", "mlflow-database"], "containers")
    environment = {variable["name"]: variable.get("value") for variable in server[0]["env"]}
    pool = int(environment["MLFLOW_SQLALCHEMYSTORE_POOL_SIZE"]) + int(
        environment["MLFLOW_SQLALCHEMYSTORE_MAX_OVERFLOW"]
    )
    (workers,) = (int(word.removeprefix("--workers=")) for word in server[0]["args"] if word.startswith("--workers="))
    (most,) = (
        int(word.removeprefix("max_connections="))
        for word in database[0]["args"]
        if word.startswith("max_connections=")
    )
    assert pool > anyio.run(threads_of_a_worker)
    kept_for_the_superuser = 3
    assert workers * 2 * pool <= most - kept_for_the_superuser


@pytest.mark.parametrize("path", RAY_UP, ids=lambda path: path.name)
def test_ray_up_takes_the_file_and_no_misspelt_key(path: Path) -> None:
    (config,) = documents(path)
    validate_config(prepare_config(config))
    (config,) = documents(path)
    with pytest.raises(jsonschema.ValidationError, match="idle_timeout_minute"):
        validate_config(prepare_config({**config, "idle_timeout_minute": 5}))
