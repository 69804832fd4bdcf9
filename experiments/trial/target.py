"""Time to target, and the area under an evaluation curve."""

from dataclasses import dataclass
from itertools import pairwise


@dataclass
class TargetWatch:
    """Time to target: the first report from which two evaluations running are at or above the target."""

    target: float | None
    """The env's; None never counts as reached."""
    since: tuple[float, float] | None = None
    reached: tuple[float, float] | None = None

    def on_evaluation(self, return_mean: float, env_steps: float, train_s: float) -> bool:
        """Take in one evaluation.

        Returns:
            Whether the target is reached and held by now.
        """
        if self.target is None or self.reached is not None:
            return self.reached is not None
        if return_mean < self.target:
            self.since = None
        elif self.since is None:
            self.since = (env_steps, train_s)
        else:
            self.reached = self.since
        return self.reached is not None

    def metrics(self) -> dict[str, float]:
        """The `final/*_to_target` metrics; none if the target was never held."""
        if self.reached is None:
            return {}
        return {"final/env_steps_to_target": self.reached[0], "final/seconds_to_target": self.reached[1]}


def score_in_time(
    curve: list[tuple[float, float]], at_s: list[float], limit_s: float, end: tuple[float, float]
) -> dict[str, float]:
    """The `final/score_in_minutes` metric; none if nothing was evaluated by then.

    Args:
        curve: (env steps, return) of each evaluation.
        at_s: Seconds at each, starting counted.
        limit_s: Seconds that there are.
        end: Seconds at the end, and the score.
    """
    within = [value for (_, value), at in zip(curve, at_s, strict=True) if at <= limit_s]
    if end[0] > limit_s and not within:
        return {}
    return {"final/score_in_minutes": end[1] if end[0] <= limit_s else within[-1]}


def area_under_curve(points: list[tuple[float, float]], budget: float) -> float:
    """Area under an evaluation curve over env steps up to the budget, divided by it: a mean return.

    Args:
        points: (env steps, return), in order, up to the budget at most. The first value holds back to 0, for nothing
            is evaluated before: a return of 0 there, which some environments never give, would be made up. The last
            one holds up to the budget, where the trial stopped early: its policy is what the rest of the budget would
            have been used with.
        budget: Env steps of the trial.

    Returns:
        By the trapezoidal rule.
    """
    points = [(0.0, points[0][1]), *points, (budget, points[-1][1])]
    return sum((x1 - x0) * (y0 + y1) / 2 for (x0, y0), (x1, y1) in pairwise(points)) / budget
