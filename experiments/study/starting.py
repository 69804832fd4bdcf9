"""`study.start`: from what a person names to the trained policy whose weights all trials of a study start from."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from experiments.config.output_dir import absolute, stored_at
from experiments.config.schema import StartingPolicy
from experiments.config.trial_config import Compose
from experiments.planning.plan import Plan
from experiments.rllib import starting_weights
from experiments.rllib.building import build_algorithm_config
from experiments.study.trained import Trained, of_folder, of_run
from experiments.tracking.archive import Archive
from experiments.tracking.place import Place


@dataclass(frozen=True)
class Starting:
    """A trained policy that a study is to start from.

    Attributes:
        named: What the person named: `study.start=0123...`.
        policy: What was found.
        weights: The policy's weights.
    """

    named: str
    policy: StartingPolicy
    weights: starting_weights.StartingWeights

    @classmethod
    def of(cls, given: str, place: Place) -> "Starting":
        """Look up a policy.

        Args:
            given: A trial's run id in MLflow, or the folder of a checkpoint or of a trial.
            place: Where studies of the person's own are, and the store that has the run.

        Raises:
            ConfigurationError: There is none, or its weights cannot be used.
        """
        named = f"study.start={given}"
        vouch = f"copy its study's folder into {place.studies}"
        folder = absolute(given)
        if folder.is_dir() or stored_at(folder):
            found = of_folder(folder, place.output_dir, trust=False, named=named, vouch=vouch)
        else:
            found = of_run(Archive(place), given, trust=False, named=named, vouch=vouch)
        weights = starting_weights.of_checkpoint(found.checkpoint.path)
        return cls(named, _policy(found, weights), weights)

    def in_place(self, compose: Compose) -> Compose:
        """The same composition with what was found in the place of what was named."""

        def composed(choices: Mapping[str, str]) -> Mapping[str, Any]:
            settings = compose(choices)
            return {**settings, "study": {**settings["study"], "start": asdict(self.policy)}}

        return composed

    def check(self, plan: Plan) -> None:
        """Make sure that the networks of all configurations are those of the policy.

        Raises:
            ConfigurationError: Some are not.
        """
        for configuration in plan.configurations:
            trial = configuration.trial(plan.seeds[0])
            starting_weights.check_fits(self.weights, trial, build_algorithm_config(trial), self.named)


def _policy(found: Trained, weights: starting_weights.StartingWeights) -> StartingPolicy:
    trial, checkpoint = found.checkpoint.trial, found.checkpoint
    algorithm_and_env = f"{trial.algorithm['name']}-{trial.env.name}"
    name = trial.name if trial.label == algorithm_and_env else f"{algorithm_and_env} {trial.name}"
    digest = starting_weights.digest(weights)
    return StartingPolicy(name, found.run_id or "", checkpoint.env_steps, digest, str(checkpoint.path))
