"""Where its parts are."""

from experiments.contract.extensions import Manifest

MANIFEST = Manifest(name="replay_ratio", report=".section:ReplayRatioReport")
