"""Where runs and points are read from: an embedded SQLite store, or a tracking server with a local cache."""
