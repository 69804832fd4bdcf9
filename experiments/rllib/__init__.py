"""What is told to RLlib and taken from it: building, networks, hooks, seeding, checkpoints,
runner and learner clocks.
"""
