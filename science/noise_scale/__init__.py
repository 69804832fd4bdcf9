"""The gradient noise scale: how many rows a gradient needs until its noise is as large as itself (README.md)."""
