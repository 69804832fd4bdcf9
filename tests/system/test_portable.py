"""Short portable trials come out as they did on every processor that this ran on.

`portable_weights.json` has the digests of their final weights. A digest that is renewed needs its reason in the same
commit: `python -m tests.system.test_portable` writes the file.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from analysis.load import load_study
from experiments.api import load_policy, run_study
from experiments.config.errors import ConfigurationError
from experiments.contract import FINISHED
from experiments.limits.arithmetic import lacking
from tests.support.driver import Driver
from tests.support.outputs import left_in
from tests.support.processors import assert_alike, assert_seen
from tests.support.suite import ROOT

pytestmark = [
    pytest.mark.ray,
    pytest.mark.slow,
    pytest.mark.timeout(900),
    pytest.mark.skipif(bool(lacking()), reason=lacking()),
]

FILE = Path(__file__).parent / "portable_weights.json"
COMMON = ("study=smoke", "bits=portable", "seeds=[0]", "budget_env_steps=4096", "report_every_env_steps=2048")
FEW = ("algorithm=ppo", "study.space={env:[cartpole,halfcheetah]}")
"""Of the first of these, at every change."""
STUDIES = {
    "ppo": ("algorithm=ppo", "study.space={env:[cartpole,acrobot,mountaincar,pendulum,lunarlander,halfcheetah]}"),
    "ppo-normalized": ("algorithm=ppo", "preprocessing=normalize", "study.space={env:[pendulum,halfcheetah]}"),
    "ppo-lstm": ("algorithm=ppo", "env=cartpole", "++algorithm.rl_module.use_lstm=true", "study.space={}"),
    "dqn": ("algorithm=dqn", "study.space={env:[cartpole,lunarlander]}"),
    "sac": ("algorithm=sac", "study.space={env:[pendulum,halfcheetah]}"),
}


def weights_of(words: tuple[str, ...], out: Path) -> dict[str, str]:
    driver = Driver(out, *COMMON, *words)
    assert driver.end() == 0
    left = left_in(out / "mlflow.db")
    assert {status for name, status in left.statuses.items()} == {FINISHED.upper()}
    assert {tags["bits"] for tags in left.tags.values()} == {"portable"}
    return left.weights


@pytest.mark.parametrize(
    ("study", "words"),
    [("ppo", FEW), *(pytest.param(*study, marks=pytest.mark.nightly) for study in STUDIES.items())],
    ids=["few", *STUDIES],
)
def test_portable_trials_come_out_as_on_every_processor_that_was_seen(
    study: str, words: tuple[str, ...], tmp_path: Path
) -> None:
    assert_alike()
    found, seen = weights_of(words, tmp_path / "out"), json.loads(FILE.read_text())[study]
    assert_seen(found, {trial: seen[trial] for trial in found})


@pytest.mark.nightly
def test_a_portable_policy_is_evaluated_to_the_bit_whatever_the_shell_has(tmp_path: Path) -> None:
    assert_alike()
    out = tmp_path / "out"
    weights_of(("env=acrobot", "study.space={}"), out)
    evaluated = subprocess.run(
        [sys.executable, "experiments/evaluate.py", "study=smoke", f"output_dir={out}", f"tracking_uri=sqlite:///{out}/mlflow.db"],
        cwd=ROOT, capture_output=True, text=True, timeout=200, check=False,
    )  # fmt: skip
    assert evaluated.returncode == 0, evaluated.stderr
    assert "the logged final/score, to the bit" in evaluated.stdout
    with pytest.warns(UserWarning, match="was trained with bits=portable, and the last bits of its actions may differ"):
        load_policy(load_study("smoke", f"sqlite:///{out}/mlflow.db"), output_dir=out)


@pytest.mark.usefixtures("ray_instance")
def test_a_ray_that_computes_natively_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"bits=portable: the processes of the Ray.*ray.shutdown\(\)"):
        run_study(["study=smoke", "bits=portable", f"output_dir={tmp_path}"])


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        found = {study: weights_of(words, Path(folder) / study) for study, words in STUDIES.items()}
    FILE.write_text(json.dumps(found, indent=1) + "\n")
    sys.stdout.write(f"{FILE.relative_to(ROOT)}\n")
