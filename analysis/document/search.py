"""The sections on a search: what it tried and found, what is confirmed of it, and the lineage of a population."""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from analysis.document.parts import MODERATED, Drawn, Section, figure_of
from analysis.document.product import SETTINGS, named_settings, sentences
from analysis.evidence import Evidence
from analysis.load import Study
from analysis.plots import lineage as family
from analysis.plots import product as factors
from analysis.plots import search_confirmed, search_progress, style
from analysis.questions import search as questions
from analysis.questions.decision import decision_of
from analysis.questions.labels import FORMS, WORDS, code, interval_of, shown
from analysis.questions.lineage import is_population, schedule
from analysis.questions.lineage import lineage as lineage_of
from analysis.questions.product import product_of
from experiments.contract.words import plural


def search(study: Study, runs: pd.DataFrame) -> Section:
    """The finds of a search on an environment."""
    sentences = search_sentences(runs, study.curves, study.base, study.objectives)
    if study.earlier:
        sentences.insert(1, earlier_sentence(study.earlier))
    return Section("search", "What the search found", tuple(sentences), tuple(_search_figures(study, runs)))


def _search_figures(study: Study, runs: pd.DataFrame) -> list[Drawn]:
    progress, confirmed = questions.progress(runs, study.curves), questions.winners_curse(runs, study.base)
    target = float(runs["target"].iloc[0])
    ax = search_progress.plot(progress, confirmed, None if np.isnan(target) else target)
    members = is_population(runs)
    seeds = runs[runs["exploratory"].astype(bool)].groupby("config", observed=True)["seed"].nunique()
    known = confirmed.loc[confirmed["num_seeds"] > 0, "num_seeds"]
    each = "a generation of a member each" if members else f"{how_many(seeds, 'seed')} per configuration"
    what = f"What the trials of the search came to ({each}), against the env steps spent by then"
    if known.empty:
        return [Drawn("search-progress", figure_of(ax), f"{what}. {style.caption(study.name, seeds, '')}")]
    caption = style.caption(study.name, known, MODERATED)
    curse = (
        "The winner's curse: mean score in the search, over the seeds that finished there, "
        "against mean score on held-out seeds."
    )
    if members:
        curse = (
            "Mean score of the members that ended with a configuration, whose weights may have gone through others, "
            "against mean score from scratch with this configuration alone, on held-out seeds."
        )
    return [
        Drawn(
            "search-progress", figure_of(ax), f"{what}; at the right, what was confirmed on held-out seeds. {caption}"
        ),
        Drawn("search-confirmed", figure_of(search_confirmed.plot(confirmed)), f"{curse} {caption}"),
    ]


def product(study: Study, evidence: Evidence) -> Section | None:
    """Env steps to target times seconds an env step; None of a study that did not measure them apart.

    Args:
        study: Finished or not.
        evidence: All its trials on an environment.
    """
    found = product_of(evidence)
    if found is None:
        return None
    concluding, config = evidence.concluding, str(found.table["config"].iloc[0])
    if not concluding.runs.empty:
        config = decision_of(concluding).chosen or config
    layouts, figures = found.beside(config), []
    if len(layouts) > 1:
        what = (
            "Env steps to target, env steps/s and their product in every layout, runners x environments of each, at "
            f"the learning settings of `{config}`, which is highlighted."
        )
        drawn = figure_of(factors.panels(layouts, config))
        figures.append(Drawn("product", drawn, f"{what} {_predicted(study, layouts)}"))
    settings = named_settings(found)
    if len(settings) > 1:
        drawn = figure_of(factors.panels(settings, config, SETTINGS))
        what = "The same of every learning rate and batch that was tried, in the layout in which each is the soonest."
        figures.append(Drawn("learning-settings", drawn, f"{what} {_predicted(study, settings)}"))
    return Section("product", "What reaches the target soonest", tuple(sentences(found, config)), tuple(figures))


def _predicted(study: Study, rows: pd.DataFrame) -> str:
    """What the numbers of rows of a product rest on, for a caption."""
    seeds = how_many(rows["num_seeds"], "seed")
    return f"Study {study.name}; {seeds} for the env steps of a learning setting; 90% intervals, of draws from both."


def lineage(study: Study, runs: pd.DataFrame) -> Section:
    """How the members of a population came to what they are."""
    tree = lineage_of(runs)
    caption = (
        f"What each member came to, generation by generation. Study {study.name}; a seed per member; no intervals."
    )
    drawn = Drawn("lineage", figure_of(family.plot(tree)), caption)
    return Section("lineage", "Lineage of the population", tuple(lineage_sentences(tree)), (drawn,))


def search_sentences(
    runs: pd.DataFrame, curves: pd.DataFrame, base: str = "", objectives: Sequence[str] = ()
) -> list[str]:
    """The configurations that a search tried, their cost, and how much of its finds is confirmed: Markdown;
    nothing where nothing was searched.

    Args:
        runs: Of one environment, as `analysis.load` gives them.
        curves: Of the same environment, as `analysis.load` gives them.
        base: The base configuration.
        objectives: What the search aimed at; empty if unknown.
    """
    if not runs["exploratory"].any():
        return []
    cost, table = questions.spent(runs, curves), questions.winners_curse(runs, base)
    searched, confirming = cost.loc["search"], cost.loc["confirm"]
    aim = "" if tuple(objectives) in ((), ("score",)) else " and ".join(WORDS[objective] for objective in objectives)
    told = [
        f"{_tried(runs, searched)}: {searched['env_steps']:,} env "
        f"steps.{f' It aimed at {aim}.' if aim else ''}{_ends(searched)}"
    ]
    known = table[table["num_seeds"] > 0]
    if known.empty:
        begun = (
            f" None of the {plural(confirming['num_trials'], 'trial')} that confirm has a score." if len(table) else ""
        )
        return [
            *told,
            f"Nothing is confirmed yet.{begun} The scores of a search flatter what it picks: they are no conclusion.",
        ]
    told.append(
        f"{plural(len(known), 'configuration')} {'was' if len(known) == 1 else 'were'} run again at full budget, "
        f"on {how_many(known['num_seeds'], 'held-out seed')}: {plural(confirming['num_trials'], 'trial')}, "
        f"{confirming['env_steps']:,} env steps.{_ends(confirming)} Conclusions rest on these alone."
    )
    told.append(_curse(runs, known, aim))
    told += [
        f"The base configuration, {code(row['config'])}, has a mean score "
        f"of {shown(interval_of(row, 'confirmed'), FORMS['score'])} over {plural(row['num_seeds'], 'held-out seed')}."
        for row in known[known["is_base"]].to_dict("records")
    ]
    return told


def earlier_sentence(earlier: Sequence[tuple[str, str, float | None]]) -> str:
    """Whether what earlier studies found holds here: Markdown.

    Args:
        earlier: As `Study.earlier` has it, one study or more.
    """
    told = [f"{code(name)} (run {code(run)}), {_held(weight)}" for name, run, weight in earlier]
    return f"The search started from what was found in {'; '.join(told)}."


def _held(weight: float | None) -> str:
    if weight is None:
        return "and whether its order of settings holds here is not recorded"
    if weight == 0:
        return "whose order of settings was not seen to hold here: beyond the first trials it was not used"
    return f"whose order of settings holds here (rank correlation {weight:.2f}), and was used"


def _tried(runs: pd.DataFrame, searched: pd.Series) -> str:
    configurations, trials = (
        plural(searched["num_configurations"], "configuration"),
        plural(searched["num_trials"], "trial"),
    )
    if is_population(runs):
        return (
            f"A population of {plural(searched['num_seeds'], 'member')} tried {configurations} in {trials}, "
            "a generation of a member each"
        )
    seeds = runs[runs["exploratory"].astype(bool)].groupby("config", observed=True)["seed"].nunique()
    return f"The search tried {configurations} in {trials}, {how_many(seeds, 'seed')} each"


def _curse(runs: pd.DataFrame, known: pd.DataFrame, aim: str) -> str:
    """How much the search flattered those that were picked because they led."""
    picked = known[~known["is_base"] & known["searched"].notna()]
    if picked.empty:
        return "None of those that were picked has a score of the search to compare with."
    if (error := questions.search_error(runs, picked)) is None:
        return "Those that were picked have no held-out seed in common to compare with the search."
    searched, (off, num_seeds) = picked["searched"].mean(), error
    if off.high < 0:
        curse = (
            "which may be the winner's curse, or what earlier settings gave the weights"
            if is_population(runs)
            else "the winner's curse"
        )
        verdict = f", {curse}"
    elif off.low > 0:
        verdict = ", so the search did not flatter them"
    else:
        verdict = ", which may be chance" if np.isfinite(off.low) else ", without an interval"
    form, counts, several = FORMS["score"], picked["num_search_seeds"], len(picked) > 1
    each = " each" if several else ""
    after = f"{searched + off.estimate:{form}} on {plural(num_seeds, 'held-out seed')}"
    if is_population(runs):
        which = f"the {len(picked)} configurations that were picked" if several else "the configuration that was picked"
        told = (
            f"The members that ended with {which} scored {searched:{form}} (mean "
            f"of {how_many(counts, 'member')}{each}), with weights that may have gone through other settings before. "
            f"Trained from scratch with these settings alone, {'they' if several else 'it'} scored {after}"
        )
    else:
        who = (
            f"{len(picked)} configurations that were picked because they"
            if several
            else "configuration that was picked because it"
        )
        led = f"led by {aim}" if aim else "led"
        told = (
            f"The {who} {led} scored {searched:{form}} in the search "
            f"(mean of {how_many(counts, 'seed')}{each}) and {after}"
        )
    return f"{told}: a difference of {shown(off, '+' + form)}{verdict}."


def _ends(cost: pd.Series) -> str:
    """How trials ended that did not use their whole budget."""
    open_ = cost["num_trials"] - cost["num_finished"] - cost["num_stopped"] - cost["num_failed"]
    counts = {"stopped early": cost["num_stopped"], "failed": cost["num_failed"], "without an end": open_}
    words = [f"{number} {word}" for word, number in counts.items() if number]
    return f" Of the trials, {', '.join(words)}." if words else ""


def lineage_sentences(tree: pd.DataFrame) -> list[str]:
    """How a population went: Markdown; nothing where there was none.

    Args:
        tree: From `lineage`.
    """
    if tree.empty:
        return []
    members, newest, copies = tree["member"].nunique(), int(tree["generation"].max()), int(tree["copied"].sum())
    size = (
        f"{plural(1 + newest, 'generation')} ({plural(len(tree), 'trial')}), "
        f"to {int(tree['env_steps'].max()):,} env steps"
    )
    told = [
        f"{plural(members, 'member')}, each with a seed of its own, trained side by side for {size}. "
        f"Between generations, {plural(copies, 'time')} in all, one of the worst took over the weights "
        "of one of the best, and its settings, varied."
    ]
    last = tree[tree["is_last"]]
    if last.empty:
        return [*told, "No generation has ended as a whole yet."]
    name = code(f"g={last['generation'].iloc[0]}")
    told[0] += _founders(tree, last, name)
    best = last[last["is_best"]]
    if best.empty:
        return [*told, f"No member has a score at the end of {name}."]
    score = best["score"].iloc[0]
    alike = int((last["score"] == score).sum()) - 1
    told.append(
        f"The best at the end of {name} is member {best['member'].iloc[0]}, with a score of {score:{FORMS['score']}} "
        f"(one seed, so no interval{f'; {alike} more end with the same score' if alike else ''}). "
        f"{_path(schedule(tree))}"
    )
    return told


def _founders(tree: pd.DataFrame, last: pd.DataFrame, name: str) -> str:
    """How many members of the first generation the last one, called `name`, descends from."""
    left = set(last["member"])
    for generation in range(last["generation"].iloc[0], 0, -1):
        parents = tree[(tree["generation"] == generation) & tree["member"].isin(left)]["parent_member"]
        if parents.isna().any():  # whose run was deleted
            return ""
        left = set(parents)
    return f" The {plural(len(last), 'member')} of {name} descend from {len(left)} of `g=0`."


def _path(stretches: pd.DataFrame) -> str:
    first = stretches.iloc[0]
    if len(stretches) == 1 and not first["start_env_steps"]:
        return f"It was no copy, and kept its settings: {code(first['settings'])}."
    words = [
        f"{code(row['settings'])} up to {row['env_steps']:,} env steps as member {row['member']}"
        + (f", a copy of member {row['parent_member']}" if pd.notna(row["parent_member"]) else "")
        for row in stretches.to_dict("records")
    ]
    # where a parent's run was deleted
    since = f", from {first['start_env_steps']:,} env steps on" if first["start_env_steps"] else ""
    return (
        f"Its weights went through a schedule of settings{since}: {'; then '.join(words)}. "
        "A confirmation takes only the last of these."
    )


def seeds_named(runs: pd.DataFrame, planned: Sequence[int]) -> str:
    """The seeds of a study in words: `0, 1, 2`; of a search those that were run, by what they are for.

    Args:
        runs: As `analysis.load` gives them.
        planned: Seeds of a study that does not search.
    """
    exploratory = runs["exploratory"].astype(bool)
    if not exploratory.any():
        return ", ".join(map(str, planned))
    searched, held_out = (
        ", ".join(map(str, sorted(runs.loc[rows, "seed"].unique()))) for rows in (exploratory, ~exploratory)
    )
    return f"{searched} in the search; {held_out or 'none yet'} held out, to confirm"


def how_many(counts: pd.Series, what: str) -> str:
    """Numbers in a sentence: `5 seeds`, `1 to 3 seeds`.

    Args:
        counts: One or more.
        what: Is counted, in the singular.
    """
    least, most = int(counts.min()), int(counts.max())
    return plural(most, what) if least == most else f"{least} to {plural(most, what)}"
