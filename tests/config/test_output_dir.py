"""What a person names to keep results in: folders, and addresses in object stores."""

from pathlib import Path
from typing import Any

import obstore
import pytest
from obstore.store import MemoryStore

from experiments.config import output_dir
from experiments.config.errors import ConfigurationError
from experiments.config.output_dir import absolute, check_kept, check_writable, is_within, stored_at
from experiments.storage.objects import Objects


def test_an_address_has_a_copy_on_this_machine_whose_paths_lead_back_to_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    copy = absolute("S3://Bucket/of mine/")
    assert copy == tmp_path / "outputs/copy-of/s3/Bucket/of mine"
    assert stored_at(copy) == "s3://Bucket/of mine"
    assert stored_at(copy / "studies" / "gamma=0.9 s=0") == "s3://Bucket/of mine/studies/gamma=0.9 s=0"
    assert absolute("gs://bucket/studies/key-night") == absolute("gs://bucket") / "studies" / "key-night"
    assert not list(tmp_path.iterdir())


def test_a_folder_is_kept_nowhere_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for named, path in (
        ("outputs", tmp_path / "outputs"),
        ("/data/s3/bucket", Path("/data/s3/bucket")),
        ("file:///data/a", Path("/data/a")),
    ):
        assert absolute(named) == path
        assert stored_at(path) is None
    assert stored_at(tmp_path / "outputs" / "copy-of" / "s3") is None
    check_kept(tmp_path)
    check_writable(tmp_path)


def test_a_copy_of_anyones_bucket_does_not_belong_to_the_output_folder_that_it_is_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    trial = absolute("s3://bucket/a/studies/b/trials/c")
    assert is_within(trial, absolute("s3://bucket/a"))
    assert not is_within(trial, absolute("s3://bucket/b"))
    assert not is_within(trial, absolute("outputs"))
    assert is_within(absolute("outputs/studies/b"), absolute("outputs"))
    assert not is_within(absolute("elsewhere/studies/b"), absolute("outputs"))


@pytest.mark.parametrize(
    ("named", "said"),
    [
        ("hdfs://host/path", r"hdfs:// is none of.*s3://, gs://, az://.*output_dir=/path"),
        ("file://host/path", r"file:// is none of"),
        ("s3://", r"must be s3://bucket/folder"),
        ("s3://bucket//folder", r"must be s3://bucket/folder"),
        ("s3://bucket/../other", r"must be s3://bucket/folder"),
        ("s3://bucket?region=here", r"must be s3://bucket/folder"),
    ],
)
def test_an_address_that_nothing_can_be_kept_at_is_refused_with_the_fix(named: str, said: str) -> None:
    with pytest.raises(ConfigurationError, match=f"output_dir={named.partition('?')[0]}.*{said}"):
        absolute(named)


def test_credentials_in_an_address_are_refused_and_not_repeated() -> None:
    with pytest.raises(ConfigurationError, match="credentials are those of the environment") as refused:
        absolute("s3://key:secret@bucket/folder")
    assert "secret" not in str(refused.value)


def test_a_store_that_does_not_answer_is_refused_with_what_it_needs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(output_dir, "_PATIENCE_S", 0.1)
    for name, value in {
        "AWS_ENDPOINT_URL": "http://127.0.0.1:9",
        "AWS_ACCESS_KEY_ID": "key",
        "AWS_SECRET_ACCESS_KEY": "secret",
    }.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigurationError, match=r"output_dir=s3://bucket/a: cannot be written .*AWS_ACCESS_KEY_ID"):
        check_kept(absolute("s3://bucket/a"))
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("ignored", ["none", "create", "update"])
def test_a_store_that_writes_over_what_is_to_be_left_is_refused(
    ignored: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, put = MemoryStore(), obstore.put

    def careless(store: MemoryStore, name: str, content: bytes, mode: Any) -> Any:
        return put(
            store, name, content, mode="overwrite" if ignored == ("create" if mode == "create" else "update") else mode
        )

    monkeypatch.setattr(obstore, "put", careless)
    monkeypatch.setattr(output_dir, "Objects", lambda uri, patience_s: Objects(uri, store=store))
    monkeypatch.chdir(tmp_path)
    if ignored == "none":
        check_kept(absolute("s3://bucket/a"))
    else:
        with pytest.raises(
            ConfigurationError, match=r"output_dir=s3://bucket/a: this store writes over .*output_dir=/path"
        ):
            check_kept(absolute("s3://bucket/a"))
    assert Objects("s3://bucket/a", store=store).names() == []
