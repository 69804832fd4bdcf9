"""The Trainable of a throughput study: warm up, measure block by block, stop when it is precise enough."""

import math
from collections.abc import Mapping
from dataclasses import replace
from time import perf_counter
from typing import Any

from ray.tune import PlacementGroupFactory

from experiments.rllib import runner_pool
from experiments.trial.folder import Report
from experiments.trial.measurement import Block, Measurement, MeasurementError
from experiments.trial.trainable import Trial, now_ms

BUNDLES = "bundles"
"""Key of Tune's config: the bundles that a trial reserves, those of the study's largest, so that trials can share a process."""

_LEAST_WARM_ITERATIONS = 2


class MeasuredTrial(Trial):
    """One (configuration, seed), measured in place of trained to a budget.

    It reports each block at the env steps sampled by then, and neither evaluates nor saves itself: whoever takes it up again measures anew.
    """

    @classmethod
    def default_resource_request(cls, config: Mapping[str, Any]) -> PlacementGroupFactory:
        """What the study's largest trial needs, if the plan says; else what this one does."""
        if bundles := config.get(BUNDLES):
            return PlacementGroupFactory([dict(bundle) for bundle in bundles])
        return super().default_resource_request(config)

    def _start(self) -> None:
        runner_pool.use()
        super()._start()
        assert self._trial.measurement is not None, "the plan gives measured trials their settings"
        self._settings = self._trial.measurement
        self._ready: list[Report] = []  # measured, and not made yet
        self._earlier = self._furthest()  # of an earlier attempt: reports follow its

    def _report(self) -> dict[str, Any]:
        if not self._ready:
            self._warm_up()
            self._measure()
        return self._made(self._ready.pop(0))

    def _measure(self) -> None:
        """All blocks in a row: while a report is on its way, asynchronous runners would sample on, and that time be nobody's."""
        measurement = Measurement(self._settings)
        while not measurement.is_enough():
            start_env_steps, start_trained, start_s = self._env_steps, self._trained, self._train_s
            metrics = self._train_for(self._settings.block_s)
            metrics["progress/wall_s"] = self._wall_s()
            metrics.update(self._use_of_time())
            other = metrics.get("system/other_cpu_percent", math.nan)
            trained = self._trained - start_trained
            measurement.blocks.append(Block(self._env_steps - start_env_steps, trained, self._train_s - start_s, other))
            self._ready.append(Report(self._earlier + self._env_steps, now_ms(), metrics, False, ""))
        final = {**measurement.metrics(), "final/train_s": self._train_s, "final/wall_s": self._wall_s()}
        last = self._ready[-1]
        self._ready[-1] = replace(last, metrics={**last.metrics, **final}, done=True)

    def _warm_up(self) -> None:
        settings, start = self._settings, perf_counter()
        deadline = start + settings.warmup_s + settings.max_seconds
        while True:
            self._train_for(0.0)
            now = perf_counter()
            learns = self._updates > 0  # algorithms with a replay buffer begin by filling it
            if learns and self._iterations >= _LEAST_WARM_ITERATIONS and now - start >= settings.warmup_s:
                break
            if now > deadline:
                raise MeasurementError(
                    f"no throughput in {now - start:.0f} s: {self._iterations} training batches and {self._updates} updates by then. Try a "
                    "larger measurement.max_seconds, a smaller train_batch_size_per_learner, or fewer steps before learning starts"
                )
        self._use_of_time()

    def _train_for(self, seconds: float) -> dict[str, float]:
        """Train one batch at least."""
        end = self._train_s + seconds
        return self._train_until(lambda collected: self._train_s >= end)

    def _abandon(self) -> None:
        super()._abandon()
        runner_pool.clear()

    def _may_go_on(self, error: Exception, reason: str) -> bool:
        return not isinstance(error, MeasurementError) and super()._may_go_on(error, reason)
