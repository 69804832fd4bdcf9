"""An exported policy acts as the suite's own evaluation does."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import onnx
import onnxruntime
import pytest
import tiny_envs  # noqa: F401  # registers the environments
import torch
from ray.rllib.connectors.env_to_module import EnvToModulePipeline
from ray.rllib.connectors.module_to_env import ModuleToEnvPipeline

from experiments.config.errors import ConfigurationError
from experiments.policies import onnx_check
from experiments.policies.export import Origin, export_policy
from experiments.policies.onnx_check import LEAST_OBSERVATIONS, TOLERANCE, OnnxPolicy, session_of
from experiments.policies.onnx_graph import trace
from experiments.rllib.building import environment_of
from experiments.rllib.made_environments import spaces
from experiments.trial.evaluation import acting
from tests.support.exported import LSTM, SMALL, played, policy_of
from tests.support.own_files import own_rl_module
from tests.support.suite import PlanOf

PICTURES = (
    "env.id=tiny_envs:tiny/Pixels-v0",
    "env.vectorize_mode=sync",
    "++algorithm.rl_module.conv_filters=[[4,4,2],[8,3,2]]",
)
MASKED = ("env.id=masked_envs:masked/Ruled-v0", "env.vectorize_mode=sync", "env.env_config={start: 0}")
"""It raises where an action is ruled out."""
SEQUENCES = "++algorithm.training.replay_buffer_config={type: EpisodeReplayBuffer, capacity: 1000}"
POLICIES = {
    "ppo": ("algorithm=ppo", "env=cartpole", "preprocessing=symlog"),
    "ppo, normalised": ("algorithm=ppo", "env=pendulum", "preprocessing=normalize"),
    "ppo, several choices": ("algorithm=ppo", "env.id=tiny_envs:tiny/Choices-v0", "env.vectorize_mode=sync"),
    "ppo, pictures": ("algorithm=ppo", *PICTURES),
    "ppo, recurrent": ("algorithm=ppo", "env=pendulum", "preprocessing=normalize", *LSTM),
    "dqn": ("algorithm=dqn", "env=cartpole", "preprocessing=normalize_observations"),
    "dqn, distributional": (
        "algorithm=dqn",
        "env=cartpole",
        "++algorithm.training.num_atoms=11",
        "++algorithm.training.dueling=false",
    ),
    "dqn, recurrent": ("algorithm=dqn", "env=cartpole", SEQUENCES, "++algorithm.training.n_step=1", *LSTM),
    "sac": ("algorithm=sac", "env=pendulum", "preprocessing=normalize_observations"),
    "sac, state-dependent noise": (
        "algorithm=sac",
        "env=pendulum",
        "++algorithm.training.state_dependent_noise_steps=8",
    ),
    "tqc": ("algorithm=tqc", "env=pendulum", "preprocessing=normalize_observations"),
    "impala": ("algorithm=impala", "env=cartpole"),
    "appo": ("algorithm=appo", "env=pendulum"),
    "appo, several choices": ("algorithm=appo", "env.id=tiny_envs:tiny/Choices-v0", "env.vectorize_mode=sync"),
    "impala, pictures": ("algorithm=impala", *PICTURES, "preprocessing=none"),
    "ppo, masked": ("algorithm=ppo", *MASKED, "preprocessing=normalize"),
    "ppo, recurrent, masked": ("algorithm=ppo", *MASKED, *LSTM),
    "appo, masked": ("algorithm=appo", *MASKED),
    "dqn, masked": ("algorithm=dqn", *MASKED),
    "dqn, distributional, masked": ("algorithm=dqn", *MASKED, "++algorithm.training.num_atoms=11"),
}
QUICK = ("ppo", "dqn", "ppo, masked", "dqn, masked")


@pytest.mark.parametrize(
    "which", [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in POLICIES]
)
def test_it_plays_the_episodes_of_the_evaluation(plan_of: PlanOf, tmp_path: Path, which: str) -> None:
    trial = plan_of(*SMALL, *POLICIES[which]).trials[0]
    policy = policy_of(trial)
    seen: list[Any] = []
    expected = policy.evaluate(
        policy.held_out_seeds(),
        on_actions=lambda observations, actions: seen.append((observations.astype(np.float32), actions)),
    )
    found = export_policy(policy, tmp_path / "policy.onnx")

    session = onnxruntime.InferenceSession(tmp_path / "policy.onnx")
    facts = session.get_modelmeta().custom_metadata_map
    states = {name: np.array(state, np.float32) for name, state in json.loads(facts.get("initial_state", "{}")).items()}
    assert bool(states) == policy.module.is_stateful()
    exported = OnnxPolicy(session, states)
    theirs, ours = (
        np.array([exported(observations) for observations, _ in seen]),
        np.array([actions for _, actions in seen]),
    )
    assert theirs.dtype == ours.dtype
    assert len(np.unique(ours)) > 1  # else any constant would do
    if isinstance(policy.module.action_space, gym.spaces.Box):
        space = policy.module.action_space
        np.testing.assert_allclose(theirs, ours, rtol=0, atol=1e-5 * float((space.high - space.low).max()))
    else:
        np.testing.assert_array_equal(theirs, ours)
        assert played(OnnxPolicy(session, states), facts) == expected.returns.tolist()
    assert float(facts["score"]) == expected.returns.mean()
    assert found.check.observations >= LEAST_OBSERVATIONS
    assert found.check.max_difference < TOLERANCE / 10


@pytest.mark.slow
@pytest.mark.parametrize("clip_actions", [False, True])
def test_actions_that_are_not_normalised_are_clipped_or_left(plan_of: PlanOf, clip_actions: bool) -> None:
    trial = plan_of(*SMALL, "env=pendulum").trials[0]
    module, (space, _), narrow = policy_of(trial).module, spaces(environment_of(trial)), gym.spaces.Box(-0.5, 0.5, (1,))
    session = session_of(trace(module, space, narrow, False, clip_actions).model_proto.SerializeToString())
    observations = np.random.default_rng(0).normal(0, 5, (50, 3)).astype(np.float32)
    actions = session.run(None, {"observations": observations})[0]
    np.testing.assert_allclose(
        actions, acting(module, narrow, False, clip_actions, 50)(observations), rtol=1e-5, atol=1e-5
    )
    assert (np.abs(actions).max() > 0.5) != clip_actions


def test_it_can_be_ended_at_any_step_and_leaves_nothing(plan_of: PlanOf, tmp_path: Path) -> None:
    policy, steps = policy_of(plan_of(*SMALL, *POLICIES["ppo"]).trials[0]), iter(range(3))

    def alive() -> None:
        next(steps)

    with pytest.raises(ConfigurationError, match="an evaluation failed"):
        export_policy(policy, tmp_path / "policy.onnx", alive=alive)
    assert list(tmp_path.iterdir()) == []
    assert not list(steps)


@pytest.mark.slow
@pytest.mark.parametrize("which", ["dqn", "ppo, normalised"])
def test_policies_with_the_same_networks_share_what_was_traced(plan_of: PlanOf, tmp_path: Path, which: str) -> None:
    first, second = (policy_of(plan_of(*SMALL, *POLICIES[which]).trials[0], seed) for seed in (7, 8))
    traced: dict[str, Any] = {}
    export_policy(first, tmp_path / "first.onnx", traced=traced)
    ((networks, program),) = traced.items()
    # raises if it acts otherwise than the policy
    found = export_policy(second, tmp_path / "second.onnx", traced=traced)
    assert traced == {networks: program}
    alone = export_policy(second, tmp_path / "alone.onnx")
    assert (tmp_path / "second.onnx").read_bytes() != (tmp_path / "first.onnx").read_bytes()
    assert (found.metadata["score"], found.check.observations) == (alone.metadata["score"], alone.check.observations)
    third = policy_of(first.trial, 9)
    kept = {networks: FrozenProgram(program)}
    export_policy(third, tmp_path / "third.onnx", traced=kept)
    assert not isinstance(kept[networks], FrozenProgram)  # it was traced by itself


class FrozenProgram:
    """A program that keeps the weights that it has."""

    def __init__(self, program: Any) -> None:
        self.model, self.model_proto = program.model, program.model_proto

    def apply_weights(self, weights: dict[str, Any]) -> None:
        pass


def test_the_file_says_what_it_is(plan_of: PlanOf, tmp_path: Path) -> None:
    trial = plan_of(*SMALL, "env=pendulum", "seeds=[5]").trials[0]
    origin = Origin("single", "study-run", "run", "0123abcd", 1000)
    found = export_policy(policy_of(trial), tmp_path / "policy.onnx", origin)
    graph = onnx.load(tmp_path / "policy.onnx")
    onnx.checker.check_model(graph, full_check=True)
    facts = {entry.key: entry.value for entry in graph.metadata_props}
    assert facts == found.metadata
    assert {
        name: facts[name]
        for name in ("algorithm", "env", "seed", "config_id", "study", "study_run", "run", "commit", "env_steps")
    } == {
        "algorithm": "ppo",
        "env": "pendulum",
        "seed": "5",
        "config_id": trial.config_id,
        "study": "single",
        "study_run": "study-run",
        "run": "run",
        "commit": "0123abcd",
        "env_steps": "1000",
    }
    assert json.loads(facts["action_space"]) == {
        "type": "Box",
        "dtype": "float32",
        "shape": [1],
        "low": -2.0,
        "high": 2.0,
    }
    assert json.loads(facts["observation_space"])["low"] == [-1.0, -1.0, -8.0]
    assert float(facts["score_low"]) < float(facts["score"]) < float(facts["score_high"])
    assert [opset.version for opset in graph.opset_import if not opset.domain] == [int(facts["opset"])]
    assert [dim.dim_param or dim.dim_value for dim in graph.graph.input[0].type.tensor_type.shape.dim] == ["batch", 3]
    assert [path.name for path in tmp_path.iterdir()] == ["policy.onnx"]


def test_any_number_of_observations_at_once_gives_the_same_actions(plan_of: PlanOf, tmp_path: Path) -> None:
    trial = plan_of(*SMALL, "env=cartpole").trials[0]
    export_policy(policy_of(trial), tmp_path / "policy.onnx")
    session = onnxruntime.InferenceSession(tmp_path / "policy.onnx")
    observations = np.random.default_rng(0).normal(size=(33, 4)).astype(np.float32)
    (together,) = session.run(None, {"observations": observations})
    alone = [int(session.run(None, {"observations": one[np.newaxis]})[0][0]) for one in observations]
    assert together.tolist() == alone
    assert {0, 1} == set(alone)


def test_what_a_mask_rules_out_is_no_exported_action(plan_of: PlanOf, tmp_path: Path) -> None:
    trial = plan_of(*SMALL, "algorithm=dqn", *MASKED[:2], "env.env_config={start: 3}").trials[0]
    found = export_policy(policy_of(trial), tmp_path / "policy.onnx")
    random, rows, choices = np.random.default_rng(0), np.arange(2000), int(found.metadata["action_mask"])
    masks = random.integers(0, 2, (len(rows), choices))
    masks[rows, random.integers(choices, size=len(rows))] = 1
    observations = np.hstack([masks, random.normal(size=(len(rows), 3))]).astype(np.float32)
    (actions,) = onnxruntime.InferenceSession(found.path).run(None, {"observations": observations})
    chosen = actions - 3  # where the environment begins to count
    assert masks[rows, chosen].all()
    assert set(chosen) == set(range(choices))


def test_stacked_frames_are_what_it_expects(plan_of: PlanOf, tmp_path: Path) -> None:
    trial = plan_of(*SMALL, "env=cartpole", "env.vectorize_mode=sync", "preprocessing=frame_stack").trials[0]
    found = export_policy(policy_of(trial), tmp_path / "policy.onnx")
    frames = int(found.metadata["frame_stack"])
    assert frames > 1
    assert json.loads(found.metadata["observation_space"])["shape"] == list(environment_shape(trial))
    assert (
        played(OnnxPolicy(onnxruntime.InferenceSession(found.path), {}), found.metadata)
        == found.check.evaluation.returns.tolist()
    )


def environment_shape(trial: Any) -> tuple[int, ...]:
    env = environment_of(trial)
    made = gym.make(env.id, **env.make_arguments)
    return tuple(made.observation_space.shape or ())


def test_a_module_of_ones_own_is_exported_where_torch_can_trace_it(plan_of: PlanOf, tmp_path: Path) -> None:
    trial = plan_of(*SMALL, *own_rl_module(tmp_path, "own_traceable")).trials[0]
    found = export_policy(policy_of(trial), tmp_path / "policy.onnx")
    assert (
        played(OnnxPolicy(onnxruntime.InferenceSession(found.path), {}), found.metadata)
        == found.check.evaluation.returns.tolist()
    )


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (
            "if obs.sum() > 0:\n            logits = -logits",
            "torch cannot trace the module of algorithm.rl_module.module_class=",
        ),
        ("logits = logits + torch.rand_like(logits)", "acts differently once it is exported"),
        (
            "self.calls = getattr(self, 'calls', 0) + 1\n        logits = logits * (-1) ** self.calls",
            "acts differently once it is exported",
        ),
    ],
    ids=["a branch on values", "a random number", "a number of its own that changes"],
)
def test_one_that_cannot_be_traced_is_refused_in_one_message(
    plan_of: PlanOf, tmp_path: Path, body: str, message: str
) -> None:
    name = "own_" + "".join(ch for ch in body if ch.isalnum())[:20]
    words = own_rl_module(tmp_path, name)
    source = (tmp_path / f"{name}.py").read_text()
    plain = "        return {Columns.ACTION_DIST_INPUTS: self.pi(self.net(batch[Columns.OBS]))}"
    assert plain in source
    lines = (
        "obs = batch[Columns.OBS]",
        "logits = self.pi(self.net(obs))",
        body,
        "return {Columns.ACTION_DIST_INPUTS: logits}",
    )
    own = "\n".join(f"        {line}" for line in lines)
    (tmp_path / f"{name}.py").write_text(source.replace(plain, own))
    trial = plan_of(*SMALL, *words).trials[0]
    with pytest.raises(ConfigurationError, match=message) as error:
        export_policy(policy_of(trial), tmp_path / "policy.onnx")
    assert "\n" not in str(error.value)
    assert not (tmp_path / "policy.onnx").exists()


def test_connectors_of_ones_own_are_refused(plan_of: PlanOf, tmp_path: Path) -> None:
    trial = plan_of(*SMALL, "env=cartpole").trials[0]
    with pytest.raises(ConfigurationError, match="has connectors of its own between environment and module"):
        export_policy(
            replace(
                policy_of(trial), pipelines=(EnvToModulePipeline(connectors=[]), ModuleToEnvPipeline(connectors=[]))
            ),
            tmp_path / "policy.onnx",
        )


def test_weights_that_are_not_finite_are_refused(plan_of: PlanOf, tmp_path: Path) -> None:
    trial = plan_of(*SMALL, "env=cartpole").trials[0]
    policy = policy_of(trial)
    with torch.no_grad():
        next(policy.module.parameters()).fill_(float("nan"))
    with pytest.raises(ConfigurationError, match="non-finite weights"):
        export_policy(policy, tmp_path / "policy.onnx")


def test_a_graph_that_acts_differently_is_found(
    plan_of: PlanOf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The check itself: onnxruntime is given weights that are off by a thousandth."""
    trial = plan_of(*SMALL, "env=pendulum").trials[0]

    def off(graph: bytes) -> Any:
        model = onnx.load_from_string(graph)
        for weights in model.graph.initializer:
            values = onnx.numpy_helper.to_array(weights)
            if values.dtype == np.float32 and values.ndim:
                weights.CopyFrom(onnx.numpy_helper.from_array(values * np.float32(1.001), weights.name))
        return onnxruntime.InferenceSession(model.SerializeToString())

    monkeypatch.setattr(onnx_check, "session_of", off)
    with pytest.raises(
        ConfigurationError,
        match=r"acts differently once it is exported: \d+ of \d+ actions differ, by .* of their range",
    ):
        export_policy(policy_of(trial), tmp_path / "policy.onnx")
    assert not (tmp_path / "policy.onnx").exists()
