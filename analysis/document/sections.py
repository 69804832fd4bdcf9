"""The sections of a study, in their order: what the report shows and the notebooks draw from."""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from analysis.document import learning, speed
from analysis.document.parts import T_INTERVAL, Drawn, Part, Section, figure_of
from analysis.load import Study
from analysis.plots import lineage as family
from analysis.plots import search_confirmed, search_progress, style
from analysis.questions import convergence, lineage
from analysis.questions import search as search_results


def by_env(study: Study, rng: np.random.Generator) -> dict[str, list[Section]]:
    """The sections of each environment of a study.

    Args:
        study: Finished or not.
        rng: For what is drawn at random.
    """
    parts = {
        str(env): part.assign(config=part["config"].cat.remove_unused_categories())
        for env, part in study.runs.groupby("env", observed=True, sort=False)
    }
    return {env: sections(study, part, rng) for env, part in parts.items()}


def across(runs: pd.DataFrame, axes: Sequence[str], rng: np.random.Generator) -> Section:
    """What settings come to over several environments; without a sentence where there is one environment.

    Args:
        runs: As `analysis.load` gives them.
        axes: The searched columns of `runs`.
        rng: For the bootstrap.
    """
    found = convergence.over_environments(runs, axes, rng)
    words = {"iqm": "interquartile mean", "mean": "mean", "median": "median", "optimality_gap": "optimality gap"}
    sentences = []
    for row in found.to_dict("records"):
        numbers = [f"{w} {row[m]:.2f} [{row[f'{m}_low']:.2f}, {row[f'{m}_high']:.2f}]" for m, w in words.items()]
        sentences.append(
            f"`{row['setting']}`: {', '.join(numbers)}; {row['num_envs']} environments, {row['num_seeds']} seeds each or more."
        )
    if sentences:
        sentences.insert(0, "Scores from 0, the lowest possible return, to 1, the target; 95% intervals: stratified bootstrap over seeds.")
    return Section("environments", "Over all environments", tuple(sentences))


def sections(study: Study, runs: pd.DataFrame, rng: np.random.Generator) -> list[Section]:
    """All figures of one environment of a study.

    Args:
        study: Finished or not.
        runs: Its trials on the environment.
        rng: For what is drawn at random.

    Returns:
        The sections that have something to show. Those of a search come first; all others rest on the trials that confirm what it found.
        Where a fixed design was confirmed, what compares its settings rests on its own trials.
    """
    first = [_search(study, runs)] if runs["exploratory"].any() else []
    first += [_lineage(study, runs)] if lineage.is_population(runs) else []
    design, runs = convergence.design(runs), convergence.concluding(runs)
    if not (convergence.replicates(runs)["status"] == "finished").any():
        return first
    part = Part(study, runs, rng)
    of_design = part if len(design) == len(runs) or design.empty else Part(study, design, rng)
    if convergence.is_measured(runs):
        found = [speed.scaling(part), speed.speed(part), speed.bottlenecks(part), speed.health(part)]
    else:
        found = [
            learning.repeats(part),
            learning.lr_rules(of_design),
            learning.learning(part),
            learning.lr_and_batch(of_design),
            learning.seeds(part),
            learning.comparison(part),
            speed.speed(part),
            learning.same_learning(part),
            speed.bottlenecks(part),
            speed.health(part),
        ]
    return [*first, *(section for section in found if section.figures or section.sentences)]


def _search(study: Study, runs: pd.DataFrame) -> Section:
    """What a search found on an environment."""
    sentences = search_results.sentences(runs, study.curves, study.base, study.objectives)
    return Section("search", "What the search found", tuple(sentences), tuple(_search_figures(study, runs)))


def _search_figures(study: Study, runs: pd.DataFrame) -> list[Drawn]:
    progress, confirmed = search_results.progress(runs, study.curves), search_results.winners_curse(runs, study.base)
    target = float(runs["target"].iloc[0])
    ax = search_progress.plot(progress, confirmed, None if np.isnan(target) else target)
    members = lineage.is_population(runs)
    seeds = runs[runs["exploratory"].astype(bool)].groupby("config", observed=True)["seed"].nunique()
    known = confirmed.loc[confirmed["num_seeds"] > 0, "num_seeds"]
    each = "a generation of a member each" if members else f"{search_results.how_many(seeds, 'seed')} per configuration"
    what = f"What the trials of the search came to ({each}), against the env steps spent by then"
    if known.empty:
        return [Drawn("search-progress", figure_of(ax), f"{what}. {style.caption(study.name, seeds, '')}")]
    caption = style.caption(study.name, known, T_INTERVAL)
    curse = "The winner's curse: mean score in the search, over the seeds that finished there, against mean score on held-out seeds."
    if members:
        curse = (
            "Mean score of the members that ended with a configuration, whose weights may have gone through others, against mean score "
            "from scratch with this configuration alone, on held-out seeds."
        )
    return [
        Drawn("search-progress", figure_of(ax), f"{what}; at the right, what was confirmed on held-out seeds. {caption}"),
        Drawn("search-confirmed", figure_of(search_confirmed.plot(confirmed)), f"{curse} {caption}"),
    ]


def _lineage(study: Study, runs: pd.DataFrame) -> Section:
    """How the members of a population came to what they are."""
    tree = lineage.lineage(runs)
    caption = f"What each member came to, generation by generation. Study {study.name}; a seed per member; no intervals."
    drawn = Drawn("lineage", figure_of(family.plot(tree)), caption)
    return Section("lineage", "Who was copied from whom", tuple(lineage.sentences(tree)), (drawn,))
