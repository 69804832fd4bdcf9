"""Whether intervals cover and tests keep their promise, on simulated studies whose truth is known."""
