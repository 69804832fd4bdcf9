"""A study while it runs, as a page that refreshes itself, in the place of the report that it will have."""

import logging
import math
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import jinja2

from experiments.config.errors import first_line
from experiments.config.trial_config import TrialConfig
from experiments.contract import CONFIRM, FAILED, FINISHED, PRUNED, RETURN, SCORE
from experiments.contract.report_file import write_page
from experiments.contract.words import labelled
from experiments.planning.plan import Plan
from experiments.study.progress import Progress
from experiments.trial.events import Ended, Event, Reported, Started, now_ms

EVERY_S = 15.0
"""Between two writes of the page, and between two looks of a browser at it."""
_SHARE = 0.002
"""Of the driver's time that writing may take: what is large is written less often."""
_SILENT_S = 600.0
"""Without news, from which on a page says so."""
_COLOURED = 6
"""Configurations whose curves have a colour, the best so far; the others are grey."""
_MOST_ROWS = 40
"""Of a table, and configurations whose curves are drawn."""
_WIDTH, _HEIGHT, _LEFT, _RIGHT, _TOP, _BOTTOM = 960, 340, 64, 12, 12, 34
"""Of a chart, px, and of what is around the curves."""

logger = logging.getLogger(__name__)


@dataclass
class _Trial:
    """What is known of a trial.

    Attributes:
        points: Env steps and mean return, as they were reported.
        ended: The status that it ended with; "" while it runs.
    """

    points: list[tuple[int, float]] = field(default_factory=list)
    env_steps: int = 0
    env_steps_per_s: float = math.nan
    ended: str = ""
    failure: str = ""

    @property
    def newest(self) -> float:
        """The last mean return, the score if it ended; NaN if there is none."""
        return self.points[-1][1] if self.points else math.nan


class LivePage:
    """Writes the page now and then. What it hears of before that happened earlier."""

    def __init__(
        self, plan: Plan, progress: Progress, file: Callable[[], Path | None], say: Callable[[str], None]
    ) -> None:
        """Write about `plan`, whose `progress` hears of each event before.

        Args:
            plan: The study.
            progress: Of it.
            file: Where the page goes; None while that is not known.
            say: Tells where it is, once it is there.
        """
        self._plan, self._progress, self._file, self._say = plan, progress, file, say
        self._trials: dict[str, dict[str, dict[str, _Trial]]] = defaultdict(lambda: defaultdict(dict))
        loader = jinja2.FileSystemLoader(Path(__file__).parent)
        found = jinja2.Environment(loader=loader, autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True)
        self._template = found.get_template("live_page.html.j2")
        self._spacing_s = EVERY_S
        self._targets: dict[str, float | None] = {}
        self._begun_ms, self._due = now_ms(), 0.0
        self._written: Path | None = None
        self._gives_up = False

    def on_event(self, trial: TrialConfig, event: Event) -> None:
        """What a trial did; time for a page, maybe."""
        label = f"{trial.label}, confirmed" if trial.phase == CONFIRM else trial.label
        own = self._trials[trial.env.name][label].setdefault(trial.folder_name, _Trial())
        self._targets[trial.env.name] = trial.env.target
        if isinstance(event, Started):
            own.ended = own.failure = ""  # perhaps again
        elif isinstance(event, Reported):
            own.env_steps = event.env_steps
            own.env_steps_per_s = event.metrics.get("throughput/env_steps_per_s", math.nan)
            self._add(own, event.env_steps, event.metrics.get(RETURN, math.nan))
        elif isinstance(event, Ended):
            own.ended, own.env_steps = event.status, max(own.env_steps, event.env_steps)
            own.failure = event.reason if event.status == FAILED else ""
            own.env_steps_per_s = event.metrics.get("final/env_steps_per_s", own.env_steps_per_s)
            self._add(own, own.env_steps, event.metrics.get(SCORE, math.nan))
        may_disturb = self._plan.is_measured and not isinstance(event, Ended)
        if event.at_ms >= self._begun_ms and time.monotonic() >= self._due and not may_disturb:
            self._write(ended=False)

    @staticmethod
    def _add(own: _Trial, env_steps: int, value: float) -> None:
        if math.isfinite(value):
            own.points.append((env_steps, value))

    def end(self) -> None:
        """Say that the report comes next."""
        if self._written is not None:
            self._write(ended=True)

    def _write(self, ended: bool) -> None:
        file = self._file()
        if file is None or self._gives_up:
            return
        began = time.monotonic()
        try:
            write_page(file, self._page(ended))
        except Exception as error:  # noqa: BLE001  # the study is safe, whatever becomes of its page
            self._gives_up = True
            logger.warning("No page while the study runs (%s).", first_line(error))
            return
        now = time.monotonic()
        self._spacing_s = max(EVERY_S, (now - began) / _SHARE)
        self._due = now + self._spacing_s
        if self._written is None:
            self._say(labelled("report", f"{file} (refreshes itself while the study runs)"))
        self._written = file

    def _page(self, ended: bool) -> str:
        failed = [t.failure for of_env in self._trials.values() for own in of_env.values() for t in own.values()]
        return self._template.render(
            experiment=self._plan.experiment,
            question=self._plan.question or self._plan.study,
            ended=ended,
            every_s=round(self._spacing_s),
            stale_at_ms=now_ms() + round(1000 * max(_SILENT_S, 3 * self._spacing_s)),
            share=self._progress.share,
            sentence=self._progress.overall(),
            envs=[self._of_env(env, of_env) for env, of_env in self._trials.items()],
            failures=list(dict.fromkeys(filter(None, failed))),
            is_measured=self._plan.is_measured,
        )

    def _of_env(self, env: str, of_env: Mapping[str, Mapping[str, _Trial]]) -> dict[str, Any]:
        rows = [_row(label, list(trials.values())) for label, trials in of_env.items()]
        best_first = sorted(rows, key=lambda row: (not row["returns"], -row["order"]))  # what was not evaluated last
        for rank, row in enumerate(best_first):
            row["colour"] = rank if rank < _COLOURED and row["returns"] else None
        shown = best_first[:_MOST_ROWS]
        return {
            "name": env,
            "chart": _chart(shown, of_env, self._targets[env]),
            "rows": shown,
            "hidden": len(rows) - len(shown),
        }


def _row(label: str, trials: Sequence[_Trial]) -> dict[str, Any]:
    """A configuration's part of the table."""
    returns = [t.newest for t in trials if not math.isnan(t.newest)]
    speeds = [t.env_steps_per_s for t in trials if not math.isnan(t.env_steps_per_s)]
    speed = sum(speeds) / len(speeds) if speeds else math.nan
    mean = sum(returns) / len(returns) if returns else math.nan
    order = mean if returns else speed
    return {
        "label": label,
        "seeds": len(trials),
        "done": sum(t.ended in (FINISHED, PRUNED) for t in trials),
        "failed": sum(t.ended == FAILED for t in trials),
        "env_steps": [t.env_steps for t in trials],
        "returns": returns,
        "mean": mean,
        "speed": speed,
        "order": -math.inf if math.isnan(order) else order,
    }


def _chart(
    rows: Sequence[Mapping[str, Any]], of_env: Mapping[str, Mapping[str, _Trial]], target: float | None
) -> dict[str, Any] | None:
    """Each trial's return by env steps, in the px of the chart; None where nothing was evaluated."""
    points = [p for row in rows for t in of_env[row["label"]].values() for p in t.points]
    if not points:
        return None
    last = max(env_steps for env_steps, _ in points) or 1
    heights = [value for _, value in points] + ([] if target is None else [target])
    low, high = min(heights), max(heights)
    high = high if high > low else low + 1.0
    wide, tall = _WIDTH - _LEFT - _RIGHT, _HEIGHT - _TOP - _BOTTOM

    def y(value: float) -> float:
        return round(_TOP + tall * (high - value) / (high - low), 1)

    lines = [
        {
            "colour": row["colour"],
            "title": row["label"],
            "points": " ".join(f"{_LEFT + wide * steps / last:.1f},{y(value)}" for steps, value in trial.points),
        }
        for row in reversed(rows)  # the best on top
        for trial in of_env[row["label"]].values()
        if trial.points
    ]
    return {
        "size": (_WIDTH, _HEIGHT),
        "lines": lines,
        "target": None if target is None else (y(target), f"target {target:g}"),
        "y": [(y(value), f"{value:.4g}") for value in (low, (low + high) / 2, high)],
        "x": [(_LEFT + wide * part, f"{round(last * part):,}") for part in (0.0, 0.5, 1.0)],
        "left": _LEFT,
        "right": _WIDTH - _RIGHT,
        "bottom": _HEIGHT - _BOTTOM,
    }
