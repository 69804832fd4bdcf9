"""What an environment does wrong is said before a study starts, with what it gave and what is expected."""

import re
from pathlib import Path

import pytest

from experiments.config.errors import ConfigurationError
from experiments.config.schema import EnvSettings
from experiments.rllib import rehearsal
from experiments.rllib.rehearsal import rehearse, rehearse_each


def settings(kind: str = "Odd", mode: str = "sync", **env_config: str | int) -> EnvSettings:
    return EnvSettings("odd", f"odd_envs:odd/{kind}-v0", dict(env_config), mode, 1000, 100, None, (None, None))


@pytest.mark.parametrize(
    ("odd", "said"),
    [
        ({"reward": "array"}, r"its step gave the reward array\(\[10\.\]\), which is not a number"),
        ({"reward": "none"}, "its step gave the reward None, which is not a number"),
        ({"reward": "text"}, "its step gave the reward '12', which is not a number"),
        ({"reward": "complex"}, "its step gave the reward 1j, which is not a number"),
        ({"reward": "nan"}, "its step gave the reward nan, which is not finite"),
        ({"terminated": "text"}, "its step gave terminated='no', which is neither True nor False"),
        ({"terminated": "array"}, r"its step gave terminated=array\(\[ True\]\), which is neither"),
        ({"truncated": "none"}, "its step gave truncated=None, which is neither True nor False"),
        ({"truncated": "two"}, "its step gave truncated=2, which is neither True nor False"),
        ({"observe": "another shape"}, r"its reset gave an observation of shape \(1,\), where its space has \(2,\)"),
        (
            {"observe": "another shape", "at": 3},
            r"its step gave an observation of shape \(1,\), where its space has \(2,\)",
        ),
        ({"observe": "no array"}, "its reset gave the observation None, which is not an array of numbers"),
        (
            {"observe": "uneven"},
            r"its reset gave the observation \[\[0.0\], \[0.0, 1.0\]\], which is not an array of numbers",
        ),
        (
            {"observe": "doubles", "space": "picture"},
            "its reset gave an observation of float64, where its space has uint8",
        ),
        ({"observe": "a nan", "at": 1}, "its step gave the observation array.*, which is not finite"),
        (
            {"observe": "of 3", "space": "choice"},
            r"its reset gave the observation 3, which is not in its space Discrete\(3\)",
        ),
        ({"observe": "one part", "space": "parts"}, "where its space has here, there"),
        (
            {"observe": "a part of 3", "space": "parts"},
            r"its reset gave the observation 3, which is not in its space Discrete\(3\)",
        ),
        ({"info": "none"}, "its reset gave the info None, which is not a dict"),
        ({"does": "four"}, "its step gave 4 values, where Gymnasium expects five"),
        ({"does": "alone"}, r"its reset gave array\(.*\), where Gymnasium expects two values: observation and info"),
        ({"does": "raise", "at": 9}, "its step raises RuntimeError: the simulator crashed"),
        ({"does": "exit", "at": 9}, "its step raises SystemExit: licence lost"),
        ({"kind": "Seedless"}, r"its reset\(seed\) raises TypeError: .*unexpected keyword argument 'seed'"),
        (
            {"kind": "Lone"},
            r"env=odd: RuntimeError: the licence is for one simulator. One can be made, but not two in one process",
        ),
        (
            {"mode": "vector_entry_point"},
            r"the rewards of 2 environments of its vector implementation have shape \(2, 1\)",
        ),
    ],
)
def test_what_an_environment_must_not_give_is_refused_with_what_it_gave(odd: dict[str, str | int], said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        rehearse(settings(**odd))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "odd",
    [
        *(
            {"info": info}
            for info in ("of changing length", "of changing kind", "a mapping or a number", "of numbers", "a lock")
        ),
        *({"reward": reward} for reward in ("byte", "scalar")),
        *({"truncated": flag} for flag in ("numbers", "numpy's")),
        *({"observe": observation} for observation in ("doubles", "a list")),
        {"space": "parts"},
    ],
)
def test_what_fits_is_taken_whatever_its_type(odd: dict[str, str]) -> None:
    assert rehearse(settings(**odd)).notes == ()  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("odd", "said"),
    [({"does": "free"}, r"reset\(seed=\) does not determine"), ({"observe": "outside"}, "leave the bounds")],
)
def test_what_need_not_be_changed_is_said(odd: dict[str, str], said: str) -> None:
    (note,) = rehearse(settings(**odd)).notes  # type: ignore[arg-type]
    assert re.search(said, note)


def test_an_action_that_networks_of_ones_own_may_leave_out_proves_nothing() -> None:
    assert rehearse(settings(does="raise", at=2), any_actions=False).notes == ()


def test_a_file_that_is_in_the_commands_folder_alone_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A plain word may be no path, and is found out by the environment itself."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "prices").write_text("1")
    (tmp_path / "reads_a_file.py").write_text(
        "import gymnasium, odd_envs\n\n\nclass Env(odd_envs.Odd):\n    def __init__(self, path, when='made'):\n"
        "        super().__init__()\n"
        "        self.path = path\n        if when == 'made':\n            open(path)\n\n"
        "    def reset(self, **how):\n        open(self.path)\n        return super().reset(**how)\n\n\n"
        "gymnasium.register('odd/Reads-v0', entry_point=Env)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    env = EnvSettings("odd", "reads_a_file:odd/Reads-v0", {"path": "prices"}, "sync", 1000, 100, None, (None, None))
    with pytest.raises(
        ConfigurationError, match=r"No such file or directory: 'prices'. It can be made in the folder .* absolute paths"
    ):
        rehearse(env)
    env.env_config["when"] = "reset"
    with pytest.raises(
        ConfigurationError,
        match=r"its reset\(seed\) raises FileNotFoundError: .*'prices'. .*give files by absolute paths",
    ):
        rehearse(env)
    env.env_config["path"] = str(tmp_path / "prices")
    assert rehearse(env).notes == ()
    assert Path.cwd() == tmp_path


def test_a_study_is_not_held_up_by_environments_that_are_slow_to_make(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rehearsal, "_SECONDS_IN_ALL", 0.0)
    notes, memory = rehearse_each([(settings(), True), (settings(at=40), True)])
    assert notes == ("odd: slow to make, so 0 of 2 configurations were tried beforehand",) and memory == [0, 0]


def test_the_memory_of_an_environment_is_that_of_one_more() -> None:
    held = 48
    assert rehearse(settings(holds=held)).memory / 2**20 == pytest.approx(held, abs=8)  # type: ignore[arg-type]
    assert rehearse(settings(at=7)).memory < 2**20
