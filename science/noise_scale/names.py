"""The last words of its metrics' names."""

SQUARE, NOISE, SCALE = "gradient_square", "gradient_noise", "noise_scale"
"""Estimates of |G|^2 and of S, and their ratio."""
SUFFIXES = ("", "_policy", "_value")
"""Of all weights, the policy's, and the value's or critics'."""
