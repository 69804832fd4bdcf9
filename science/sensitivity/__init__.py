"""How much tuning a result needed: sensitivity to hyperparameters over environments (README.md)."""
