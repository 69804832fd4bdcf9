"""The study that a competent RLlib user would write without the suite: RLlib's config, Tune's grid,
Tune's MLflow callback.

python -m benchmarks.peers.stock_script --output DIR [--layout local|actors] [--evaluation-interval N] [--no-mlflow]
    [--budget N] ...

Everything that is not named here is RLlib's, Tune's or MLflow's default.
"""

import argparse
import json
from pathlib import Path

import ray
from ray import tune
from ray.air.integrations.mlflow import MLflowLoggerCallback
from ray.rllib.algorithms.ppo import PPOConfig
from ray.rllib.core.rl_module.default_model_config import DefaultModelConfig

STEPS = "env_runners/num_env_steps_sampled_lifetime"
TOTAL_ENVS = 16


def main() -> None:
    """Run the study; `summary.json` says what each trial came to."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--layout", choices=("local", "actors"), default="local")
    parser.add_argument("--evaluation-interval", type=int, default=2, help="iterations; 0: no evaluation")
    parser.add_argument("--episodes", type=int, default=20)
    parser.add_argument("--no-mlflow", action="store_true")
    parser.add_argument("--lr", type=float, nargs="+", default=[1e-3, 3e-3])
    parser.add_argument("--batch", type=int, nargs="+", default=[2000])
    parser.add_argument("--seed", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--budget", type=int, default=60_000)
    arguments = parser.parse_args()

    ray.init(address="local")  # not a cluster that happens to run here
    # RLlib's PPO asks for 2 runner actors by default: 3 CPUs a trial. A machine with 2 would wait for ever:
    # one actor there.
    actors = min(2, int(ray.cluster_resources()["CPU"]) - 1)
    config = (
        PPOConfig()
        .environment("CartPole-v1")
        .training(
            lr=tune.grid_search(arguments.lr),
            train_batch_size_per_learner=tune.grid_search(arguments.batch),
            minibatch_size=256,
            num_epochs=6,
            gamma=0.99,
            lambda_=0.95,
            clip_param=0.2,
            use_kl_loss=False,
            entropy_coeff=0.0,
            vf_loss_coeff=0.5,
            vf_clip_param=float("inf"),
            grad_clip=0.5,
            grad_clip_by="global_norm",
        )
        .rl_module(
            model_config=DefaultModelConfig(fcnet_hiddens=[64, 64], fcnet_activation="tanh", vf_share_layers=False)
        )
        .debugging(seed=tune.grid_search(arguments.seed))
    )
    if arguments.layout == "local":
        config.env_runners(
            num_env_runners=0, num_envs_per_env_runner=TOTAL_ENVS, gym_env_vectorize_mode="vector_entry_point"
        )
    else:
        config.env_runners(num_env_runners=actors, num_envs_per_env_runner=TOTAL_ENVS // actors)
    if arguments.evaluation_interval:
        config.evaluation(
            evaluation_interval=arguments.evaluation_interval,
            evaluation_duration=arguments.episodes,
            evaluation_duration_unit="episodes",
            evaluation_config={"explore": False},
        )
    to_mlflow = MLflowLoggerCallback(
        tracking_uri=f"sqlite:///{arguments.output.absolute()}/mlflow.db", experiment_name="stock"
    )
    callbacks = [] if arguments.no_mlflow else [to_mlflow]
    results = tune.Tuner(
        "PPO",
        param_space=config,
        run_config=tune.RunConfig(
            name="stock",
            storage_path=str(arguments.output.absolute()),
            stop={STEPS: arguments.budget},
            checkpoint_config=tune.CheckpointConfig(checkpoint_at_end=True),
            callbacks=callbacks,
        ),
    ).fit()
    if results.errors:
        raise SystemExit(str(results.errors[0]))
    summary = [
        {
            "env_steps": result.metrics["env_runners"]["num_env_steps_sampled_lifetime"],
            "return": result.metrics["env_runners"].get("episode_return_mean"),
        }
        for result in results
        if result.metrics is not None
    ]
    (arguments.output / "summary.json").write_text(json.dumps(summary))


if __name__ == "__main__":
    main()
