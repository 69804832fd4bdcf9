"""The batch: whether learning stays the same when it shrinks, and in which way it should grow (README.md)."""
