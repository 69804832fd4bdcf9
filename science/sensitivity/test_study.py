"""The study of how much tuning PPO needs."""

from tests.support.suite import PlanOf


def test_all_environments_have_the_same_settings_of_which_none_is_tuned_for_one(plan_of: PlanOf) -> None:
    plan = plan_of("study=sensitivity")
    assert (len(plan.configurations), plan.num_trials) == (4 * 20, 400)
    trainings = {}
    for configuration in plan.configurations:
        of_env = trainings.setdefault(configuration.suite.env.name, [])
        of_env.append(dict(configuration.suite.algorithm["training"]))
        assert configuration.suite.preprocessing.is_none
        assert configuration.suite.budget_env_steps == 30_000
    assert list(trainings) == ["cartpole", "acrobot", "pendulum", "inverted_pendulum"]
    assert all(settings == trainings["cartpole"] for settings in trainings.values())


def test_the_variant_differs_by_its_observations_alone(plan_of: PlanOf) -> None:
    plan = plan_of("study=sensitivity", "study.name=sensitivity_normalized", "preprocessing=normalize_observations")
    assert {configuration.suite.preprocessing.normalize_observations for configuration in plan.configurations} == {True}
