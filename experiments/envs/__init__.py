"""Environments and wrappers of the project, one per file; each registers itself with Gymnasium when imported."""
