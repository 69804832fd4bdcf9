"""What is left to RLlib: all that the table in experiments/fast/README.md lists."""

import copy
import logging
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import gymnasium as gym
import pytest
import torch
from ray.rllib.algorithms.dqn import DQNConfig
from ray.rllib.algorithms.ppo import PPOConfig
from ray.rllib.algorithms.tqc import TQCConfig
from ray.rllib.connectors.env_to_module import MeanStdFilter
from ray.rllib.connectors.learner import AddInfosFromEpisodesToTrainBatch
from ray.rllib.connectors.module_to_env import GetActions
from ray.rllib.core import DEFAULT_MODULE_ID
from ray.rllib.core.rl_module.multi_rl_module import MultiRLModule
from ray.rllib.env.env_runner_group import EnvRunnerGroup
from ray.rllib.env.single_agent_env_runner import SingleAgentEnvRunner
from ray.rllib.offline.offline_env_runner import OfflineSingleAgentEnvRunner

from experiments.fast import stepping, switch
from experiments.fast.env_runner import FastEnvRunner
from experiments.fast.off_policy import FastDQN
from experiments.fast.switch import make_fast
from tests.support.fast_off_policy import dqn, same, train, weights
from tests.support.fast_ppo import Valueless, batches_of, learner_of
from tests.support.fast_ppo import config_of as ppo
from tests.support.fast_sampling import runner_of
from tests.support.suite import ROOT

pytestmark = pytest.mark.filterwarnings("ignore")

Change = Callable[[Any], Any]

OLD = {"enable_rl_module_and_learner": False, "enable_env_runner_and_connector_v2": False}
GPU = torch.device("cuda")
NESTED = gym.spaces.Tuple([gym.spaces.Discrete(2)])
SPACES = {"observation_space": gym.spaces.Box(-1, 1, (4,)), "action_space": gym.spaces.Discrete(2)}


def listed() -> list[str]:
    """What the table lists, each with its part."""
    page = (ROOT / "experiments/fast/README.md").read_text()
    table = page.partition("| part | left to RLlib |\n|---|---|\n")[2].partition("\n\n")[0]
    rows = [line.strip("| ").split(" | ") for line in table.splitlines()]
    return [f"{part}: {what}" for part, left in rows for what in left.split("; ")]


def whole(change: Change) -> Callable[[], str | None]:
    return lambda: switch.why_stock(change(PPOConfig()))


def fragment(
    config: Change = lambda config: config, runner: Change = lambda runner: None, **how: bool
) -> Callable[[], str | None]:
    def reason() -> str | None:
        made = runner_of(FastEnvRunner, config(make_fast(ppo())))
        found = runner(made)
        return (found or made).why_stock(**{"explore": True, "random_actions": False, **how})

    return reason


def whole_episodes() -> str:
    runner = runner_of(FastEnvRunner, make_fast(ppo()))
    runner.sample(num_episodes=1)
    return next(iter(runner._logged_reasons))


def callback(name: str) -> Callable[[], str | None]:
    return fragment(lambda config: config.callbacks(**{name: lambda **kwargs: None}))


def put(path: str, value: Any) -> Change:
    """Set an attribute, along a path of attributes and of the default module."""

    def change(part: Any) -> None:
        *parents, last = path.split(".")
        for name in parents:
            part = part[DEFAULT_MODULE_ID] if name == "default" else getattr(part, name)
        setattr(part, last, value)

    return change


def subclass(name: str, **changes: Any) -> Change:
    """Give an object another class, derived from its own."""

    def change(part: Any) -> None:
        for step in name.split("."):
            part = part[DEFAULT_MODULE_ID] if step == "default" else part if step == "self" else getattr(part, step)
        part.__class__ = type("Own", (type(part),), changes)

    return change


def update(config: Change = lambda config: config, learner: Change = lambda learner: None) -> Callable[[], str | None]:
    def reason() -> str | None:
        made = make_fast(config(ppo()))
        built = learner_of(made.learner_class, made)
        learner(built)
        return built.why_stock(batches_of(ppo(), (20,))[0])

    return reason


def nested_outputs() -> str | None:
    (episodes,) = batches_of(ppo(), (20,))
    for episode in episodes:
        buffer = episode.extra_model_outputs["nested"] = copy.deepcopy(episode.extra_model_outputs["action_logp"])
        buffer.data = {"a": buffer.data}
    return learner_of(make_fast(ppo()).learner_class, ppo()).why_stock(episodes)


def steps(
    config: Change = lambda config: config, learner: Change = lambda learner: None, buffer: bool = True
) -> Callable[[], str | None]:
    """Of `FastDQN.why_stock`, without all of the algorithm."""

    def reason() -> str | None:
        made = config(dqn(True))
        built = made.copy(copy_frozen=False).build_learner(env=gym.make("CartPole-v1"))
        learner(built)
        algorithm = FastDQN.__new__(FastDQN)
        algorithm.config, algorithm.learner_group = made, SimpleNamespace(_learner=built)
        algorithm.local_replay_buffer = algorithm._create_local_replay_buffer_if_necessary(made) if buffer else object()
        return algorithm.why_stock()

    return reason


def in_another_process() -> str | None:
    algorithm = FastDQN.__new__(FastDQN)
    algorithm.config, algorithm.learner_group = dqn(True), SimpleNamespace(_learner=None)
    algorithm.local_replay_buffer = algorithm._create_local_replay_buffer_if_necessary(algorithm.config)
    return algorithm.why_stock()


def env_steps(config: Change, runner_class: type[SingleAgentEnvRunner] = FastEnvRunner) -> Callable[[], str | None]:
    return lambda: stepping.why_stock(runner_of(runner_class, config(dqn(True))))


def connector(runner: Any) -> None:
    runner._module_to_env.append(GetActions())


HOOK = {"compute_gradients": lambda self, loss, **kwargs: super(type(self), self).compute_gradients(loss, **kwargs)}
PUBLIC = {
    name: lambda self, batch, **kwargs: {} for name in ("forward_exploration", "forward_inference", "forward_train")
}
STATEFUL = {"is_stateful": lambda self: True}
WHOLE, FRAGMENT, UPDATE = "A whole configuration:", "A fragment of the env runner:", "An update of PPO:"
STEPS, ENV_STEPS = "Training steps of DQN and SAC:", "The env steps of DQN and SAC alone:"
LEARNER_CONNECTOR = {"learner_connector": lambda observations, actions: AddInfosFromEpisodesToTrainBatch()}

CASES: dict[str, tuple[Callable[[], str | None], str]] = {
    f"{WHOLE} the old API stack": (whole(lambda config: config.api_stack(**OLD)), "old API stack"),
    f"{WHOLE} several agents": (
        whole(lambda config: config.multi_agent(policies={"a", "b"}, policy_mapping_fn=lambda *args, **kwargs: "a")),
        "more than one agent",
    ),
    f"{WHOLE} recording of samples (`output`)": (
        whole(lambda config: config.offline_data(output="/tmp/samples")),
        "an output",
    ),
    f"{FRAGMENT} whole episodes instead of a number of env steps": (whole_episodes, "whole episodes"),
    f"{FRAGMENT} random actions": (fragment(random_actions=True), "random actions"),
    f"{FRAGMENT} a module that is stateful": (fragment(runner=subclass("module", **STATEFUL)), "stateful"),
    f"{FRAGMENT} a public `forward_exploration` of the module's own": (
        fragment(runner=subclass("module", **PUBLIC)),
        "a forward_exploration of the module's own",
    ),
    f"{FRAGMENT} a public `forward_inference` of the module's own, without exploration": (
        fragment(runner=subclass("module", **PUBLIC), explore=False),
        "a forward_inference of the module's own",
    ),
    f"{FRAGMENT} env-to-module connectors of one's own": (
        fragment(
            lambda config: config.env_runners(env_to_module_connector=lambda env, spaces, device: MeanStdFilter())
        ),
        "env-to-module",
    ),
    f"{FRAGMENT} module-to-env connectors of one's own": (fragment(runner=connector), "module-to-env"),
    f"{FRAGMENT} nested observation spaces": (fragment(runner=put("env.single_observation_space", NESTED)), "nested"),
    f"{FRAGMENT} nested action spaces": (fragment(runner=put("env.single_action_space", NESTED)), "nested"),
    f"{FRAGMENT} episodes that stay lists (`episodes_to_numpy=False`)": (
        fragment(lambda config: config.env_runners(episodes_to_numpy=False)),
        "lists",
    ),
    f"{FRAGMENT} a subclass with a `_try_env_step` of its own": (
        fragment(runner=subclass("self", _try_env_step=lambda self, actions: None)),
        "a _try_env_step of its own",
    ),
    f"{FRAGMENT} an `on_episode_created` callback": (callback("on_episode_created"), "an on_episode_created callback"),
    f"{FRAGMENT} an `on_episode_start` callback": (callback("on_episode_start"), "an on_episode_start callback"),
    f"{FRAGMENT} an `on_episode_step` callback": (callback("on_episode_step"), "an on_episode_step callback"),
    f"{FRAGMENT} an `on_episode_end` callback that is not marked as `experiments.fast.env_runner.deferrable`": (
        callback("on_episode_end"),
        "an on_episode_end callback",
    ),
    f"{UPDATE} a subclass with a loss, gradients or an optimizer of its own": (
        update(learner=subclass("self", **HOOK)),
        "a compute_gradients of its own",
    ),
    f"{UPDATE} a device other than the CPU, where the bits were not compared": (
        update(learner=put("_device", GPU)),
        "type cuda",
    ),
    f"{UPDATE} several learners": (update(learner=put("config.num_learners", 2)), "more than one learner"),
    f"{UPDATE} a choice of which modules to train (`policies_to_train`)": (
        update(learner=put("config.policies_to_train", [])),
        "a choice",
    ),
    f"{UPDATE} a MultiRLModule of one's own": (
        update(
            learner=subclass(
                "module", _forward_train=lambda self, batch, **kwargs: MultiRLModule._forward_train(self, batch)
            )
        ),
        "a MultiRLModule of its own",
    ),
    f"{UPDATE} a module that is stateful": (update(learner=subclass("module.default", **STATEFUL)), "stateful"),
    f"{UPDATE} a public `forward_train` of the module's own": (
        update(learner=subclass("module.default", **PUBLIC)),
        "a forward_train of the module's own",
    ),
    f"{UPDATE} a module without a value function": (
        update(learner=lambda learner: learner.module._rl_modules.update({DEFAULT_MODULE_ID: Valueless(**SPACES)})),
        "value function",
    ),
    f"{UPDATE} training without a critic (`use_critic=False`)": (
        update(lambda config: config.training(use_critic=False)),
        "value function",
    ),
    f"{UPDATE} nested action spaces": (update(learner=put("module.default.action_space", NESTED)), "nested"),
    f"{UPDATE} compiled modules": (update(learner=put("_torch_compile_forward_train", True)), "compiled"),
    f"{UPDATE} gradient scalers": (update(learner=put("_grad_scalers", {})), "scaler"),
    f"{UPDATE} torch's learning rate schedulers": (update(learner=put("_lr_scheduler_classes", [])), "scheduler"),
    f"{UPDATE} learner connectors of one's own": (
        update(lambda config: config.training(**LEARNER_CONNECTOR)),
        "pipeline",
    ),
    f"{UPDATE} an optimizer other than a plain Adam": (
        update(learner=lambda learner: learner.get_optimizer().param_groups[0].update(weight_decay=0.1)),
        "Adam",
    ),
    f"{UPDATE} episodes with nested outputs of the module": (nested_outputs, "nested"),
    f"{STEPS} an algorithm that is derived from them, such as TQC": (
        lambda: switch.why_stock_steps(TQCConfig()),
        "no fast TQC",
    ),
    f"{STEPS} a replay buffer of another class than RLlib's two for episodes": (steps(buffer=False), "a replay buffer"),
    f"{STEPS} sequences to burn in (`burn_in_len`)": (
        steps(lambda config: config.training(burn_in_len=2)),
        "a burn-in",
    ),
    f"{STEPS} steps counted by agent (`count_steps_by`)": (
        steps(lambda config: config.multi_agent(count_steps_by="agent_steps")),
        "counted by agent",
    ),
    f"{STEPS} a learner in another process": (in_another_process, "in another process"),
    f"{STEPS} a learner that is not a fast one": (
        steps(lambda config: config.learners(learner_class=DQNConfig().get_default_learner_class())),
        "not a fast one",
    ),
    f"{STEPS} a device other than the CPU, where the bits were not compared": (
        steps(learner=put("_device", GPU)),
        "type cuda",
    ),
    f"{STEPS} a learner with hooks of its own": (
        steps(learner=subclass("self", **HOOK)),
        "a compute_gradients of its own",
    ),
    f"{STEPS} a module that is stateful": (steps(learner=subclass("module.default", **STATEFUL)), "stateful"),
    f"{STEPS} a public `forward_train` of the module's own": (
        steps(learner=subclass("module.default", **PUBLIC)),
        "a forward_train of the module's own",
    ),
    f"{STEPS} learner connectors of one's own": (
        steps(lambda config: config.training(**LEARNER_CONNECTOR)),
        "a learner connector",
    ),
    f"{STEPS} updates that skip NaN gradients (`torch_skip_nan_gradients`)": (
        steps(learner=put("config.torch_skip_nan_gradients", True)),
        "torch_skip_nan_gradients",
    ),
    f"{STEPS} a compiled learner": (steps(learner=put("config.torch_compile_learner", True)), "a compiled learner"),
    f"{ENV_STEPS} another class of env runner": (
        env_steps(lambda config: config, SingleAgentEnvRunner),
        "not a FastEnvRunner",
    ),
    f"{ENV_STEPS} an `on_sample_end` callback": (
        env_steps(lambda config: config.callbacks(on_sample_end=lambda **kwargs: None)),
        "an on_sample_end callback",
    ),
    f"{ENV_STEPS} whole episodes (`batch_mode`)": (
        env_steps(lambda config: config.env_runners(batch_mode="complete_episodes")),
        "whole episodes",
    ),
}


def test_all_that_the_table_lists_has_a_case() -> None:
    assert listed() == list(CASES)


@pytest.mark.parametrize("line", listed())
def test_what_is_listed_is_left_to_rllib_for_the_reason_that_is_said(line: str) -> None:
    torch.manual_seed(0)
    reason, said = CASES[line]
    assert said in str(reason())


def test_what_is_not_listed_is_not_left_to_rllib() -> None:
    for reason in (
        whole(lambda config: config),
        fragment(),
        fragment(explore=False),
        update(),
        steps(),
        lambda: switch.why_stock_steps(DQNConfig()),
        lambda: switch.why_stock_steps(dqn(True)),
        lambda: switch.why_stock_steps(ppo()),
        env_steps(lambda config: config),
    ):
        assert reason() is None


def test_a_configuration_that_is_left_to_rllib_stays_as_it_is(caplog: pytest.LogCaptureFixture) -> None:
    for change in (lambda config: config.api_stack(**OLD), lambda config: config.offline_data(output="/tmp/samples")):
        for config_class in (PPOConfig, DQNConfig):
            config, stock = change(config_class()), change(config_class())
            with caplog.at_level(logging.INFO):
                assert make_fast(config) is config
            assert config.to_dict() == stock.to_dict()
    assert "make_fast: left to RLlib, since there is an output that records samples." in [
        record.getMessage() for record in caplog.records
    ]


@pytest.mark.ray
@pytest.mark.usefixtures("ray_instance")
def test_samples_are_recorded_as_in_rllib() -> None:
    config = make_fast(ppo().offline_data(output="/tmp/samples"))
    assert EnvRunnerGroup(config=config, local_env_runner=False).env_runner_cls is OfflineSingleAgentEnvRunner


@pytest.mark.slow
@pytest.mark.ray
@pytest.mark.usefixtures("ray_instance")
def test_a_burn_in_without_a_recurrent_network_trains_as_in_rllib() -> None:
    found = []
    for fast in (False, True):
        algorithm, _ = train(
            dqn(fast, burn_in_len=2, replay_buffer_config={"type": "EpisodeReplayBuffer", "capacity": 150}), 2
        )
        found.append(weights(algorithm))
        algorithm.stop()
    same(found[1], found[0])
