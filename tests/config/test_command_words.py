"""The words of a study's command line that are Hydra's, and those that stand for several studies."""

from pathlib import Path

import pytest

from experiments.config.choices import files_of
from experiments.config.command_words import as_shown, check_one, composed, jobs, read
from experiments.config.errors import ConfigurationError
from tests.support.commands import run_here


@pytest.mark.parametrize(
    ("word", "fix"),
    [
        (
            "algorithm=ppo,dqn",
            "-m algorithm=ppo,dqn. To compare them in one study: 'study.space={algorithm:[ppo,dqn]}'.",
        ),
        ("algorithm.training.lr=1e-3,1e-4", "'study.space={algorithm.training.lr:[1e-3,1e-4]}'"),
        ("seeds=0,1,2", "A list is written in brackets: seeds=[0,1,2]."),
        ("tracking=sqlite,server", "-m tracking=sqlite,server."),
        ("algorithm=glob(*)", "stands for several studies"),
        ("repeats=range(1,3)", "-m repeats=range(1,3)"),
    ],
)
def test_a_comma_without_multirun_is_refused_with_what_to_write(word: str, fix: str) -> None:
    refused = run_here("experiments/run.py", word)
    assert (refused.returncode, refused.stdout) == (2, "")
    assert fix in refused.stderr


@pytest.mark.parametrize(
    ("typed", "question"),
    [
        ('Which rate, and why: "3e-4"?', 'Which rate, and why: "3e-4"?'),
        ('"Which rate, and why?"', "Which rate, and why?"),
        ("null", None),
    ],
)
def test_a_question_is_text_commas_and_all(typed: str, question: str | None) -> None:
    with composed(read([f"study.question={typed}"]).settings, None) as compose:
        assert compose({})["study"]["question"] == question


def test_several_studies_are_all_combinations_in_the_words_that_were_typed() -> None:
    space = "study.space={algorithm.training.lr:[1e-4,3e-4]}"
    assert jobs(["algorithm=ppo,dqn", space, "seeds=[0],[0,1]", "study.question='a, b'"], None) == [
        [f"algorithm={algorithm}", space, f"seeds={seeds}", "study.question='a, b'"]
        for algorithm in ("ppo", "dqn")
        for seeds in ("[0]", "[0,1]")
    ]
    assert jobs(["algorithm=glob(*)"], None) == [[f"algorithm={name}"] for name in files_of("algorithm")]
    assert jobs(["repeats=range(1,3)"], None) == [["repeats=1"], ["repeats=2"]]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--config-path", "/x"], "--config-path: all files are those of conf/"),
        (["-cn", "other"], "--config-name: the only one is conf/config.yaml"),
        (["--experimental-rerun", "x.pickle"], "resume=<study run id>"),
        (["--resolve"], "--resolve: goes with --cfg"),
        (["-p", "study"], "--package: goes with --cfg"),
        (["-m", "--cfg", "job"], "--multirun and --cfg: give only one of them"),
        (["--info", "nothing"], "invalid choice"),
        (["--multi"], None),  # Hydra takes the beginning of a flag
        (["--no-such-flag"], "--no-such-flag: there is no such flag"),
        (["hydra.run.dir=x"], "output_dir=/path"),
        (["hydra.job.chdir=true"], "output_dir=/path"),
        (["hydra/launcher=joblib"], "one after the other"),
        (["+hydra/sweeper=optuna"], "-m takes key=a,b"),
        (["hydra.searchpath=[x]"], "--config-dir FOLDER"),
        (["hydra.verbose=true"], "leave it out"),
    ],
)
def test_what_is_hydras_and_does_nothing_for_a_study_is_refused_with_what_there_is_instead(
    words: list[str], message: str | None
) -> None:
    if message is None:
        assert read(words).is_several
        return
    with pytest.raises(ConfigurationError) as refused:
        read(words)
    assert message in str(refused.value)


def test_what_hydra_shows_has_the_space_that_was_given() -> None:
    shown = run_here(
        "experiments/run.py",
        "study.space={algorithm.training.lr:[1e-4]}",
        "--cfg",
        "job",
        "--package",
        "study.space",
        "env=acrobot",
    )
    assert (shown.returncode, shown.stdout.split()) == (
        0,
        ["#", "@package", "study.space", "algorithm.training.lr:", "-", "0.0001"],
    )
    assert as_shown(["env=acrobot"]) == ["env=acrobot"]


@pytest.mark.parametrize(
    "words", [["--cfg", "all"], ["--cfg", "job", "--resolve"], ["--info", "searchpath"], ["-sc", "install=bash"]]
)
def test_hydra_shows_what_it_is_asked_for(words: list[str]) -> None:
    shown = run_here("experiments/run.py", *words)
    assert shown.returncode == 0
    assert len(shown.stdout.splitlines()) > 5


def test_all_studies_of_a_multirun_are_checked_before_the_first_begins(tmp_path: Path) -> None:
    for words, message in (
        (["algorithm=ppo,pppo"], "pppo"),
        (["repeats=1,-1"], "repeats=-1"),
        (["seeds=[0],[1]", "study.key=a"], "a names one study"),
    ):
        refused = run_here("experiments/run.py", "-m", *words, f"output_dir={tmp_path}")
        assert (refused.returncode, refused.stdout) == (2, "")
        assert message in refused.stderr


@pytest.mark.parametrize(
    ("word", "fix"),
    [
        ("resume=", "resume=<study run id>"),
        ("resume=' '", "resume=<study run id>"),
        ("study.start=''", "study.start=<run id of its trial>"),
        ("study.key=", "must be a word of letters"),
        ("output_dir=", "must not be empty"),
        ("tracking.uri=", "null is the embedded store"),
        ("algorithm=", "names no file of conf/algorithm. There are: appo"),
        ("env.id=", "env.id="),
        ("modules=", "modules=[my_env.py]"),
        ("hardware.address=", "null takes RAY_ADDRESS"),
        ("seeds=", "must be a list, in brackets"),
    ],
)
def test_an_empty_value_is_refused_with_what_to_write(word: str, fix: str, tmp_path: Path) -> None:
    refused = run_here(
        "experiments/run.py", word, *([] if word.startswith("output_dir") else [f"output_dir={tmp_path}"])
    )
    assert refused.returncode == 2
    assert fix in refused.stderr


def test_a_command_line_of_one_study_is_composed() -> None:
    check_one(["seeds=[0,1]", "study.space={algorithm.training.lr:[1e-4,3e-4]}", "study.question='a, b'"])
    with composed(["env=acrobot", "seeds=[4]"], None) as compose:
        assert (compose({})["env"]["name"], compose({})["seeds"]) == ("acrobot", [4])
