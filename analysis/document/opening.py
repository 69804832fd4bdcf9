"""The one figure beside an answer, which shows what it says."""

import numpy as np

from analysis.document.parts import MODERATED, Drawn, figure_of
from analysis.document.product import SETTINGS, named_settings
from analysis.evidence import Evidence
from analysis.load import Study
from analysis.plots import learning_curves, style
from analysis.plots import product as factors
from analysis.questions import convergence
from analysis.questions.decision import decision_of
from analysis.questions.product import product_of


def opening(study: Study, evidence: Evidence) -> Drawn | None:
    """The recommended configuration beside the runner-up and the base: their learning curves, or what was predicted of
    them where seconds decide.

    Args:
        study: Finished or not.
        evidence: All of its trials on an environment.

    Returns:
        None where nothing was chosen, or nothing learns.
    """
    concluding = evidence.concluding
    if concluding.runs.empty or concluding.is_measured:
        return None
    decision = decision_of(concluding)
    if not decision.chosen:
        return None
    product = product_of(evidence)
    if product is not None and len(settings := named_settings(product)) > 1:
        figure = figure_of(factors.plot(settings, chosen=str(decision.chosen), of=SETTINGS))
        return Drawn("answer", figure, "Each learning rate and batch in its soonest layout: predicted, 90% intervals.")
    wanted = [decision.chosen, *[config for config in decision.order if config != decision.chosen][:1]]
    wanted += [study.base] if study.base in decision.order and study.base not in wanted else []
    axes = [axis for axis in study.axes if axis in concluding.runs]
    bands = convergence.curve_bands(study.curves, concluding.replicates, axes=axes)
    bands = bands[bands["config"].isin(wanted)] if len(bands) else bands
    if bands.empty:
        return None
    bands["config"] = bands["config"].cat.remove_unused_categories()
    target = float(concluding.runs["target"].iloc[0])
    figure = figure_of(learning_curves.plot(bands, target=None if np.isnan(target) else target))
    beside = ["", ", and the next best", ", the next best, and the base"][min(2, bands["config"].nunique() - 1)]
    what = f"The recommended configuration{beside}."
    return Drawn("answer", figure, f"{what} {style.caption(study.name, bands['num_seeds'], MODERATED)}")
