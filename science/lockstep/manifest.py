"""Where its parts are."""

from experiments.contract.extensions import Manifest

MANIFEST = Manifest(name="lockstep", report=".section:LockstepReport")
