import pytest
from pydantic import ValidationError

from experiments.config.errors import ConfigurationError
from experiments.config.search_settings import GridSearch, OptunaSearch, RandomSearch
from experiments.config.space import corners, group_choices, num_samples, parse_space, points, size

GRID = GridSearch()
RANDOM = RandomSearch("random", num_samples=20, seed=1)
LR = "algorithm.training.lr"
MULTIPLES = {"distribution": "multiples", "factors": [1, 3]}


def test_a_grid_is_every_combination() -> None:
    found = points({LR: [1e-4, 1e-3], "algorithm.training.gamma": [0.9, 0.99, 0.999]}, GRID)
    assert len(found) == 6
    assert {LR: 1e-3, "algorithm.training.gamma": 0.9} in found


def test_multiples_are_a_list_of_products() -> None:
    space = {"b": {"distribution": "multiples", "base": 1000, "factors": [0.25, 1, 2]}, LR: {**MULTIPLES, "base": 1e-3}}
    assert {p["b"] for p in points(space, GRID)} == {250, 1000, 2000}
    assert all(isinstance(p["b"], int) for p in points(space, GRID))
    assert sorted({p[LR] for p in points(space, GRID)}) == pytest.approx([1e-3, 3e-3])


def test_an_empty_space_is_one_configuration() -> None:
    assert points({}, GRID) == [{}]


def test_random_points_come_out_the_same_for_the_same_seed_and_within_range() -> None:
    space = {
        LR: {"distribution": "loguniform", "low": 1e-5, "high": 1e-2},
        "n": {"distribution": "integers", "low": 2, "high": 4},
    }
    found = points(space, RANDOM)
    assert found == points(space, RANDOM)
    assert found != points(space, RandomSearch("random", num_samples=20, seed=2))
    assert all(1e-5 <= p[LR] <= 1e-2 for p in found)
    assert {p["n"] for p in found} == {2, 3, 4}


def test_corners_are_the_extremes() -> None:
    space = {LR: {"distribution": "loguniform", "low": 1e-5, "high": 1e-2}, "gamma": [0.9, 0.99]}
    assert len(corners(space)) == 4
    assert {c[LR] for c in corners(space)} == {1e-5, 1e-2}


RANGE = {"distribution": "loguniform", "low": 1e-5, "high": 1e-2}


@pytest.mark.parametrize(
    ("space", "num"),
    [
        ({LR: [1e-4, 1e-3], "b": [1, 2, 3]}, 6),
        ({LR: RANGE, "b": [1, 2, 3]}, float("inf")),
        ({"n": {"distribution": "integers", "low": 2, "high": 9, "step": 3}, "b": [1, 2]}, 6),
        ({"n": {"distribution": "uniform", "low": 2, "high": 9, "integer": True}}, 8),
        (
            {
                "algorithm": ["ppo", "dqn"],
                "n": {"distribution": "integers", "low": 1, "high": 5, "when": {"algorithm": "ppo"}},
            },
            5 + 1,
        ),
        (
            {
                "algorithm": ["ppo", "dqn"],
                "b": {"distribution": "choice", "values": [1, 2], "when": {"algorithm": "ppo"}},
            },
            2 + 1,
        ),
    ],
)
def test_a_space_has_as_many_configurations_as_its_axes_and_conditions_leave(
    space: dict[str, object], num: float
) -> None:
    assert size(parse_space(space)) == num


def test_the_number_of_samples_follows_the_space_unless_it_is_given() -> None:
    def optuna(num: int | None) -> OptunaSearch:
        return OptunaSearch("optuna", num, 0, "tpe", ("score",))

    endless, small = parse_space({LR: RANGE, "b": [1, 2]}), parse_space({LR: [1e-4, 1e-3], "b": [1, 2, 3]})
    assert [num_samples(optuna(None), axes) for axes in (endless, small)] == [40, 6]
    assert [num_samples(optuna(50), axes) for axes in (endless, small)] == [50, 50]
    assert [num_samples(RandomSearch("random", None, 0), axes) for axes in (endless, small)] == [20, 6]


def test_groups_are_axes() -> None:
    assert group_choices({"algorithm": ["ppo", "dqn"], LR: [1e-3]}) == [{"algorithm": "ppo"}, {"algorithm": "dqn"}]
    assert group_choices({LR: [1e-3]}) == [{}]


@pytest.mark.parametrize(
    ("space", "message"),
    [
        ({LR: []}, "has no values"),
        ({LR: [1e-3, 1e-3]}, "names a value twice"),
        ({LR: [float("nan")]}, "not a finite number"),
        ({LR: 1e-3}, "neither a list nor a distribution"),
        ({LR: {"distribution": "loguniform", "low": 0, "high": 1}}, "low above 0"),
        ({LR: {"distribution": "uniform", "low": 2, "high": 1}}, "must be below"),
        ({LR: {"distribution": "normal", "low": 2, "high": 1}}, "distribution"),
        ({LR: {"distribution": "uniform", "low": 1}}, "high"),
        ({LR: {"distribution": "uniform", "low": 1, "high": 2, "hihg": 3}}, "hihg"),
        ({LR: {"distribution": "choice", "values": []}}, LR),
        ({"algorithm": {"distribution": "uniform", "low": 1, "high": 2}}, "group of configuration files"),
        ({LR: {"distribution": "multiples", "base": 5, "factors": [0.5]}}, "is 2.5, which is not a whole number"),
        ({LR: {"distribution": "multiples", "base": 5, "factors": []}}, "factors"),
        ({LR: {"distribution": "multiples", "base": -1, "factors": [1]}}, "base"),
    ],
)
def test_a_wrong_space_is_refused_with_its_key(space: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        parse_space(space)


def test_a_grid_over_a_distribution_names_the_other_search() -> None:
    with pytest.raises(ConfigurationError, match="search=random"):
        points({LR: {"distribution": "uniform", "low": 0, "high": 1}}, GRID)


def test_a_study_of_more_trials_than_anyone_runs_is_refused_at_once() -> None:
    with pytest.raises(ConfigurationError, match="have 1,000,000 combinations"):
        points({f"algorithm.training.x{i}": list(range(10)) for i in range(6)}, GRID)
    with pytest.raises(ValidationError, match="less than or equal to 100000"):
        RandomSearch("random", num_samples=10**9, seed=0)


def test_an_axis_with_a_condition_is_there_only_where_it_holds() -> None:
    space = {
        "algorithm": ["ppo", "dqn"],
        "algorithm.training.num_epochs": {"distribution": "choice", "values": [5, 10], "when": {"algorithm": "ppo"}},
        "algorithm.training.n_step": {"distribution": "choice", "values": [1, 3], "when": {"algorithm": ["dqn"]}},
    }
    found = points(space, GRID)
    assert len(found) == 4
    assert all(("algorithm.training.num_epochs" in p) == (p["algorithm"] == "ppo") for p in found)
    assert all(("algorithm.training.n_step" in p) == (p["algorithm"] == "dqn") for p in found)
    assert all(p in found for p in points(space, RANDOM))
    assert group_choices(space) == [{"algorithm": "ppo"}, {"algorithm": "dqn"}]


@pytest.mark.parametrize(
    ("when", "says"),
    [
        ({"env": "cartpole"}, "env is no list of values that comes before"),
        ({"algorithm": "sac"}, "algorithm is never 'sac'"),
    ],
)
def test_a_condition_that_can_never_hold_is_refused(when: dict[str, str], says: str) -> None:
    space = {"algorithm": ["ppo", "dqn"], LR: {"distribution": "choice", "values": [1e-3], "when": when}}
    with pytest.raises(ConfigurationError, match=says):
        parse_space(space)
