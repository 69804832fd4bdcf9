"""A node proves that it has the driver's files; one that has not is named."""

from pathlib import Path

import pytest

from experiments.study.cluster.shared_storage import marked, write_back


@pytest.fixture
def mark(tmp_path: Path) -> Path:
    (tmp_path / "driver").write_text("token")
    return tmp_path


def test_a_node_that_reads_the_drivers_mark_leaves_its_own(mark: Path) -> None:
    assert write_back(str(mark), "token", "node") == ""
    assert (mark / "node").exists()


def test_a_node_without_the_drivers_mark_says_so_and_writes_nothing(tmp_path: Path) -> None:
    assert write_back(str(tmp_path / "elsewhere"), "token", "node") == "what the driver writes is not there"
    assert not list(tmp_path.iterdir())


def test_a_mark_of_another_driver_is_not_taken_for_its_own(mark: Path) -> None:
    assert write_back(str(mark), "another", "node") == "another file is there"
    assert not (mark / "node").exists()


def test_a_node_that_cannot_write_says_why(mark: Path) -> None:
    (mark / "node").mkdir()
    assert write_back(str(mark), "token", "node") == "cannot be written (Is a directory)"


def test_a_refusal_names_every_node_the_path_and_both_fixes(tmp_path: Path) -> None:
    with marked(tmp_path) as mark:
        pass
    said = mark.refusal({"one (192.0.2.1)": "cannot be read (Permission denied)", "two (192.0.2.2)": "gives no answer"})
    for part in (
        f"output_dir={tmp_path}",
        "one (192.0.2.1): cannot be read",
        "two (192.0.2.2): gives no",
        "Mount one file",
        "hardware.address=local",
    ):
        assert part in said


def test_a_mark_that_does_not_reach_the_driver_is_a_problem_of_the_node(tmp_path: Path) -> None:
    with marked(tmp_path) as mark:
        assert mark.problem("node", mark.write_back(*mark.words, "node")) == ""
        assert mark.problem("other", "") == "what it writes does not reach the driver"
    assert not list(tmp_path.iterdir())


def test_a_refused_folder_is_as_it_was(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError), marked(tmp_path / "a" / "b"):
        raise RuntimeError
    assert not list(tmp_path.iterdir())
