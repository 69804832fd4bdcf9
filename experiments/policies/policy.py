"""A policy from a trial's checkpoint: module, connectors, action mapping and environment, without Ray's processes."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import numpy.typing as npt
import torch
from gymnasium import Space
from ray.rllib.core import DEFAULT_MODULE_ID
from ray.rllib.core.rl_module.rl_module import RLModule
from ray.rllib.env import INPUT_ENV_SINGLE_SPACES, INPUT_ENV_SPACES

from experiments.config.errors import ConfigurationError, first_line, reason_of
from experiments.config.schema import EnvSettings
from experiments.config.trial_config import TrialConfig
from experiments.contract import MAX_ENVS
from experiments.envs.plain_actions import to_native
from experiments.policies.checkpoint import Checkpoint
from experiments.policies.headless import draw_without_screen
from experiments.rllib.action_noise import restart_noise
from experiments.rllib.building import build_algorithm_config, environment_of, observed_environment_of
from experiments.rllib.checkpoints import RLLIB
from experiments.rllib.hooks import seed_process
from experiments.rllib.made_environments import spaces
from experiments.rllib.no_compiler import leave_out_compiler
from experiments.rllib.pipelines import are_default
from experiments.rllib.results import NonFiniteError
from experiments.rllib.seeding import Role, process_seed, stream_seeds
from experiments.trial.evaluation import (
    Act,
    Evaluation,
    OnActions,
    Playing,
    Watch,
    acting,
    check_weights,
    environments,
    evaluate,
)

_MODULE = Path(RLLIB) / "learner_group" / "learner" / "rl_module" / DEFAULT_MODULE_ID
_CONNECTORS = "env_to_module_connector", "module_to_env_connector"


@dataclass(frozen=True)
class _Episodes:
    """Episodes that a policy is called in.

    Attributes:
        act: Actions of the policy in `rows` environments.
        to_native: Makes its actions those of the environment.
        space: Space of an observation.
        count: Observations of the first call.
        rows: At least as many as the final evaluation steps side by side.
    """

    act: Act
    to_native: Callable[[npt.ArrayLike], Any]
    space: Space[Any]
    count: int
    rows: int


@dataclass
class Policy:
    """A trained policy: called with an observation, it gives the deterministic action.

    Attributes:
        trial: The trial that was trained.
        module: The module with the trained weights.
        pipelines: RLlib's connectors from environments to module and back, as the trial left them;
            None: the default ones.
        normalize_actions: RLlib's setting: the module's actions are in [-1, 1] and are stretched to the Box.
        clip_actions: RLlib's setting: the module's actions are clipped to the Box.
        sampled: Env steps that the trial had sampled: exploration depends on it.
    """

    trial: TrialConfig
    module: RLModule
    pipelines: tuple[Any, Any] | None
    normalize_actions: bool
    clip_actions: bool
    sampled: int
    _episodes: _Episodes | None = field(default=None, init=False, repr=False, compare=False)

    def __call__(self, observation: npt.ArrayLike) -> Any:
        """The deterministic action for an observation, or for several, computed as the trial's final
        evaluation computes it.

        What a network rounds depends on the rows of its batch: it is filled up to those of the evaluation, with copies
        of the first. That costs little for vectors, and more for pictures; `experiments.policies.export` makes a file
        that computes single rows.

        Args:
            observation: Observation as the trial's environment gives it (`environment`), or several of them, (n, ...).

        Returns:
            An action as the environment takes it, or (n, ...): a NumPy integer or array of the action space.

        Raises:
            ConfigurationError: It is no such observation, weights or outputs are not finite, connectors of a person's
                own stand before or behind the module, or a recurrent policy, which remembers each of its episodes, is
                given another number of them than before.
        """
        space = spaces(environment_of(self.trial))[0] if self._episodes is None else self._episodes.space
        rows, single = self._rows_of(observation, space)
        try:
            episodes = self._episodes = self._episodes or self._begun(space, len(rows))
            if self.module.is_stateful() and len(rows) != episodes.count:
                raise ConfigurationError(
                    f"the policy is recurrent and remembers {episodes.count} episodes, and is given {len(rows)} "
                    "observations. Call its reset() before the first ones of other episodes."
                )
            with_copies = np.concatenate([rows, np.repeat(rows[:1], max(0, episodes.rows - len(rows)), axis=0)])
            actions = episodes.to_native(episodes.act(with_copies)[: len(rows)])
        except NonFiniteError as error:
            raise ConfigurationError(f"the policy has no action: {error}.") from None
        return actions[0] if single else actions

    def reset(self) -> None:
        """Forget what was observed: an episode's first observation is next.

        Of a policy that is not recurrent, nothing changes.
        """
        self._episodes = None

    def environment(self, render_mode: str | None = None) -> gym.Env[Any, Any]:
        """One environment of the trial's, with its own actions, and its observations as the policy takes them:
        frames stacked, flat.

        Args:
            render_mode: Gymnasium's: `rgb_array` for pictures, `human` for a window.
        """
        if render_mode == "rgb_array":
            draw_without_screen()
        drawn = {} if render_mode is None else {"render_mode": render_mode}
        trial = self.trial
        settings = observed_environment_of(
            replace(trial, env=replace(trial.env, env_config={**trial.env.env_config, **drawn}))
        )
        return gym.make(settings.id, **settings.make_arguments)

    def _rows_of(self, observation: npt.ArrayLike, space: Space[Any]) -> tuple[npt.NDArray[Any], bool]:
        """Observations (n, ...), and whether a single one was given."""
        try:
            given = np.asarray(observation, dtype=space.dtype)
        except (TypeError, ValueError) as error:
            raise ConfigurationError(
                f"the observation is no array of {space.dtype} ({first_line(error)}). {self._takes(space)}"
            ) from None
        single = given.shape == space.shape
        if not single and (given.shape[1:] != space.shape or not given.size):
            raise ConfigurationError(f"the observation has the shape {given.shape}. {self._takes(space)}")
        return given[np.newaxis] if single else given, single

    def _takes(self, space: Space[Any]) -> str:
        frames = self.trial.preprocessing.frame_stack
        stacked = f", the last {frames} frames of {self.trial.env.id} side by side" if frames > 1 else ""
        return (
            f"The policy takes {space.shape}{stacked}, or several, (n, ...); "
            "policy.environment() gives such observations."
        )

    def _begun(self, space: Space[Any], count: int) -> _Episodes:
        """Episodes from their first observation on."""
        if self.pipelines is not None:
            raise ConfigurationError(
                f"algorithm={self.trial.algorithm['name']} has connectors of its own between environment and module, "
                "which see whole episodes, rewards and all. Play episodes: policy.evaluate(env_seeds)."
            )
        torch.set_num_threads(self.trial.threads_per_process)  # a part of what the last bits depend on
        check_weights(self.module)
        self.module.eval()
        rows = max(count, min(self.trial.evaluation.final_episodes, MAX_ENVS))
        act = acting(
            self.module, spaces(environment_of(self.trial))[1], self.normalize_actions, self.clip_actions, rows
        )
        return _Episodes(act, to_native(spaces(self.trial.env)[1]), space, count, rows)

    def held_out_seeds(self) -> list[int]:
        """Env seeds of the trial's final evaluation."""
        return stream_seeds(self.trial.seed, Role.FINAL_EVALUATION, self.trial.evaluation.final_episodes)

    def fresh_seeds(self, episodes: int) -> list[int]:
        """Env seeds that neither training nor any evaluation of the trial has seen."""
        return stream_seeds(self.trial.seed, Role.FINAL_EVALUATION, episodes, self.trial.evaluation.final_episodes)

    def evaluate(
        self,
        env_seeds: Sequence[int],
        env: EnvSettings | None = None,
        explore: bool = False,
        watch: Watch | None = None,
        on_actions: OnActions | None = None,
    ) -> Evaluation:
        """One episode per env seed, as the trial's own final evaluation runs them: in turns,
        and cut at the trial's budget.

        Args:
            env_seeds: A seed per episode.
            env: Another environment, as `conf/env` has it; None: the trial's.
            explore: Whether actions are drawn as in training; they are the same each time.
            watch: Sees the episodes.
            on_actions: Sees what the policy is given, and what it does.

        Raises:
            ConfigurationError: Its environment cannot be made, or raises, or the policy's outputs are not finite.
        """
        trial = self.trial
        torch.set_num_threads(trial.threads_per_process)  # a part of what the last bits depend on
        if explore:
            seed_process(process_seed(trial.seed, Role.FINAL_EVALUATION, len(env_seeds)))
            restart_noise(self.module)
        settings = environment_of(trial if env is None else replace(trial, env=env))
        how = Playing(
            self.normalize_actions,
            self.clip_actions,
            max_env_steps=trial.budget_env_steps,
            pipelines=self.pipelines,
            explore_at=self.sampled if explore else None,
            watch=watch,
            on_actions=on_actions,
        )
        try:
            return evaluate(self.module, settings, env_seeds, how)
        except NonFiniteError as error:
            raise ConfigurationError(f"the policy has no score: {error}.") from None
        except Exception as error:  # environments raise what they like
            raise ConfigurationError(
                f"env={settings.name}: an evaluation failed: {reason_of(error)}. It is {settings.id}."
            ) from error


def load(checkpoint: Checkpoint, named: str) -> Policy:
    """A checkpoint's policy. Opens pickles: see `experiments.policies.checkpoint.check_origin`.

    Args:
        checkpoint: A checkpoint of any of the algorithms.
        named: The person's words for the checkpoint, for messages.

    Raises:
        ConfigurationError: The trial cannot be built here, or the checkpoint does not fit it.
    """
    leave_out_compiler()
    trial = checkpoint.trial
    torch.set_num_threads(trial.threads_per_process)
    try:
        config = build_algorithm_config(trial)
    except ConfigurationError as error:
        raise ConfigurationError(f"{named}: cannot be built here. {error}") from None
    envs = environments(environment_of(trial), 1)
    try:
        known = {
            INPUT_ENV_SPACES: (envs.observation_space, envs.action_space),
            INPUT_ENV_SINGLE_SPACES: (envs.single_observation_space, envs.single_action_space),
        }
        pipelines = (
            config.build_env_to_module_connector(env=envs, spaces=known, device=torch.device("cpu")),
            config.build_module_to_env_connector(env=envs, spaces=known),
        )
        known[DEFAULT_MODULE_ID] = (pipelines[0].observation_space, envs.single_action_space)
        # As RLlib's env runners build it: without what only learning needs.
        module = config.copy(copy_frozen=False).get_rl_module_spec(spaces=known, inference_only=True).build()
        own = not are_default(*pipelines)
        _restore(
            checkpoint,
            {_MODULE: module, **({_connector(checkpoint, i): p for i, p in enumerate(pipelines)} if own else {})},
            named,
        )
    finally:
        envs.close()
    return Policy(
        trial,
        module,
        pipelines if own else None,
        bool(config.normalize_actions),
        bool(config.clip_actions),
        checkpoint.sampled,
    )


def check_same_spaces(trial: TrialConfig, env: EnvSettings, given: str) -> None:
    """Make sure that a policy can act in another environment.

    Args:
        trial: The trial that was trained.
        env: The other environment.
        given: The person's words for the other environment, for the message.

    Raises:
        ConfigurationError: The environment cannot be made, or its spaces are others.
    """
    pairs = zip(("observations", "actions"), spaces(trial.env), spaces(env), strict=True)
    for what, own, other in pairs:
        if own != other:
            raise ConfigurationError(
                f"{given}: the policy was trained on {what} {_shown(own)} of {trial.env.id}, "
                f"and those of {env.id} are {_shown(other)}. Name an environment with the same spaces."
            )


def _shown(space: Space[Any]) -> str:
    return " ".join(str(space).split())


def _connector(checkpoint: Checkpoint, index: int) -> Path:
    """Where a pipeline's state is: with the local env runner's, or the algorithm's, if it has none."""
    name = _CONNECTORS[index]
    runner = Path(RLLIB) / "env_runner" / name
    return runner if (checkpoint.path / runner).is_dir() else Path(RLLIB) / name


def _restore(checkpoint: Checkpoint, parts: Mapping[Path, Any], named: str) -> None:
    for place, part in parts.items():
        try:
            part.restore_from_path(str(checkpoint.path / place))
        except Exception as error:  # whatever unpickling, RLlib and torch raise
            commit = checkpoint.provenance.get("commit")
            raise ConfigurationError(
                f"{named}: {checkpoint.path / place} does not fit the trial that it belongs to "
                f"({first_line(error)}). It is damaged, or was written by other "
                f"versions{f': its trial was run with commit {commit}' if commit else ''}."
            ) from error
