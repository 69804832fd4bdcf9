"""The lineage of a population in population-based training: pure functions of a study's frames.

Each generation of a member is a trial of its own: it starts from a checkpoint of its parent,
and a member is known by its seed.
"""

import pandas as pd

from experiments.contract import of_generation

_ENDED = ("finished", "failed")


def is_population(runs: pd.DataFrame) -> bool:
    """True if a population searched.

    Args:
        runs: As `analysis.load` gives them.
    """
    return bool(runs.loc[runs["exploratory"].astype(bool), "generation"].notna().any())


def settings(runs: pd.DataFrame) -> pd.Series:
    """The settings of each trial, in words: its configuration; of a population's, without the number of the generation.

    Args:
        runs: As `analysis.load` gives them.
    """
    labels = runs["config"].astype(str)
    named = zip(labels, runs["generation"], strict=True)
    return labels.mask(
        runs["generation"].notna(),
        [label if pd.isna(g) else label.removesuffix(of_generation("", g)) for label, g in named],
    )


def lineage(runs: pd.DataFrame) -> pd.DataFrame:
    """The trials of a population.

    Args:
        runs: Of one environment, as `analysis.load` gives them.

    Returns:
        A row for each generation of each member, with its index in `runs`; none if no population searched. Columns:
        `member`, its seed; `generation`, from 0; `settings`; `start_env_steps`, `env_steps`, where it starts and ends;
        `status`, `score`; `parent_member`, whose weights it started from, NA in the first generation; `copied`, whether
        that is another member; `is_last`, whether it belongs to the last generation of which all members ended, or
        failed; `is_best`, whether it is the best of those or one of its ancestors.
    """
    found = runs[runs["exploratory"].astype(bool) & runs["generation"].notna()]
    tree = pd.DataFrame(
        {
            "member": found["seed"],
            "generation": found["generation"].astype(int),
            "settings": settings(found),
            "start_env_steps": found["start_env_steps"],
            "env_steps": found["budget_env_steps"],
            "status": found["status"],
            "score": found["score"].astype(float).where(found["status"] == "finished"),
            "parent_member": found["parent"]
            .map(found[found["trial_id"] != ""].set_index("trial_id")["seed"])
            .astype("Int64"),
            "copied": found["copied"].astype(bool),
        }
    )
    num_ended = tree[tree["status"].isin(_ENDED)].groupby("generation").size()
    tree["is_last"] = tree["generation"] == num_ended.index[num_ended == tree["member"].nunique()].max()
    tree["is_best"] = False
    ranked = found[tree["is_last"] & tree["score"].notna()].sort_values(["score", "auc"], ascending=False)
    trial, index_of = (
        "" if ranked.empty else ranked["trial_id"].iloc[0],
        {trial: index for index, trial in found["trial_id"].items()},
    )
    while trial and trial in index_of:
        tree.loc[index_of[trial], "is_best"] = True
        trial = found.loc[index_of[trial], "parent"]
    return tree


def schedule(tree: pd.DataFrame) -> pd.DataFrame:
    """The settings that the best member's weights went through.

    Args:
        tree: From `lineage`.

    Returns:
        A row for each stretch between copies, in their order: `start_env_steps`, `settings`, `member`, `parent_member`
        (NA in the first), `env_steps`.
    """
    path = tree[tree["is_best"]].sort_values("generation")
    stretch = path["copied"].cumsum()
    firsts = path.loc[~stretch.duplicated(), ["start_env_steps", "settings", "member", "parent_member"]]
    return firsts.assign(env_steps=path.loc[~stretch.duplicated(keep="last"), "env_steps"].to_numpy()).reset_index(
        drop=True
    )
