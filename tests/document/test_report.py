"""The report as a file, from hand-made studies; on a real study it is tested with the command line."""

import re
from dataclasses import replace

import pytest

from analysis.report import build, main
from tests.support.commands import assert_refused
from tests.support.report_pages import Page, learning, study_of
from tests.support.study_frames import make_runs, run_again, together, with_status

GRID = {
    "lr": {"x": 1e-3, "y": 1e-3, "z": 1e-2, "w": 1e-2},
    "train_batch_size_total": {"x": 512, "y": 2000, "z": 512, "w": 2000},
}


@pytest.fixture
def undrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Figures are made, and not drawn, which takes half of the time: for what is said in words."""
    monkeypatch.setattr("analysis.report.svg", lambda figure: b"<svg/>")


def test_the_page_stands_alone_and_says_it_all() -> None:
    scores = {
        "x": [300.0, 310.0, 305.0],
        "y": [400.0, 410.0, 405.0],
        "z": [480.0, 490.0, 485.0],
        "w": [100.0, 90.0, 95.0],
    }
    runs = with_status(make_runs(scores, params=GRID, exclusive=False), "w", [2], "failed")
    report = build(study_of(runs, learning(runs), ("lr", "train_batch_size_total")))
    page = Page(report.html)
    assert page.open == []
    assert page.links == []  # nothing is loaded from elsewhere
    assert len(page.images) == len(report.pictures) >= 8
    assert all(b"<svg" in picture for picture in report.pictures.values())
    for words in (
        "Which <b>one</b>?",  # shown as written, not as a tag
        "The 3 others are significantly worse.",
        "confirm=0123456789abcdef",
        "1 of 12 trials failed (out of memory): w s=2.",
        "shared the machine",
        "abc123 with uncommitted changes",
        "2 of 3",
    ):
        assert words in page.text, words


@pytest.mark.usefixtures("undrawn")
def test_a_mask_that_was_not_applied_is_a_caveat() -> None:
    study = study_of(make_runs({"a": [480.0, 470.0]}))
    said = "The observations of mine have an action_mask, which is not applied"
    assert said in Page(build(replace(study, unmasked=("mine",))).html).text
    assert "action_mask" not in Page(build(study).html).text


def test_the_same_study_gives_the_same_page() -> None:
    runs = make_runs({"a": [480.0, 470.0]})
    first, second = (re.sub(r"Written .*? UTC", "", build(study_of(runs, learning(runs))).html) for _ in range(2))
    assert first == second


@pytest.mark.parametrize("status", ["failed", "missing", "running"])
def test_a_study_without_a_finished_trial_still_has_a_page(status: str) -> None:
    runs = with_status(make_runs({"a": [1.0, 2.0]}), "a", [0, 1], status)
    page = Page(build(study_of(runs)).html)
    assert "No answer: no trial finished." in page.text
    assert "2 of 2 trials" in page.text
    assert page.images == []


def test_one_seed_one_configuration_no_curves_and_no_target() -> None:
    page = Page(build(study_of(make_runs({"a": [480.0]}, target=float("nan")))).html)
    assert "a is the only configuration: median score 480.0 over 1 seed." in page.text
    assert "reach the target" not in page.text.split("How the numbers come about")[0]


@pytest.mark.usefixtures("undrawn")
def test_two_environments_have_sections_of_their_own() -> None:
    runs = together(
        make_runs({"a": [480.0, 481.0]}),
        make_runs({"c": [-80.0, -81.0]}, env="acrobot", target=-100.0, score_range=(-500.0, 0.0)),
    )
    page = Page(build(study_of(runs, learning(runs))).html)
    assert "Learning curves: cartpole" in page.text
    assert "Learning curves: acrobot" in page.text
    assert "all: interquartile mean 1.0" in page.text  # both solve their environment: 480 / 475 and 420 / 400
    assert "2 environments, 2 seeds each" in page.text


def test_a_study_with_repeats_says_whether_it_came_out_the_same() -> None:
    once = make_runs({"ppo-cartpole": [400.0 + 7 * (i % 4) + i for i in range(10)]})
    runs, curves = run_again(once, learning(once))
    report = build(study_of(runs, curves))
    page = Page(report.html)
    same = (
        "10 of 10 repeats are the same to the bit as the first run of their seed (ppo-cartpole, "
        "10 seeds x 2 repeats; 40 logged values and"
    )
    assert same in page.text.split("Read with care")[0]
    section = page.text.split("Will it come out the same?")[1].split("Learning curves")[0]
    assert same in section
    for measure in ("score", "area under the learning curve"):
        assert f"Five seeds of ppo-cartpole against five others of its 10, by {measure}" in section
    assert "1 configurations \u00d7 10 seeds \u00d7 2 repeats, 20 of 20 trials finished" in page.text
    assert {"gaps-score.svg", "needed-score.svg", "gaps-auc.svg", "needed-auc.svg"} <= set(report.pictures)
    assert page.open == []


@pytest.mark.usefixtures("undrawn")
def test_without_repeats_there_is_no_such_section() -> None:
    runs = make_runs({"a": [480.0, 470.0]})
    text = Page(build(study_of(runs, learning(runs))).html).text
    assert "come out the same" not in text
    assert "repeat" not in text


@pytest.mark.usefixtures("undrawn")
@pytest.mark.parametrize("failed", [0, 1])
def test_repeats_of_which_none_could_be_compared_are_counted(failed: int) -> None:
    once = make_runs({"a": [480.0, 470.0]})
    runs, curves = run_again(once, learning(once))
    runs.loc[runs["repeat"] == failed, ["status", "score"]] = ["failed", float("nan")]
    text = Page(build(study_of(runs, curves)).html).text
    assert "2 repeats could not be compared" in text


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["stdy=lr_batch"], "'stdy=lr_batch' is not understood. Did you mean study=?"),
        (["lr_batch"], "'lr_batch' is not understood. rl-scaling report --help lists what there is"),
        (["studies=[a,b]", "delta=10"], "delta= is for the report of one study"),
        (["tracking_uri=sqlite:////nowhere/mlflow.db"], "/nowhere/mlflow.db"),
    ],
)
def test_wrong_arguments_are_refused_in_one_line(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert_refused(main, arguments, message, capsys)


def test_what_conclusions_are_drawn_by_can_be_changed_afterwards(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    drawn = []
    monkeypatch.setattr("analysis.report.load_study", lambda *_: study_of(make_runs({"a": [480.0, 470.0]})))
    monkeypatch.setattr("analysis.report.publish", lambda study, path: drawn.append(study.runs) or (build(study), ""))
    monkeypatch.setattr("analysis.report.svg", lambda figure: b"<svg/>")
    assert main(["failure_below=475", "delta=5"]) == 0
    assert "1 of 2 seeds end below 475 or crash: 50%" in capsys.readouterr().out
    assert (drawn[0]["delta"] == 5).all()
    assert main(["delta=0"]) == 2
    assert capsys.readouterr().err == "error: delta=0: must be a number above 0, a return, such as 10.\n"


def test_a_study_of_runners_shows_the_trials_own_process_beside_them() -> None:
    speeds = {0: 24_000.0, 1: 21_000.0, 2: 23_000.0, 4: 18_000.0, 8: 13_000.0}
    noise = (0.98, 1.0, 1.02)
    grid = {f"runners={n} envs={e}": (n, e) for n in speeds for e in (4, 16)}
    runs = make_runs(
        dict.fromkeys(grid, [float("nan")] * 3),
        params={
            "num_env_runners": {c: n for c, (n, _) in grid.items()},
            "num_envs_per_env_runner": {c: e for c, (_, e) in grid.items()},
        },
        env_steps_per_s={c: [speeds[n] * e / 16 * noise[(s + n) % 3] for s in range(3)] for c, (n, e) in grid.items()},
    ).assign(phase="throughput")
    page = build(study_of(runs, axes=("num_env_runners", "num_envs_per_env_runner")))
    said = Page(page.html).text
    assert "Use runners=0 envs=16" in said
    assert "With envs per env runner 16: Without env runners, in the trial's own process, it is 23,997 [" in said
    assert "env steps/s: 1.04 [" in said
    assert "times the fastest count, 2 env runners (3 common seeds). It is no count: no law is fitted to it" in said
    assert {"scaling.svg", "scaling-efficiency.svg", "heatmap-throughput.svg"} <= set(page.pictures)


def test_the_trials_own_process_is_told_of_where_counts_are_too_few_for_a_fit(undrawn: None) -> None:
    speeds = {"learners=0": [240.0, 245.0, 250.0], "learners=1": [90.0, 92.0, 91.0], "learners=2": [94.0, 95.0, 93.0]}
    runs = make_runs(
        dict.fromkeys(speeds, [float("nan")] * 3),
        params={"num_learners": {c: int(c[-1]) for c in speeds}},
        env_steps_per_s=speeds,
    ).assign(phase="throughput")
    said = Page(build(study_of(runs, axes=("num_learners",))).html).text
    assert "Without learners, in the trial's own process, it is 245 [" in said
    assert "times the fastest count, 2 learners" in said
    assert "a fit needs 3 counts or more" in said
