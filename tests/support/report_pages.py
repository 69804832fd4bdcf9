"""Studies from hand-made frames, and a report's page as its reader sees it."""

import re
from collections.abc import Sequence
from html.parser import HTMLParser

import pandas as pd

from analysis.load import Study
from tests.support.study_frames import make_curves


def study_of(runs: pd.DataFrame, curves: pd.DataFrame | None = None, axes: Sequence[str] = ()) -> Study:
    return Study(
        name="hand",
        experiment="hand/ppo-cartpole",
        run_id="0123456789abcdef",
        question="Which <b>one</b>?",
        status="finished",
        started=pd.Timestamp("2026-01-01", tz="UTC"),
        axes=tuple(axes),
        paths={axis: f"algorithm.training.{axis}" for axis in axes},
        points={
            str(c): {f"algorithm.training.{a}": runs.loc[runs["config"] == c, a].iloc[0] for a in axes}
            for c in runs["config"].unique()
        },
        facts={},
        predicted_mib={},
        base="",
        objectives=(),
        start="",
        unmasked=(),
        seeds=tuple(sorted(runs["seed"].unique())),
        concurrency=1,
        repeats=1 + int(runs["repeat"].max()),
        command="python experiments/run.py study=hand",
        provenance={"commit": "abc123", "dirty": True, "versions": {"ray": "2.60.0"}, "host": {"cpu": "a CPU"}},
        tracking_uri="sqlite:///nowhere.db",
        runs=runs,
        curves=make_curves(runs, {}) if curves is None else curves,
    )


class Page(HTMLParser):
    """What a reader sees, and whether every tag is closed."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.texts: list[str] = []
        self.images: list[str] = []
        self.links: list[str] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "img":
            self.images.append(dict(attrs)["src"] or "")
            assert dict(attrs)["alt"]
        self.links += [
            value for name, value in attrs if name in ("href", "src") and value and not value.startswith("data:")
        ]
        if tag not in ("img", "meta", "br", "wbr"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)

    @property
    def text(self) -> str:
        return re.sub(r"\s+", " ", "".join(self.texts))


def learning(runs: pd.DataFrame) -> pd.DataFrame:
    points = {
        (str(row["config"]), int(row["seed"])): {
            "eval/return_mean": [(50_000, 5.0, row["score"] / 2), (100_000, 10.0, row["score"])],
            "progress/train_s": [(50_000, 5.0, 4.0), (100_000, 10.0, 8.0)],
            **{
                f"throughput/{part}_share": [(50_000, 5.0, 0.25), (100_000, 10.0, 0.25)]
                for part in ("sample", "learn", "sync", "other")
            },
        }
        for _, row in runs[runs["status"] == "finished"].iterrows()
    }
    return make_curves(runs, points)
