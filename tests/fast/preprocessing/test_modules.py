"""RLlib's modules with preprocessing do with raw observations what RLlib's own do with transformed ones,
whichever way they are asked.
"""

from typing import Any

import numpy as np
import pytest
import torch
import tree
from ray.rllib.algorithms.appo import APPOConfig
from ray.rllib.algorithms.dqn import DQNConfig
from ray.rllib.algorithms.impala import IMPALAConfig
from ray.rllib.algorithms.ppo import PPOConfig
from ray.rllib.algorithms.sac import SACConfig
from ray.rllib.algorithms.tqc import TQCConfig
from ray.rllib.core import DEFAULT_MODULE_ID
from ray.rllib.core.columns import Columns
from ray.rllib.core.rl_module.apis import TargetNetworkAPI
from ray.rllib.core.rl_module.rl_module import RLModule

from experiments.fast.preprocessing.modules import SETTINGS, Preprocessed
from experiments.rllib.made_environments import spaces
from tests.support.planning import plan_for
from tests.support.preprocessed import NORMALIZE, SYMLOG, seen, with_preprocessing

ON_POLICY = ["_forward_inference", "_forward_exploration", "_forward_train", "compute_values"]
REPLAYING = ["_forward_inference", "_forward_exploration", "_forward_train"]
CASES = [
    *((PPOConfig, entry) for entry in ON_POLICY),
    *((IMPALAConfig, entry) for entry in ON_POLICY),
    *((APPOConfig, entry) for entry in [*ON_POLICY, "forward_target"]),
    *((DQNConfig, entry) for entry in REPLAYING),
    *((SACConfig, entry) for entry in REPLAYING),
    *((TQCConfig, entry) for entry in REPLAYING),
]


def module_of(config_class: Any, settings: dict[str, Any] | None) -> Any:
    name = "pendulum" if issubclass(config_class, SACConfig) else "cartpole"
    env = plan_for("study=smoke", "study.space={}", f"env={name}").trials[0].env
    config = config_class().rl_module(model_config={"fcnet_hiddens": [8]})
    if settings is not None:
        with_preprocessing(config, settings)
    torch.manual_seed(0)
    spec = config.get_rl_module_spec(spaces={DEFAULT_MODULE_ID: spaces(env)})
    module = spec.build()
    if isinstance(module, TargetNetworkAPI):
        module.make_target_networks()
    return module


def batch_of(module: Any) -> dict[str, Any]:
    torch.manual_seed(1)
    rows, size = 5, module.observation_space.shape[0]
    actions = torch.randn(rows, *module.action_space.shape)
    return {Columns.OBS: torch.randn(rows, size), Columns.NEXT_OBS: torch.randn(rows, size), Columns.ACTIONS: actions}


def ask(module: Any, entry: str, batch: dict[str, Any]) -> Any:
    torch.manual_seed(2)
    more = {"t": 0} if entry == "_forward_exploration" else {}
    return getattr(module, entry)(batch, **more)


@pytest.mark.parametrize(("config_class", "entry"), CASES)
@pytest.mark.parametrize("settings", [NORMALIZE, SYMLOG], ids=["normalize", "symlog"])
def test_raw_observations_are_transformed_once(config_class: Any, entry: str, settings: dict[str, Any]) -> None:
    ours, plain = module_of(config_class, settings), module_of(config_class, None)
    assert isinstance(ours, Preprocessed)
    ours.preprocessing.merge([seen(ours.observation_space.shape[0])])
    raw = batch_of(plain)
    transformed = {
        **raw,
        **{name: ours.preprocessing.observations(raw[name]) for name in (Columns.OBS, Columns.NEXT_OBS)},
    }
    assert not torch.equal(raw[Columns.OBS], transformed[Columns.OBS])
    found, expected = ask(ours, entry, raw), ask(plain, entry, transformed)
    assert [path for path, _ in tree.flatten_with_path(found)] == [path for path, _ in tree.flatten_with_path(expected)]
    for (path, one), other in zip(tree.flatten_with_path(found), tree.flatten(expected), strict=True):
        assert torch.equal(one, other), path


def test_a_value_function_on_embeddings_looks_at_no_observation() -> None:
    module = module_of(PPOConfig, NORMALIZE)
    embeddings = module._forward_train(batch_of(module))[Columns.EMBEDDINGS]
    assert torch.equal(module.compute_values({}, embeddings), module.compute_values(batch_of(module)))


def test_the_statistics_are_in_rllibs_state_and_files_to_the_bit(tmp_path: Any) -> None:
    module, other = module_of(PPOConfig, NORMALIZE), module_of(PPOConfig, NORMALIZE)
    module.preprocessing.merge([seen(4)])
    assert module.get_state()[f"{SETTINGS}.of_observations.mean"].dtype == np.float64
    other.set_state(module.get_state(inference_only=True))
    module.save_to_path(tmp_path / "module")
    for again in (other, RLModule.from_checkpoint(tmp_path / "module")):
        for name, value in module.preprocessing.state_dict().items():
            assert torch.equal(again.preprocessing.state_dict()[name], value), name
