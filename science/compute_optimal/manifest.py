"""Its metrics, and where its parts are."""

from experiments.contract.extensions import Manifest

MANIFEST = Manifest(
    name="compute_optimal",
    metrics={
        "final/update_flops": "floating-point operations of an update, forward and backward, by the networks' shapes",
        "final/action_flops": "floating-point operations of the network that acts, for one observation, likewise",
    },
    training=".training:ComputeOptimal",
    report=".section:ComputeOptimalReport",
    commands={"compute_optimal": ".command:main"},
)
