"""Where its parts are."""

from experiments.contract.extensions import Manifest

MANIFEST = Manifest(name="network_width", training=".training:NetworkWidth", report=".section:WidthReport")
