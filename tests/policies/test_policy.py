"""Policies from checkpoints: for every algorithm the score that was logged, to the bit."""

from pathlib import Path

import numpy as np
import pytest

from experiments.planning.machines import Cluster, Node
from experiments.policies import checkpoint
from experiments.policies.export import export_policy
from experiments.policies.onnx_check import OnnxPolicy, session_of
from experiments.policies.policy import Policy, load
from tests.support.exported import played
from tests.support.policies import play_together
from tests.support.suite import TINY, PlanOf
from tests.support.trials import FAILURE, REPLAY, Make, run

ONE = ("study.space={}", "seeds=[3]", "evaluation.final_episodes=7")
LSTM = (
    "++algorithm.rl_module.use_lstm=true",
    "++algorithm.rl_module.lstm_cell_size=8",
    "++algorithm.rl_module.max_seq_len=6",
)
ASYNC = (
    *TINY,
    *ONE,
    "env=pendulum",
    "algorithm.training.train_batch_size_per_learner=256",
    "report_every_env_steps=512",
)
SEQUENCES = "++algorithm.training.replay_buffer_config={type: EpisodeReplayBuffer, capacity: 1000}"
FILTERING = "algorithm.config_class=tests.support.filtering.FilteringPPOConfig"
LOCAL, REMOTE = "hardware.num_env_runners=0", "hardware.num_env_runners=1"

TRAINED = {
    "ppo": (*TINY, *ONE, "env=cartpole", LOCAL),
    "ppo normalised, stacked": (
        *TINY,
        *ONE,
        "env=pendulum",
        "preprocessing=normalize",
        "preprocessing.frame_stack=2",
        LOCAL,
    ),
    "ppo normalised, remote": (*TINY, *ONE, "env=pendulum", "preprocessing=normalize", REMOTE),
    "ppo-shifted": (*TINY, *ONE, "env.id=tiny_envs:tiny/Shifted-v0", "env.vectorize_mode=sync", LOCAL),
    "ppo recurrent": (*TINY, *ONE, "env=pendulum", "preprocessing=normalize", LOCAL, *LSTM),
    "ppo with connectors of one's own": (*TINY, *ONE, "env=pendulum", FILTERING, LOCAL),
    "ppo with remote connectors of one's own": (*TINY, *ONE, "env=pendulum", FILTERING, REMOTE),
    "dqn": (*REPLAY, *ONE, "algorithm=dqn", "env=cartpole", LOCAL),
    "dqn uniform": (*REPLAY, *ONE, "algorithm=dqn", "env=cartpole", LOCAL, SEQUENCES, "algorithm.training.n_step=1"),
    "dqn normalised": (*REPLAY, *ONE, "algorithm=dqn", "env=acrobot", "preprocessing=normalize", REMOTE),
    "dqn recurrent": (
        *REPLAY,
        *ONE,
        "algorithm=dqn",
        "env=cartpole",
        LOCAL,
        SEQUENCES,
        "algorithm.training.n_step=1",
        *LSTM,
    ),
    "sac": (*REPLAY, *ONE, "algorithm=sac", "env=pendulum", LOCAL),
    "sac normalised": (*REPLAY, *ONE, "algorithm=sac", "env=pendulum", "preprocessing=normalize", LOCAL),
    "tqc": (*REPLAY, *ONE, "algorithm=tqc", "env=pendulum", LOCAL),
    "tqc normalised": (*REPLAY, *ONE, "algorithm=tqc", "env=pendulum", "preprocessing=normalize", REMOTE),
    "appo": (*ASYNC, "algorithm=appo", REMOTE),
    "appo normalised": (*ASYNC, "algorithm=appo", "preprocessing=normalize", REMOTE),
    "impala": (*ASYNC, "algorithm=impala", REMOTE),
    "impala normalised": (*ASYNC, "algorithm=impala", "preprocessing=normalize", REMOTE),
}
EXPORTED = ("ppo", "ppo-shifted", "dqn", "sac", "tqc", "appo", "impala")
ASYNCHRONOUS = {"appo", "impala"}
SLOW = {"tqc", *ASYNCHRONOUS} | {name for name in TRAINED if " " in name} - {
    "ppo normalised, stacked",
    "ppo with connectors of one's own",
}
NIGHTLY = {"appo", "impala", "appo normalised", "impala normalised", "ppo normalised, remote", "tqc normalised"}
MARKS = {**dict.fromkeys(SLOW, pytest.mark.slow), **dict.fromkeys(NIGHTLY, pytest.mark.nightly)}


def trained(plan_of: PlanOf, make: Make, folder: Path, *overrides: str) -> float:
    """Train in a folder; the score that was logged."""
    said = run(make(plan_of(*overrides, cluster=Cluster((Node(4, 0),))).trials[0], folder=folder))
    assert FAILURE not in said[-1]
    return float(said[-1]["final/score"])


def policy_in(folder: Path) -> Policy:
    return load(checkpoint.read(folder, "checkpoint=x"), "checkpoint=x")


@pytest.mark.ray
@pytest.mark.usefixtures("ray_instance")
@pytest.mark.parametrize("name", [pytest.param(name, marks=MARKS[name]) if name in MARKS else name for name in TRAINED])
def test_the_policy_of_a_checkpoint_reaches_the_logged_score_to_the_bit(
    plan_of: PlanOf, make: Make, tmp_path: Path, name: str
) -> None:
    logged = trained(plan_of, make, tmp_path / "trial", *TRAINED[name])
    found = checkpoint.read(tmp_path / "trial", "checkpoint=x")
    assert found.trial.config_id == plan_of(*TRAINED[name], cluster=Cluster((Node(4, 0),))).trials[0].config_id
    assert found.score == logged
    policy = load(found, "checkpoint=x")
    held_out = policy.evaluate(policy.held_out_seeds())
    assert len(held_out.returns) == 7
    assert float(held_out.returns.mean()) == logged
    if policy.pipelines is None:
        assert play_together(policy, policy.held_out_seeds()) == held_out.returns.tolist()
    explored = [policy.evaluate(policy.fresh_seeds(3), explore=True).returns.tolist() for _ in range(2)]
    assert explored[0] == explored[1]
    assert explored[0] != policy.evaluate(policy.fresh_seeds(3)).returns.tolist()
    assert float(policy.evaluate(policy.held_out_seeds()).returns.mean()) == logged  # whatever came in between
    if name in EXPORTED:
        facts = export_policy(policy, tmp_path / "policy.onnx").metadata
        returns = played(OnnxPolicy(session_of((tmp_path / "policy.onnx").read_bytes()), {}), facts)
        if "Discrete" in facts["action_space"]:
            assert np.mean(returns) == logged
        else:  # what rounds differently grows in the physics
            assert np.mean(returns) == pytest.approx(logged, rel=1e-3)
