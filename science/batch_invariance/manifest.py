"""Where its parts are."""

from experiments.contract.extensions import Manifest

MANIFEST = Manifest(name="batch_invariance", report=".section:BatchReport")
