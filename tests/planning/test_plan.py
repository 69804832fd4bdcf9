import copy
import json
import math
import shlex
from collections.abc import Iterator
from typing import Any

import gymnasium as gym
import pytest
import torch
import yaml
from omegaconf.errors import OmegaConfBaseException
from ray._private.accelerators import NvidiaGPUAcceleratorManager

from analysis.document.conclusions import evidence_of
from experiments.config.compose import CONF
from experiments.config.errors import ConfigurationError
from experiments.config.schema import EnvSettings, HardwareSettings
from experiments.config.trial_config import TrialConfig, distinct_names, label_of
from experiments.contract import COLUMNS, extensions
from experiments.planning import terminal
from experiments.planning.axes import PARAMS
from experiments.planning.machines import Cluster, Node, local_machine
from experiments.planning.record import plan_record, searched_params, trial_params
from experiments.planning.resources import Layout, check_fits, trials_at_once
from experiments.planning.terminal import summary
from experiments.planning.trials import StudyTrials
from experiments.rllib.building import build_algorithm_config
from experiments.rllib.made_environments import spaces
from experiments.study.outcomes import TrialOutcome
from tests.support.algorithms import suits
from tests.support.suite import PAIRS, PlanOf

SINGLE = "study.space={}"
BATCH_512 = "algorithm.training.train_batch_size_per_learner=512"


@pytest.mark.parametrize(
    ("study", "algorithm", "env"),
    [
        pytest.param(study, *pair, marks=() if pair[1] in ("cartpole", "pendulum") else pytest.mark.slow)
        for study in ("smoke", "lr_batch")
        for pair in PAIRS
    ],
)
def test_a_study_asks_every_algorithm_on_every_environment_that_its_action_space_allows(
    plan_of: PlanOf, study: str, algorithm: str, env: str
) -> None:
    _, action_space = spaces(EnvSettings(**yaml.safe_load((CONF / "env" / f"{env}.yaml").read_text())))
    words = (f"study={study}", f"algorithm={algorithm}", f"env={env}")
    if not suits(algorithm, action_space):
        with pytest.raises(ConfigurationError, match=r"needs (discrete|continuous) actions"):
            plan_of(*words)
        return
    plan = plan_of(*words)
    assert plan.experiment == f"{study}/{algorithm}-{env}"
    assert len(plan.configurations) == {"smoke": 2, "lr_batch": 9}[study]
    assert len({c.batch_env_steps for c in plan.configurations}) == {"smoke": 1, "lr_batch": 3}[study]


def _commands() -> Iterator[tuple[str, ...]]:
    """What the comments of `conf/study` tell a person to run: commands, and what is given after the file's first."""
    folders = (CONF, *(one.conf for one in extensions.found() if one.conf is not None))
    for file in sorted(file for folder in folders for file in folder.glob("study/*.yaml")):
        first: tuple[str, ...] = ()
        for words in (
            shlex.split(line[1:])
            for line in file.read_text().replace("\\\n#", "").splitlines()
            if line.startswith("#   ")
        ):
            if words[:2] == ["python", "experiments/run.py"]:
                yield (*words[2:],)
                first = first or (*words[2:],)
            elif words[0] != "python":
                yield (*first, *words)


@pytest.mark.parametrize("words", _commands(), ids=" ".join)
def test_what_a_file_of_a_study_tells_to_run_is_planned(plan_of: PlanOf, words: tuple[str, ...]) -> None:
    assert plan_of(*words, cluster=Cluster((Node(16, 4),))).configurations


def test_a_schedule_turns_at_a_share_of_whatever_budget(plan_of: PlanOf) -> None:
    study = ("study=single", "algorithm=sac", "env=mountaincar_continuous", "study.space={}")
    for words, turn, end in (((), 25_000, 40_000), (("budget_env_steps=100000",), 50_000, 80_000)):
        (configuration,) = plan_of(*study, *words).configurations
        training = configuration.suite.algorithm["training"]
        assert [at for at, _ in training["actor_lr"]] == [at for at, _ in training["critic_lr"]] == [0, turn, end]
    with pytest.raises(ConfigurationError, match=r"^budget_env_steps='half'"):
        plan_of(*study, "budget_env_steps=half")
    with pytest.raises(OmegaConfBaseException, match=r"\$\{of_budget:6\}: must be a share of the budget, from 0 to 1"):
        plan_of(*study, "algorithm.training.actor_lr=[[0,1e-3],['${of_budget:6}',0.0]]")


def test_a_study_cuts_settings_to_its_size_unless_the_command_line_gives_them(plan_of: PlanOf) -> None:
    batch = "algorithm.training.train_batch_size_per_learner"
    cut, given = (
        plan_of("study=smoke", "env=lunarlander", *more).configurations[0].batch_env_steps
        for more in ((), (f"{batch}=2048",))
    )
    assert (cut, given) == (1024, 2048)
    replay = (
        plan_of("study=smoke", "algorithm=dqn").configurations[0].suite.algorithm["training"]["replay_buffer_config"]
    )
    assert replay["capacity"] == 4096


@pytest.mark.parametrize(
    ("algorithm", "env", "fix"), [("dqn", "pendulum", "algorithm=sac"), ("sac", "cartpole", "algorithm=dqn")]
)
def test_a_wrong_pair_is_refused_with_the_fix(plan_of: PlanOf, algorithm: str, env: str, fix: str) -> None:
    with pytest.raises(ConfigurationError, match=fix):
        plan_of(f"algorithm={algorithm}", f"env={env}", SINGLE)


@pytest.mark.parametrize(
    ("env", "algorithm"),
    [("lunarlander", "ppo"), ("pong", "ppo"), ("halfcheetah", "sac"), ("inverted_pendulum", "sac")],
)
def test_environments_of_the_extras_compose_and_step(plan_of: PlanOf, env: str, algorithm: str) -> None:
    plan = plan_of(f"algorithm={algorithm}", f"env={env}", SINGLE)
    settings = plan.trials[0].env
    made = gym.make(settings.id, **settings.env_config)
    observation, _ = made.reset(seed=0)
    for _ in range(5):
        assert made.observation_space.contains(observation)
        observation, *_ = made.step(made.action_space.sample())
    made.close()


def test_an_env_that_is_not_installed_names_its_extra(plan_of: PlanOf) -> None:
    with pytest.raises(ConfigurationError, match=r"pip install -e '\.\[box2d\]'"):
        plan_of(SINGLE, "env=lunarlander", "env.id=no_such_simulator:Lander-v0")


def test_the_default_study_spans_learning_rates_batches_and_seeds(plan_of: PlanOf) -> None:
    plan = plan_of()
    assert len(plan.configurations) >= 9
    assert len(plan.seeds) >= 3
    assert plan.suite.budget_env_steps == 60_000
    assert searched_params(plan) == ["log10_lr", "train_batch_size_total"]
    assert plan.concurrency == 2


def test_every_trial_of_a_configuration_has_its_id_and_no_other_has_it(plan_of: PlanOf) -> None:
    plan = plan_of()
    ids = {t.label: set() for t in plan.trials}
    for trial in plan.trials:
        ids[trial.label].add(trial.config_id)
    assert all(len(found) == 1 for found in ids.values())
    assert len(set.union(*ids.values())) == len(plan.configurations)


def test_a_trial_survives_json(plan_of: PlanOf) -> None:
    trial = plan_of(SINGLE).trials[0]
    assert trial.algorithm["training"]["vf_clip_param"] == math.inf
    assert TrialConfig.from_mapping(trial.to_mapping()) == trial


def test_hardware_and_seeds_do_not_change_the_configuration_but_learning_settings_do(plan_of: PlanOf) -> None:
    def config_id(*overrides: str) -> str:
        return plan_of(SINGLE, *overrides).trials[0].config_id

    same = config_id()
    assert config_id("seeds=[5]", "hardware.max_concurrent_trials=1", "checkpoint.keep=3") == same
    assert config_id("algorithm.training.lr=1e-5") != same
    assert config_id("evaluation.final_episodes=7") != same


def test_checkpoints_come_every_quarter_but_leave_room_for_two_episodes(plan_of: PlanOf) -> None:
    def every(*overrides: str) -> int | None:
        return plan_of("study.space={}", *overrides).trials[0].checkpoint.every_env_steps

    assert every("env=acrobot") == 40_000  # a quarter of 150,000, on a grid of 5,000
    assert every() == 16_000  # a quarter would be 15,000, two episodes of 500 in 16 environments are 16,000
    assert every("study=smoke") == 4096  # the whole budget: no environment is reset on the way
    assert every("checkpoint.every_env_steps=4000") == 4000
    assert (
        plan_of("study.space={}").trials[0].config_id
        != plan_of("study.space={}", "checkpoint.every_env_steps=4000").trials[0].config_id
    )


def test_repeats_are_trials_of_one_configuration_and_seed(plan_of: PlanOf) -> None:
    plan = plan_of("repeats=2", "seeds=[3,4]", "study.space={}")
    assert [(t.seed, t.repeat) for t in plan.trials] == [(3, 0), (4, 0), (3, 1), (4, 1)]
    assert len({t.config_id for t in plan.trials}) == 1
    assert len({t.folder_name for t in plan.trials}) == 4
    assert plan.trials[-1].name.endswith("s=4 r=1")
    assert "1 configuration x 2 seeds x 2 repeats = 4 trials, 240,000 env steps" in summary(plan)


def test_auto_lays_out_a_trial_alike_on_any_machine_and_in_any_study(plan_of: PlanOf) -> None:
    two = plan_of()
    assert (two.configurations[0].layout.num_env_runners, two.concurrency) == (0, 2)
    big = plan_of(cluster=Cluster((Node(32, 0),)))
    alone = plan_of(SINGLE, "seeds=[0]", cluster=Cluster((Node(32, 0),)))
    assert {c.layout for p in (two, big, alone) for c in p.configurations} == {Layout(0, 16, 0, 0)}
    assert big.concurrency == 32


@pytest.mark.parametrize(
    ("num_cpus", "expected", "at_once"), [(2, (1, 16, 0), 1), (8, (2, 8, 1), 2), (64, (2, 8, 1), 16)]
)
def test_auto_gives_asynchronous_algorithms_a_runner_and_room_permitting_a_learner(
    plan_of: PlanOf, num_cpus: int, expected: tuple[int, int, int], at_once: int
) -> None:
    of_16 = ("algorithm=impala", f"{BATCH}=1600", SINGLE)
    plan = plan_of(*of_16, f"seeds={list(range(20))}", cluster=Cluster((Node(num_cpus, 0),)))
    layout = plan.configurations[0].layout
    assert (layout.num_env_runners, layout.num_envs_per_env_runner, layout.num_learners) == expected
    assert plan.concurrency == at_once
    alone = plan_of(*of_16, "seeds=[0]", cluster=Cluster((Node(num_cpus, 0),)))
    assert alone.configurations[0].layout == layout


BATCH = "algorithm.training.train_batch_size_per_learner"
ENVS = "algorithm.env_runners.num_envs_per_env_runner"
FRAGMENTS_OF_100 = ("algorithm=impala", "++algorithm.env_runners.rollout_fragment_length=100", SINGLE)


@pytest.mark.parametrize(
    ("asked", "envs", "batch"),
    [(400, 4, 400), (1600, 16, 1600), (3200, 16, 3200), (2000, 10, 2000), (1024, 11, 1100), (50, 1, 50)],
)
def test_an_asynchronous_batch_is_whole_samples_of_as_many_environments_as_make_it_up(
    plan_of: PlanOf, asked: int, envs: int, batch: int
) -> None:
    planned = plan_of(*FRAGMENTS_OF_100, f"{BATCH}={asked}").configurations[0]
    assert (planned.layout.num_envs_per_env_runner, planned.batch_env_steps) == (envs, batch)
    following = plan_of(
        "algorithm=impala", "++algorithm.env_runners.rollout_fragment_length=auto", SINGLE, f"{BATCH}={asked}"
    ).configurations[0]
    assert following.layout.num_envs_per_env_runner == 16


def test_environments_whose_samples_are_longer_than_the_batch_are_refused_unless_throughput_is_measured(
    plan_of: PlanOf,
) -> None:
    words = (*FRAGMENTS_OF_100, f"{BATCH}=400")
    with pytest.raises(
        ConfigurationError, match=r"so that a batch of 400 would be one of 1,600\. Try .*=null, or .*per_learner=1600"
    ):
        plan_of(*words, f"{ENVS}=16")
    assert plan_of(*words, f"{ENVS}=2").configurations[0].batch_env_steps == 400
    measured = plan_of(*words, "+measurement=throughput", "hardware.num_envs_per_env_runner=16").configurations[0]
    assert (measured.layout.num_envs_per_env_runner, measured.batch_env_steps) == (16, 1600)


def test_fractions_of_a_gpu_pack_several_trials_on_one(plan_of: PlanOf) -> None:
    plan = plan_of(SINGLE, "seeds=[0,1,2,3,4]", "hardware.num_gpus_per_learner=0.2", cluster=Cluster((Node(16, 1),)))
    assert plan.concurrency == 5


LARGE = "++algorithm.rl_module.fcnet_hiddens=[2048,2048]"


@pytest.mark.parametrize(
    ("gpus", "cpus", "share"),
    [(1, 1, 1), (1, 3, 0.33), (2, 2, 1), (2, 3, 0.5), (2, 5, 0.33), (3, 4, 0.5), (1, 64, 0.25), (0, 4, 0)],
)
def test_gpus_are_shared_by_as_many_large_trials_as_there_are_cpus_for_but_no_more_than_four(
    plan_of: PlanOf, gpus: int, cpus: int, share: float
) -> None:
    machine = Cluster((Node(cpus, gpus),))
    assert plan_of(SINGLE, LARGE, cluster=machine).configurations[0].layout.num_gpus_per_learner == share
    # small: the CPU is faster
    assert plan_of(SINGLE, cluster=machine).configurations[0].layout.num_gpus_per_learner == 0
    if gpus:
        assert (
            plan_of(SINGLE, f"hardware.num_gpus={gpus}", cluster=machine).configurations[0].layout.num_gpus_per_learner
            == share
        )


def test_pictures_are_learned_from_on_a_gpu(plan_of: PlanOf) -> None:
    pytest.importorskip("ale_py")
    layout = plan_of(SINGLE, "env=pong", cluster=Cluster((Node(4, 1),))).configurations[0].layout
    assert layout.num_gpus_per_learner == 0.25


def test_learners_side_by_side_get_a_gpu_each_or_none(plan_of: PlanOf) -> None:
    for gpus, share in ((1, 0), (2, 1), (4, 1)):
        plan = plan_of(SINGLE, LARGE, "seeds=[0,1]", "hardware.num_learners=2", cluster=Cluster((Node(16, gpus),)))
        assert plan.configurations[0].layout.num_gpus_per_learner == share
    with pytest.raises(ConfigurationError, match="cannot share a GPU"):
        plan_of(SINGLE, "hardware.num_learners=2", "hardware.num_gpus_per_learner=0.5", cluster=Cluster((Node(16, 1),)))


def test_learners_are_scaled_on_cpus_unless_gpus_are_declared(plan_of: PlanOf) -> None:
    machine = Cluster((Node(32, 4),))
    assert {
        c.layout.num_gpus_per_learner for c in plan_of("study=learner_scaling", cluster=machine).configurations
    } == {0}
    space = "study.space={algorithm.learners.num_learners:[1,2,4]}"
    declared = plan_of("study=learner_scaling", "hardware.num_gpus=4", space, cluster=machine)
    assert {c.layout.num_gpus_per_learner for c in declared.configurations} == {1}


@pytest.mark.parametrize(
    ("hidden", "expected"), [(None, 4), ("2", 1), ("0,3", 2), ("", 0), ("NoDevFiles", 0), ("0,1,2,3,4,5", 4)]
)
def test_gpus_that_are_hidden_do_not_count(monkeypatch: pytest.MonkeyPatch, hidden: str | None, expected: int) -> None:
    monkeypatch.setattr(NvidiaGPUAcceleratorManager, "get_current_node_num_accelerators", lambda: 4)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    if hidden is None:
        monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    else:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", hidden)
    assert local_machine(HardwareSettings("auto")).num_gpus == expected
    assert local_machine(HardwareSettings("auto", num_gpus=3)).num_gpus == 3


def test_gpus_that_torch_cannot_use_do_not_count_and_are_told_of(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setattr(NvidiaGPUAcceleratorManager, "get_current_node_num_accelerators", lambda: 7)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert [local_machine(HardwareSettings("auto")).num_gpus for _ in range(2)] == [0, 0]
    assert [r.getMessage().partition(" cannot ")[2] for r in caplog.records] == [
        "use the 7 GPUs of this machine: everything runs on CPUs."
    ]


@pytest.mark.parametrize(
    ("profile", "node", "runners", "envs", "learners", "gpus"),
    [
        ("laptop", Node(4, 0), 2, 2, 0, 0),
        ("workstation", Node(16, 1), 8, 4, 0, 1),
        ("small_cluster", Node(64, 4), 32, 4, 4, 1),
        ("large_cluster", Node(128, 8), 100, 4, 8, 1),
    ],
)
def test_profiles(
    plan_of: PlanOf, profile: str, node: Node, runners: int, envs: int, learners: int, gpus: float
) -> None:
    algorithm = "impala" if profile == "large_cluster" else "ppo"
    layout = (
        plan_of(SINGLE, f"hardware={profile}", f"algorithm={algorithm}", cluster=Cluster((node,)))
        .configurations[0]
        .layout
    )
    assert (
        layout.num_env_runners,
        layout.num_envs_per_env_runner,
        layout.num_learners,
        layout.num_gpus_per_learner,
    ) == (
        runners,
        envs,
        learners,
        gpus,
    )


def test_a_profile_that_cannot_fit_says_what_it_needs_what_there_is_and_what_to_try(plan_of: PlanOf) -> None:
    with pytest.raises(ConfigurationError) as refused:
        plan_of("hardware=workstation")
    assert "needs 9 CPUs and 1 GPU per trial; this machine has 2 CPUs and 0 GPUs. Try hardware=auto." in str(
        refused.value
    )
    assert "hardware.num_cpus=9 hardware.num_gpus=0" in str(refused.value)


def test_declared_logical_cpus_make_a_profile_fit(plan_of: PlanOf) -> None:
    plan = plan_of(
        "hardware=workstation", "hardware.num_cpus=16", "hardware.num_gpus=0", cluster=Cluster((Node(16, 0),))
    )
    assert plan.configurations[0].layout.num_gpus_per_learner == 0


def test_a_bundle_wider_than_any_node_never_fits_though_the_sum_does(plan_of: PlanOf) -> None:
    spread = "hardware.placement=PACK"
    request = plan_of("hardware=workstation", SINGLE, spread, cluster=Cluster((Node(16, 1),))).configurations[0].request
    check_fits(request, Cluster((Node(5, 1), Node(5, 0))), "workstation")  # runners on both nodes
    with pytest.raises(ConfigurationError, match="cluster of 9 nodes"):
        check_fits(request, Cluster((Node(0, 1), *[Node(2, 0)] * 8)), "workstation")  # the GPU's node has no CPU
    assert trials_at_once(request, Cluster((Node(20, 4),)), limit=9) == 2


def test_an_algorithm_axis_composes_each_with_its_own_settings(plan_of: PlanOf) -> None:
    plan = plan_of("study=algorithms", "env=cartpole")
    assert [c.label for c in plan.configurations] == ["ppo", "dqn", "appo", "impala"]
    assert plan.experiment == "algorithms/ppo+dqn+appo+impala-cartpole"
    dqn = plan.configurations[1].suite.algorithm
    assert dqn["config_class"].endswith("DQNConfig")
    assert plan.left_out == ("algorithm=sac needs continuous actions, but env=cartpole has Discrete(2)",)


def test_algorithms_side_by_side_have_the_budget_of_the_slowest_and_a_budget_of_ones_own_is_kept(
    plan_of: PlanOf,
) -> None:
    own = [
        plan_of("study=single", f"algorithm={name}", "env=pendulum").suite.budget_env_steps for name in ("ppo", "sac")
    ]
    assert min(own) < max(own)
    plan = plan_of("study=algorithms", "env=pendulum")
    assert {c.suite.budget_env_steps for c in plan.configurations} == {max(own)}
    assert [c.label for c in plan.configurations] == ["ppo", "sac", "appo", "impala"]
    plan = plan_of("study=algorithms", "env=pendulum", "budget_env_steps=40000")
    assert {c.suite.budget_env_steps for c in plan.configurations} == {40_000}


def test_a_learning_rate_that_goes_to_zero_does_so_at_the_end_of_whatever_budget(plan_of: PlanOf) -> None:
    def ends(*given: str) -> set[int]:
        trials = plan_of("env=lunarlander_continuous", *given).trials
        return {
            t.algorithm["training"]["actor_lr"][-1][0] - t.budget_env_steps
            for t in trials
            if t.algorithm["name"] == "sac"
        }

    assert (
        ends("study=single", "algorithm=sac") == ends("study=single", "algorithm=sac", "budget_env_steps=100000") == {0}
    )
    common = plan_of("study=algorithms", "env=lunarlander_continuous").trials
    assert {t.budget_env_steps for t in common} == {1_000_000}
    assert ends("study=algorithms") == {0}


def test_a_space_on_the_command_line_replaces_the_studys(plan_of: PlanOf) -> None:
    plan = plan_of("study.space={algorithm.training.gamma:[0.9,0.99]}")
    assert [c.label for c in plan.configurations] == ["gamma=0.9", "gamma=0.99"]


def test_labels_are_short_and_put_what_differs_first() -> None:
    point: dict[str, Any] = {
        "algorithm.env_runners.num_env_runners": 2,
        "algorithm.training.lr": 3e-4,
        "algorithm": "ppo",
    }
    assert label_of(point, "x") == "ppo lr=3e-4 runners=2"
    assert label_of({}, "ppo-cartpole") == "ppo-cartpole"
    assert label_of({"algorithm.training.lr": [[0, 1e-3], [50000, 0.0]]}, "x") == "lr=1e-3..0@50000"
    assert label_of({"algorithm.rl_module.fcnet_hiddens": [64, 32]}, "x") == "fcnet_hiddens=64x32"


def test_axes_that_end_in_the_same_word_are_told_apart() -> None:
    names = distinct_names(
        ("algorithm.training.lr", "env.env_config.lr", "env.env_config.a.g", "env.env_config.b.g"),
        lambda path: path[-2:].strip("."),
    )
    assert list(names.values()) == ["lr", "env_config.lr", "a.g", "b.g"]
    axes = ("env.env_config.a.g", "env.env_config.b.g")
    assert label_of({axes[0]: 1, axes[1]: 2}, "x") == "a.g=1 b.g=2"
    assert [label_of({axis: 1}, "x", axes) for axis in axes] == ["a.g=1", "b.g=1"]  # where conditions leave one of them
    assert label_of({axes[0]: 1}, "x", axes[:1]) == "g=1"


@pytest.fixture
def own_settings() -> Iterator[str]:
    gym.register("OwnSettings-v0", lambda **settings: gym.make("CartPole-v1").unwrapped, max_episode_steps=500)
    yield "env.id=OwnSettings-v0"
    del gym.registry["OwnSettings-v0"]


def test_a_setting_of_the_environment_is_not_taken_for_one_of_the_suite_that_has_its_name(
    plan_of: PlanOf, own_settings: str
) -> None:
    values = {"seed": [7], "gamma": [3, 2], "score": [4], "log10_mass": [6], "g": [10.0], "num_env_runners": [5]}
    env = {f"env.env_config.{name}": of for name, of in values.items()}
    space = {**env, "algorithm.training.gamma": [0.9, 0.99], "env.env_config.reward": [{"rule": "sparse"}]}
    plan = plan_of(
        "study=smoke",
        own_settings,
        "env.vectorize_mode=sync",
        "env.env_config={}",
        f"study.space={json.dumps(space)}".replace('"', ""),
        "seeds=[0]",
    )
    names = {path: f"env_config.{name}" for path, name in zip(env, values, strict=True)} | {"env.env_config.g": "g"}
    record, trial = plan_record(StudyTrials(plan)), plan.trials[-1]
    assert {path: name for name, path in record["axes"].items()} == {
        **names, "algorithm.training.gamma": "gamma", "env.env_config.reward": "reward",
    }  # fmt: skip
    params = trial_params(plan, trial)
    assert [params[name] for name in names.values()] == [of[-1] for of in values.values()]
    assert (params["seed"], params["gamma"], params["num_env_runners"]) == (0, 0.99, 0)
    assert "gamma=0.99 " in trial.label and "env_config.gamma=2" in trial.label


def test_every_parameter_and_column_that_is_not_searched_is_known_as_taken(plan_of: PlanOf) -> None:
    plan = plan_of(SINGLE, "seeds=[0]")
    params = trial_params(plan, plan.trials[0])
    assert set(params) <= PARAMS | COLUMNS
    runs = evidence_of(plan_record(StudyTrials(plan)), [TrialOutcome(plan.trials[0].label, 0, "failed")]).runs
    of_extensions = {name.removeprefix("final/") for name in extensions.metrics()}
    assert set(runs) - set(params) <= COLUMNS | of_extensions


def test_the_report_grid_is_as_wide_as_the_largest_batch_of_the_study(plan_of: PlanOf) -> None:
    assert plan_of(SINGLE).report_every_env_steps == 4000
    wide = plan_of("study.space={algorithm.training.train_batch_size_per_learner:[512,7000]}")
    assert {t.report_every_env_steps for t in wide.trials} == {7500}  # the next divisor of 60000


@pytest.mark.parametrize(
    ("words", "grid"),
    [
        (["budget_env_steps=20000", BATCH_512], 2000),  # the env's own, of 4000, is for a larger budget
        (["budget_env_steps=16384", BATCH_512], 1024),  # 16, as there are no 10 to 15
        (["budget_env_steps=20000", "algorithm.training.train_batch_size_per_learner=4096"], 5000),  # all that fit
        (["budget_env_steps=2e6", BATCH_512], 6250),  # 320, as many as a curve shows
        (["budget_env_steps=60013", BATCH_512], 60013),  # a prime
        (["study.space={env:[cartpole,acrobot]}", "study.name=two", BATCH_512], 6000),
    ],
)
def test_a_trial_has_ten_reports_at_least_where_its_batch_allows_it(
    plan_of: PlanOf, words: list[str], grid: int
) -> None:
    plan = plan_of(SINGLE, *words) if "study.name=two" not in words else plan_of(*words)
    assert plan.report_every_env_steps == grid
    few = [line for line in terminal.plan_lines(plan) if line.startswith("reports")]
    assert bool(few) == (min(c.suite.budget_env_steps for c in plan.configurations) // grid < 10)


def test_settings_that_come_out_the_same_are_one_configuration(plan_of: PlanOf) -> None:
    plan = plan_of("study.space={hardware.num_env_runners:[null,0,1]}")
    assert [c.label for c in plan.configurations] == ["runners=0", "runners=1"]
    assert "left out    runners=None, which is runners=0 here" in terminal.plan_lines(plan)


def test_few_reports_are_said_with_what_makes_more(plan_of: PlanOf) -> None:
    said = [line for line in terminal.plan_lines(plan_of(SINGLE, "report_every_env_steps=20000")) if "few to" in line]
    assert said == ["reports     3 reports of a trial, few to choose by: report_every_env_steps=6000 makes 10"]
    large = plan_of(SINGLE, "budget_env_steps=20000", "algorithm.training.train_batch_size_per_learner=4096")
    (line,) = [line for line in terminal.plan_lines(large) if "few to" in line]
    assert line.endswith("4 reports of a trial, few to choose by: budget_env_steps=50000 makes 10")


def test_resources_follow_the_runner_count_of_each_configuration(plan_of: PlanOf) -> None:
    plan = plan_of("study.space={algorithm.env_runners.num_env_runners:[0,2]}", cluster=Cluster((Node(4, 0),)))
    assert [c.request.required_resources["CPU"] for c in plan.configurations] == [1, 3]
    assert plan.concurrency == 1


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["algorithm.training.lr=nan", SINGLE], "algorithm.training.lr=nan: is not a number"),
        (["algorithm.training.lr=-1", SINGLE], "algorithm.training.lr=-1: must be above 0"),
        (
            ["study.space={algorithm.training.lr:[1e-3,1e-2]}", "algorithm.training.lr=1e-3"],
            "has no effect, since the study varies",
        ),
        (["algorithm.training.lr=fast", SINGLE], "must be a number"),
        (["algorithm.training.gamma=1.5", SINGLE], "between 0 and 1"),
        (["algorithm.training.minibatch_size=9999", SINGLE], "minibatch_size"),
        (
            ["algorithm.training.train_batch_size_per_learner=5000", "report_every_env_steps=4000", SINGLE],
            "finer than one training batch",
        ),
        (["algorithm.training.train_batch_size_per_learner=70000", SINGLE], "less than the largest batch, of 70000"),
        (["algorithm.env_runners.num_env_runners=-1", SINGLE], "num_env_runners=-1: must be 0 or more"),
        (["hardware.num_env_runners=-1", SINGLE], "hardware.num_env_runners"),
        (["algorithm=impala", "algorithm.env_runners.num_env_runners=0", SINGLE], "needs a runner actor"),
        (
            ["+algorithm.training.tau=1", SINGLE],
            r"algorithm.training.tau: algorithm=ppo has no such setting. There are: .*num_epochs",
        ),
        (
            ["+algorithm.training.num_epoch=1", SINGLE],
            "num_epoch: algorithm=ppo has no such setting. Did you mean num_epochs",
        ),
        (["+algorithm.rl_module.bogus=1", SINGLE], r"algorithm.rl_module.bogus.*fcnet_hiddens"),
        (["+algorithm.bogus={}", SINGLE], "algorithm.bogus: there is no such section"),
        (["+bogus=1"], "bogus: there is no such setting"),
        (["algorithm.config_class=os.system", SINGLE], "not an RLlib AlgorithmConfig"),
        (["algorithm.config_class=no.such.Class", SINGLE], "there is no such class"),
        (["env.vectorize_mode=parallel", SINGLE], "env.vectorize_mode"),
        (["+env.env_config.colour=red", SINGLE], "env.env_config of env=cartpole"),
        (["env.id=CartPole-v99", SINGLE], "CartPole-v99"),
        (["seeds=[]"], "seeds is empty"),
        (["seeds=[1,1]"], "names a seed twice"),
        (["seeds=[-1]"], "seeds.0"),
        (["seeds=[0.5]"], "seeds.0"),
        (["budget_env_steps=0"], "budget_env_steps"),
        (["budget_env_steps=999"], "less than the largest batch"),
        (["budget_env_steps=4000000", "report_every_env_steps=4000"], "points a curve"),
        (["budget_env_steps=60001", "report_every_env_steps=4000"], "Try budget_env_steps=60000"),
        (["evaluation.every_env_steps=5500"], "evaluation.every_env_steps=5500 is not a multiple"),
        (["checkpoint.every_env_steps=5500"], "checkpoint.every_env_steps=5500 is not a multiple"),
        (["stop_at_target=maybe"], "stop_at_target"),
        (["study.name=a/b"], "study.name"),
        (["search=random", "search.seed=null"], "search.seed"),
        (["study.space={study.name:[a,b]}"], "setting of the study itself"),
        (["study.space={algorithm.training.nest.lr:[1]}"], "leads to no setting"),
        (["study.space={lr:[1e-3]}"], "leads to no setting"),
        (["study.space={seeds:[1]}"], "setting of the study itself"),
        (["study.space={algorithm.training.lr:[1e-3,1.00001e-3]}"], "rounded for display"),
        (["repeats=9999999999"], r"repeats=9999999999 of \d+ seeds are more than 100,000 trials"),
        (["repeats=20000", "study.space={algorithm.training.gamma:[0.9,0.99]}"], "trials, more than 100,000"),
    ],
)
def test_bad_input_is_refused_with_its_key(plan_of: PlanOf, overrides: list[str], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        plan_of(*overrides)


def test_what_rllib_writes_into_its_settings_stays_out_of_the_trials(plan_of: PlanOf) -> None:
    uniform = (
        # another type: RLlib keeps the very object
        "algorithm.training.replay_buffer_config={type: EpisodeReplayBuffer, capacity: 1000}"
    )
    trial = plan_of("algorithm=dqn", f"++{uniform}", "algorithm.training.n_step=1", "study.space={}").trials[0]
    planned = copy.deepcopy(trial.algorithm)
    # as RLlib's DQN does
    build_algorithm_config(trial).replay_buffer_config["metrics_num_episodes_for_smoothing"] = 100
    assert trial.algorithm == planned
