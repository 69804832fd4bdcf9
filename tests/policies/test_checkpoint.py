"""Checkpoints as a person names them: found, judged by where they come from, and refused with the fix."""

import json
import shutil
from pathlib import Path

import pytest

from experiments.config.errors import ConfigurationError
from experiments.evaluate import _verdict
from experiments.policies import checkpoint
from experiments.rllib.checkpoints import RLLIB
from experiments.study.trained import Trained
from experiments.trial.events import Ended, record_of
from experiments.trial.folder import TrialFolder
from tests.support.suite import PlanOf
from tests.support.trials import tiny

FINAL, EARLIER = 2048, 1024


@pytest.fixture
def trial(plan_of: PlanOf, tmp_path: Path) -> Path:
    """A trial's folder with two checkpoints, of which the last one ended it; without what only RLlib writes."""
    config = tiny(plan_of)
    folder = TrialFolder(tmp_path / "out" / "trial")
    for env_steps, events in (
        (EARLIER, []),
        (FINAL, [Ended(status="finished", env_steps=FINAL, metrics={"final/score": 7.25})]),
    ):

        def write(into: Path, env_steps: int = env_steps, events: list[Ended] = events) -> None:
            (into / RLLIB).mkdir()
            (into / RLLIB / "rllib_checkpoint.json").write_text(json.dumps({"ray_version": "2.60.0"}))
            counters = {"grid_env_steps": env_steps, "env_steps": env_steps + 8}
            state = {"counters": counters, "events": [record_of(e) for e in events], "return_mean": None}
            (into / "trial_state.json").write_text(json.dumps(state))
            (into / "trial.json").write_text(json.dumps(config.to_mapping()))

        folder.add_checkpoint(env_steps, 0, write, keep=2, keep_best=False)
    return folder.path


def refusal(folder: Path) -> str:
    with pytest.raises(ConfigurationError) as refused:
        checkpoint.read(folder, "checkpoint=x")
    return str(refused.value)


def test_a_trials_folder_stands_for_its_newest_checkpoint_with_the_score_that_it_ended_with(
    plan_of: PlanOf, trial: Path
) -> None:
    found = checkpoint.read(trial, "checkpoint=x")
    assert (found.env_steps, found.sampled, found.score) == (FINAL, FINAL + 8, 7.25)
    assert found.trial == tiny(plan_of)
    assert [path.name for path in found.others] == [f"{EARLIER:012d}"]


def test_an_earlier_checkpoint_has_no_score(trial: Path) -> None:
    found = checkpoint.read(trial / "checkpoints" / f"{EARLIER:012d}", "checkpoint=x")
    assert (found.env_steps, found.score) == (EARLIER, None)


def test_where_a_trial_comes_from_is_read_beside_its_checkpoints(trial: Path) -> None:
    assert checkpoint.read(trial, "checkpoint=x").provenance == {}
    (trial / "provenance.json").write_text(json.dumps({"commit": "abc"}))
    assert checkpoint.read(trial, "checkpoint=x").provenance == {"commit": "abc"}


def test_pickles_are_opened_where_ones_own_studies_are_or_on_ones_word(trial: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    shutil.copytree(trial, elsewhere)
    (tmp_path / "out" / "link").symlink_to(elsewhere)
    checkpoint.check_origin(trial, tmp_path / "out", trust=False, named="checkpoint=x")
    checkpoint.check_origin(elsewhere, tmp_path / "out", trust=True, named="checkpoint=x")
    for path in (elsewhere, tmp_path / "out" / "link", tmp_path / "out" / ".." / "elsewhere"):
        with pytest.raises(ConfigurationError, match="trust=true"):
            checkpoint.check_origin(path, tmp_path / "out", trust=False, named="checkpoint=x")


def test_a_folder_that_is_not_there_or_has_no_checkpoint_is_refused(trial: Path, tmp_path: Path) -> None:
    assert "no such folder" in refusal(tmp_path / "none")
    shutil.rmtree(trial / "checkpoints")
    (trial / "checkpoints").mkdir()
    assert "has no checkpoint" in refusal(trial)


def test_another_programs_checkpoint_is_refused(trial: Path, tmp_path: Path) -> None:
    assert "no checkpoint of this suite" in refusal(tmp_path)
    assert "Algorithm.from_checkpoint" in refusal(trial / "checkpoints" / f"{FINAL:012d}" / RLLIB)


def test_a_damaged_checkpoint_is_refused_by_the_file(trial: Path) -> None:
    newest = trial / "checkpoints" / f"{FINAL:012d}"
    (newest / "trial_state.json").write_text("{}")
    assert "damaged" in refusal(trial)
    assert "trial_state.json: has 2 bytes instead of" in refusal(trial)
    (newest / "trial_state.json").unlink()
    assert "trial_state.json: is missing" in refusal(trial)


def test_a_checkpoint_of_another_version_is_refused_by_the_version(trial: Path) -> None:
    newest = trial / "checkpoints" / f"{FINAL:012d}"
    written = newest / RLLIB / "rllib_checkpoint.json"
    written.write_text(json.dumps({"ray_version": "2.59.0"}))
    assert "was written by Ray 2.59.0, and this is Ray 2.60" in refusal(trial)
    assert "pip install 'ray[rllib,tune]==2.59.0'" in refusal(trial)
    written.write_text(json.dumps({"ray_version": "2.60.9"}))
    assert checkpoint.read(trial, "checkpoint=x").score == 7.25


def test_a_configuration_that_is_not_understood_is_refused(trial: Path) -> None:
    newest = trial / "checkpoints" / f"{FINAL:012d}"
    text = (newest / "trial.json").read_text()
    (newest / "trial.json").write_text(text.replace('"budget_env_steps"', '"budget_env_step5"'))
    assert "another version of the suite" in refusal(trial)


def test_a_policy_that_misses_its_score_in_an_environment_that_keeps_state_in_its_process_is_told_why(
    trial: Path,
) -> None:
    found = checkpoint.read(checkpoint.newest(trial, "run=0"), "run=0")
    trained = Trained("run=0", found, None, None, found.score, "", {"commit": "of then"})
    assert _verdict(trained, 7.25, 5, ["my_env.MyEnv.resets"]) == (
        ["score       7.25, mean return of 5 held-out episodes: the logged final/score, to the bit"],
        0,
    )
    lines, code = _verdict(trained, 4.0, 5, ["my_env.MyEnv.resets"])
    assert code == 1
    assert (
        lines[-1]
        .strip()
        .startswith("since then: this is another process, and the code keeps state in its process: my_env.MyEnv.resets")
    )
