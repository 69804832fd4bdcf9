"""The sections of a study, in their order: what the report shows and the notebooks draw from."""

from collections.abc import Callable

import numpy as np
import pandas as pd

from analysis import AnalysisError
from analysis.document import importance, learning, search, speed
from analysis.document.extension import across_of, reports, sections_of
from analysis.document.parts import Drawn, Part, Section
from analysis.evidence import Evidence
from analysis.load import Study
from analysis.questions.environments import over_environments
from analysis.questions.labels import interval_of, shown
from analysis.questions.lineage import is_population


def by_env(study: Study, rng: np.random.Generator) -> dict[str, list[Section]]:
    """The sections of each environment of a study.

    Args:
        study: Finished or not.
        rng: For what is drawn at random.
    """
    return {env: sections(study, evidence, rng) for env, evidence in study.evidence.of_envs.items()}


def across(study: Study, runs: pd.DataFrame, rng: np.random.Generator) -> Section:
    """Settings over several environments, and how much tuning they need;
    without a sentence where there is one environment.

    Args:
        study: Finished or not.
        runs: Its trials that conclusions rest on.
        rng: For the bootstrap.
    """
    axes = study.axes
    found = over_environments(runs, axes, rng)
    words = {"iqm": "interquartile mean", "mean": "mean", "median": "median", "optimality_gap": "optimality gap"}
    sentences = []
    for row in found.to_dict("records"):
        numbers = [f"{word} {shown(interval_of(row, measure), '.2f')}" for measure, word in words.items()]
        sentences.append(
            f"`{row['setting']}`: {', '.join(numbers)}; {row['num_envs']} environments, "
            f"{row['num_seeds']} seeds each or more."
        )
    if sentences:
        sentences.insert(
            0,
            "Scores from 0, the lowest possible return, to 1, the target; 95% intervals: "
            "stratified bootstrap over seeds.",
        )
    figures: list[Drawn] = []
    for report in reports():
        told, shown_too = across_of(report, study, runs, rng)
        sentences += told
        figures += shown_too
    return Section("environments", "Over all environments", tuple(sentences), tuple(figures))


def sections(study: Study, evidence: Evidence, rng: np.random.Generator) -> list[Section]:
    """All figures of one environment of a study.

    Args:
        study: Finished or not.
        evidence: Its trials on the environment.
        rng: For what is drawn at random.

    Returns:
        The sections that have something to show. Those of a search come first; all others rest on the trials that
        confirm what it found. Where a fixed design was confirmed, what compares its settings rests on its own trials.
    """
    runs, comparing, measured_apart = evidence.runs, evidence.comparing, search.product(study, evidence)
    evidence = evidence.concluding
    first = [measured_apart] if measured_apart else []
    first += [search.search(study, runs)] if runs["exploratory"].any() else []
    first += [search.lineage(study, runs)] if is_population(runs) else []
    if not (evidence.replicates["status"] == "finished").any():
        return first
    part = Part(study, evidence, rng)
    of_design = part if comparing is evidence else Part(study, comparing, rng)
    if evidence.is_measured:
        own = (speed.scaling, importance.importance, speed.speed, speed.bottlenecks, speed.health)
        found = [section(part) for section in own]
    else:
        found = _of_learning(part, of_design)
    return [*first, *(section for section in found if section.figures or section.sentences)]


def _of_learning(part: Part, of_design: Part) -> list[Section]:
    """The sections of a study in which trials learn: each is made when its turn comes, since they draw at random."""
    own: list[tuple[str, Callable[[Part], Section], Part]] = [
        ("repeats", learning.repeats, part),
        ("sequential", learning.sequence, part),
        ("learning", learning.learning, part),
        ("lr-batch", learning.lr_and_batch, of_design),
        ("importance", importance.importance, of_design),
        ("seeds", learning.seeds, part),
        ("comparison", learning.comparison, part),
        ("speed", speed.speed, part),
        ("runners", learning.same_learning, part),
        ("bottlenecks", speed.bottlenecks, part),
        ("health", speed.health, part),
    ]
    found: list[Section] = []
    of_extensions = reports()
    keys = [key for key, _, _ in own]
    if unknown := next((report for report in of_extensions if report.before not in ("", *keys)), None):
        raise AnalysisError(
            f"the extension {unknown.name}: its report has before = {unknown.before!r}, which is no section. "
            f"There are: {', '.join(keys)}; without it, what it shows comes last."
        )
    for key, section, rests_on in own:
        for report in of_extensions:
            if report.before == key:
                found += sections_of(report, of_design)
        found.append(section(rests_on))
    for report in of_extensions:
        if not report.before:
            found += sections_of(report, of_design)
    return found
