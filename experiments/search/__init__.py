"""Which trial next, by ask and tell: grid, Optuna, racing, population, confirmation; the queue and its journal."""
