"""SQLite's file is not kept where other machines write."""

from pathlib import Path

import pytest

from experiments.tracking import store_address
from experiments.tracking.file_systems import Mount, mounts, network_type
from experiments.tracking.store_address import check_local, check_store
from tests.support.suite import RunSuite

TABLE = [
    Mount("/", "ext4"),
    Mount("/proc", "proc"),
    Mount("/home", "nfs4"),
    Mount("/home/me/scratch", "xfs"),
    Mount("/mnt/windows", "cifs"),
    Mount("/mnt/remote", "fuse.sshfs"),
    Mount("/mnt/image", "fuse.squashfuse"),
    Mount("/mnt/twice", "nfs"),
    Mount("/mnt/twice", "tmpfs"),
    Mount("/lustre", "lustre"),
]


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/data/mlflow.db", None),
        ("/home/me/outputs/mlflow.db", "nfs4"),
        ("/home/me/scratch/mlflow.db", None),
        ("/homes/mlflow.db", None),  # another folder than /home
        ("/mnt/windows/mlflow.db", "cifs"),
        ("/mnt/remote/mlflow.db", "fuse.sshfs"),
        ("/mnt/image/mlflow.db", None),
        ("/mnt/twice/mlflow.db", None),
        ("/lustre/mlflow.db", "lustre"),
    ],
)
def test_the_innermost_and_latest_mount_says_what_a_path_is_on(path: str, kind: str | None) -> None:
    assert network_type(Path(path), TABLE) == kind


def test_a_link_is_followed_to_the_file_system_that_it_leads_to(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "there")
    table = [Mount("/", "ext4"), Mount(str(tmp_path / "there"), "nfs")]
    assert network_type(tmp_path / "link" / "mlflow.db", table) == "nfs"


def test_a_path_in_no_known_mount_is_taken_as_local() -> None:
    assert network_type(Path("/data/mlflow.db"), []) is None


def test_this_machine_has_a_mount_table() -> None:
    assert "/proc" in {mount.point for mount in mounts()}


@pytest.fixture
def all_nfs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_address, "mounts", lambda: [Mount("/", "nfs4")])


def test_a_study_does_not_write_to_a_database_on_a_network_file_system(
    all_nfs: None, suite_here: RunSuite, tmp_path: Path
) -> None:
    refused = suite_here("study=smoke")
    assert refused.returncode == 2
    assert f"tracking store {tmp_path / 'out/mlflow.db'}: is on a network file system (nfs4)" in refused.stderr
    assert "tracking.uri=http://host:port" in refused.stderr
    assert not (tmp_path / "out").exists()


def test_a_database_that_a_study_left_on_a_network_file_system_is_still_read(all_nfs: None, tmp_path: Path) -> None:
    check_store(f"sqlite:///{tmp_path / 'mlflow.db'}", 1.0)


def test_a_server_may_be_anywhere(all_nfs: None) -> None:
    check_local("http://127.0.0.1:5000")
