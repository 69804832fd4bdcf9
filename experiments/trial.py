"""The Tune Trainable: train, evaluate, report on the env-step grid, checkpoint, stop at the budget."""

import json
from collections.abc import Mapping
from pathlib import Path
from time import perf_counter
from typing import Any

import torch
from ray.rllib.algorithms.algorithm import Algorithm
from ray.tune import PlacementGroupFactory, Trainable

from experiments.algorithm import build_algorithm_config
from experiments.callbacks import EPISODES
from experiments.evaluation import Evaluation, evaluate
from experiments.learner import average_over_minibatches
from experiments.metrics import (
    EpisodeSums,
    PhaseClock,
    TargetWatch,
    area_under_curve,
    check_finite,
    gradient_steps,
    learner_metrics,
)
from experiments.resolve import TrialConfig
from experiments.resources import request_for
from experiments.seeding import Role, stream_seeds
from experiments.system import ProcessMonitor, this_process

STEP = "report_env_steps"
"""Key of a result: the point on the study's report grid."""
TRIAL = "trial"
"""Key of Tune's config: the TrialConfig as a mapping."""
MEASURE_SYSTEM = "measure_system"
"""Key of Tune's config: whether CPU, memory and GPU use are measured."""

_MUST_BE_FINITE = ("learner/loss", "learner/policy_loss", "learner/value_loss", "learner/grad_norm")
_STATE_FILE = "trial_state.json"


class Trial(Trainable):  # type: ignore[misc]  # Tune ships no type information
    """One (configuration, seed): a pure function of `config["trial"]`.

    Each `step()` trains to the next point of the report grid, so that every configuration reports at the same env steps. RLlib's
    batches seldom end on a grid point: the iteration that ends nearest to it counts as the point.
    """

    @classmethod
    def default_resource_request(cls, config: Mapping[str, Any]) -> PlacementGroupFactory:
        """What the trial's processes need, as RLlib counts it."""
        return request_for(build_algorithm_config(TrialConfig.from_mapping(config[TRIAL])))

    def setup(self, config: Mapping[str, Any]) -> None:
        """Build the algorithm."""
        self._wall_start = perf_counter()
        self._trial = TrialConfig.from_mapping(config[TRIAL])
        torch.set_num_threads(self._trial.threads_per_process)
        algorithm_config = build_algorithm_config(self._trial)
        # With Tune's storage RLlib keeps its own log folder within the study's, instead of one in the home directory.
        self._algorithm: Algorithm = algorithm_config.algo_class(config=algorithm_config, storage=self._storage)
        self._algorithm.learner_group.foreach_learner(average_over_minibatches)
        self._clock = PhaseClock()
        self._clock.attach(self._algorithm.metrics)
        self._has_kl = bool(getattr(algorithm_config, "use_kl_loss", False))
        self._epochs = (algorithm_config.num_epochs or 1) if algorithm_config.minibatch_size is not None else 1
        self._minibatches = algorithm_config.minibatch_size is not None
        self._monitor_of_trial = ProcessMonitor(self._processes()) if config.get(MEASURE_SYSTEM) else None

        self._grid_env_steps = 0
        self._env_steps = self._iterations = self._updates = 0
        self._train_s = self._wall_before_s = 0.0
        self._warm: tuple[int, float] | None = None  # env steps and training seconds at the first report
        self._curve: list[tuple[float, float]] = []
        self._watch = TargetWatch(self._trial.env.target)

    def step(self) -> dict[str, Any]:
        """Train to the next grid point and report.

        Returns:
            The metrics of the contract, flat; `report_env_steps` is the grid point.

        Raises:
            NonFiniteError: A loss, a gradient norm or a return is not finite.
        """
        trial = self._trial
        self._grid_env_steps += trial.report_every_env_steps
        metrics = self._train_to(self._grid_env_steps)
        last = self._grid_env_steps >= trial.budget_env_steps
        every = trial.evaluation.every_env_steps or trial.report_every_env_steps
        if last or self._grid_env_steps % every == 0:
            evaluation = self._evaluate(Role.EVALUATION, trial.evaluation.episodes)
            metrics.update(evaluation.metrics())
            check_finite(evaluation.metrics(), self._env_steps)
            self._curve.append((self._grid_env_steps, metrics["eval/return_mean"]))
            held = self._watch.see(metrics["eval/return_mean"], self._grid_env_steps, self._train_s)
            last = last or (held and trial.stop_at_target)
        if last:
            metrics.update(self._final_metrics())
        metrics["progress/wall_s"] = self._wall_s()
        if self._monitor_of_trial is not None:
            metrics.update(self._monitor_of_trial.metrics())
        return {**metrics, STEP: self._grid_env_steps, "timesteps_total": self._grid_env_steps, "done": last}

    def _train_to(self, grid_env_steps: int) -> dict[str, float]:
        """Train until the iteration that ends nearest to the grid point; its metrics."""
        episodes = EpisodeSums()
        start_env_steps, start_s, batches, trained = self._env_steps, self._train_s, 0, 0.0
        learner: dict[str, float] = {}
        while True:
            before = self._env_steps
            start = perf_counter()
            result = self._train_once()
            self._train_s += perf_counter() - start
            runners = result.get("env_runners", {})
            module = result.get("learners", {}).get("default_policy", {})
            self._env_steps = int(runners.get("num_env_steps_sampled_lifetime", self._env_steps))
            self._iterations += 1
            steps = gradient_steps(module)
            self._updates += steps
            batches += int(result.get("num_training_step_calls_per_iteration", 1)) if self._minibatches else steps
            episodes.add(runners.get(EPISODES, {}))
            if steps:  # without one RLlib reports NaN losses, which are no fault
                trained += float(module["num_module_steps_trained"]) / self._epochs
                learner = learner_metrics(module, self._has_kl)
                check_finite({k: v for k, v in learner.items() if k in _MUST_BE_FINITE}, self._env_steps)
            collected = self._env_steps - before
            if collected <= 0:
                raise RuntimeError(f"no env steps were sampled in an iteration of {perf_counter() - start:.0f} s: the runners are gone")
            if self._env_steps + collected / 2 >= grid_env_steps:
                break
        seconds, sampled = self._train_s - start_s, self._env_steps - start_env_steps
        if self._warm is None:
            self._warm = (self._env_steps, self._train_s)
        train = episodes.metrics()
        check_finite(train, self._env_steps)
        return {
            **train,
            **{name: value for name, value in learner.items() if value == value},
            **self._clock.shares(seconds),
            "throughput/env_steps_per_s": sampled / seconds,
            "throughput/trained_steps_per_s": trained / seconds,
            "progress/env_steps": self._env_steps,
            "progress/iterations": self._iterations,
            "progress/updates": self._updates,
            "progress/train_s": self._train_s,
            **({"progress/batch_env_steps": sampled / batches} if batches else {}),
        }

    def _train_once(self) -> dict[str, Any]:
        try:
            return dict(self._algorithm.train())
        except RuntimeError as error:
            # RLlib raises an empty RuntimeError where an environment fails (env_runner.py, _try_env_step); the reason is its cause.
            cause: BaseException = error
            while not str(cause) and cause.__cause__ is not None:
                cause = cause.__cause__
            raise cause from None

    def _evaluate(self, role: Role, episodes: int) -> Evaluation:
        config = self._algorithm.config
        seeds = stream_seeds(self._trial.seed, role, episodes)
        return evaluate(self._module(), self._trial.env, seeds, config.normalize_actions, config.clip_actions)

    def _module(self) -> Any:
        """The module with the learner's newest weights, in this process: a remote runner's may lag."""
        runner = self._algorithm.env_runner
        if runner is not None and runner.module is not None:
            if self._algorithm.config.num_env_runners:
                state = self._algorithm.learner_group.get_state(components="learner/rl_module", inference_only=True)
                runner.module.set_state(state["learner"]["rl_module"]["default_policy"])
            return runner.module
        return self._algorithm.get_module()

    def _final_metrics(self) -> dict[str, float]:
        score = self._evaluate(Role.FINAL_EVALUATION, self._trial.evaluation.final_episodes)
        check_finite(score.metrics(), self._env_steps)
        warm_env_steps, warm_s = self._warm if self._warm and self._warm[0] < self._env_steps else (0, 0.0)
        return {
            "final/score": float(score.returns.mean()),
            "final/auc": area_under_curve(self._curve, self._trial.budget_env_steps),
            **self._watch.metrics(),
            "final/env_steps_per_s": (self._env_steps - warm_env_steps) / (self._train_s - warm_s),
            "final/train_s": self._train_s,
            "final/wall_s": self._wall_s(),
        }

    def _wall_s(self) -> float:
        return self._wall_before_s + perf_counter() - self._wall_start

    def _processes(self) -> list[tuple[str, int]]:
        found = [this_process()]
        found += self._algorithm.env_runner_group.foreach_env_runner(lambda _: this_process(), local_env_runner=False)
        found += [r.get() for r in self._algorithm.learner_group.foreach_learner(lambda _: this_process())]
        return list(dict.fromkeys(found))

    def save_checkpoint(self, checkpoint_dir: str) -> None:
        """Save the algorithm (RLlib's format) and the trial's counters."""
        folder = Path(checkpoint_dir).absolute()  # RLlib rejects relative paths
        self._algorithm.save_to_path(folder / "algorithm")
        state = {
            "grid_env_steps": self._grid_env_steps,
            "env_steps": self._env_steps,
            "iterations": self._iterations,
            "updates": self._updates,
            "train_s": self._train_s,
            "wall_s": self._wall_s(),
            "warm": self._warm,
            "curve": self._curve,
            "reached": self._watch.reached,
            "since": self._watch.since,
        }
        (folder / _STATE_FILE).write_text(json.dumps(state))
        (folder / "trial.json").write_text(json.dumps(self._trial.to_mapping()))

    def load_checkpoint(self, checkpoint_dir: str) -> None:
        """The inverse of `save_checkpoint`."""
        folder = Path(checkpoint_dir).absolute()
        self._algorithm.restore_from_path(str(folder / "algorithm"))
        state = json.loads((folder / _STATE_FILE).read_text())
        self._grid_env_steps, self._env_steps = state["grid_env_steps"], state["env_steps"]
        self._iterations, self._updates = state["iterations"], state["updates"]
        self._train_s, self._wall_before_s = state["train_s"], state["wall_s"]
        self._warm = tuple(state["warm"]) if state["warm"] else None
        self._curve = [(x, y) for x, y in state["curve"]]
        self._watch.reached = tuple(state["reached"]) if state["reached"] else None
        self._watch.since = tuple(state["since"]) if state["since"] else None

    def reset_config(self, new_config: Mapping[str, Any]) -> bool:
        """Take on another trial in this process: saves the start of a worker and its imports."""
        self.cleanup()
        self.setup(new_config)
        return True

    def cleanup(self) -> None:
        """Stop runners and learners."""
        # Not stop(): RLlib's waits half a second for a monitor that is off.
        self._algorithm.cleanup()
