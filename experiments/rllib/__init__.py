"""What is told to RLlib and taken from it: building, hooks, seeding, checkpoints, runner and learner clocks."""
