"""A trial that goes on from a checkpoint is the same to the bit as one that was never interrupted."""

from pathlib import Path

import pytest

from experiments.config.trial_config import TrialConfig
from experiments.planning.machines import Cluster, Node
from experiments.rllib import checkpoints
from experiments.rllib.checkpoints import RLLIB
from experiments.trial.tune_keys import RECYCLE_PROCESS
from tests.support.interrupted import PPO, REPLAY, assert_same_when_interrupted, interrupted, trial_in, uninterrupted
from tests.support.suite import PlanOf
from tests.support.trials import COUNT, REPRODUCIBLE, SEQUENCES, WEIGHTS, learned, step

pytestmark = [pytest.mark.ray, pytest.mark.usefixtures("ray_instance"), pytest.mark.slow]

SCHEDULES = ("algorithm.training.use_kl_loss=true", "++algorithm.training.entropy_coeff=[[0,0.1],[8000,0.0]]")
NORMALIZE = ("preprocessing=normalize",)
LSTM = (
    "++algorithm.rl_module.use_lstm=true",
    "++algorithm.rl_module.lstm_cell_size=16",
    "++algorithm.rl_module.max_seq_len=8",
)
EWMA = ("algorithm.training.minibatch_size=16", "algorithm.training.staleness=2")
TWO_LEARNERS = ("hardware.num_learners=2", "algorithm.training.train_batch_size_per_learner=256")
STAGGER = ("env.stagger=true", "env.max_episode_steps=100")
NOISE = ("++algorithm.training.action_noise_exponent=1.0",)
STATE_DEPENDENT = ("++algorithm.training.state_dependent_noise_steps=8",)
RUNNER = ("hardware.num_env_runners=1", "hardware.num_envs_per_env_runner=4")
RUNNERS = ("hardware.num_env_runners=2", "hardware.num_envs_per_env_runner=4")


@pytest.mark.parametrize(
    ("algorithm", "env", "settings"),
    [
        pytest.param("ppo", "cartpole", PPO, marks=pytest.mark.nightly),
        pytest.param("ppo", "cartpole", (*PPO, *SCHEDULES, *RUNNER), marks=pytest.mark.slow),
        pytest.param("ppo", "cartpole", (*PPO, *SCHEDULES, *RUNNERS), marks=pytest.mark.nightly),
        pytest.param("ppo", "cartpole", (*PPO, *TWO_LEARNERS), marks=pytest.mark.nightly),
        pytest.param("ppo", "pendulum", (*PPO, *NORMALIZE), marks=pytest.mark.nightly),
        pytest.param("ppo", "pendulum", (*PPO, *NORMALIZE, "preprocessing.frame_stack=3"), marks=pytest.mark.slow),
        pytest.param("ppo", "pendulum", (*PPO, *NORMALIZE, *RUNNERS), marks=pytest.mark.nightly),
        pytest.param("ppo", "pendulum", (*PPO, *STAGGER), marks=pytest.mark.slow),
        pytest.param("ppo", "pendulum", (*PPO, *NOISE), marks=pytest.mark.slow),
        pytest.param("ppo", "pendulum", (*PPO, *NOISE, *NORMALIZE, *RUNNERS), marks=pytest.mark.nightly),
        pytest.param("sac", "pendulum", ("budget_env_steps=600", *REPLAY, *NOISE), marks=pytest.mark.nightly),
        pytest.param("ppo", "pendulum", (*PPO, *STATE_DEPENDENT, *RUNNERS), marks=pytest.mark.nightly),
        pytest.param("sac", "pendulum", ("budget_env_steps=600", *REPLAY, *STATE_DEPENDENT), marks=pytest.mark.slow),
        pytest.param("ppo", "pendulum", (*PPO, *STAGGER, *RUNNERS), marks=pytest.mark.nightly),
        pytest.param("sac", "pendulum", ("budget_env_steps=600", *REPLAY, *STAGGER), marks=pytest.mark.nightly),
        pytest.param("ppo", "pendulum", (*PPO, *NORMALIZE, *TWO_LEARNERS), marks=pytest.mark.nightly),
        pytest.param("ppo_ewma", "cartpole", (*PPO, *EWMA), marks=pytest.mark.slow),
        pytest.param("ppo_ewma", "pendulum", (*PPO, *EWMA, *NORMALIZE, "fast=false"), marks=pytest.mark.nightly),
        pytest.param("dqn", "cartpole", ("budget_env_steps=600", *REPLAY), marks=pytest.mark.slow),
        pytest.param("ppo", "pendulum", (*PPO, *NORMALIZE, *LSTM), marks=pytest.mark.nightly),
        pytest.param("dqn", "cartpole", ("budget_env_steps=600", *REPLAY, *SEQUENCES, *LSTM), marks=pytest.mark.slow),
        pytest.param("dqn", "acrobot", ("budget_env_steps=600", *REPLAY, *NORMALIZE), marks=pytest.mark.nightly),
        pytest.param(
            "dqn", "acrobot", ("budget_env_steps=600", *REPLAY, *NORMALIZE, *RUNNERS), marks=pytest.mark.nightly
        ),
        pytest.param("dqn", "cartpole", ("budget_env_steps=600", *REPLAY, "fast=false"), marks=pytest.mark.nightly),
        pytest.param("dqn", "cartpole", ("budget_env_steps=600", *REPLAY, *RUNNERS), marks=pytest.mark.nightly),
        pytest.param("sac", "pendulum", ("budget_env_steps=600", *REPLAY), marks=pytest.mark.slow),
        pytest.param("sac", "pendulum", ("budget_env_steps=600", *REPLAY, *NORMALIZE), marks=pytest.mark.nightly),
        pytest.param("sac", "pendulum", ("budget_env_steps=600", *REPLAY, *RUNNERS), marks=pytest.mark.nightly),
        pytest.param("tqc", "pendulum", ("budget_env_steps=600", *REPLAY), marks=pytest.mark.nightly),
        pytest.param(
            "tqc", "pendulum", ("budget_env_steps=600", *REPLAY, *NORMALIZE, *RUNNERS), marks=pytest.mark.nightly
        ),
    ],
)
def test_an_interrupted_trial_is_the_same_to_the_bit(
    plan_of: PlanOf, tmp_path: Path, algorithm: str, env: str, settings: tuple[str, ...]
) -> None:
    assert_same_when_interrupted(plan_of, tmp_path, algorithm, env, settings)


@pytest.mark.parametrize(
    ("fast", "runners"),
    [
        (True, 0),
        pytest.param(True, 1, marks=pytest.mark.nightly),
        pytest.param(False, 0, marks=pytest.mark.nightly),
        pytest.param(False, 1, marks=pytest.mark.nightly),
    ],
)
def test_an_episode_that_is_longer_than_a_segment_comes_to_its_end(
    plan_of: PlanOf, tmp_path: Path, fast: bool, runners: int
) -> None:
    """Of four environments each has 256 steps in a segment, and its episodes have 600."""
    settings = (
        *COUNT,
        "++env.env_config.length=600",
        f"hardware.num_env_runners={runners}",
        "hardware.num_envs_per_env_runner=4",
    )
    common = ("study=smoke", "study.space={}", "seeds=[0]", *PPO)
    config = plan_of(*common, *settings, f"fast={fast}", cluster=Cluster((Node(4, 0),))).trials[0]
    whole = list(uninterrupted(config, tmp_path / "whole"))
    pieces = list(interrupted(config, tmp_path / "pieces", after=3, times=1))
    assert [(r["train/episodes"], r.get("train/return_mean")) for r in whole if r["train/episodes"]] == [(4, 600.0)]
    assert pieces[-1][WEIGHTS] == whole[-1][WEIGHTS]
    assert learned(pieces[-1]) == learned(whole[-1])


def spaced(plan_of: PlanOf, every_env_steps: int, algorithm: str, env: str, settings: tuple[str, ...]) -> TrialConfig:
    common = (
        "study=smoke",
        "study.space={}",
        "seeds=[0]",
        f"algorithm={algorithm}",
        f"env={env}",
        "hardware.num_env_runners=0",
    )
    return plan_of(*common, *settings, f"checkpoint.every_env_steps={every_env_steps}").trials[0]


def test_trials_with_checkpoints_at_other_places_are_the_same_until_the_first_one(
    plan_of: PlanOf, tmp_path: Path
) -> None:
    never, early = (spaced(plan_of, every, "ppo", "cartpole", PPO) for every in (3072, 1024))
    assert never.config_id != early.config_id
    whole, cut = (list(uninterrupted(config, tmp_path / config.config_id)) for config in (never, early))
    same = [learned(ours) == learned(theirs) for ours, theirs in zip(whole, cut, strict=True)]
    assert same == [True, True, False, False, False, False]  # reports at 512, 1024, ...
    assert whole[-1][WEIGHTS] != cut[-1][WEIGHTS]


@pytest.mark.parametrize(
    ("algorithm", "env", "settings", "every"),
    [
        ("ppo", "cartpole", (*PPO, *SCHEDULES), 512),
        pytest.param(
            "ppo", "cartpole", (*PPO, "env.vectorize_mode=sync", "fast=false"), 1024, marks=pytest.mark.nightly
        ),
        ("dqn", "cartpole", ("budget_env_steps=600", *REPLAY), 200),
        pytest.param(
            "dqn", "cartpole", ("budget_env_steps=600", *REPLAY, "fast=false"), 200, marks=pytest.mark.nightly
        ),
        pytest.param("sac", "pendulum", ("budget_env_steps=600", *REPLAY), 100, marks=pytest.mark.slow),
    ],
)
def test_a_checkpoint_changes_random_numbers_and_nothing_else(
    plan_of: PlanOf,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    algorithm: str,
    env: str,
    settings: tuple[str, ...],
    every: int,
) -> None:
    for streams in ("seed_process", "seed_replay", "seed_streams"):
        # the segments' own streams: the first one's go on
        monkeypatch.setattr(checkpoints, streams, lambda *args, **kwargs: None)
    budget = 3072 if algorithm == "ppo" else 600
    whole, cut = (
        list(uninterrupted(spaced(plan_of, n, algorithm, env, settings), tmp_path / str(n))) for n in (budget, every)
    )
    assert [learned(report) for report in cut] == [learned(report) for report in whole]
    assert cut[-1][WEIGHTS] == whole[-1][WEIGHTS]
    monkeypatch.setattr(checkpoints, "environments", lambda algorithm: {})  # as of environments that cannot be saved
    reset = list(uninterrupted(spaced(plan_of, every, algorithm, env, settings), tmp_path / "reset"))
    assert reset[-1][WEIGHTS] != whole[-1][WEIGHTS]


def test_segments_differ_from_each_other_and_rllib_reads_the_checkpoint(plan_of: PlanOf, tmp_path: Path) -> None:
    from ray.rllib.core.rl_module.rl_module import RLModule

    config = plan_of("study=smoke", "study.space={}", "seeds=[0]", *PPO, "hardware.num_env_runners=0").trials[0]
    trial = trial_in(config, tmp_path / "trial")
    try:
        first_seed = step(trial) and trial._training.algorithm.env_runner._seed
        step(trial)
        assert trial._training.algorithm.env_runner._seed != first_seed
        (checkpoint,) = (tmp_path / "trial" / "checkpoints").iterdir()
    finally:
        trial.cleanup()
    module = RLModule.from_checkpoint(checkpoint / RLLIB / "learner_group" / "learner" / "rl_module" / "default_policy")
    assert sum(p.numel() for p in module.parameters()) > 1000


@pytest.mark.parametrize("runners", [0, pytest.param(1, marks=pytest.mark.nightly)])
def test_what_an_environments_code_keeps_in_its_process_is_lost_at_a_resume_and_that_is_said(
    plan_of: PlanOf, tmp_path: Path, runners: int
) -> None:
    """The last of six reports alone has an evaluation: a runner's own process is asked as well."""
    common = ("study=smoke", "study.space={}", "seeds=[0]", *PPO, *COUNT, "evaluation.every_env_steps=3072")
    settings = (*common, f"hardware.num_env_runners={runners}", "hardware.num_envs_per_env_runner=4")
    said = {}
    for name in ("Count", "Taught"):
        config = plan_of(*settings, f"env.id=tiny_envs:tiny/{name}-v0", cluster=Cluster((Node(4, 0),))).trials[0]
        said[name] = list(interrupted(config, tmp_path / name, after=3, times=1))
        assert said[name][-1][RECYCLE_PROCESS]  # whether it keeps something or not: what is not found may be there
    assert [said["Count"][-1][REPRODUCIBLE], said["Taught"][2][REPRODUCIBLE], said["Taught"][-1][REPRODUCIBLE]] == [
        True,
        True,
        False,
    ]


def test_what_was_trained_again_and_came_out_differently_is_said(plan_of: PlanOf, tmp_path: Path) -> None:
    config = plan_of("study=smoke", "study.space={}", "seeds=[0]", *PPO, "hardware.num_env_runners=0").trials[0]
    pieces = interrupted(config, tmp_path / "trial", after=3, times=1)
    for _ in range(3):
        next(pieces)
    reports = tmp_path / "trial" / "events.jsonl"
    lines = reports.read_text().splitlines(keepends=True)
    *before, third = lines
    assert '"learner/loss": ' in third
    reports.write_text("".join(before) + third.replace('"learner/loss": ', '"learner/loss": 1'))
    assert list(pieces)[-1][REPRODUCIBLE] is False


@pytest.mark.parametrize(
    ("algorithm", "env"), [("dqn", "cartpole"), pytest.param("sac", "pendulum", marks=pytest.mark.nightly)]
)
def test_without_its_replay_buffer_a_trial_goes_on_with_a_new_one_and_promises_no_bits(
    plan_of: PlanOf, tmp_path: Path, algorithm: str, env: str
) -> None:
    settings = ("budget_env_steps=600", *REPLAY, "checkpoint.replay=false")
    config = spaced(plan_of, 200, algorithm, env, settings)
    assert config.config_id == spaced(plan_of, 200, algorithm, env, settings[:-1]).config_id
    whole = list(uninterrupted(config, tmp_path / "whole"))
    with_it = list(uninterrupted(spaced(plan_of, 200, algorithm, env, settings[:-1]), tmp_path / "with"))
    assert whole[-1][WEIGHTS] == with_it[-1][WEIGHTS]  # who is not interrupted is the same
    trial = trial_in(config, tmp_path / "cut")
    try:
        for _ in range(3):
            step(trial)
    finally:
        trial._abandon()
        trial.cleanup()
    trial = trial_in(config, tmp_path / "cut")
    try:
        step(trial)
        algorithm_of = trial._training.algorithm
        assert 0 < algorithm_of.local_replay_buffer.get_num_timesteps() < 200  # sampled since
        assert 250 < algorithm_of.config.num_steps_sampled_before_learning_starts < 350
        result = step(trial)
        while not result["done"]:
            result = step(trial)
        assert result[REPRODUCIBLE] is False
        assert trial._training.counters.updates > 0
    finally:
        trial.cleanup()
