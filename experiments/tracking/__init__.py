"""The only writer to MLflow: `store` talks to it, `writer` delivers in the background, `callback` turns Tune's events into runs."""
