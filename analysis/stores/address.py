"""Where a store is, as it may be shown."""

from urllib.parse import urlsplit


def without_password(uri: str) -> str:
    """A store's address with *** in place of its user and password: a token may be either."""
    place = urlsplit(uri).netloc
    return uri.replace(place, f"***@{place.rpartition('@')[2]}", 1) if "@" in place else uri
