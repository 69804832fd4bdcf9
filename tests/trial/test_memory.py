"""The memory that each algorithm has: its table in docs/policies.md, and trials on the memory environment
that prove every row of it.
"""

import re
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest

from experiments.config.errors import ConfigurationError
from experiments.policies import checkpoint
from experiments.policies.export import export_policy
from experiments.policies.policy import load
from tests.support.algorithms import suits
from tests.support.suite import ALGORITHMS, ROOT, PlanOf
from tests.support.trials import FAILURE, Make, run

CUES = 2
RECALL = ("env=recall", f"env.env_config.num_cues={CUES}", "env.env_config.delay=2")
STEPS = 4
"""Of an episode, and frames that show the cue beside the question."""
LSTM = (
    "++algorithm.rl_module.use_lstm=true",
    "++algorithm.rl_module.lstm_cell_size=32",
    f"++algorithm.rl_module.max_seq_len={STEPS + 1}",  # RLlib appends a row to the end of what was sampled
)
FRAMES = (f"preprocessing.frame_stack={STEPS}",)
NETWORK = ("algorithm.rl_module.fcnet_hiddens=[32,32]",)
ONE_PROCESS = ("hardware.num_env_runners=0",)
ONE_RUNNER = ("hardware.num_env_runners=1", "++algorithm.env_runners.rollout_fragment_length=12")
REPLAY = (
    *ONE_PROCESS,
    "algorithm.training.num_steps_sampled_before_learning_starts=500",
    "++algorithm.training.replay_buffer_config={type: EpisodeReplayBuffer, capacity: 20000}",
)
SQUASHED = (
    *REPLAY,
    "budget_env_steps=8000",
    "algorithm.update_to_data=0.25",
    *(f"algorithm.training.{name}_lr=1e-3" for name in ("actor", "critic", "alpha")),
    "++algorithm.training.initial_alpha=0.1",
)
SMALL_CRITICS = ("++algorithm.rl_module.fusionnet_hiddens=[32]", "++algorithm.rl_module.head_fcnet_hiddens=[]")
PPO = (*ONE_PROCESS, "budget_env_steps=12000", "algorithm.training.train_batch_size_per_learner=1024")
ASYNCHRONOUS = (
    *ONE_RUNNER,
    "budget_env_steps=24000",
    "algorithm.training.train_batch_size_per_learner=192",
    "algorithm.training.lr=3e-3",
)

REMEMBERING = {
    "ppo": PPO,
    "appo": ASYNCHRONOUS,
    "impala": ASYNCHRONOUS,
    "dqn": (
        *REPLAY,
        "budget_env_steps=8000",
        "algorithm.training.train_batch_size_per_learner=128",
        "algorithm.update_to_data=0.125",
        "++algorithm.training.epsilon=[[0,1.0],[4000,0.05]]",
    ),
}
"""Algorithms that train recurrent networks, with settings that suffice here."""
STACKING = {"ppo_ewma": (*PPO, "algorithm.training.lr=3e-3"), "sac": SQUASHED, "tqc": (*SQUASHED, *SMALL_CRITICS)}
"""Those that are refused with them, and remember by stacked frames."""
TAKES_MINUTES = (pytest.mark.nightly, pytest.mark.timeout(1800))


def words_of(algorithm: str, *words: str) -> tuple[str, ...]:
    """A command of one trial on the memory environment, with actions that the algorithm takes."""
    continuous = not suits(algorithm, gym.spaces.Discrete(CUES))
    return (
        *("study=single", f"algorithm={algorithm}", *RECALL, f"env.env_config.continuous={continuous}", "seeds=[0]"),
        *("evaluation.episodes=2", "evaluation.final_episodes=100", "report_every_env_steps=4000"),
        *(*NETWORK, *(REMEMBERING | STACKING)[algorithm], *words),
    )


def table() -> dict[str, str]:
    """Algorithm to what docs/policies.md says that it does with an LSTM."""
    _, _, section = (ROOT / "docs" / "policies.md").read_text().partition("\n## Memory\n")
    return dict(re.findall(r"^\| `(\w+)` \| (works|refused) \|", section.partition("\n## ")[0], re.MULTILINE))


def test_every_algorithm_is_in_the_table_and_has_its_proof() -> None:
    assert table() == {**dict.fromkeys(REMEMBERING, "works"), **dict.fromkeys(STACKING, "refused")}
    assert set(table()) == set(ALGORITHMS)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_what_the_table_refuses_is_refused_with_the_fix(plan_of: PlanOf, algorithm: str) -> None:
    if table()[algorithm] == "works":
        assert plan_of(*words_of(algorithm, *LSTM)).trials[0].algorithm["rl_module"]["use_lstm"]
        return
    with pytest.raises(ConfigurationError, match=r"algorithm\.rl_module\.use_lstm=true: .*") as error:
        plan_of(*words_of(algorithm, *LSTM))
    assert "Try algorithm=ppo, or preprocessing.frame_stack=4 in its place" in str(error.value)
    assert plan_of(*words_of(algorithm, "preprocessing.frame_stack=4")).trials[0].preprocessing.frame_stack == 4


def score_of(plan_of: PlanOf, make: Make, folder: Path, *words: str) -> float:
    """Train a trial in a folder; the score that was logged."""
    said = run(make(plan_of(*words).trials[0], folder=folder))[-1]
    assert FAILURE not in said
    assert said["progress/updates"] > 0
    return float(said["final/score"])


def assert_is_chance(score: float) -> None:
    """Make sure that 100 episodes do not score more than a policy without memory does: 1 of 100,000 times more."""
    assert abs(score - 1 / CUES) < 4.5 * np.sqrt(1 / CUES * (1 - 1 / CUES) / 100)


@pytest.mark.ray
@pytest.mark.slow
@pytest.mark.usefixtures("ray_instance")
@pytest.mark.parametrize(
    "algorithm", [pytest.param(name, marks=() if name == "ppo" else TAKES_MINUTES) for name in REMEMBERING]
)
def test_with_an_lstm_it_remembers_also_once_it_is_exported_and_without_one_it_guesses(
    plan_of: PlanOf, make: Make, tmp_path: Path, algorithm: str
) -> None:
    assert_is_chance(score_of(plan_of, make, tmp_path / "without", *words_of(algorithm)))
    score = score_of(plan_of, make, tmp_path / "with", *words_of(algorithm, *LSTM))
    assert score >= 0.9
    policy = load(checkpoint.read(tmp_path / "with", "checkpoint=x"), "checkpoint=x")
    assert float(policy.evaluate(policy.held_out_seeds()).returns.mean()) == score
    found = export_policy(policy, tmp_path / "policy.onnx")  # refused if it acts otherwise
    assert float(found.metadata["score"]) == score


@pytest.mark.ray
@pytest.mark.slow
@pytest.mark.usefixtures("ray_instance")
@pytest.mark.parametrize(
    "algorithm",
    [pytest.param(name, marks=() if name == "ppo_ewma" else TAKES_MINUTES) for name in STACKING],
)
def test_where_an_lstm_is_refused_stacked_frames_remember(
    plan_of: PlanOf, make: Make, tmp_path: Path, algorithm: str
) -> None:
    assert_is_chance(score_of(plan_of, make, tmp_path / "without", *words_of(algorithm)))
    assert score_of(plan_of, make, tmp_path / "with", *words_of(algorithm, *FRAMES)) >= 0.9
