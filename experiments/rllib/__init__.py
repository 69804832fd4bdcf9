"""All that is set in RLlib and read from it: building, networks, hooks, seeding, checkpoints,
runner and learner clocks.
"""
