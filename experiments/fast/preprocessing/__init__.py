"""Preprocessing of observations and rewards: statistics, transforms, and RLlib's modules with them."""
