"""Studies whose answers are easily told wrong, as small frames: crashes, ties, single seeds, several machines."""

from collections.abc import Mapping

import numpy as np
import pandas as pd

from analysis.evidence import Claim, Evidence
from analysis.stats.interval import Interval
from tests.support.study_frames import Values, make_runs, make_search, together, with_status

NAN = float("nan")
A, B, C, D = "lr=1e-3 b=512", "lr=3e-3 b=512", "lr=1e-3 b=2048", "lr=3e-3 b=2048"
BOUNDED = {"target": NAN}
NO_TARGET = {"target": NAN, "score_range": (NAN, NAN)}


def _drawn(seed: int, num: int, **of_configs: tuple[float, float]) -> Values:
    """Scores drawn from normal distributions of a mean and a deviation each."""
    names = {"a": A, "b": B, "c": C, "d": D}
    rng = np.random.default_rng(seed)
    return {names[key]: [round(float(v), 1) for v in rng.normal(*of, num)] for key, of in of_configs.items()}


def _throughput(**speeds: list[float]) -> pd.DataFrame:
    names = {"none": "runners=0", "one": "runners=1", "two": "runners=2", "four": "runners=4"}
    values = {names[key]: of for key, of in speeds.items()}
    params = {"num_env_runners": {names[key]: n for key, n in (("none", 0), ("one", 1), ("two", 2), ("four", 4))}}
    params = {"num_env_runners": {c: n for c, n in params["num_env_runners"].items() if c in values}}
    frame = make_runs({c: [NAN] * len(of) for c, of in values.items()}, params=params, env_steps_per_s=values)
    return frame.assign(phase="throughput", score=NAN)


def _one_seed_left(runs: pd.DataFrame, config: str, status: str = "missing") -> pd.DataFrame:
    return with_status(runs, config, range(1, int(runs["seed"].max()) + 1), status)


def odd_studies() -> Mapping[str, Evidence]:
    """Name, which says what is odd about it, to its trials."""
    steps = {A: [30_000.0, 31_000, 29_000, 30_500, 29_500], B: [12_000.0, 13_000, 12_500, 11_500, 12_000]}
    solved: Values = {A: [500.0] * 5, B: [500.0] * 5, C: [300.0, 310, 290, 305, 295]}
    alike = make_runs(_drawn(1, 5, a=(400, 30), b=(400, 30)))
    crashing = with_status(
        make_runs({A: [478.0] * 5, B: [450.0, 455, 452, 458, 455]}, target=NAN), A, [0, 1, 2], "failed"
    )
    early = make_runs(_drawn(2, 3, a=(474, 3), b=(474, 3), c=(300, 20), d=(200, 20)), target=NAN)
    for config in (A, C):
        early = _one_seed_left(early, config)
    disjoint = make_runs({A: [492.0, 490, 494], B: [200.0, 210, 190]}, target=NAN)
    disjoint.loc[disjoint["config"] == B, "seed"] += 10
    machines = make_runs(_drawn(3, 5, a=(490, 4), b=(491, 4)), target=NAN)
    machines["cpu"] = machines["config"].map({A: "Xeon", B: "EPYC"}).astype(str)
    machines.loc[machines["config"] == B, ["train_s", "wall_s"]] = [20.0, 30.0]
    edge = {"lr": {A: 1e-3, B: 3e-3, "lr=1e-2 b=512": 1e-2}}
    rising = make_runs({A: [100.0, 110, 105], B: [200.0, 205, 210], "lr=1e-2 b=512": [400.0, 410, 405]}, params=edge)
    found = {A: [400.0, 420], B: [430.0, 440], C: [300.0, 310]}
    confirmed = {B: [380.0, 390, 400, 395, 385], A: [200.0, 210, 205, 195, 190]}
    claim = Claim(B, "score", Interval(480.0, 470.0, 490.0), 5, 4, (A,))
    rare = {A: [500.0, 500, 500, 500, 20], B: [495.0, 490, 492, 491, 494], C: [100.0, 90, 80, 95, 85]}
    return {
        "a clear winner": Evidence(make_runs({A: [480.0, 482, 481, 479, 483], B: [100.0, 101, 99, 98, 102]})),
        "two that are alike": Evidence(alike),
        "nine that are alike": Evidence(
            make_runs({f"lr={i}e-4": list(np.random.default_rng(i).normal(330, 40, 5).round(1)) for i in range(1, 10)})
        ),
        "crashes on three of five seeds": Evidence(crashing),
        "a score that is no number": Evidence(make_runs({A: [490.0, NAN, NAN], B: [300.0, 310, 305]})),
        "no score is a number": Evidence(make_runs({A: [NAN] * 3, B: [NAN] * 3})),
        "all trials failed": Evidence(make_runs({A: [NAN] * 3}).assign(status="failed")),
        "one seed each": Evidence(make_runs({A: [490.0], B: [480.0], C: [120.0]}, target=NAN)),
        "ended early": Evidence(early),
        "a run under way": Evidence(
            with_status(make_runs({A: [490.0, 485, 480], B: [100.0, 105, 110]}), B, [1, 2], "running")
        ),
        "seeds of their own": Evidence(disjoint),
        "nothing was learned": Evidence(make_runs({A: [9.3, 9.4, 9.2], B: [9.3, 9.3, 9.4], C: [9.1, 9.3, 9.2]})),
        "negative returns without a target": Evidence(
            make_runs({A: [-1200.0, -1190, -1210, -1195, -1205], B: [-200.0, -190, -210, -1400, -205]}, **NO_TARGET)
        ),
        "two kinds of machine": Evidence(machines),
        "two kinds of machine, portable": Evidence(machines.assign(bits="portable")),
        "scores saturate, env steps decide": Evidence(make_runs(solved, env_steps_to_target=steps)),
        "scores saturate, env steps tie": Evidence(
            make_runs(solved, env_steps_to_target={A: steps[A], B: [28_000.0, 33_000, 27_000, 32_000, 29_000]})
        ),
        "the best mean collapses on a seed": Evidence(make_runs(rare)),
        "practically the same": Evidence(
            make_runs({A: [490.0 + i % 3 for i in range(12)], B: [489.0 + (i + 1) % 3 for i in range(12)]}, target=NAN)
        ),
        "significantly better by next to nothing": Evidence(
            make_runs({A: [490.0 + i % 3 for i in range(12)], B: [489.0 + i % 3 * 0.9 for i in range(12)]}, **BOUNDED)
        ),
        "one configuration with two modes": Evidence(make_runs({A: [500.0, 500, 123, 500, 130]})),
        "at the edge of what was tried": Evidence(rising, axes=("lr",)),
        "throughput, a clear one": Evidence(_throughput(none=[8499.0, 8450, 8520], one=[3978.0, 4000, 3950])),
        "throughput, fewer processes are as fast": Evidence(
            _throughput(one=[3990.0, 4010, 3950], two=[7000.0, 7040, 6980], four=[7010.0, 7050, 6975])
        ),
        "two environments": Evidence(
            together(
                make_runs({A: [480.0, 490, 485], B: [300.0, 310, 305]}),
                make_runs(
                    {C: [-90.0, -95, -92], D: [-80.0, -85, -82]}, env="acrobot", target=-100, score_range=(-500, 0)
                ),
            )
        ),
        "a search that was confirmed": Evidence(make_search(found, confirmed)),
        "a search of which nothing is confirmed": Evidence(make_search(found, {})),
        "a recommendation that fresh seeds refute": Evidence(
            make_runs({B: [300.0, 310, 290, 305, 295], A: [440.0, 450, 445, 455, 435]}), claims={"cartpole": claim}
        ),
        "a recommendation that holds": Evidence(
            make_runs({B: [478.0, 484, 476, 489, 480], A: [440.0, 450, 445, 455, 435]}), claims={"cartpole": claim}
        ),
    }
