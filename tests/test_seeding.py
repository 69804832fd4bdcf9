import itertools

from experiments.seeding import Role, process_seed, stream_seed, stream_seeds


def test_no_two_streams_of_a_large_study_meet() -> None:
    seeds = [
        stream_seed(seed, role, index)
        for seed, (role, count) in itertools.product(
            range(50), [(Role.ALGORITHM, 1), (Role.RUNNER, 100), (Role.ENV, 500), (Role.EVALUATION, 20), (Role.FINAL_EVALUATION, 100)]
        )
        for index in range(count)
    ]
    assert len(set(seeds)) == len(seeds)


def test_a_stream_is_a_pure_function_of_seed_role_and_index() -> None:
    assert stream_seed(3, Role.ENV, 7) == stream_seed(3, Role.ENV, 7)
    assert len({stream_seed(3, Role.ENV, 7), stream_seed(4, Role.ENV, 7), stream_seed(3, Role.RUNNER, 7), stream_seed(3, Role.ENV, 8)}) == 4


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
