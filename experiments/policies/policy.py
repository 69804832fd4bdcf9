"""A policy from a trial's checkpoint: module, connectors, action mapping and environment, without Ray's processes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from gymnasium import Space
from ray.rllib.core import DEFAULT_MODULE_ID
from ray.rllib.core.rl_module.rl_module import RLModule
from ray.rllib.env import INPUT_ENV_SINGLE_SPACES, INPUT_ENV_SPACES

from experiments.config.errors import ConfigurationError, first_line, reason_of
from experiments.config.schema import EnvSettings
from experiments.config.trial_config import TrialConfig
from experiments.policies.checkpoint import Checkpoint
from experiments.rllib.building import build_algorithm_config, environment_of, spaces
from experiments.rllib.checkpoints import RLLIB
from experiments.rllib.hooks import seed_process
from experiments.rllib.no_compiler import leave_out_compiler
from experiments.rllib.pipelines import are_default
from experiments.rllib.results import NonFiniteError
from experiments.rllib.seeding import Role, process_seed, stream_seeds
from experiments.trial.evaluation import Evaluation, OnActions, Watch, environments, evaluate

_MODULE = Path(RLLIB) / "learner_group" / "learner" / "rl_module" / DEFAULT_MODULE_ID
_CONNECTORS = "env_to_module_connector", "module_to_env_connector"


@dataclass(frozen=True)
class Policy:
    """A trained policy.

    Attributes:
        trial: What was trained.
        module: With the trained weights.
        pipelines: RLlib's connectors from environments to module and back, as the trial left them; None: the default ones.
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
        """One episode per env seed, as the trial's own final evaluation runs them: in turns, and cut at the trial's budget.

        Args:
            env_seeds: A seed per episode.
            env: Another environment, as `conf/env` has it; None: the trial's.
            explore: Whether actions are drawn as in training; they are the same each time.
            watch: Sees the episodes.
            on_actions: Sees what the policy is given, and what it does.

        Raises:
            ConfigurationError: Its environment cannot be made, or raises, or the policy's outputs are not finite.
        """
        trial, how = self.trial, (self.normalize_actions, self.clip_actions)
        torch.set_num_threads(trial.threads_per_process)  # a part of what the last bits depend on
        if explore:
            seed_process(process_seed(trial.seed, Role.FINAL_EVALUATION, len(env_seeds)))
        settings = environment_of(trial if env is None else replace(trial, env=env))
        most, explore_at = trial.budget_env_steps, self.sampled if explore else None
        try:
            return evaluate(
                self.module,
                settings,
                env_seeds,
                *how,
                max_env_steps=most,
                pipelines=self.pipelines,
                explore_at=explore_at,
                watch=watch,
                on_actions=on_actions,
            )
        except NonFiniteError as error:
            raise ConfigurationError(f"the policy has no score: {error}.") from None
        except Exception as error:  # environments raise what they like
            raise ConfigurationError(f"env={settings.name}: an evaluation failed: {reason_of(error)}. It is {settings.id}.") from error


def load(checkpoint: Checkpoint, named: str) -> Policy:
    """A checkpoint's policy. Opens pickles: see `experiments.policies.checkpoint.check_origin`.

    Args:
        checkpoint: Of any of the algorithms.
        named: What the person named, for messages.

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
        _restore(checkpoint, {_MODULE: module, **({_connector(checkpoint, i): p for i, p in enumerate(pipelines)} if own else {})}, named)
    finally:
        envs.close()
    return Policy(trial, module, pipelines if own else None, bool(config.normalize_actions), bool(config.clip_actions), checkpoint.sampled)


def check_same_spaces(trial: TrialConfig, env: EnvSettings, given: str) -> None:
    """Make sure that a policy can act in another environment.

    Args:
        trial: What was trained.
        env: The other environment.
        given: What the person wrote, for the message.

    Raises:
        ConfigurationError: The environment cannot be made, or its spaces are others.
    """
    pairs = zip(("observations", "actions"), spaces(trial.env), spaces(env), strict=True)
    for what, own, other in pairs:
        if own != other:
            raise ConfigurationError(
                f"{given}: the policy was trained on {what} {_shown(own)} of {trial.env.id}, and those of {env.id} are {_shown(other)}. "
                "Name an environment with the same spaces."
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
                f"{named}: {checkpoint.path / place} does not fit the trial that it belongs to ({first_line(error)}). It is damaged, or "
                f"was written by other versions{f': its trial was run with commit {commit}' if commit else ''}."
            ) from error
