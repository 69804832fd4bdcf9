"""RLlib's default networks as plain tensor operations, and Adam on one vector."""
