"""The code of a policy in MLflow's registry.

It lies in the model's own folder, and needs mlflow, numpy and onnxruntime alone.

MLflow runs this file when the model is loaded ("models from code"), so that no pickle is opened.
"""

from typing import Any

import mlflow
import numpy as np
import onnxruntime


class ServedPolicy(mlflow.pyfunc.PythonModel):  # type: ignore[misc]  # MLflow ships no type information
    """Observations to the environment's actions."""

    def load_context(self, context: Any) -> None:
        """Open the exported policy; called once by MLflow."""
        self._session = onnxruntime.InferenceSession(context.artifacts["policy"], providers=["CPUExecutionProvider"])

    def predict(self, context: Any, model_input: np.ndarray, params: Any = None) -> Any:  # MLflow reads this annotation
        """Observations (batch, ...) to actions (batch, ...); of a recurrent policy all inputs by name
        to all outputs by name.
        """
        inputs = model_input if isinstance(model_input, dict) else {"observations": model_input}
        names = [output.name for output in self._session.get_outputs()]
        found = dict(zip(names, self._session.run(names, inputs), strict=True))
        return found["actions"] if len(found) == 1 else found


mlflow.models.set_model(ServedPolicy())
