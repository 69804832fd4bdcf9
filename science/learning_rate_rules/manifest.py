"""Where its parts are."""

from experiments.contract.extensions import Manifest

MANIFEST = Manifest(name="learning_rate_rules", report=".section:RulesReport")
