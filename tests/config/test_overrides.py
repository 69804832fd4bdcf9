"""Every knob in `conf/` against generated values: a wrong one is refused with its key before Ray starts,
an accepted one builds.
"""

import functools
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import hydra
import pytest
import ray
from hydra.errors import HydraException
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException
from ray.rllib.algorithms.impala import impala_learner
from ray.rllib.core import DEFAULT_MODULE_ID
from ray.rllib.utils import replay_buffers

from experiments.config.compose import check_axes_are_free, check_named, composer, split_space
from experiments.config.errors import ConfigurationError
from experiments.config.schema import parse
from experiments.config.trial_config import TrialConfig
from experiments.planning import machines
from experiments.planning.machines import Cluster, Node
from experiments.planning.plan import plan_study
from experiments.rllib.building import build_algorithm_config
from experiments.rllib.made_environments import spaces
from experiments.run import run
from experiments.session import Request
from tests.support.planning import CONF, GROUPS, chosen, compose
from tests.support.suite import RunSuite

Values = st.SearchStrategy[Any]

FEW_OR_MANY = pytest.mark.parametrize("examples", [1, pytest.param(3, marks=pytest.mark.nightly)])
"""Per knob."""

# --------------------------------------------------------------------------------------------------------------- values

_LETTERS = st.text("abcdefghijklmnopqrstuvwxyz", min_size=1, max_size=8)
_WORDS = st.one_of(_LETTERS, st.sampled_from(["", "12", "1e-3", "true", "null", "nan", "1 000", "-"]))
_FLAGS = st.booleans()
_FRACTIONS = st.floats(-1e6, 1e6).filter(lambda x: not x.is_integer())
_NUMBERS = st.one_of(st.integers(-1000, 1000), _FRACTIONS)
_LISTS = st.lists(_LETTERS | st.integers(-9, 9), max_size=2)
_MAPPINGS = st.dictionaries(_LETTERS, st.integers(-9, 9), max_size=1)
_NONE = st.none()
_NAN = st.just(math.nan)
_INFINITE = st.sampled_from([math.inf, -math.inf])


@dataclass(frozen=True)
class Kind:
    """Values that a knob may take, where others than its file's are known, and values that it must refuse."""

    right: Values | None
    wrong: Values


def whole(low: int = 0, high: int = 64, null: bool = False) -> Kind:
    wrong = _WORDS | _FLAGS | _LISTS | _MAPPINGS | _FRACTIONS | _NAN | _INFINITE | st.integers(-(10**6), low - 1)
    return Kind(st.integers(low, high) | _NONE if null else st.integers(low, high), wrong if null else wrong | _NONE)


def real(
    low: float = -math.inf,
    high: float = math.inf,
    *,
    above: bool = False,
    null: bool = False,
    infinite: bool = False,
    tried: tuple[float, float] = (1e-4, 1.0),
) -> Kind:
    wrong = _WORDS | _FLAGS | _LISTS | _MAPPINGS | _NAN | st.just(-math.inf)
    if low > -math.inf:
        wrong |= st.floats(max_value=low, exclude_max=not above, allow_infinity=False)
    if high < math.inf:
        wrong |= st.floats(min_value=high, exclude_min=True, allow_infinity=False)
    right = st.floats(*tried)
    return Kind(
        right | _NONE if null else right | st.just(math.inf) if infinite else right,
        wrong | (st.nothing() if null else _NONE) | (st.nothing() if infinite else st.just(math.inf)),
    )


def schedule(value: Kind) -> Kind:
    bad = st.one_of(
        value.wrong.filter(lambda v: isinstance(v, int | float | str)).map(lambda v: [[0, 0.01], [1000, v]]),
        st.integers(1, 1000).map(lambda first: [[first, 0.01], [first + 1000, 0.001]]),
        st.integers(1, 1000).map(lambda step: [[0, 0.01], [step, 0.001], [step - 1, 0.001]]),
        st.just([[0, 0.01]]),
        st.just([[0, 0.01], [1000]]),
        st.just([[0, 0.01], [1000, 0.001, 0.0001]]),
    )
    good = st.tuples(st.integers(1, 10**6), st.floats(1e-4, 1.0)).map(lambda end: [[0, 0.01], list(end)])
    return Kind(value.right | good, value.wrong | bad)


def word(*options: str, null: bool = False) -> Kind:
    wrong = _WORDS.filter(lambda w: w not in options) | _NUMBERS | _FLAGS | _LISTS | _MAPPINGS
    return Kind(
        st.sampled_from(options) | _NONE if null else st.sampled_from(options), wrong if null else wrong | _NONE
    )


def text(*bad: str, null: bool = False, right: Values | None = None) -> Kind:
    wrong = _NUMBERS | _FLAGS | _LISTS | _MAPPINGS | (st.sampled_from(bad) if bad else st.nothing())
    return Kind(right, wrong if null else wrong | _NONE)


_FLAG = Kind(_FLAGS, _WORDS | _NUMBERS | _LISTS | _MAPPINGS | _NONE | _NAN)
_NAME = text("", "a/b", "../up", "two words", "o'clock", "-x", right=_LETTERS)
_POSITIVE = real(0, above=True)
_AT_LEAST_0 = real(0)
_FRACTION = real(0, 1)
_RATE = schedule(real(0, above=True, tried=(1e-5, 1e-2)))
_STEPS = whole(1)
_SIZES = Kind(
    st.lists(st.integers(1, 64), max_size=2),
    _WORDS
    | _NUMBERS
    | _FLAGS
    | _MAPPINGS
    | _NONE
    | (_LETTERS | st.integers(-9, 0) | _FRACTIONS | _FLAGS | _NONE).map(lambda size: [16, size]),
)
_CHOSEN_IF_NULL = whole(0, 4, null=True)
_ACTIVATION = word("relu", "tanh", "elu", "silu", "linear")
_SEEDS = Kind(
    st.lists(st.integers(0, 2**31), min_size=1, max_size=3, unique=True),
    st.one_of(
        _WORDS,
        _NUMBERS,
        _FLAGS,
        _MAPPINGS,
        _NONE,
        st.just([]),
        st.integers(0, 99).map(lambda s: [s, s]),
        (_WORDS | _FLAGS | _FRACTIONS | st.integers(-99, -1) | _NONE | _LISTS).map(lambda v: [7, v]),
    ),
)
_SCORE_RANGE = Kind(
    st.sampled_from([[None, None], [-1e6, None], [None, 1e6], [-1e6, 1e6]]),
    st.one_of(
        _WORDS,
        _NUMBERS,
        _FLAGS,
        _MAPPINGS,
        _NONE,
        st.sampled_from([[], [0.0], [0.0, 1.0, 2.0], [1e6, -1e6]]),
        (_LETTERS | _FLAGS | _NAN | _INFINITE | _LISTS).map(lambda v: [None, v]),
    ),
)
_CONV_FILTERS = Kind(
    st.sampled_from([[[16, 4, 2]], [[16, 4, 2], [32, 4, 2]]]),
    st.one_of(
        _WORDS,
        _NUMBERS,
        _FLAGS,
        _MAPPINGS,
        st.sampled_from([[16, 4, 2], [[16, 4]], [[16, 4, 2, 1]], [[16, [4, 4, 4], 2]]]),
        (_LETTERS | st.integers(-9, 0) | _FRACTIONS | _FLAGS).map(lambda v: [[16, v, 2]]),
    ),
)
_BUFFERS = ("EpisodeReplayBuffer", "PrioritizedEpisodeReplayBuffer")

KINDS: Mapping[str, Kind] = {
    # Learning rates, batches, replay: RLlib's.
    **dict.fromkeys(("lr", "actor_lr", "critic_lr"), _RATE),
    "alpha_lr": schedule(_AT_LEAST_0),
    **dict.fromkeys(("minibatch_size",), whole(1, 512, null=True)),
    **dict.fromkeys(("train_batch_size_per_learner", "n_step", "num_epochs", "broadcast_interval"), _STEPS),
    **dict.fromkeys(("n_critics", "n_quantiles"), whole(1, 8)),
    "top_quantiles_to_drop_per_net": whole(0, 24),  # of 25
    **dict.fromkeys(("circular_buffer_num_batches", "circular_buffer_iterations_per_batch", "capacity"), _STEPS),
    **dict.fromkeys(("simple_queue_size", "learner_queue_size"), _STEPS),
    **dict.fromkeys(("target_network_update_freq", "num_steps_sampled_before_learning_starts"), whole(0, 2000)),
    **dict.fromkeys(("gamma", "lambda_", "tau"), _FRACTION),
    "action_noise_exponent": real(0, 2, tried=(0.5, 2.0)),
    "state_dependent_noise_steps": whole(0, 64),
    "state_dependent_log_std": real(tried=(-4.0, 0.0)),
    **dict.fromkeys(("clip_param", "initial_alpha"), _POSITIVE),
    **dict.fromkeys(("vf_loss_coeff", "kl_coeff", "replay_buffer_config.alpha", "beta"), _AT_LEAST_0),
    "grad_clip": real(0, above=True, null=True, tried=(0.1, 100.0)),
    # a number where samples are replayed alone
    "update_to_data": Kind(st.none(), real(0, above=True, null=True).wrong),
    "training_intensity": real(0, above=True, null=True, tried=(1.0, 100.0)),
    "vf_clip_param": real(0, above=True, infinite=True, tried=(0.1, 100.0)),
    "entropy_coeff": schedule(_AT_LEAST_0),
    "epsilon": schedule(_FRACTION),
    "grad_clip_by": word("value", "norm", "global_norm"),
    "rollout_fragment_length": Kind(
        st.integers(8, 64) | st.just("auto"),
        _WORDS | _FLAGS | _LISTS | _MAPPINGS | _FRACTIONS | st.integers(-99, 0) | _NONE,
    ),
    "replay_buffer_config.type": word(*_BUFFERS),
    # Networks.
    **dict.fromkeys(("fcnet_activation", "conv_activation", "fusionnet_activation"), _ACTIVATION),
    **dict.fromkeys(("fcnet_hiddens", "head_fcnet_hiddens", "fusionnet_hiddens"), _SIZES),
    "conv_filters": _CONV_FILTERS,
    **dict.fromkeys(
        [f"{part}_kernel_initializer" for part in ("fcnet", "conv", "head_fcnet")], word("orthogonal_", null=True)
    ),
    **dict.fromkeys(
        [f"{part}_bias_initializer" for part in ("fcnet", "conv", "head_fcnet")], word("zeros_", "ones_", null=True)
    ),
    "gain": real(tried=(0.1, 2.0)),
    # Counts.
    **dict.fromkeys(("num_env_runners", "num_learners"), _CHOSEN_IF_NULL),
    **dict.fromkeys(("num_envs_per_env_runner", "max_concurrent_trials"), whole(1, 8, null=True)),
    "num_cpus": whole(1, 64, null=True),
    "num_gpus": whole(0, 4, null=True),
    "num_gpus_per_learner": Kind(
        st.sampled_from([None, 0, 0.25, 1, 2]),
        _WORDS
        | _FLAGS
        | _LISTS
        | _MAPPINGS
        | _NAN
        | _INFINITE
        | st.floats(-100, 0, exclude_max=True)
        | st.sampled_from([1.5, 2.25]),
    ),
    **dict.fromkeys(("total_envs", "threads_per_process"), whole(1, 32)),
    "address": text(
        "",
        "nowhere",
        "ray://host:10001",
        "host:",
        ":6379",
        "host:port",
        "host:70000",
        "host:0",
        "two words:6379",
        null=True,
    ),
    "oversubscribe": whole(1, 8),
    "hardware.vectorize_mode": word("sync", "async", "vector_entry_point", null=True),
    # How throughput is measured.
    "warmup_s": real(0, tried=(0.0, 2.0)),
    "seconds": real(0, above=True, tried=(3.0, 5.0)),
    "max_seconds": real(0, above=True, tried=(5.0, 20.0)),
    "precision": real(0, 1, above=True, tried=(0.01, 0.5)),
    "block_s": real(0.1, tried=(0.1, 0.7)),
    "max_other_cpu_percent": _POSITIVE,
    # The study's own.
    "name": _NAME,
    "env.name": replace(_NAME, wrong=text("a/b", "two words", null=True).wrong),  # null: after the id
    "algorithm.config_class": text(
        "", "os", "os.system", "no.such.Class", ".PPOConfig", "..", "ray.rllib.algorithms.ppo.PPO"
    ),
    "env.id": text("", "NoSuchEnv-v0", "CartPole-v99", "no_such_module:Env-v0", "a:b:c", ":", "CartPole-v1:x"),
    "env.extra": text(null=True),
    "modules": Kind(
        st.just([]),
        _WORDS | _NUMBERS | _FLAGS | _MAPPINGS | _NONE | st.lists(_LETTERS | st.integers(-9, 9), min_size=1),
    ),
    "module_class": text("", "os", "no.such.Class", "..", "torch.nn.Linear", null=True),
    "model_config": Kind(None, _WORDS | _NUMBERS | _FLAGS | st.lists(_LETTERS, min_size=1)),
    "max_episode_steps": whole(1, 1000, null=True),
    "preprocessing.clip_rewards": real(0, above=True, null=True),
    "vectorize_mode": word("sync", "async"),
    "stagger": Kind(st.just(False), _FLAG.wrong),  # true is not for every environment
    "frame_size": whole(1, 84),
    "frame_stack": whole(1, 4),
    "step_cost_ms": real(0, above=True, tried=(0.01, 2.0)),
    "env_config.mode": word("busy", "wait"),
    **dict.fromkeys(("jitter", "reset_cost_ms"), _AT_LEAST_0),
    **dict.fromkeys(("observation_size", "num_actions"), _STEPS),
    **dict.fromkeys(("env.target",), real(tried=(-1e4, 1e4), null=True)),
    "score_range": _SCORE_RANGE,
    "seeds": _SEEDS,
    **dict.fromkeys(("episodes", "final_episodes", "keep", "repeats"), whole(1, 10)),
    "budget_env_steps": Kind(st.sampled_from([60_000, 120_000, 100_000]), whole(1).wrong),
    "env.report_every_env_steps": Kind(st.sampled_from([4_000, 10_000, 20_000]), whole(1).wrong),
    **dict.fromkeys(
        ("report_every_env_steps", "every_env_steps"),
        Kind(st.sampled_from([None, 4_000, 20_000]), whole(1, null=True).wrong),
    ),
    # Searches.
    "num_samples": whole(1, 5, null=True),
    **dict.fromkeys(("search.seed", "scheduler.seed"), whole(0, 10)),
    "search.name": Kind(None, word("grid", "random", "optuna", "racing", "compare").wrong),
    "scheduler.name": Kind(None, word("fifo", "asha", "median", "pbt").wrong),
    "sampler": word("tpe", "gp", "random"),
    "proposals": word("grid", "random", "optuna"),
    "objective": Kind(
        st.sampled_from([["score"], ["auc"], ["env_steps_to_target"]]),
        _WORDS
        | _NUMBERS
        | _FLAGS
        | _MAPPINGS
        | st.sampled_from([[], ["score", "score"], ["score", "loss"], ["score"] * 3]),
    ),
    "max_seeds": whole(2, 10),
    **dict.fromkeys(("seeds_per_look", "looks"), whole(1, 10)),
    "alpha": real(0, 1, above=True, tried=(0.01, 0.2)),
    "max_trials": whole(1, 50, null=True),
    "grace_env_steps": whole(1, 30_000, null=True),
    "reduction_factor": real(1, above=True, tried=(1.5, 8.0)),
    **dict.fromkeys(("min_trials", "population"), whole(2, 8)),
    "interval_env_steps": Kind(st.sampled_from([None, 20_000]), whole(1, null=True).wrong),
    "quantile": real(0, 0.5, above=True, tried=(0.1, 0.5)),
    "resample_probability": _FRACTION,
    "confirmation.top": whole(1, 8),
    "confirmation.rule": word("fixed", "race"),
    "confirmation.seeds": Kind(st.lists(st.integers(1000, 2**31), min_size=1, max_size=3, unique=True), _SEEDS.wrong),
    "max_env_steps": Kind(st.sampled_from([None, 10**6]), whole(1, null=True).wrong),
    "max_minutes": real(0, above=True, null=True, tried=(0.5, 60.0)),
    "resume": text("", "no_such_study", null=True),
    "wait_for_nodes_s": real(0, tried=(0.0, 60.0)),
    "stall_after_s": real(0, above=True, null=True, tried=(60.0, 600.0)),
    "tracking.uri": text(
        "",
        "outputs",
        "ftp://host",
        "http://127.0.0.1:port",
        "http://127.0.0.1:70000",
        "http://",
        "sqlite:///relative.db",
        null=True,
    ),
    "timeout_s": real(0, above=True),
    "output_dir": text("", "/proc/none"),
    "report": Kind(None, _LETTERS | _NUMBERS | st.lists(st.integers(), max_size=2)),  # true, false or a section
}
"""By dotted key, its last two parts, or its last part. Any other knob is known by the type of its value in its file."""


def kind_of(key: str, value: Any) -> Kind:
    parts = key.split(".")
    for known in (key, ".".join(parts[-2:]), parts[-1]):
        if known in KINDS:
            return KINDS[known]
    if isinstance(value, bool):
        return _FLAG
    if isinstance(value, int):
        return whole()
    if isinstance(value, float):
        return real()
    if isinstance(value, str):
        return text()
    if isinstance(value, list):
        return Kind(None, _LETTERS | _NUMBERS | _FLAGS | _MAPPINGS)
    if isinstance(value, dict):  # a section
        return Kind(None, _LETTERS | _NUMBERS | _FLAGS | st.lists(st.integers(), max_size=2))
    return Kind(None, st.sampled_from([[1, 2], [], {"key": 1}]))


def in_hydras_words(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float) and math.isinf(value):
        return "inf" if value > 0 else "-inf"
    if isinstance(value, str):
        return "'" + value.replace("'", "\\'") + "'"
    if isinstance(value, list):
        return "[" + ",".join(in_hydras_words(v) for v in value) + "]"
    if isinstance(value, dict):
        return "{" + ",".join(f"{k}:{in_hydras_words(v)}" for k, v in value.items()) + "}"
    return repr(value)


# ---------------------------------------------------------------------------------------------------------------- knobs


@dataclass(frozen=True)
class Knob:
    """A setting as one file of `conf/` has it, and the choices under which that file is read."""

    choices: tuple[str, ...]
    key: str
    value: Any

    @property
    def kind(self) -> Kind:
        return kind_of(self.key, self.value)

    @property
    def is_group(self) -> bool:
        return self.key in GROUPS


@functools.cache
def knobs() -> list[Knob]:
    """Every setting and every section of every file of `conf/`."""
    found = []
    for file in sorted(CONF.glob("**/*.yaml")):
        content = OmegaConf.load(file)
        assert isinstance(content, DictConfig)
        if file.name == "config.yaml":
            continue
        package = () if file.parent == CONF or "@package _global_" in file.read_text() else (file.parent.name,)
        missing = [".".join((*package, str(name))) for name in content if OmegaConf.is_missing(content, name)]
        choices = (*choices_of(file), *(f"{key}='{MISSING[key]}'" for key in missing))
        plain = OmegaConf.to_container(content)
        assert isinstance(plain, dict)
        plain.pop("defaults", None)
        found += [
            Knob(choices, key, value) for key, value in settings_of(plain, package) if not key.startswith("study.space")
        ]
    return found


def of_each_algorithm(knobs: Iterable[Knob]) -> list[Knob]:
    """Of the settings that are tuned for an algorithm each once: on other environments they are the same knobs."""
    return list({(knob.choices[:1], knob.key): knob for knob in knobs}.values())


MISSING = {"tracking.uri": "http://127.0.0.1:9", "env.id": "Acrobot-v1"}
"""What a person has to give."""


def settings_of(node: Mapping[Any, Any], path: tuple[str, ...] = ()) -> Iterator[tuple[str, Any]]:
    for name, value in node.items():
        yield ".".join((*path, name)), value
        if isinstance(value, dict):
            yield from settings_of(value, (*path, name))


def choices_of(file: Path) -> tuple[str, ...]:
    """Choices under which a file is read."""
    group = file.parent.name
    if group == "tuned":
        algorithm, _, env = file.stem.partition("-")
        return (f"algorithm={algorithm}", f"env={env}")
    if file.parent == CONF:
        return ()
    if group == "algorithm":
        pairs = [(f"algorithm={file.stem}", f"env={env}") for env in ("cartpole", "pendulum")]
        return next(pair for pair in pairs if refusal(*pair) is None)
    if group == "measurement":  # no study has one unless it asks for it
        return (f"+{group}={file.stem}",)
    if file.parent.name == "search" and file.stem == "joint":  # it answers nothing but what reaches the target soonest
        return ("search=joint", "objective=minutes_to_target")
    return (f"{group}={file.stem}",)


# ---------------------------------------------------------------------------------------------------------- the command


@pytest.fixture(scope="module", autouse=True)
def output_dir(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Where a study would write; starting Ray fails the test. A Ray instance of other tests stays as it is."""

    def start(*_: Any, **__: Any) -> None:
        raise AssertionError("Ray was started")

    folder = tmp_path_factory.mktemp("overrides") / "out"
    with pytest.MonkeyPatch.context() as patch, hydra.initialize_config_dir(str(CONF), version_base="1.3"):
        patch.setattr(ray, "init", start)
        patch.setattr(ray, "shutdown", lambda: None)
        patch.setitem(ALWAYS, "output_dir", folder)
        yield folder


ALWAYS: dict[str, Any] = {"dry_run": "true", "study.space": "{}"}
"""Overrides that come before all others: the plan is printed where everything is right."""


def refusal(*overrides: str, anew: bool = False) -> str | None:
    """What `python experiments/run.py` says on exit 2; None if it would start."""
    given = [f"{key}={value}" for key, value in ALWAYS.items()] + list(overrides)
    try:
        words = split_space(given)[0]
        start = composer(hydra.compose("config", overrides=words) if anew else compose(words), given)
        check_axes_are_free(start({}), given)
        check_named(start({}), overrides)
        assert run(Request(start)) == 0
    except (ConfigurationError, HydraException, OmegaConfBaseException) as error:
        causes = [error, error.__cause__] if isinstance(error, HydraException) else [error]
        return "\n".join(str(cause) for cause in causes if cause is not None)
    return None


def names(message: str, key: str) -> bool:
    """Whether a message names a setting: by its dotted key, or by its last part as a word."""
    return key in message or re.search(rf"\b{re.escape(key.rsplit('.', 1)[-1])}\b", message) is not None


def check_refused(key: str, *overrides: str) -> str:
    message = refusal(*overrides)
    assert message is not None, f"accepted: {overrides}"
    assert names(message, key), f"{overrides}: the message does not name {key}: {message}"
    assert not ALWAYS["output_dir"].exists()
    return message


def each(values: Values, check: Callable[[Any], None], examples: int) -> None:
    """Check generated values, always the same ones; the smallest that fails is shown."""

    @settings(
        max_examples=examples, derandomize=True, deadline=None, database=None, suppress_health_check=list(HealthCheck)
    )
    @given(values)
    def example(value: Any) -> None:
        check(value)

    example()


# ---------------------------------------------------------------------------------------------------------------- tests


@FEW_OR_MANY
@pytest.mark.slow
@pytest.mark.timeout(900)
def test_every_wrong_value_of_every_knob_is_refused_with_its_key_before_ray_starts(
    subtests: pytest.Subtests, examples: int
) -> None:
    tried: set[tuple[str, ...]] = set()
    every = [knob for knob in (knobs() if examples > 1 else of_each_algorithm(knobs())) if not knob.is_group]
    for knob in every:

        def check(value: Any, knob: Knob = knob) -> None:
            overrides = (*knob.choices, f"{knob.key}={in_hydras_words(value)}")
            message = check_refused(knob.key, *overrides)
            tried.add(overrides)
            if len(tried) % 25 == 0:  # what is composed from a copy is what Hydra composes anew
                assert refusal(*overrides, anew=True) == message

        with subtests.test(choices=knob.choices, key=knob.key):
            each(knob.kind.wrong, check, examples=2 * examples)
    assert len(tried) >= 0.762 * examples * len(every)  # 650 of all 853


@pytest.mark.slow
def test_an_unknown_key_is_refused_in_every_section(subtests: pytest.Subtests) -> None:
    sections = {(): "", **{(k.choices, k.key): f"{k.key}." for k in knobs() if isinstance(k.value, dict)}}
    seen: set[str] = set()
    for context, section in sections.items():
        with subtests.test(section=section):
            choices = context[0] if context else ()
            for sign in ("+",) if section in seen else ("", "+", "++"):
                check_refused(f"{section}no_such_key", *choices, f"{sign}{section}no_such_key=1")
            if section not in seen:
                check_refused(f"{section}no_such_key", *choices, f"~{section}no_such_key")
            seen.add(section)


@pytest.mark.parametrize("group", [group for group in GROUPS if group != "tuned"])
def test_an_unknown_choice_is_refused_in_every_group(group: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(ALWAYS, "study.space")
    check_refused(group, f"{group}=no_such_choice")
    if group != "preprocessing":  # without it, there is what conf/base.yaml says
        check_refused(group, f"~{group}")


def test_leaving_out_the_study_is_refused_also_beside_a_space() -> None:
    check_refused("study", "~study", "study.space={}")


@pytest.mark.parametrize("score_range", ["[5e6,6e6]", "[-6e6,-5e6]"])
@pytest.mark.parametrize(
    "env", [file.stem for file in sorted(CONF.glob("env/*.yaml")) if isinstance(OmegaConf.load(file).target, float)]
)
def test_a_score_range_without_the_target_is_refused(env: str, score_range: str) -> None:
    check_refused("env.score_range", f"env={env}", f"env.score_range={score_range}")


@pytest.mark.slow
def test_a_knob_that_is_left_out_is_refused_by_name_or_has_a_default(
    subtests: pytest.Subtests, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Whatever the machine: what does not fit one is no matter of a knob's name.
    monkeypatch.setattr(machines, "local_machine", lambda _: Cluster((Node(128, 8),)))
    starts = functools.cache(lambda *choices: refusal(*choices) is None)
    for knob in of_each_algorithm(k for k in knobs() if k.key != "dry_run"):
        if not knob.is_group and starts(*knob.choices):  # it needs no server to answer
            with subtests.test(choices=knob.choices, key=knob.key):
                message = refusal(*knob.choices, f"~{knob.key}")
                assert message is None or names(message, knob.key)


@FEW_OR_MANY
@pytest.mark.slow
def test_a_wrong_value_on_an_axis_is_refused_with_its_path(subtests: pytest.Subtests, examples: int) -> None:
    for knob in {k.key: k for k in knobs() if not k.is_group}.values():

        def check(value: Any, knob: Knob = knob) -> None:
            check_refused(knob.key, *knob.choices, f"study.space={{{knob.key}:[{in_hydras_words(value)}]}}")

        with subtests.test(choices=knob.choices, key=knob.key):
            each(knob.kind.wrong, check, examples)


_LOW_HIGH = st.fixed_dictionaries({"low": st.floats(1e-6, 1e-3), "high": st.floats(1e-2, 1.0)})
_WRONG_BOUND = _WORDS | _FLAGS | _LISTS | _MAPPINGS | _NONE | _NAN | _INFINITE
_WRONG_DISTRIBUTIONS = st.one_of(
    _LOW_HIGH.map(lambda d: {"distribution": "uniform", "low": d["high"], "high": d["low"]}),
    _LOW_HIGH.map(lambda d: {"distribution": "loguniform", "low": d["low"], "high": d["low"]}),
    _LOW_HIGH.map(lambda d: {"distribution": "loguniform", **d, "low": -d["low"]}),
    _LOW_HIGH.map(lambda d: {"distribution": "uniform", **d, "low": -1e308, "high": 1e308}),
    _LOW_HIGH.map(lambda d: {"distribution": "uniform", **d, "hihg": 1.0}),
    _LOW_HIGH,
    st.tuples(_LETTERS, _LOW_HIGH).map(lambda d: {"distribution": f"no_{d[0]}", **d[1]}),
    st.sampled_from(["low", "high"]).map(lambda bound: {"distribution": "uniform", bound: 0.01}),
    st.tuples(st.sampled_from(["low", "high"]), _WRONG_BOUND, _LOW_HIGH).map(
        lambda d: {"distribution": "uniform", **d[2], d[0]: d[1]}
    ),
    st.tuples(_WORDS | _NUMBERS | _NONE, _LOW_HIGH).map(lambda d: {"distribution": "uniform", **d[1], "integer": d[0]}),
    st.tuples(st.sampled_from(["low", "high", "step"]), _WRONG_BOUND | _FRACTIONS).map(
        lambda d: {"distribution": "integers", "low": 1, "high": 9, d[0]: d[1]}
    ),
    st.sampled_from([{"low": 9, "high": 1}, {"low": 1, "high": 9, "step": 0}, {"low": 1, "high": 10**400}]).map(
        lambda d: {"distribution": "integers", **d}
    ),
    st.sampled_from([[], [0.1, 0.1], [math.nan], 0.1, "fast", None, {"a": 1}]).map(
        lambda v: {"distribution": "choice", "values": v}
    ),
    st.sampled_from([{}, 0.1, "fast", None, True, [], [0.1, 0.1], [math.nan]]),
)


@pytest.mark.parametrize("path", ["algorithm.training.lr", "algorithm.training.num_epochs", "env.target"])
def test_a_wrong_distribution_is_refused_with_its_path(path: str) -> None:
    def check(values: Any) -> None:
        check_refused(path, "search=random", f"study.space={{{path}:{in_hydras_words(values)}}}")

    each(_WRONG_DISTRIBUTIONS, check, examples=50)


@pytest.mark.parametrize(
    ("path", "values"),
    [
        ("algorithm.training.lr", {"distribution": "uniform", "low": -0.1, "high": 0.1}),
        ("algorithm.training.num_epochs", {"distribution": "uniform", "low": 1.0, "high": 9.0}),
        ("algorithm.training.minibatch_size", {"distribution": "integers", "low": 0, "high": 64}),
        ("hardware.num_env_runners", {"distribution": "integers", "low": -1, "high": 2}),
    ],
)
def test_a_distribution_that_leaves_the_range_of_its_knob_is_refused(path: str, values: dict[str, Any]) -> None:
    check_refused(path, "search=random", f"study.space={{{path}:{in_hydras_words(values)}}}")


@pytest.mark.parametrize(
    "override",
    [
        "algorithm.training.lr",
        "=1",
        "algorithm.training.lr=[1",
        "algorithm.training.lr=${nowhere}",
        "study.space={a",
        "algorithm=ppo,dqn",
    ],
)
def test_what_hydra_cannot_read_is_refused(override: str) -> None:
    assert refusal(override) is not None


@pytest.mark.parametrize(
    ("override", "key"),
    [
        ("algorithm.training.gamma=[]", "algorithm.training.gamma"),
        ("algorithm.env_runners.num_env_runners=two", "algorithm.env_runners.num_env_runners"),
        ("algorithm.rl_module.fcnet_activation=sharp", "algorithm.rl_module.fcnet_activation"),
        ("~env.id", "env.id"),
        ("algorithm=true", "algorithm"),
        ("tuned=no_such_file", "tuned"),
        ("study.space={algorithm.training.lr:[fast]}", "algorithm.training.lr"),
    ],
)
def test_the_command_exits_with_2_and_one_message(
    suite_here: RunSuite, tmp_path: Path, override: str, key: str
) -> None:
    done = suite_here("study=smoke", override)
    assert done.returncode == 2
    assert key in done.stderr
    assert "Traceback" not in done.stdout + done.stderr
    assert not (tmp_path / "out").exists()


# ------------------------------------------------------------------------------------------------ accepted means builds


@st.composite
def right_overrides(draw: st.DrawFn) -> list[str]:
    """A choice of algorithm, env and hardware, and some of the settings that it then has,
    each with a value that it may take.
    """
    groups = {
        group: sorted(file.stem for file in CONF.glob(f"{group}/*.yaml")) for group in ("algorithm", "env", "hardware")
    }
    # gym asks for an id.
    choices = [
        f"{group}={draw(st.sampled_from([name for name in names if name not in ('base', 'gym')]))}"
        for group, names in groups.items()
    ]
    plain = OmegaConf.to_container(chosen(tuple(choices)))
    assert isinstance(plain, dict)
    kinds = {
        key: kind_of(key, value).right for key, value in settings_of(plain) if not key.startswith(("study", "search"))
    }
    drawn = draw(
        st.lists(
            st.sampled_from(sorted(key for key, right in kinds.items() if right is not None)), max_size=4, unique=True
        )
    )
    values = {key: in_hydras_words(draw(kinds[key])) for key in drawn}
    axes = {key: value for key, value in values.items() if key.count(".") > 1 and draw(st.booleans())}
    space = ",".join(f"{key}:[{value}]" for key, value in axes.items())
    return [
        *choices,
        *(f"{key}={value}" for key, value in values.items() if key not in axes),
        f"study.space={{{space}}}",
    ]


def build(trial: TrialConfig) -> None:
    """As the trial would, without Ray: RLlib's configuration, learner with networks and optimisers, replay buffer."""
    config = build_algorithm_config(trial).copy(copy_frozen=False)
    config.learners(num_learners=0, num_gpus_per_learner=0)
    learner = config.build_learner(spaces={DEFAULT_MODULE_ID: spaces(trial.env)})
    assert any(True for _ in learner.module[DEFAULT_MODULE_ID].parameters())
    if hasattr(config, "replay_buffer_config"):
        arguments = {k: v for k, v in config.replay_buffer_config.items() if k != "type"}
        getattr(replay_buffers, config.replay_buffer_config["type"])(**arguments)


@FEW_OR_MANY
@pytest.mark.slow
@pytest.mark.timeout(900)
def test_whatever_is_accepted_builds(monkeypatch: pytest.MonkeyPatch, examples: int) -> None:
    monkeypatch.setattr(impala_learner._LearnerThread, "start", lambda self: None)
    accepted: list[list[str]] = []
    refused: dict[tuple[str, ...], str] = {}

    def check(overrides: list[str]) -> None:
        given = [f"{key}={value}" for key, value in ALWAYS.items() if key != "study.space"] + overrides
        try:
            start = composer(compose(split_space(given)[0]), given)
            check_axes_are_free(start({}), given)
            plan = plan_study(parse(start({})), start, Cluster((Node(128, 8),)))
        except ConfigurationError as error:
            refused[tuple(overrides)] = str(error)
            return
        for trial in plan.trials[: len(plan.configurations)]:  # the other seeds are built of the same
            build(trial)
        accepted.append(overrides)

    each(right_overrides(), check, examples=40 * examples)
    assert len(accepted) > len(refused)
    for overrides, message in refused.items():
        axes = re.findall(r"([\w.]+):\[", overrides[-1])
        keys = [
            *(override.partition("=")[0] for override in overrides),
            *axes,
            "budget_env_steps",
            "report_every_env_steps",
        ]
        # By its last part too: a count of the hardware profile is refused where the algorithm has it.
        assert any(f"{key.rpartition('.')[2]}=" in message or ("." in key and key in message) for key in keys), (
            overrides,
            message,
        )
