"""How often what was sampled should be learned from (README.md)."""
