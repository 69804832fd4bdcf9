"""The Trainable of a throughput study: warm up, measure block by block, stop when it is precise enough."""

import math

from experiments.contract import FINISHED
from experiments.rllib import runner_pool
from experiments.trial.events import Ended, Event, Reported
from experiments.trial.measurement import Block, Measurement, MeasurementError
from experiments.trial.trainable import Trial
from experiments.trial.usage.pauses import unpaused_s

_LEAST_WARM_ITERATIONS = 2
"""Training batches of a warm-up; one, if it takes longer."""


class MeasuredTrial(Trial):
    """One (configuration, seed), measured in place of trained to a budget.

    It reports each block at the env steps sampled by then, and neither evaluates nor saves itself: whoever takes it up
    again measures anew. A trial without a measurement is trained, in studies that have both.
    """

    def _start(self) -> None:
        if self._trial.measurement is None:
            runner_pool.leave()
            super()._start()
            return
        # a search goes by what starting takes as well
        wanted = self._trial.algorithm["env_runners"]["num_env_runners"] if self._trial.exploratory else 0
        runner_pool.use(wanted)
        super()._start()
        self._settings = self._trial.measurement
        self._ready: list[list[Event]] = []  # measured, and not told yet
        self._earlier = self._furthest()  # of an earlier attempt: reports follow its

    def _trained(self) -> list[Event]:
        if self._trial.measurement is None:
            return super()._trained()
        if not self._ready:
            self._warm_up()
            self._measure()
        return self._ready.pop(0)

    def _measure(self) -> None:
        """All blocks in a row: while a report is on its way, asynchronous runners would sample on,
        and that time be nobody's.
        """
        assert self._training is not None
        training, measurement = self._training, Measurement(self._settings)
        now = training.counters
        while not measurement.is_enough():
            start_env_steps, start_trained, start_s = now.env_steps, now.trained, now.train_s
            metrics = self._train_for(self._settings.block_s)
            metrics["progress/wall_s"] = training.wall_s()
            metrics.update(self._used())
            other = metrics.get("system/other_cpu_percent", math.nan)
            measurement.blocks.append(
                Block(
                    now.env_steps - start_env_steps,
                    now.trained - start_trained,
                    now.train_s - start_s,
                    other,
                    "throughput/pauses" in metrics,
                )
            )
            self._ready.append([Reported(env_steps=self._earlier + now.env_steps, metrics=metrics)])
        final = {**measurement.metrics(), **training.staleness(), **training.seconds(), **self._peak()}
        self._ready[-1].append(Ended(status=FINISHED, env_steps=self._earlier + now.env_steps, metrics=final))

    def _warm_up(self) -> None:
        assert self._training is not None
        settings, start, now = self._settings, unpaused_s(), self._training.counters
        deadline = start + settings.warmup_s + settings.max_seconds
        while True:
            self._train_for(0.0)
            at = unpaused_s()
            learns = now.updates > 0  # algorithms with a replay buffer begin by filling it
            if (
                learns
                and (now.iterations >= _LEAST_WARM_ITERATIONS or at > deadline)
                and at - start >= settings.warmup_s
            ):
                break
            if at > deadline:
                raise MeasurementError(
                    f"no update in {at - start:.0f} s and {now.env_steps:,} env steps. Try a larger "
                    "measurement.max_seconds, or fewer steps before learning starts"
                )
        self._training.use_of_time()
        now.staleness_sum, now.staleness_steps = 0.0, 0  # runners and queues are as full by now as they become

    def _train_for(self, seconds: float) -> dict[str, float]:
        """Train one batch at least."""
        assert self._training is not None
        training = self._training
        end = training.counters.train_s + seconds
        return training.train(lambda collected: training.counters.train_s >= end)

    def _abandon(self) -> None:
        super()._abandon()
        runner_pool.clear()

    def _may_go_on(self, error: Exception, reason: str) -> bool:
        return super()._may_go_on(error, reason) and not isinstance(error, MeasurementError)
