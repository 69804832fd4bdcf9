"""The files of a study: its folder on a disk or in an object store, its lock, and its notes."""
