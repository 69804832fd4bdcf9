"""How data and compute are traded in replay: updates per env step, width and batch, to a target (README.md)."""
