from analysis.document.answer import closing_table
from analysis.evidence import Evidence, replicates
from analysis.questions.decision import decide, decision_of, decisions_of, summary_of
from tests.support.study_frames import make_curves, make_runs, make_search, run_again, together


def test_what_is_asked_of_the_same_trials_is_computed_once() -> None:
    study = Evidence(make_runs({"a": [480.0, 470.0], "b": [300.0, 310.0]}))
    (of_env,) = study.of_envs.values()
    assert decision_of(of_env) is decision_of(study.concluding)
    for question in (summary_of, closing_table):
        assert question(study) is question(study.concluding)


def test_each_environment_has_its_own_trials_and_configurations() -> None:
    runs = together(make_runs({"a": [480.0, 470.0]}), make_runs({"b": [-90.0, -80.0]}, env="acrobot"))
    study = Evidence(runs, axes=("lr",))
    assert {env: list(part.runs["config"].cat.categories) for env, part in study.of_envs.items()} == {
        "cartpole": ["a"],
        "acrobot": ["b"],
    }
    assert {part.axes for part in study.of_envs.values()} == {("lr",)}
    assert repr(decisions_of(study)) == repr(decide(runs))  # no number that is not one equals itself
    assert Evidence(runs.iloc[:0]).of_envs == {}


def test_of_a_search_those_that_confirm_conclude_and_a_repeat_is_no_replicate() -> None:
    found = Evidence(make_search({"a": [480.0], "b": [300.0]}, {"a": [450.0, 440.0]}))
    assert found.concluding.runs["phase"].unique().tolist() == ["confirm"]
    assert found.concluding.runs["config"].cat.categories.tolist() == ["a"]
    assert found.design.runs.empty
    once = make_runs({"a": [480.0, 470.0]})
    again, _ = run_again(once, make_curves(once, {}))
    assert Evidence(again).replicates.equals(replicates(again))
    assert len(Evidence(again).replicates) == len(once)
