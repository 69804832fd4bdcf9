"""What is refused before RLlib is imported, and before Ray is started."""

import contextlib
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from experiments.config.command_words import composed, is_doubtful
from experiments.config.compose import CONF
from experiments.config.errors import ConfigurationError
from experiments.config.schema import parse
from experiments.planning.machines import Cluster, Node, check_room
from experiments.planning.plan import plan_study
from experiments.planning.resources import DoesNotFitError
from experiments.session import Request, run
from experiments.study.cluster import ray_process
from tests.support.suite import ROOT

CHEAP = {
    "algorithm.training.lr=nan": "algorithm.training.lr",
    "algorithm.training.lr=-1": "algorithm.training.lr",
    "algorithm.training.gamma=1.5": "algorithm.training.gamma=1.5: must be between 0 and 1.",
    "algorithm.training.train_batch_size_per_learner=-5": "algorithm.training.train_batch_size_per_learner",
    "study.space={algorithm.training.lr:[1e-3,-1e-3]}": "algorithm.training.lr=-0.001: must be above 0 and finite.",
    "hardware.num_cpus=-1": "hardware.num_cpus=-1",
    "study.name=Größe": "study.name=Größe: has letters or signs that are read in quotes alone. Type: 'study.name=",
    "hardware=workstation hardware.num_cpus=2 hardware.num_gpus=null": (
        "hardware=workstation needs 9 CPUs and 1 GPU per trial, or more"
    ),
}
"""Words to what is said of them."""

REFUSE = """
import contextlib, io, sys
from experiments import run
for words, message in eval(sys.argv.pop(1)).items():
    sys.argv[1:] = words.split()
    said = io.StringIO()
    with contextlib.redirect_stderr(said), contextlib.suppress(SystemExit):
        run.main(sys.argv[1:])
        raise AssertionError(words)
    assert said.getvalue().startswith("error: ") and message in said.getvalue(), (words, said.getvalue())
    loaded = {"torch", "ray.rllib", "ray.tune", "mlflow"} & {*sys.modules}
    assert not loaded, (words, loaded)
    assert words.startswith("hardware=") or "ray" not in sys.modules, words
"""


def test_what_can_be_known_without_rllib_is_refused_without_it(tmp_path: Path) -> None:
    command = [
        sys.executable,
        "-c",
        REFUSE,
        repr({f"{words} output_dir={tmp_path}": said for words, said in CHEAP.items()}),
    ]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=200, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["++algorithm.training.lrr=1"], "Did you mean lr"),
        (["algorithm.training.lr=fast"], "algorithm.training.lr"),
        (["algorithm.rl_module.fcnet_activation=rellu"], "no such activation"),
        (["algorithm.config_class=ray.Nothing"], "there is no such class"),
    ],
)
def test_what_only_rllib_knows_is_asked_before_ray_is_started(
    words: Sequence[str], message: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def start(*_: object) -> None:
        raise AssertionError("Ray was started")

    monkeypatch.setattr(ray_process, "start_beside_imports", start)
    monkeypatch.setattr(ray_process, "prepare", lambda: None)
    settings = [*words, f"output_dir={tmp_path}", "study.space={}"]
    with composed(settings, None) as compose, pytest.raises(ConfigurationError, match=message):
        run(Request(compose, quiet=True, doubtful=is_doubtful(settings, None)))


def test_only_settings_that_rllib_may_not_have_or_that_are_no_numbers_are_doubtful() -> None:
    assert not is_doubtful(
        ["algorithm=sac", "algorithm.training.lr=1e-3", "seeds=[0]", "study.space={algorithm.training.lr:[1]}"], None
    )
    assert is_doubtful(["+algorithm.training.x=1"], None)
    assert is_doubtful(["algorithm.training.use_kl_loss=true"], None)
    assert is_doubtful([], Path("mine"))


MACHINES = [(1, 0), (3, 0), (9, 0), (9, 1), (40, 4), (200, 0), (200, 8)]
"""CPUs and GPUs."""


@pytest.mark.parametrize("hardware", sorted(file.stem for file in (CONF / "hardware").glob("*.yaml")))
@pytest.mark.parametrize("algorithm", ["ppo", "impala"])
def test_what_is_refused_for_want_of_room_early_rllib_would_refuse(hardware: str, algorithm: str) -> None:
    """On machines from one CPU to more than any profile asks for; where a trial fits, both let it pass."""
    early, late = [*MACHINES], [*MACHINES]  # those that refuse
    with composed(
        [
            f"hardware={hardware}",
            f"algorithm={algorithm}",
            "study=single",
            "budget_env_steps=96000",
            "report_every_env_steps=48000",
        ],
        None,
    ) as compose:
        suite = parse(compose({}))
        for cpus, gpus in MACHINES:
            cluster = Cluster((Node(cpus, gpus),))
            with contextlib.suppress(ConfigurationError):
                check_room(suite, cluster)
                early.remove((cpus, gpus))
            with contextlib.suppress(DoesNotFitError):
                plan_study(suite, compose, cluster)
                late.remove((cpus, gpus))
    assert {*early} <= {*late}
    assert early or hardware == "auto"
    assert (200, 8) not in late
