"""Who was copied from whom in population-based training: pure functions of a study's frames.

Each generation of a member is a trial of its own: the label of its configuration ends with the generation's number, it starts from a
checkpoint of its parent, and a member is known by its seed.
"""

import pandas as pd

from analysis.questions.labels import FORMS, code

_GENERATION = r" g=(\d+)$"
_ENDED = ("finished", "failed")


def is_population(runs: pd.DataFrame) -> bool:
    """Whether what searched was a population.

    Args:
        runs: As `analysis.load` gives them.
    """
    labels = runs.loc[runs["exploratory"].astype(bool), "config"].astype(str)
    return len(labels) > 0 and bool(labels.str.contains(_GENERATION.replace("(", "(?:")).all())


def settings(runs: pd.DataFrame) -> pd.Series:
    """What each trial was set to, in words: its configuration; of a population's, without the number of the generation.

    Args:
        runs: As `analysis.load` gives them.
    """
    labels = runs["config"].astype(str)
    if not is_population(runs):
        return labels
    return labels.mask(runs["exploratory"].astype(bool), labels.str.replace(_GENERATION, "", regex=True))


def lineage(runs: pd.DataFrame) -> pd.DataFrame:
    """The trials of a population.

    Args:
        runs: Of one environment, as `analysis.load` gives them.

    Returns:
        A row for each generation of each member, with its index in `runs`; none if no population searched. Columns: `member`, its seed;
        `generation`, from 0; `settings`; `start_env_steps`, `env_steps`, where it starts and ends; `status`, `score`; `parent_member`,
        whose weights it started from, NA in the first generation; `copied`, whether that is another member; `is_last`, whether it belongs
        to the last generation of which all members ended, or failed; `is_best`, whether it is the best of those or one of its ancestors.
    """
    found = runs[runs["exploratory"].astype(bool)] if is_population(runs) else runs[:0]
    labels = found["config"].astype(str)
    tree = pd.DataFrame(
        {
            "member": found["seed"],
            "generation": labels.str.extract(_GENERATION, expand=False).astype(int),
            "settings": settings(found),
            "start_env_steps": found["start_env_steps"],
            "env_steps": found["budget_env_steps"],
            "status": found["status"],
            "score": found["score"].astype(float).where(found["status"] == "finished"),
            "parent_member": found["parent"].map(found[found["trial_id"] != ""].set_index("trial_id")["seed"]).astype("Int64"),
            "copied": found["copied"].astype(bool),
        }
    )
    num_ended = tree[tree["status"].isin(_ENDED)].groupby("generation").size()
    tree["is_last"] = tree["generation"] == num_ended.index[num_ended == tree["member"].nunique()].max()
    tree["is_best"] = False
    ranked = found[tree["is_last"] & tree["score"].notna()].sort_values(["score", "auc"], ascending=False)
    trial, index_of = "" if ranked.empty else ranked["trial_id"].iloc[0], {trial: index for index, trial in found["trial_id"].items()}
    while trial and trial in index_of:
        tree.loc[index_of[trial], "is_best"] = True
        trial = found.loc[index_of[trial], "parent"]
    return tree


def schedule(tree: pd.DataFrame) -> pd.DataFrame:
    """What the best member's weights went through.

    Args:
        tree: From `lineage`.

    Returns:
        A row for each stretch between copies, in their order: `start_env_steps`, `settings`, `member`, `parent_member` (NA in the first),
        `env_steps`.
    """
    path = tree[tree["is_best"]].sort_values("generation")
    stretch = path["copied"].cumsum()
    firsts = path.loc[~stretch.duplicated(), ["start_env_steps", "settings", "member", "parent_member"]]
    return firsts.assign(env_steps=path.loc[~stretch.duplicated(keep="last"), "env_steps"].to_numpy()).reset_index(drop=True)


def sentences(tree: pd.DataFrame) -> list[str]:
    """How a population went: Markdown; nothing where there was none.

    Args:
        tree: From `lineage`.
    """
    if tree.empty:
        return []
    members, newest, copies = tree["member"].nunique(), int(tree["generation"].max()), int(tree["copied"].sum())
    size = f"{_number(1 + newest, 'generation')} ({_number(len(tree), 'trial')}), to {int(tree['env_steps'].max()):,} env steps"
    told = [
        f"{_number(members, 'member')}, each with a seed of its own, trained side by side for {size}. Between generations, "
        f"{_number(copies, 'time')} in all, one of the worst took over the weights of one of the best, and its settings, varied."
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
        f"The best at the end of {name} is member {best['member'].iloc[0]}, with a score of {score:{FORMS['score']}} (one seed, so no "
        f"interval{f'; {alike} more end with the same score' if alike else ''}). {_path(schedule(tree))}"
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
    return f" The {_number(len(last), 'member')} of {name} descend from {len(left)} of `g=0`."


def _path(stretches: pd.DataFrame) -> str:
    first = stretches.iloc[0]
    if len(stretches) == 1 and not first["start_env_steps"]:
        return f"It was no copy, and kept its settings: {code(first['settings'])}."
    words = [
        f"{code(row['settings'])} up to {row['env_steps']:,} env steps as member {row['member']}"
        + (f", a copy of member {row['parent_member']}" if pd.notna(row["parent_member"]) else "")
        for row in stretches.to_dict("records")
    ]
    since = f", from {first['start_env_steps']:,} env steps on" if first["start_env_steps"] else ""  # where a parent's run was deleted
    return f"Its weights went through a schedule of settings{since}: {'; then '.join(words)}. A confirmation takes only the last of these."


def _number(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"
