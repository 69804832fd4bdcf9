"""Each configuration of a study is parsed once and built once, from the command to the plan."""

import sys
from collections import Counter
from pathlib import Path
from typing import Any

import hydra
import pytest

from experiments import run
from experiments.config.compose import composer, split_space
from experiments.config.schema import parse
from experiments.planning import terminal
from experiments.rllib.building import build_algorithm_config
from experiments.session import Request
from tests.support.suite import ROOT

LR, EPOCHS = "algorithm.training.lr", "algorithm.training.num_epochs"


def count_calls(of: Any, calls: Counter[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def counted(*arguments: Any) -> Any:
        calls[of.__name__] += 1
        return of(*arguments)

    for name, module in list(sys.modules.items()):
        if name.startswith("experiments.") and getattr(module, of.__name__, None) is of:
            monkeypatch.setattr(module, of.__name__, counted)


@pytest.mark.parametrize(
    ("overrides", "num_points"),
    [
        (["study.space={}"], 1),
        ([f"study.space={{{LR}:[1e-4,1e-3],{EPOCHS}:[2,4]}}"], 4),
        (
            ["search=optuna", f"study.space={{{LR}:{{distribution:loguniform,low:1e-5,high:1e-2}},{EPOCHS}:[2,4]}}"],
            4 + 1,
        ),  # and the base
    ],
)
def test_each_configuration_is_parsed_once_and_built_once(
    overrides: list[str], num_points: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = [*overrides, "dry_run=true", f"output_dir={tmp_path}"]
    monkeypatch.setattr(terminal, "time_line", lambda *_: "")  # an estimate builds some again
    calls: Counter[str] = Counter()
    for function in (parse, build_algorithm_config):
        count_calls(function, calls, monkeypatch)
    with hydra.initialize_config_dir(str(ROOT / "conf"), version_base="1.3"):
        assert run.run(Request(composer(hydra.compose("config", overrides=split_space(given)[0]), given))) == 0
    assert calls == {"parse": 1 + num_points, "build_algorithm_config": num_points}  # the suite, and each of its points
