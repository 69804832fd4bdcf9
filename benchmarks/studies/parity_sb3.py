"""Does the suite learn as well as Stable-Baselines3 with the same hyperparameters?"""

import json
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import numpy.typing as npt
from scipy import stats

from benchmarks.support.harness import BenchmarkError, Report, Table, points, run, run_tags, say, suite_command

EPISODES = 40
ROLLOUT = 1024
"""16 environments x 64 steps."""
LEVEL = 0.05
BOOTSTRAPS = 10_000
PERMUTATIONS = 200_000

SETTINGS = (
    "algorithm=ppo",
    "env=cartpole",
    "study.name=parity",
    "study.space={}",
    "algorithm.training.lr=1e-3",
    f"algorithm.training.train_batch_size_per_learner={ROLLOUT}",
    "algorithm.training.minibatch_size=256",
    "algorithm.training.num_epochs=6",
    "algorithm.training.gamma=0.99",
    "algorithm.training.lambda_=0.95",
    "algorithm.training.clip_param=0.2",
    "algorithm.training.vf_loss_coeff=0.5",
    "algorithm.training.entropy_coeff=0.0",
    "algorithm.training.grad_clip=0.5",
    "algorithm.rl_module.fcnet_hiddens=[64,64]",
    "algorithm.rl_module.fcnet_activation=tanh",
    "algorithm.rl_module.vf_share_layers=false",
    "hardware.total_envs=16",
    "hardware.threads_per_process=1",
    "report_every_env_steps=2000",
    f"evaluation.episodes={EPISODES}",
    f"evaluation.final_episodes={EPISODES}",
)
TORCH_WEIGHTS = "suite, torch's initial weights"
TORCH_WEIGHTS_SETTINGS = (
    "algorithm.rl_module.fcnet_kernel_initializer=null",
    "algorithm.rl_module.fcnet_kernel_initializer_kwargs=null",
    "algorithm.rl_module.fcnet_bias_initializer=null",
)
"""The hidden layers start as RLlib's do by default, instead of orthogonal as SB3's."""

Scores = npt.NDArray[np.float64]
"""(seeds,) mean returns."""


@dataclass(frozen=True)
class Learning:
    """What one side learned, at each mark.

    Attributes:
        scores: Of the deterministic policy.
        training: Mean over all training episodes that had ended by then.
    """

    scores: list[Scores]
    training: list[Scores]


def measure(quick: bool) -> Report:
    """Run it."""
    if find_spec("stable_baselines3") is None:
        raise BenchmarkError("parity_sb3 needs Stable-Baselines3: pip install -e '.[bench]'")
    seeds, marks = (range(2), (4000, 8000)) if quick else (range(30), (30_000, 60_000))
    with tempfile.TemporaryDirectory(prefix="benchmark-") as folder:
        scratch = Path(folder)
        say("Stable-Baselines3")
        found = {"SB3": _sb3(scratch, seeds, marks)}
        say("suite")
        found["suite"] = _suite(scratch, seeds, marks, [])
        say(TORCH_WEIGHTS)
        found[TORCH_WEIGHTS] = _suite(scratch, seeds, marks, TORCH_WEIGHTS_SETTINGS)
    scores = {name: learning.scores for name, learning in found.items()}
    training = {name: learning.training for name, learning in found.items()}
    return Report(
        name="parity_sb3",
        title="Learning: the suite's PPO and Stable-Baselines3's",
        compared=(
            "PPO on CartPole-v1 at the same hyperparameters: 16 environments x 64 steps, minibatch 256, "
            "6 epochs, learning rate 1e-3, gamma 0.99, lambda 0.95, clip 0.2, separate nets of [64, 64] tanh, "
            f"value coefficient 0.5, gradient norm 0.5, no entropy bonus, one torch thread, {len(seeds)} seeds each. "
            "SB3 runs through `benchmarks/peers/sb3_script.py`. Score: mean return of the deterministic policy over "
            f"{EPISODES} episodes on held-out starts, at the rollout that ends nearest to "
            f"{' and '.join(f'{m:,}' for m in marks)} env steps. Hidden layers start orthogonal in both. Each keeps "
            "its own initial weights of the heads (SB3: orthogonal, policy times 0.01; RLlib: torch's defaults) and "
            "normalises advantages its own way (SB3 per minibatch, RLlib over the batch). *Torch's initial weights*: "
            "the suite with hidden layers that start as RLlib's do by default."
        ),
        verdict=_verdict(scores, marks),
        tables=(_tests("Score", scores, marks), _tests("Training return up to there", training, marks)),
        packages=("stable-baselines3", "scipy"),
    )


def _suite(scratch: Path, seeds: Sequence[int], marks: Sequence[int], overrides: Sequence[str]) -> Learning:
    output_dir = Path(tempfile.mkdtemp(dir=scratch))
    size = (
        f"seeds=[{','.join(map(str, seeds))}]",
        f"budget_env_steps={marks[-1]}",
        f"evaluation.every_env_steps={marks[0]}",
    )
    run(suite_command([*SETTINGS, *size, *overrides], output_dir), scratch / "suite.log")
    database = output_dir / "mlflow.db"
    seed_of = {run_id: int(seed) for run_id, seed in run_tags(database, "seed").items()}
    found = {(seed_of[p.run], p.step): p.value for p in points(database, "eval/return_mean")}
    return_mean = {(seed_of[p.run], p.step): p.value for p in points(database, "train/return_mean")}
    episodes = {(seed_of[p.run], p.step): p.value for p in points(database, "train/episodes")}

    def training(seed: int, mark: int) -> float:
        until = [key for key in return_mean if key[0] == seed and key[1] <= mark]
        return sum(return_mean[key] * episodes[key] for key in until) / sum(episodes[key] for key in until)

    return Learning(
        [np.array([found[seed, mark] for seed in seeds]) for mark in marks],
        [np.array([training(seed, mark) for seed in seeds]) for mark in marks],
    )


def _sb3(scratch: Path, seeds: Sequence[int], marks: Sequence[int]) -> Learning:
    output = scratch / "sb3.json"
    rollouts = [str(round(mark / ROLLOUT)) for mark in marks]
    command = [
        sys.executable,
        "-m",
        "benchmarks.peers.sb3_script",
        "--output",
        str(output),
        "--episodes",
        str(EPISODES),
    ]
    run([*command, "--seed", *map(str, seeds), "--rollouts", *rollouts], scratch / "sb3.log")
    found = json.loads(output.read_text())
    scores, training = (
        [np.array([seed[what][i] for seed in found]) for i in range(len(marks))] for what in ("scores", "training")
    )
    return Learning(scores, training)


def difference_of_means(a: Scores, b: Scores, rng: np.random.Generator) -> tuple[float, float, float]:
    """Mean of `a` less mean of `b`, with the 95% interval of the percentile bootstrap over seeds."""
    means = [rng.choice(x, (BOOTSTRAPS, x.size)).mean(axis=1) for x in (a, b)]
    low, high = np.quantile(means[0] - means[1], [0.025, 0.975])
    return float(a.mean() - b.mean()), float(low), float(high)


def permutation_p(a: Scores, b: Scores, rng: np.random.Generator) -> float:
    """Two-sided p of the difference of means, if seeds were dealt to the sides at random:
    of all deals, or of 200,000.
    """
    result = stats.permutation_test(
        (a, b), lambda x, y, axis: x.mean(axis) - y.mean(axis), vectorized=True, n_resamples=PERMUTATIONS, rng=rng
    )
    return float(result.pvalue)


def mann_whitney_p(a: Scores, b: Scores, rng: np.random.Generator) -> float:
    """Two-sided p of Mann and Whitney's U by permutation: ties included, likewise."""
    ranks = stats.rankdata(np.concatenate([a, b]))
    return permutation_p(ranks[: a.size], ranks[a.size :], rng)


def _tests(what: str, scores: Mapping[str, list[Scores]], marks: Sequence[int]) -> Table:
    rows = []
    for i, mark in enumerate(marks):
        for name, found in scores.items():
            mean = f"{found[i].mean():.1f} ({np.median(found[i]):.1f}, {found[i].min():.1f}-{found[i].max():.1f})"
            if name == "SB3":
                rows.append((f"{mark:,} env steps: SB3", mean, "", "", ""))
                continue
            pair = found[i], scores["SB3"][i]
            estimate, low, high = difference_of_means(*pair, np.random.default_rng(0))
            rows.append(
                (
                    f"{mark:,} env steps: {name}",
                    mean,
                    f"{estimate:+.1f} [{low:+.1f}, {high:+.1f}]",
                    f"{permutation_p(*pair, np.random.default_rng(0)):.3f}",
                    f"{mann_whitney_p(*pair, np.random.default_rng(0)):.3f}",
                )
            )
    return Table(
        f"{what}, and tests against SB3",
        ("", "mean (median, min-max)", "difference of means [95%]", "p, permutation", "p, Mann-Whitney"),
        tuple(rows),
        "Over seeds. Interval: percentile bootstrap, 10,000 resamples. Tests: two-sided permutation tests, of the "
        "difference of means and of Mann and Whitney's rank sum.",
    )


def _verdict(scores: Mapping[str, list[Scores]], marks: Sequence[int]) -> str:
    missed, parts = False, []
    for name in ("suite", TORCH_WEIGHTS):
        for i, mark in enumerate(marks):
            suite, peer = scores[name][i], scores["SB3"][i]
            p = (
                permutation_p(suite, peer, np.random.default_rng(0)),
                mann_whitney_p(suite, peer, np.random.default_rng(0)),
            )
            apart = min(p) < LEVEL
            missed |= name == "suite" and apart and bool(suite.mean() < peer.mean())
            verdict = "significantly different" if apart else "not significantly different"
            parts.append(
                f"the {name}, at {mark:,} env steps: {verdict} (mean {suite.mean():.0f} against SB3's "
                f"{peer.mean():.0f}; p = {p[0]:.3f} and {p[1]:.3f})"
            )
    return (
        f"Target of learning as well as SB3 {'missed' if missed else 'met'} by the suite as it is; {'; '.join(parts)}."
    )
