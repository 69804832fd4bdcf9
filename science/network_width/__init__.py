"""Whether the best learning rate carries over from one width of a network to another (README.md)."""
