"""A plan as the terminal shows it before it runs."""

import math
from dataclasses import replace

import gymnasium as gym
from rich.table import Table

from experiments.config import extension
from experiments.config.errors import first_line
from experiments.contract.words import labelled, limited, mib, plural, span
from experiments.limits import mkl
from experiments.limits.arithmetic import PORTABLE
from experiments.limits.processor import this_processor
from experiments.planning.configuration import Configuration
from experiments.planning.disk import kept_bytes
from experiments.planning.estimate import Earlier, study_duration
from experiments.planning.known import Known
from experiments.planning.plan import Plan, concurrency_of
from experiments.planning.resolver import LEAST_REPORTS
from experiments.planning.search_design import SearchDesign
from experiments.rllib.algorithms import on_policy_batch
from experiments.rllib.allowed_spaces import action_scaling
from experiments.rllib.building import environment_of, is_flattened, is_masked, is_unmasked, seen_space
from experiments.rllib.made_environments import spaces
from experiments.rllib.process_state import packages_of
from experiments.search.comparing import Comparing
from experiments.search.joint import Joint
from experiments.search.strategy import Confirming

MOST_LAYOUTS = 4
"""Layouts of a study that are named before it starts; `dry_run=true` lists all."""
HOURS = 2 * 3600.0
"""Seconds from which on a study's time is warned of."""
MOST_CONFIGURATIONS = 60
"""Rows of the plan's table: of more configurations, which a search over many axes has,
it shows the first and the last."""
FASTER = 1.5
"""Times as fast as a study's own profile another one must be, by an estimate, to be named."""


def plan_lines(plan: Plan) -> list[str]:
    """The lines that say what a study is about to do."""
    layouts = list(dict.fromkeys(f"{c.layout}" for c in plan.configurations))
    if len(layouts) > MOST_LAYOUTS:
        layouts = [layouts[0], f"{len(layouts) - 2} others", layouts[-1]]
    return [
        labelled("study", f"{plan.study}: {plan.question}"),
        labelled("trials", summary(plan)),
        *_cost(plan),
        *_few_reports(plan),
        *_constraints(plan),
        *([labelled("start", f"all trials start from {plan.start}; env steps count from there")] if plan.start else []),
        labelled("hardware", f"{plan.hardware}: {plan.cluster}; a trial has {'; or '.join(layouts)}"),
        *(labelled("left out", what) for what in plan.left_out),
        *(
            labelled("env", what)
            for what in dict.fromkeys(what for c in plan.configurations for what in _taken_otherwise(c))
        ),
        *(labelled("env", note) for note in plan.notes),
        labelled("memory", _memory(plan)),
        labelled("checkpoints", _checkpoints(plan)),
        *_processes(plan),
        *_unused(plan),
        labelled(
            "throughput",
            "comparable between trials that run here, each alone: not those that are taken from other studies"
            if plan.exclusive and plan.suite.reuse
            else "comparable: each trial runs alone"
            if plan.exclusive
            else "comparable where it counts: what measures or confirms runs alone, what learns shares the machine"
            if plan.measures
            else "not comparable across studies: trials share the machine",
        ),
    ]


def _unused(plan: Plan) -> list[str]:
    """That this processor is not used as it could be, and how it would be: a line, or none."""
    is_set_elsewhere = plan.cluster.is_joined or plan.suite.bits == PORTABLE
    why = "" if is_set_elsewhere or this_processor().is_intel else mkl.answer()
    if why in ("", mkl.TOO_LATE):  # which is nothing to the processes of trials
        return []
    fix = f". Try {mkl.VARIABLE}={mkl.EVERYWHERE}" if mkl.VARIABLE in why else ""
    return [
        labelled(
            "processor",
            "torch multiplies matrices with MKL's kernels for processors that Intel did not make, slower than need be: "
            f"{why}{fix}",
        )
    ]


def _constraints(plan: Plan) -> list[str]:
    """What a recommendation must keep: a line, or none."""
    most = [limited(name, limit) for name, limit in plan.suite.constraints.given.items()]
    return [labelled("constraints", f"what is recommended has at most {', '.join(most)}")] if most else []


def _few_reports(plan: Plan) -> list[str]:
    """That trials are evaluated too seldom to choose by, and what would help: a line, or none."""
    budget, every = min(c.suite.budget_env_steps for c in plan.configurations), plan.report_every_env_steps
    reports = budget // every
    if plan.is_measured or reports >= LEAST_REPORTS:
        return []
    batch = max(on_policy_batch(c.suite.algorithm) for c in plan.configurations)
    finer = budget // LEAST_REPORTS
    fix = (
        f"report_every_env_steps={finer} makes {LEAST_REPORTS}"
        if batch <= finer and budget % LEAST_REPORTS == 0
        else f"budget_env_steps={LEAST_REPORTS * max(every, batch)} makes {LEAST_REPORTS}"
    )
    return [labelled("reports", f"{plural(reports, 'report')} of a trial, few to choose by: {fix}")]


def _taken_otherwise(configuration: Configuration) -> list[str]:
    """How observations and actions are converted that networks do not take or give as they are,
    and how pictures are read.
    """
    trial = configuration.trial(0)
    (observations, actions), (_, chosen) = spaces(trial.env), spaces(environment_of(trial))
    seen = seen_space(trial)
    name, found = trial.env.name, []
    if is_flattened(trial):
        choices = "" if isinstance(observations, gym.spaces.Box) else ", choices one-hot encoded"
        found.append(f"{name}: observations {observations} become {gym.spaces.flatdim(seen)} floats{choices}")
    if is_masked(trial):
        found.append(f"{name}: its action_mask is applied: networks see what is beside it, and choose what it allows")
    if is_unmasked(trial):
        found.append(
            f"{name}: its action_mask is not applied: your networks observe it, and have to heed it themselves"
        )
    if len(seen.shape or ()) == 3:
        height, width, channels = seen.shape or ()
        found.append(
            f"{name}: observations are pictures, {height} high, {width} wide, with {plural(channels, 'channel')}"
        )
    if chosen != actions:
        found.append(f"{name}: actions {actions} are chosen as {chosen}, and converted to the environment's own")
    if action_scaling(actions):
        found.append(
            f"{name}: actions {actions} are clipped to their bounds and not scaled to them, "
            "since their range is not finite"
        )
    return found


def _processes(plan: Plan) -> list[str]:
    """Whose trials get processes of their own."""
    packages = sorted(set().union(*(packages_of(c.trial(0)) for c in plan.configurations)))
    if not packages:
        return []
    return [
        labelled(
            "processes",
            f"each trial with {' or '.join(packages)} gets one of its own: "
            "state that its code keeps on classes or in modules would reach the next trial. "
            "A resume starts without it, and may then differ in bits (docs/own_files.md)",
        )
    ]


def plan_table(plan: Plan, known: Known | None = None) -> Table:
    """The configurations of a plan; of very many the first and the last.

    Args:
        plan: The study.
        known: The trials that need not run; None where all are to run.
    """
    table = Table(box=None, header_style="bold", pad_edge=False)
    seeds = ",".join(map(str, plan.seeds)) if len(plan.seeds) <= 5 else str(len(plan.seeds))
    of_known = () if known is None else ("known",)
    sizes = ("env steps", "batch (transitions)", "CPUs", "GPUs", "memory")
    for name in ("configuration", "id", "seeds", *of_known, *sizes):
        table.add_column(name, justify="left" if name in ("configuration", "id") else "right")
    omitted = range(MOST_CONFIGURATIONS // 2, len(plan.configurations) - MOST_CONFIGURATIONS // 2)
    for place, c in enumerate(plan.configurations):
        if place in omitted:
            if place == omitted[0]:
                table.add_row(f"... and {len(omitted):,} others")
            continue
        need = c.request.required_resources
        table.add_row(
            c.label,
            c.config_id,
            "by search" if plan.search else seeds,
            *([] if known is None else [str(known.seeds_of(c.label))]),
            "-" if plan.is_measured else f"{c.suite.budget_env_steps:,}",
            f"{c.batch_env_steps:,}",
            f"{need.get('CPU', 0):g}",
            f"{need.get('GPU', 0):g}",
            mib(sum(c.predicted_bytes)),
        )
    return table


def summary(plan: Plan) -> str:
    """The size of a study in a line."""
    size = (
        f"{plan.env_steps_in_all():,} env steps, reported every {plan.report_every_env_steps:,}, "
        f"{plan.concurrency} at once"
    )
    if plan.search:
        return _search_summary(plan, plan.search, f"at most {plural(plan.num_trials, 'trial')}, {size}")
    if plan.suite.stop_at_target:
        size = f"at most {size}"
    repeated = f" x {plan.repeats} repeats" if plan.repeats > 1 else ""
    trials = f"{_points_and_seeds(plan)}{repeated} = {plural(plan.num_trials, 'trial')}"
    if (how := plan.suite.measurement) is None:
        return f"{trials}, {size}"
    measured = f"{how.seconds:g} to {how.max_seconds:g} s after {how.warmup_s:g} s of warm-up"
    return f"{trials}, one at a time, in random order, each measured for {measured}"


def _joint(search: SearchDesign | None) -> Joint | None:
    """The joint search of a study, if it is one."""
    strategy = None if search is None else search.outline
    return strategy.search if isinstance(strategy, Confirming) and isinstance(strategy.search, Joint) else None


def _search_summary(plan: Plan, search: SearchDesign, size: str) -> str:
    suite, strategy = plan.suite, search.outline
    if suite.max_minutes:
        size += f", within {suite.max_minutes:g} minutes"
    if isinstance(strategy, Comparing):
        design = strategy.design
        return (
            f"search=compare: {plural(search.num_compared, 'configuration')} x "
            f"up to {plural(design.most_seeds, 'seed')}, {design.seeds_per_look} "
            f"before each of {plural(design.looks, 'look')}, those of decided pairs left out; "
            f"alpha={design.alpha:g} over all pairs and looks: {size}"
        )
    if not isinstance(strategy, Confirming):
        return f"{_points_and_seeds(plan)}: {size}"
    if (joint := _joint(search)) is not None:
        least, _ = search.least_learning
        fewer = "" if least == joint.num_learning else f"{least} to " if least else "at most "
        learning = f"{fewer}{plural(joint.num_learning, 'trial')} that learn"
        return (
            f"search=joint: {plural(joint.num_layouts, 'layout')} measured alone in "
            f"{plural(joint.num_rounds, 'round')}, {learning}, then the {strategy.top} soonest and the base "
            f"on {plural(len(suite.confirmation.seeds), 'held-out seed')}, one at a time: {size}"
        )
    groups = {"search": suite.search.name, "scheduler": suite.scheduler.name}
    how = " ".join(f"{group}={name}" for group, name in groups.items() if name != "fifo")
    searching = plural(strategy.search.most_trials, "trial") + (" that search" if suite.is_search else "")
    most = "up to " if suite.confirmation.rule == "race" else ""
    held_out = f"{most}{plural(len(suite.confirmation.seeds), 'held-out seed')}"
    confirmed = f"the {strategy.top} best and the base on {held_out}"
    if strategy.shared:
        confirmed += f", then the other configurations on {len(strategy.shared)} of these"
    return f"{how}: {searching}, then {confirmed}: {size}"


def _cost(plan: Plan) -> list[str]:
    """The most that a search takes, as a share of the grid at the study's own seeds;
    nothing of a study that searches nothing.
    """
    search, seeds = plan.search, f"these {len(plan.seeds)} seeds" if len(plan.seeds) > 1 else "this seed"
    if search is None or not plan.suite.is_search:
        return []
    if search.grid_size is None:
        worth = search.env_steps_in_all() / search.env_steps_a_configuration
        return [
            labelled(
                "cost",
                f"at most that of {worth:.3g} random configurations with {seeds}; the space has ranges, and so no grid",
            )
        ]
    share = 100 * search.env_steps_in_all() / search.grid_env_steps
    grid = f"{plural(search.grid_size, 'configuration')}, {search.grid_env_steps:,.0f} env steps"
    is_joint = _joint(search) is not None  # most of whose further seeds are rarely wanted
    least = 100 * sum(search.least_learning) * search.limits().trial_env_steps / search.grid_env_steps
    told = f"{least:.0f}% to {share:.0f}%, at full budgets," if is_joint and least else f"at most {share:.0f}%"
    cost = labelled("cost", f"{told} of the grid at {seeds} ({grid})")
    if search.env_steps_in_all() < search.grid_env_steps or (is_joint and 0 < least < 100):
        return [cost]
    if (from_on := search.paying_seeds) is None:
        return [
            f"{cost}, if little stops early. Try max_env_steps={search.grid_env_steps:.0f}, "
            "or search=grid scheduler=fifo"
        ]
    return [f"{cost}. Try search=grid scheduler=fifo: from {from_on} seeds on the search takes less"]


def _points_and_seeds(plan: Plan) -> str:
    return f"{plural(len(plan.configurations), 'configuration')} x {plural(len(plan.seeds), 'seed')}"


def _memory(plan: Plan) -> str:
    """What trials are predicted to take of the machines' memory, and whether it is what limits their number."""
    sizes = sorted({sum(c.predicted_bytes) for c in plan.configurations})
    each = mib(sizes[0]) + (f" to {mib(sizes[-1])}" if len(sizes) > 1 else "")
    has = f" of {mib(plan.cluster.memory)}" if math.isfinite(plan.cluster.memory) else ""
    at_once = min(plan.concurrency, plan.num_trials)
    most = at_once * sizes[-1]
    if _joint(plan.search):  # those of fewest processes learn side by side, the others run alone
        fewest = min(c.layout.num_env_runners for c in plan.configurations)
        beside = [sum(c.predicted_bytes) for c in plan.configurations if c.layout.num_env_runners == fewest]
        most = max(at_once * max(beside), sizes[-1])
    said = f"about {each} a trial, {'up to ' if len(sizes) > 1 else ''}{mib(most)} at once{has}"
    nodes = tuple(replace(node, memory=math.inf) for node in plan.cluster.nodes)
    by_cpus = concurrency_of(plan.suite, plan.configurations, replace(plan.cluster, nodes=nodes))
    if by_cpus <= at_once:
        return said
    return f"{said}: no more than {at_once} side by side by it, where CPUs would do for {by_cpus}"


def _checkpoints(plan: Plan) -> str:
    """When trials save themselves, and what that takes on disk."""
    if plan.is_measured:
        return "none: a throughput that was interrupted is measured anew"
    spacings = sorted({c.suite.checkpoint.every_env_steps or c.suite.budget_env_steps for c in plan.configurations})
    spacing = " or ".join(f"{every:,}" for every in spacings)
    policy, largest = plan.suite.checkpoint, max(c.checkpoint_bytes for c in plan.configurations)
    of_each = "the newest" if policy.keep == 1 else f"the newest {policy.keep}"
    without = ""
    if not policy.replay and any(c.facts["replays"] for c in plan.configurations):
        without = ". Replay buffers are not saved: a trial that is resumed is not the same (reproducible=false)"
    return (
        f"every {spacing} env steps and at the end, {of_each}{' and the best' if policy.keep_best else ''} kept: "
        f"about {mib(largest)} each, {mib(kept_bytes(plan))} in all{without}"
    )


def time_line(plan: Plan, earlier: Earlier | None, known: Known | None = None) -> str:
    """How long a study will take, from what has run before; an estimate, where nothing of its kind has.

    Args:
        plan: The study.
        earlier: Says how long earlier trials took; None if there is no store yet.
        known: The trials that need not run; None where all are to run.
    """
    try:
        found = study_duration(plan, earlier, 0 if known is None else known.unused_by(plan))
    except Exception as error:  # noqa: BLE001
        # an environment raises what it likes, and an estimate is no reason to end
        return labelled(
            "time",
            "unknown: its environment or its networks could not be timed here "
            f"({type(error).__name__}: {first_line(error)})",
        )
    takes = found.duration
    if plan.is_measured:
        return labelled("time", f"{takes}, to measure and to start runners, one trial at a time")
    warning = _of_hours(plan) if takes.seconds >= HOURS else ""
    about = takes.bound if plan.suite.stop_at_target or plan.search else f"{takes}"
    if not found.estimated:
        return labelled("time", f"{about}, by the speed of earlier trials in this store{warning}")
    return labelled(
        "time",
        f"{about}, an estimate for this machine. "
        "The environment and the networks were timed for a moment, the rest is what it usually takes. "
        f"No trial of {' or '.join(found.estimated)} of about this length has run with this store yet{warning}",
    )


def _of_hours(plan: Plan) -> str:
    """The advice for a study that takes hours."""
    env_steps, minutes = plan.env_steps_in_all() // 4, round(HOURS / 120)
    return (
        ". These are hours. What is interrupted goes on with resume=<its run id>; study=smoke tries "
        "it all in a minute; less of it: fewer seeds=[...] or values of study.space, a smaller budget_env_steps, "
        f"or what is done by max_minutes={minutes} or max_env_steps={env_steps}"
    )


def extension_lines(plan: Plan, past: extension.Past) -> list[str]:
    """The lines of extensions about a plan.

    Args:
        plan: The study.
        past: The metrics of earlier trials.
    """
    parts = [extension.part(one) for one in extension.known() if one.manifest.training]
    return [line for part in parts for line in part.plan_lines(plan, past)]


def faster_line(plan: Plan, other: Plan | None) -> str | None:
    """The way that takes less time, where a hardware profile leaves the machine idle; None where it does not.

    Args:
        plan: The plan of the study.
        other: The same study with `hardware=auto`; None where there is none.
    """
    if other is None or plan.is_measured or other.concurrency <= plan.concurrency:
        return None
    try:
        own, faster = (study_duration(each, None).duration for each in (plan, other))
    except Exception:  # noqa: BLE001  # as above
        return None
    if own.seconds < FASTER * faster.seconds:
        return None
    times, takes = (
        f"{own.seconds / faster.seconds:.2g}",
        f"{span(faster.low, faster.high)} in place of {span(own.low, own.high)}",
    )
    return labelled(
        "faster",
        f"hardware={other.hardware} runs {plural(other.concurrency, 'trial')} at once in place "
        f"of {plan.concurrency}, by an estimate {times} times as fast: {takes}. {_what_differs(plan, other)}",
    )


def _what_differs(plan: Plan, other: Plan) -> str:
    """The differences beside time that another profile makes."""
    first = plan.configurations[0]
    own, theirs, batch = first.layout, other.configurations[0].layout, first.batch_env_steps
    differs = []
    if own.total_envs != theirs.total_envs:
        differs.append(f"has {plural(theirs.total_envs, 'env')} in place of {own.total_envs}")
        if not first.facts["replays"] and not first.facts["asynchronous"]:
            of_each, of_own = batch // theirs.total_envs, batch // own.total_envs
            differs[0] += f" (of {batch:,} env steps a batch {of_each:,} of each, in place of {of_own:,})"
    elif own.num_env_runners != theirs.num_env_runners:
        differs.append(f"samples with {plural(theirs.num_env_runners, 'env runner')} in place of {own.num_env_runners}")
    if bool(own.num_gpus_per_learner) != bool(theirs.num_gpus_per_learner):
        differs.append("learns on the " + ("GPU" if theirs.num_gpus_per_learner else "CPU"))
    if not differs:
        return "What is learned stays the same."
    return f"A trial then {' and '.join(differs)}, so its curves are other ones: compare trials of one profile."
