import pytest

from experiments.contract.passwords import without_passwords


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("http://me:secret@host:5000/path", "http://***@host:5000/path"),
        ("https://token@host", "https://***@host"),
        ("http://me:se@cret@host", "http://***@host"),
        ("http://host:5000", "http://host:5000"),
        ("sqlite:////a/b@c.db", "sqlite:////a/b@c.db"),
        ("mlflow.db", "mlflow.db"),
        ("tracking.uri=https://me:secret@host:5000/x seeds=[0]", "tracking.uri=https://***@host:5000/x seeds=[0]"),
    ],
)
def test_addresses_are_shown_without_their_credentials(text: str, shown: str) -> None:
    assert without_passwords(text) == shown
