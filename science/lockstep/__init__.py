"""Environments in lockstep: whether it helps to stagger them, and to have more with shorter fragments (README.md)."""
