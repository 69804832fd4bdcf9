"""The part of the suite that runs studies: configuration in, MLflow runs out."""

import importlib.util
from pathlib import Path

from experiments.limits import mkl

mkl.answer()  # before torch is imported, here as in every process of a trial

# a notebook imports what lies beside it first
for _name, _file in {"analysis": "load.py", "conf": "config.yaml"}.items():
    _found = importlib.util.find_spec(_name)
    _places = [] if _found is None else [*(_found.submodule_search_locations or [str(_found.origin)])]
    if _places and not any((Path(place) / _file).exists() for place in _places):
        raise ImportError(
            f"{_places[0]} is imported as {_name}, in place of the suite's package in {Path(__file__).parents[1]}. "
            "Rename it; or work in another folder and take this one out of PYTHONPATH."
        )
