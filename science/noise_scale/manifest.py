"""Its metrics, and where its parts are."""

from experiments.contract.extensions import Manifest

_OF = {
    "": "",
    "_policy": "of the policy network alone, where it shares no weights",
    "_value": "of the value network or the critics alone, likewise",
}
_SQUARE = "estimate of |G|^2, the squared norm of the gradient without noise; mean of those since the last report"
_NOISE = "estimate of S, the trace of the covariance of one row's gradient, likewise"
_SCALE = "gradient noise scale, gradient_noise / gradient_square: rows; absent where gradient_square is not positive"

MANIFEST = Manifest(
    name="noise_scale",
    metrics={
        **{f"learner/gradient_square{suffix}": of or _SQUARE for suffix, of in _OF.items()},
        **{f"learner/gradient_noise{suffix}": of or _NOISE for suffix, of in _OF.items()},
        **{f"learner/noise_scale{suffix}": of or _SCALE for suffix, of in _OF.items()},
        **{
            f"final/gradient_square{suffix}": of or "learner/gradient_square over the whole trial"
            for suffix, of in _OF.items()
        },
        **{
            f"final/gradient_noise{suffix}": of or "learner/gradient_noise over the whole trial"
            for suffix, of in _OF.items()
        },
        **{
            f"final/noise_scale{suffix}": of or "their ratio: rows; absent where final/gradient_square is not positive"
            for suffix, of in _OF.items()
        },
    },
    training=".training:NoiseScale",
    report=".section:NoiseScaleReport",
    formerly="noise_scale",
)
