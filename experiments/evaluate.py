"""Evaluates a trained policy: whether it reaches its logged score, how it does on fresh episodes
and in other environments.

python experiments/evaluate.py run=<trial run id> | study=<name or study run id> | checkpoint=<folder>
    [episodes=...] [key=value ...]
"""

import sys
from pathlib import Path

if not __package__:  # run as a file: what is called like the suite's packages in other folders is not taken for them
    sys.path[0] = str(Path(__file__).resolve().parents[1])

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Literal

from analysis.document.command_line import words_of
from analysis.document.commands import Command, NotAWord, Whole
from experiments.config.errors import ConfigurationError
from experiments.config.output_dir import absolute, check_writable
from experiments.contract.words import labelled
from experiments.tracking.place import Place

if TYPE_CHECKING:  # Ray and pandas are imported once the command line is understood: they take seconds
    import pandas as pd
    from rich.console import Console

    from experiments.policies.policy import Policy
    from experiments.study.trained import Trained
    from experiments.tracking.archive import Archive

TIMEOUT_S = 30.0
DEFAULT_EPISODES = 100


@dataclass(frozen=True)
class Asked:
    """The words of a command line.

    Attributes:
        subject: `run`, `study` or `checkpoint`.
        name: Of the run, the study or the checkpoint.
        episodes: On fresh env seeds, in each environment.
        explore: Whether they are played as in training.
        video: Whether the trial's held-out episodes are drawn.
        export: Whether the policy is exported.
        environments: Words for other environments, key to value.
        place: The output folder and the store that keep the studies, and take the results.
        modules: Paths of a person's own, which the trial imports.
        trust: Whether pickles from elsewhere may be opened.
    """

    subject: str
    name: str
    episodes: int
    explore: bool
    video: bool
    export: bool
    environments: Mapping[str, str]
    place: Place
    modules: Sequence[str]
    trust: bool


def evaluated(
    *,
    run: str = "",
    study: str = "",
    checkpoint: str = "",
    episodes: Whole | None = None,
    explore: bool = False,
    video: bool = False,
    export: Literal["onnx"] | None = None,
    tracking_uri: str | None = None,
    output_dir: str | None = None,
    modules: str = "",
    trust: bool = False,
    environments: Annotated[Mapping[str, str], NotAWord] = MappingProxyType({}),
) -> int:
    """Evaluates a trained policy from its checkpoint, without starting Ray.

    On the env seeds of the trial's own final evaluation the policy must reach the logged final/score, to the bit on the
    same kind of CPU. All episodes are in output_dir/policies/RUN_ID/episodes.parquet.

    Other environments with the same spaces are `env=`, a file of conf/env, or `env.id=` one of Gymnasium's;
    `env.env_config.NAME=` and `env.max_episode_steps=` are settings of the environment, of which a list is an axis of a
    grid: `env.env_config.g=[5,10,15]`.

    Args:
        run: A trial, by its run id in MLflow: its newest checkpoint.
        study: A study, by name or run id: of the configuration that it recommends, the best and the median seed.
        checkpoint: A checkpoint's folder, or a trial's: outputs/studies/STUDY/trials/TRIAL.
        episodes: More episodes, on fresh env seeds; default: 0, or 100 where explore or another environment is given.
        explore: true: draw their actions as in training, instead of the deterministic ones.
        video: true: the best, the median and the worst held-out episode as MP4 and as small animations, attached to the
            run in MLflow, and to that of the study where a study is named.
        export: onnx: the policy as one file, from observation to action, which needs no Ray:
            output_dir/policies/RUN_ID/policy.onnx.
        tracking_uri: The store that holds the run: sqlite:////absolute/mlflow.db or http(s)://host:port; default:
            mlflow.db in output_dir.
        output_dir: Where your studies are, and where results go; default: the folder of an embedded store, else
            outputs.
        modules: Files of your own that the trial imported, [my_env.py], as they were then: none is run from a store.
        trust: true: open a checkpoint that is not in output_dir: pickles run whatever code is in them.
        environments: Words for other environments, key to value.
    """
    subjects = {key: name for key, name in (("run", run), ("study", study), ("checkpoint", checkpoint)) if name}
    if len(subjects) != 1:
        raise ConfigurationError(
            f"{' and '.join(f'{key}=' for key in subjects)} are given: name one of them."
            if subjects
            else (
                "name what to evaluate: run=<a trial's run id in MLflow>, study=<name or run id>, "
                "or checkpoint=<folder>."
            )
        )
    least = 1 if explore or environments else 0
    if episodes is not None and episodes < least:
        raise ConfigurationError(f"episodes={episodes}: must be a whole number, 1 or more. Try episodes=100.")
    ((subject, name),) = subjects.items()
    return evaluate(
        Asked(
            subject=subject,
            name=name,
            episodes=DEFAULT_EPISODES * least if episodes is None else episodes,
            explore=explore,
            video=video,
            export=export == "onnx",
            environments=environments,
            place=Place.named(tracking_uri, output_dir),
            modules=words_of(modules),
            trust=trust,
        )
    )


COMMAND = Command(
    "evaluate",
    evaluated,
    ("study=smoke episodes=100", "study=smoke export=onnx", "run=0123456789abcdef0123456789abcdef video=true"),
    "0 the score is the logged one, or there is none to compare with. 1 it is another. 2 refused: nothing was "
    "evaluated. 129 SIGHUP, 130 SIGINT, 143 SIGTERM.",
    (ConfigurationError,),
)


def main(arguments: Sequence[str]) -> int:
    """The command line; its exit code."""
    environments, others = {}, []
    for word in arguments:
        key, equals, value = word.removeprefix("--").partition("=")
        if equals and (key == "env" or key.startswith("env.")):
            environments[key] = value
        else:
            others.append(word)
    return COMMAND.exit_code(others, environments=environments)


def evaluate(asked: Asked) -> int:
    """Evaluate what is asked for; the exit code.

    Raises:
        ConfigurationError: It cannot be evaluated here.
    """
    from experiments.study.cluster.ray_process import prepare

    prepare()

    from experiments.policies.other_environments import is_of_environment

    if unknown := next((key for key in asked.environments if not is_of_environment(key)), None):
        raise ConfigurationError(
            f"{unknown}=: is nothing that an evaluation depends on. There are env=, env.id=, env.max_episode_steps= "
            "and env.env_config.<name>=, for example env.env_config.g=5."
        )
    check_writable(asked.place.output_dir)

    from experiments.study import progress
    from experiments.study.trained import of_folder, of_run
    from experiments.tracking.archive import Archive

    console = progress.console()
    if asked.subject == "checkpoint":
        return _evaluate_one(
            of_folder(absolute(asked.name), asked.place.output_dir, asked.trust), None, "", asked, console
        )
    archive = Archive(asked.place)
    runs = [(asked.name, "")] if asked.subject == "run" else _recommended(asked)
    found = [(of_run(archive, run_id, asked.trust), seed) for run_id, seed in runs]
    return max(_evaluate_one(trained, archive, seed, asked, console) for trained, seed in found)


def _recommended(asked: Asked) -> list[tuple[str, str]]:
    """Run ids of the best and the median seed of the configuration that a study recommends,
    in each of its environments, and which it is.

    Raises:
        ConfigurationError: There is no such study, or it recommends none.
    """
    from analysis import AnalysisError
    from analysis.load import load_study
    from analysis.questions.decision import seeds_to_show

    try:
        study = load_study(asked.name, asked.place.store_uri)
    except AnalysisError as error:
        raise ConfigurationError(str(error)) from None
    found = seeds_to_show(study.evidence)
    if not found:
        raise ConfigurationError(
            f"study={asked.name}: recommends no configuration, since no trial has finished with a score. "
            "Name a run of it: run=<run id>."
        )
    return [(shown.run_id, shown.role) for shown in found]


def _evaluate_one(trained: "Trained", archive: "Archive | None", seed: str, asked: Asked, console: "Console") -> int:
    """Evaluate a policy and say how it did; the exit code."""
    import pandas as pd

    from experiments.config.own_modules import take_recorded
    from experiments.policies.arithmetic import start_as
    from experiments.policies.episodes import HELD_OUT, fresh_episodes, table
    from experiments.policies.other_environments import variants
    from experiments.policies.policy import load
    from experiments.rllib.process_state import ProcessState, packages_of
    from experiments.study.progress import say
    from experiments.study.recording import record_and_attach

    found = trained.checkpoint
    start_as(found.trial.arithmetic, trained.named)
    take_recorded(trained.named, found.trial.modules, asked.modules)
    state = ProcessState(packages_of(found.trial))
    policy = load(found, trained.named)
    around = variants(found.trial, asked.environments)
    name = f"{found.trial.algorithm['name']} on {found.trial.env.name}, {found.trial.name}"
    say(
        console,
        labelled("policy", f"{name}{f' ({seed} seed)' if seed else ''}: checkpoint of {found.env_steps:,} env steps"),
    )
    say(console, labelled("", found.path))
    env_seeds = policy.held_out_seeds()
    held_out = policy.evaluate(env_seeds)
    lines, code = _verdict(trained, float(held_out.returns.mean()), len(env_seeds), state.changed())
    for line in lines:
        say(console, line)
    frames = [table(held_out, env_seeds, around[0], HELD_OUT, explore=False)]
    if asked.episodes:
        frames.append(fresh_episodes(policy, around, asked.episodes, asked.explore))
    episodes = pd.concat(frames, ignore_index=True)
    for line in _where(trained, episodes, asked, console):
        say(console, line)
    if asked.export:
        say(console, _export(trained, policy, asked))
    if asked.video:
        for line in record_and_attach(trained, policy, _folder(trained, asked) / "video", archive, seed):
            say(console, line)
    return code


def _verdict(trained: "Trained", score: float, episodes: int, kept_in_process: Sequence[str]) -> tuple[list[str], int]:
    """The score beside the logged one, in lines, and the exit code."""
    from experiments.tracking.provenance import record
    from experiments.tracking.provenance_changes import changes

    head = labelled("score", f"{score:.6g}, mean return of {episodes} held-out episodes")
    if trained.score is None:
        others = [labelled("", f"also: checkpoint={path}") for path in trained.checkpoint.others]
        return [f"{head}. No score to compare with: {trained.why_no_score}.", *others], 0
    if score == trained.score:
        return [f"{head}: the logged final/score, to the bit"], 0
    changed = [str(change) for change in changes(trained.provenance, record())][:5] if trained.provenance else []
    if kept_in_process:  # by then the trial had trained and been evaluated there
        changed.insert(
            0, f"this is another process, and the code keeps state in its process: {', '.join(kept_in_process[:3])}"
        )
    why = (
        labelled("", f"since then: {'; '.join(changed)}")
        if changed
        else labelled("", "nothing that is recorded has changed since then")
    )
    return [
        f"{head}. The logged final/score is {trained.score:.17g}, this one {score:.17g}: {score - trained.score:+.3g}",
        why,
    ], 1


def _export(trained: "Trained", policy: "Policy", asked: Asked) -> str:
    """Export a policy; where it is, and what was compared."""
    from experiments.policies.export import Origin, export_policy

    commit = str(trained.provenance.get("commit") or "")
    origin = Origin("", trained.study_run or "", trained.run_id or "", commit, trained.checkpoint.env_steps)
    exported = export_policy(policy, _folder(trained, asked) / "policy.onnx", origin)
    far = exported.check.max_difference
    how = f"differ by at most {far:.1e} of their range" if far else "are the same"
    return labelled("exported", f"{exported.path}: its actions {how} on {exported.check.observations:,} observations")


def _folder(trained: "Trained", asked: Asked) -> Path:
    """Where the results of a policy are."""
    return asked.place.output_dir / "policies" / trained.key


def _where(trained: "Trained", episodes: "pd.DataFrame", asked: Asked, console: "Console") -> list[str]:
    """Write the episodes and what there is to see of them; where they are."""
    from analysis.document.page import svg
    from analysis.document.terminal import episodes_table
    from analysis.plots import returns_by_setting
    from experiments.policies.episodes import FRESH, summary

    folder = _folder(trained, asked)
    folder.mkdir(parents=True, exist_ok=True)
    episodes.to_parquet(folder / "episodes.parquet", index=False)
    lines = [labelled("episodes", folder / "episodes.parquet")]
    fresh = episodes[episodes["seeds"] == FRESH]
    if len(fresh):
        found = summary(fresh)
        console.print(episodes_table(found, "exploring" if asked.explore else "deterministic"))
        if len(found) > 1:
            figure = returns_by_setting.plot(found).figure
            # no part of another figure
            (folder / "returns_by_setting.svg").write_bytes(svg(figure))  # type: ignore[arg-type]
            lines.append(labelled("figure", folder / "returns_by_setting.svg"))
    return lines


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
