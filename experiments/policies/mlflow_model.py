"""An exported policy as a model of MLflow's: a folder that `mlflow.pyfunc` loads, without Ray, torch, or pickles."""

import json
import logging
import os
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from experiments.policies.export import Exported
from experiments.policies.onnx_check import session_of

REQUIREMENTS = ("mlflow", "numpy", "onnxruntime")
"""All that the model needs; each is pinned to the version that it was checked with."""

_INTEGERS = (np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64)
_DTYPES = {
    "tensor(float)": np.float32,
    "tensor(double)": np.float64,
    **{f"tensor({np.dtype(kind)})": kind for kind in _INTEGERS},
}


def save_model(exported: Exported, folder: Path) -> None:
    """Make MLflow's folder of a model.

    Its metadata are those of the file; its input example is one observation of zeros,
    or what a recurrent policy begins with.

    Args:
        exported: The policy.
        folder: New; its parent is there.

    Raises:
        OSError: The disk takes no more.
    """
    import mlflow
    from mlflow.models import ModelSignature
    from mlflow.types import Schema, TensorSpec

    session = session_of(exported.path.read_bytes())
    inputs = [_spec(one) for one in session.get_inputs()]
    outputs = [_spec(one) for one in session.get_outputs()]
    named = len(inputs) > 1  # MLflow takes a single tensor as it is
    schemas = [
        Schema([TensorSpec(dtype, shape, name if named else None) for name, dtype, shape in specs])
        for specs in (inputs, outputs)
    ]
    initial = json.loads(exported.metadata.get("initial_state", "{}"))
    example = {name: np.zeros((1, *shape[1:]), dtype) for name, dtype, shape in inputs}
    for name, state in initial.items():
        example[f"state_in.{name}"][:] = state
    os.environ.setdefault("MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR", "false")  # one small file is not worth a bar
    logging.getLogger("mlflow").setLevel(logging.ERROR)
    mlflow.pyfunc.save_model(
        folder,
        python_model=str(Path(__file__).with_name("served.py")),
        artifacts={"policy": exported.path.absolute().as_uri()},  # MLflow reads a path as one, too
        signature=ModelSignature(*schemas),
        input_example=example if named else example["observations"],
        pip_requirements=[f"{name}=={version(name)}" for name in REQUIREMENTS],
        metadata=dict(exported.metadata),
    )


def _spec(tensor: Any) -> tuple[str, np.dtype[Any], tuple[int, ...]]:
    """Name, type and shape of an input or output of onnxruntime's; the batch is -1, as MLflow has it."""
    return (
        tensor.name,
        np.dtype(_DTYPES[tensor.type]),
        tuple(size if isinstance(size, int) else -1 for size in tensor.shape),
    )
