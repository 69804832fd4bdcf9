"""A plan under Tune: its driver, the stream of events, what trials came to, and the study's end."""
