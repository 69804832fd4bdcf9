"""Whether intervals cover and tests keep their promise, on studies whose truth is known,
simulated and drawn from real runs.
"""
