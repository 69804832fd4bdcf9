import itertools

from experiments.rllib.building import build_algorithm_config
from experiments.rllib.seeding import Role, process_seed, stream_seed, stream_seeds
from tests.support.suite import PlanOf


def test_no_two_streams_of_a_large_study_meet() -> None:
    # 30 seeds, 500 environments over 4 checkpoints, and everything else that a trial of any algorithm draws from.
    per_trial = [(Role.ENV, 500, 4), (Role.RUNNER, 20, 4), (Role.ALGORITHM, 1, 4), (Role.REPLAY, 1, 4)]
    evaluations = [(Role.EVALUATION, 20, 1), (Role.FINAL_EVALUATION, 100, 1)]
    seeds = [
        stream
        for seed, (role, count, segments) in itertools.product(range(30), per_trial + evaluations)
        for segment in range(segments)
        for stream in stream_seeds(seed, role, count, segment=segment)
    ]
    assert len(seeds) == 30 * (522 * 4 + 120)
    assert len(set(seeds)) == len(seeds)


def test_trials_of_one_seed_share_their_streams_whatever_their_configuration(plan_of: PlanOf) -> None:
    # They are compared in pairs.
    lrs = "study.space={algorithm.training.lr:[1.0e-3,3.0e-3]}"
    plan = plan_of("study=smoke", lrs, "seeds=[0,1]")
    found = {}
    for trial in plan.trials:
        config = build_algorithm_config(trial)
        found.setdefault(trial.seed, set()).add((config.seed, config.callbacks_on_environment_created.keywords["seed"]))
    assert {seed: len(streams) for seed, streams in found.items()} == {0: 1, 1: 1}
    assert found[0] != found[1]


def test_a_stream_is_a_pure_function_of_seed_role_and_index() -> None:
    assert stream_seed(3, Role.ENV, 7) == stream_seed(3, Role.ENV, 7)
    assert (
        len(
            {
                stream_seed(3, Role.ENV, 7),
                stream_seed(4, Role.ENV, 7),
                stream_seed(3, Role.RUNNER, 7),
                stream_seed(3, Role.ENV, 8),
            }
        )
        == 4
    )


def test_recorded_streams_never_change() -> None:
    # What was logged with these seeds could not be repeated if the derivation changed.
    assert stream_seed(0, Role.ENV, 0) == 2265860931466485190
    assert process_seed(0, Role.ALGORITHM) == 42318958


def test_environments_see_the_same_streams_however_they_are_spread_over_runners() -> None:
    one_runner = stream_seeds(5, Role.ENV, 8)
    two_runners = stream_seeds(5, Role.ENV, 4, start=0) + stream_seeds(5, Role.ENV, 4, start=4)
    assert one_runner == two_runners


def test_process_seeds_fit_numpys_legacy_generator_with_room_for_rllibs_offsets() -> None:
    assert all(0 <= process_seed(seed, Role.RUNNER, index) < 2**31 for seed in range(20) for index in range(20))
