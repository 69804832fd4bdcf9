"""`analysis/transfer.py`: from the names of studies in a store to what carries over."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

from tests.support.commands import run_here
from tests.support.several_studies import composed
from tests.support.stored_studies import START_MS, Written, planned, uri_of

FACTORS = (0.3, 1.0, 3.0)


def write(store: Written, env: str, base: float) -> None:
    """A study of three multiples of a learning rate, of which the middle one is best, with three seeds."""
    lrs = {f"{env} x{factor:g}": base * factor for factor in FACTORS}
    plan: dict[str, Any] = {
        "study": env,
        "question": "",
        "seeds": [0, 1, 2],
        "axes": {"lr": "algorithm.training.lr"},
        "exclusive": True,
        "phase": "fixed",
        "configurations": [{**planned(config, lr), "env": env} for config, lr in lrs.items()],
    }
    run = store.study(env, f"{env}/ppo-{env}", START_MS, plan)
    space = {"learning_rate": {"distribution": "multiples", "factors": [*FACTORS]}}
    store.store.log_texts(run, {"config.yaml": yaml.safe_dump(composed(env, "ppo", (base, 512), space))})
    for (config, lr), score in zip(lrs.items(), (300.0, 450.0, 200.0), strict=True):
        for seed in range(3):
            metrics = {"final/score": score + seed, "final/auc": score / 2}
            store.trial(run, f"{env}/ppo-{env}", config, seed, [(metrics, 2000, 5)], params={"lr": lr}, env=env)


def test_studies_of_a_store_say_what_carries_over(copied: Callable[[], Written], tmp_path: Path) -> None:
    store = copied()
    write(store, "cartpole", 1e-3)
    write(store, "acrobot", 1e-2)
    page, uri = tmp_path / "new" / "page.html", uri_of(store.folder)
    said = run_here("analysis/transfer.py", "studies=[cartpole,acrobot]", f"tracking_uri={uri}", f"out={page}")
    assert (said.returncode, said.stderr) == (0, "")
    answer = "Try learning_rate=x1, multiples of its own settings, first on a new environment."
    assert f"answer {answer}" in " ".join(said.stdout.split())
    assert said.stdout.rstrip().endswith(str(page))
    assert "acrobot" in page.read_text()


def test_one_study_of_one_environment_and_one_named_twice_are_refused(copied: Callable[[], Written]) -> None:
    store = copied()
    write(store, "cartpole", 1e-3)
    for studies, message in (
        ("[cartpole]", "ppo on cartpole is all there is. It takes two environments, algorithms or budgets"),
        ("[cartpole,cartpole]", "studies=[cartpole,cartpole]: names one study twice."),
        ("[cartpole,acrobt]", "There is no study 'acrobt'"),
    ):
        said = run_here("analysis/transfer.py", f"studies={studies}", f"tracking_uri={uri_of(store.folder)}")
        assert said.returncode == 2
        assert message in said.stderr
