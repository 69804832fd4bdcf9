"""Which trial next, by ask and tell: grid, Optuna, racing, sequential comparison, population, confirmation;
the queue and its journal.
"""
