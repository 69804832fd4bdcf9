"""Where its parts are."""

from experiments.contract.extensions import Manifest

MANIFEST = Manifest(name="sensitivity", report=".section:SensitivityReport", commands={"sensitivity": ".command:main"})
