"""A recommendation that is confirmed: `confirm=`, from the command to the sentence, the registry and the report."""

import json
from pathlib import Path

import pytest
from mlflow import MlflowClient

from analysis.document.next_step import next_step, study_command
from analysis.load import load_study
from analysis.questions.decision import decide
from analysis.stores.executions import executions
from experiments.contract import CONFIRM, Tag
from tests.support.outputs import SMALL
from tests.system.conftest import run_to_the_end

pytestmark = [pytest.mark.ray, pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def confirmed(tmp_path_factory: pytest.TempPathFactory, no_ray_afterwards: None) -> tuple[Path, str]:
    """Output of a study whose recommendation was confirmed beside the next best, twice, and what the first one said."""
    out = tmp_path_factory.mktemp("confirm") / "out"
    run_to_the_end(out, *SMALL, "registry.models=recommended")
    (study,) = executions(None, uri(out))
    words = ("confirm.with=runner_up", "confirm.num_seeds=2")
    said = run_to_the_end(out, f"confirm={study.run_id}", *words)
    run_to_the_end(out, f"confirm={study.run_id}", "confirm.num_seeds=1")
    return out, said


def uri(out: Path) -> str:
    return f"sqlite:///{out}/mlflow.db"


def test_it_ends_in_one_sentence_and_asks_for_nothing_more(confirmed: tuple[Path, str]) -> None:
    out, said = confirmed
    (answer,) = [line for line in said.splitlines() if line.startswith("answer")]
    assert "onfirmed on 2 fresh seeds: " in answer
    assert " now and " in answer and " in the study, " in answer
    assert "\nnext" not in said
    later, earlier = executions(None, uri(out))[1:]
    assert later.answers[0].startswith(("Confirmed on 2 fresh seeds: ", "Not confirmed on 2 fresh seeds: "))
    assert " The best is gamma=" in earlier.answers[0]


def test_its_trials_are_those_of_the_study_on_fresh_seeds(confirmed: tuple[Path, str]) -> None:
    out, _ = confirmed
    again, first, earlier = (load_study(e.run_id, uri(out)) for e in executions(None, uri(out)))
    assert first.experiment == earlier.experiment
    assert set(first.runs["phase"]) == {CONFIRM}
    assert (first.seeds, again.seeds) == ((2, 3), (4,))  # of 0 and 1, and after those of the first
    ids = dict(zip(earlier.runs["config"], earlier.runs["config_id"], strict=True))
    assert {ids[config] for config in first.runs["config"]} == set(first.runs["config_id"])
    assert first.claims.keys() == {"cartpole"}
    assert load_study("smoke", uri(out)).run_id == earlier.run_id  # the name means the study itself
    tags = MlflowClient(uri(out)).get_run(first.run_id).data.tags
    assert tags[Tag.CONFIRMS] == earlier.run_id


def test_the_champion_follows_where_it_is_confirmed(confirmed: tuple[Path, str]) -> None:
    out, _ = confirmed
    client = MlflowClient(uri(out))
    versions = client.search_model_versions("name = 'ppo-cartpole'")
    again, first, _ = executions(None, uri(out))
    held = 0
    for execution, seeds in ((again, {"4"}), (first, {"2", "3"})):
        holds = execution.answers[0].startswith("Confirmed on ")
        of_execution = [v.tags for v in versions if v.tags[Tag.PHASE] == CONFIRM and v.tags[Tag.SEED] in seeds]
        assert {tags[Tag.SEED] for tags in of_execution} == (seeds if holds else set())
        assert all(len(json.loads(tags["confirmed_scores"])) == len(seeds) for tags in of_execution)
        held += holds
    assert set(client.get_registered_model("ppo-cartpole").aliases) == ({"champion"} if held else set())


def test_the_studys_answer_prints_the_command(reference: Path) -> None:
    study = load_study(None, uri(reference))
    step = next_step(decide(study.runs)[0], study.runs, study_command(study))
    assert step is not None
    assert step.command == "python experiments/run.py budget_env_steps=8192"  # nobody reached the target
    solved = study.runs.assign(score=480.0, target=475.0)
    confirm = next_step(decide(solved)[0], solved, study_command(study))
    assert confirm is not None
    assert confirm.command.startswith(f"python experiments/run.py confirm={study.run_id}")
