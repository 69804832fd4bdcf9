"""MLflow's models: a policy as a logged model of its trial's run, as a version of a registered model,
and as its champion.
"""

import json
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from analysis.stats.comparisons import unpaired
from analysis.stats.moderated import moderated_intervals

CHAMPION = "champion"
"""The alias of the version to use."""
SCORES, TASK = "confirmed_scores", "task"
"""Tags of a version: the scores of all seeds of its configuration that confirmed it, and what they are scores of.
A version without them, which a person chose, stays champion until a person chooses another."""
ABOUT = (
    f"Trained policies, from observation to action. `{CHAMPION}` is the best of a confirmed recommendation, "
    "or what a person chose."
)
"""Description of a registered model."""
MODEL_ID = "model_id"
"""Tag of a version: its logged model. MLflow's own field of this name is not kept by a database."""


@dataclass(frozen=True)
class PolicyModel:
    """A policy to be logged.

    Attributes:
        trial: The tag `trial_id` of its run.
        name: Of the logged model: unique within the run.
        folder: As `mlflow.pyfunc.save_model` makes it.
        env_steps: That it was trained for.
        registered: The registered model that it becomes a version of; None if it is only logged.
        tags: Of the model, and of the version.
        description: Of the version, a sentence.
    """

    trial: str
    name: str
    folder: Path
    env_steps: int
    registered: str | None = None
    tags: Mapping[str, str] = field(default_factory=dict)
    description: str = ""


def log(client: Any, run: Any, model: PolicyModel, on_server: bool) -> str | None:
    """Log a policy as a model, with the metrics of its run, and register it. Changes nothing the second time.

    Not `mlflow.pyfunc.log_model`: it goes by the process's own tracking URI, and makes another model each time.

    Args:
        client: An `MlflowClient`.
        run: The trial's run in MLflow.
        model: To be logged.
        on_server: Whether a server writes the database, or this process does.

    Returns:
        The version that the registry has of it, asked anew; None if it is not to be registered.

    Raises:
        LookupError: The registry has none, although it took it.
    """
    from mlflow.entities import LoggedModelOutput, Metric
    from mlflow.entities.logged_model_status import LoggedModelStatus
    from mlflow.models import Model
    from mlflow.utils.mlflow_tags import MLFLOW_MODEL_VERSIONS

    run_id, tags = run.info.run_id, dict(model.tags)
    logged = _logged(client, run, model.name)
    if logged is None:
        params = dict(run.data.params)
        logged = client.create_logged_model(
            run.info.experiment_id, model.name, run_id, tags, params, model_type="policy"
        )
    if logged.status != LoggedModelStatus.READY:
        with tempfile.TemporaryDirectory() as folder:
            copy = shutil.copytree(model.folder, Path(folder) / "model")
            described = Model.load(str(copy))
            described.run_id, described.model_id = run_id, logged.model_id
            described.artifact_path = logged.artifact_location
            described.save(str(copy / "MLmodel"))
            client.log_model_artifacts(logged.model_id, str(copy))
        last = [
            points[-1]
            for name in run.data.metrics
            if name.startswith("final/") and (points := client.get_metric_history(run_id, name))
        ]
        of_model = [
            Metric(m.key, m.value, m.timestamp, m.step, logged.model_id, run_id=run_id)
            for m in last
            if m.model_id is None
        ]
        client.log_batch(run_id, metrics=[m for m in of_model if m.step == model.env_steps])
        outputs = client.get_run(run_id).outputs
        if logged.model_id not in {output.model_id for output in (outputs.model_outputs if outputs else ())}:
            client.log_outputs(run_id, [LoggedModelOutput(logged.model_id, model.env_steps)])
        client.finalize_logged_model(logged.model_id, LoggedModelStatus.READY)
    if (name := model.registered) is None:
        return None
    if (version := _version(client, name, logged.model_id)) is None:
        _make_version(client, model, run_id, logged, on_server)
        version = _version(client, name, logged.model_id)
    if version is None:
        raise LookupError(
            f"the registry has no version of {name} for {model.name} of the run {run_id}, although it accepted it"
        )
    found = json.dumps([{"name": name, "version": str(version.version)}])
    client.set_logged_model_tags(logged.model_id, {MLFLOW_MODEL_VERSIONS: found})  # where MLflow's UI looks for it
    return str(version.version)


def make_champion(client: Any, run: Any, model: PolicyModel) -> None:
    """Give a registered policy the alias `champion`, if there is none yet, or if it is significantly better
    than that one.

    Args:
        client: An `MlflowClient`.
        run: The trial's run in MLflow.
        model: Logged and registered, with the tags `SCORES` and `TASK`.
    """
    from mlflow.exceptions import MlflowException

    logged = _logged(client, run, model.name)
    version = _version(client, str(model.registered), logged.model_id)
    try:
        champion = client.get_model_version_by_alias(model.registered, CHAMPION)
    except MlflowException as error:
        if error.error_code not in ("RESOURCE_DOES_NOT_EXIST", "INVALID_PARAMETER_VALUE"):  # the second of a database
            raise
        champion = None
    if champion is None or supersedes(model.tags, champion.tags):
        client.set_registered_model_alias(model.registered, CHAMPION, version.version)


def supersedes(new: Mapping[str, str], champion: Mapping[str, str]) -> bool:
    """True if a policy's configuration is significantly better than the champion's, by the seeds that confirmed each.

    Args:
        new: Tags of the policy's version.
        champion: Tags of the version that is champion now.

    Returns:
        False as well where they are not comparable: on another task, or without confirmed scores.
    """
    if SCORES not in champion or new[TASK] != champion.get(TASK):
        return False
    return significantly_better(json.loads(new[SCORES]), json.loads(champion[SCORES]))


def significantly_better(new: Sequence[float], old: Sequence[float]) -> bool:
    """True if the mean of some scores is above that of others: the 95% interval of the difference is above 0
    (Welch's t, moderated).

    Args:
        new: Of each seed.
        old: Likewise; the seeds have nothing to do with each other.
    """
    values = np.full((2, max(len(new), len(old))), np.nan)
    values[0, : len(new)], values[1, : len(old)] = new, old
    return bool(unpaired(moderated_intervals(values), 0, 1).low[0] > 0)


def _logged(client: Any, run: Any, name: str) -> Any:
    found = client.search_logged_models(
        [run.info.experiment_id], f"source_run_id = '{run.info.run_id}' AND name = '{name}'"
    )
    return found[0] if found else None


def _version(client: Any, registered: str, model_id: str) -> Any:
    found = client.search_model_versions(f"name = '{registered}'")
    return next((version for version in found if version.tags.get(MODEL_ID) == model_id), None)


def _make_version(client: Any, model: PolicyModel, run_id: str, logged: Any, on_server: bool) -> None:
    from mlflow.exceptions import MlflowException

    try:
        client.create_registered_model(model.registered, description=ABOUT)
    except MlflowException as error:
        if error.error_code != "RESOURCE_ALREADY_EXISTS":
            raise
    # A database's own client looks for models:/ in the process's tracking store, which is another one.
    source = f"models:/{logged.model_id}" if on_server else logged.artifact_location
    known = {**model.tags, MODEL_ID: logged.model_id}
    client.create_model_version(
        model.registered,
        source,
        run_id,
        known,
        description=model.description,
        await_creation_for=0,
        model_id=logged.model_id,
    )
