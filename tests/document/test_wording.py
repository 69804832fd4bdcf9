import numpy as np

from analysis.document.answer import closing_table
from analysis.document.wording import (
    bottleneck_sentences,
    health_sentences,
    limits_sentence,
    tolerance_sentence,
    within,
)
from analysis.evidence import Evidence
from analysis.questions.diagnosis import of_study
from tests.support.diagnosed import diagnosed_study
from tests.support.study_frames import make_runs, with_status


def test_a_part_of_a_study_is_named_by_its_settings() -> None:
    assert within({}) == ""
    assert (
        within({"train_batch_size_total": 4000, "lr": 3e-4})
        == "With train batch 4000 transitions, learning rate 3e-4: "
    )


def test_a_count_that_grows_is_told_by_what_holds_it_up() -> None:
    table = of_study(*diagnosed_study(), num_cpus=8)
    sentence = limits_sentence(table, {8: "two", 1: "one", 2: "one", 4: "two", 3: "one"}, "env runners")
    assert sentence == "The bottleneck as env runners are added: env-bound with 1, 2 and 3, learner-bound with 4 and 8."
    assert limits_sentence(table, {1: "one"}, "learners") == "The bottleneck as learners are added: env-bound with 1."
    assert limits_sentence(table.iloc[:0], {1: "one", 2: "two"}, "env runners") == ""


def test_a_study_says_it_in_sentences() -> None:
    table = of_study(*diagnosed_study(), num_cpus=8)
    env, learner = bottleneck_sentences(table)
    assert env.startswith("**env-bound** in 3 of 3 trials: `one`. Stepping the environments takes 79% of training time")
    assert learner.startswith("**learner-bound** in 2 of 3 trials: `two`.")
    [stale] = health_sentences(table)
    assert stale.startswith("**Staleness** in 1 of 6 trials (two s=1). Samples are 5 updates old")
    assert bottleneck_sentences(table.iloc[:0]) == health_sentences(table.iloc[:0]) == []


def test_what_most_seeds_reach_is_said_from_29_seeds_on() -> None:
    few = tolerance_sentence(closing_table(Evidence(make_runs({"a": [480.0] * 10}))))
    assert few == "What 90% of seeds reach at least takes 29 seeds to say (95% confidence); these are 10."
    runs = make_runs({"a": list(np.arange(451.0, 481.0)), "b": [400.0] * 30})
    many = tolerance_sentence(closing_table(Evidence(with_status(runs, "b", [4], "failed"))))
    assert many == (
        "With 95% confidence 90% of seeds reach at least 451.0 with `a` (30 seeds) and nothing with `b`, "
        "whose seeds crash too often (30 seeds): distribution-free lower tolerance bounds."
    )
